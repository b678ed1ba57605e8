//! What a new thread is run with when its client does not say: read from the configuration.
//!
//! The invariant here: nothing is granted that nobody configured. Without a word about it the sandbox
//! is `read-only`, and `workspace-write` without network where the configuration trusts the
//! directory; the approval policy is `on-request`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value};
use turnlane_protocol::policy::{ApprovalPolicy, BuiltinProfile, SandboxPolicy, WorkspaceWrite};
use turnlane_runtime::Settings;

use crate::config::{Config, is_codex};

/// The model of a provider that none was named for.
pub(crate) const MODEL: &str = "gpt-6.1-sol";
/// Who serves models when nobody is named.
pub(crate) const PROVIDER: &str = "openai";

/// The settings of a thread in `cwd` that `engine` runs.
///
/// Codex has a model and a provider of its own, so for its engines a name that the configuration does
/// not give stays empty and is not sent.
pub(crate) fn settings(config: &Config, cwd: &Path, engine: &str) -> anyhow::Result<Settings> {
    let shared = &config.shared;
    let text = |key: &str| shared.get(key).and_then(Value::as_str).map(str::to_owned);
    let summary = text("model_reasoning_summary").map(Value::String);
    let personality = text("personality").map(Value::String);
    let (sandbox_policy, permission_profile) = sandbox(shared, cwd)?;
    let (model, provider) = if is_codex(engine) {
        ("", "")
    } else {
        (MODEL, PROVIDER)
    };
    Ok(Settings {
        model: text("model").unwrap_or_else(|| model.to_owned()),
        provider: text("model_provider").unwrap_or_else(|| provider.to_owned()),
        cwd: cwd.display().to_string(),
        runtime_workspace_roots: Vec::new(),
        config: Map::new(),
        approval_policy: approval_policy(shared)?,
        approvals_reviewer: read(
            shared.get("approvals_reviewer").cloned(),
            "approvals_reviewer",
        )?,
        sandbox_policy,
        permission_profile,
        effort: text("model_reasoning_effort"),
        summary: read(summary, "model_reasoning_summary")?,
        personality: read(personality, "personality")?,
        service_tier: text("service_tier"),
        base_instructions: None,
        developer_instructions: None,
    })
}

fn read<T: serde::de::DeserializeOwned>(
    value: Option<Value>,
    key: &str,
) -> anyhow::Result<Option<T>> {
    let read = value.map(serde_json::from_value).transpose();
    read.with_context(|| format!("config.toml: {key}"))
}

fn approval_policy(shared: &Map<String, Value>) -> anyhow::Result<ApprovalPolicy> {
    let policy = read(shared.get("approval_policy").cloned(), "approval_policy")?;
    Ok(policy.unwrap_or(ApprovalPolicy::OnRequest))
}

/// The permission profile with this name.
pub(crate) fn profile(shared: &Map<String, Value>, id: &str) -> anyhow::Result<BuiltinProfile> {
    let tables = shared.get("permissions").and_then(Value::as_object);
    Ok(BuiltinProfile::resolve(id, tables)?)
}

/// The configured sandbox, and the id of its profile where it comes from one.
///
/// Where nothing is configured, the trust in `cwd` chooses the profile.
fn sandbox(
    shared: &Map<String, Value>,
    cwd: &Path,
) -> anyhow::Result<(SandboxPolicy, Option<String>)> {
    let policy = sandbox_policy(shared, cwd)?;
    if let Some(id) = shared.get("default_permissions").and_then(Value::as_str) {
        return Ok((policy, Some(id.to_owned())));
    }
    if shared.contains_key("sandbox_mode") {
        return Ok((policy, None));
    }
    let mut profiles = BuiltinProfile::ALL.into_iter();
    let same = profiles.find(|profile| profile.policy() == policy);
    Ok((policy, same.map(|profile| profile.id().to_owned())))
}

/// The configured sandbox; where nothing is said, what the trust in `cwd` gives.
///
/// The layers of the configuration leave one of `default_permissions` and `sandbox_mode`.
pub(crate) fn sandbox_policy(
    shared: &Map<String, Value>,
    cwd: &Path,
) -> anyhow::Result<SandboxPolicy> {
    if let Some(id) = shared.get("default_permissions").and_then(Value::as_str) {
        return Ok(profile(shared, id)?.policy());
    }
    let word = shared.get("sandbox_mode").and_then(Value::as_str);
    let word = word.unwrap_or_else(|| match trust(shared, cwd) {
        Trust::Trusted => "workspace-write",
        Trust::Unknown => "read-only",
    });
    let policy = SandboxPolicy::from_mode(word)
        .with_context(|| format!("config.toml: sandbox_mode: no such mode: {word}"))?;
    if !matches!(policy, SandboxPolicy::WorkspaceWrite(_)) {
        return Ok(policy);
    }
    let Some(table) = shared.get("sandbox_workspace_write") else {
        return Ok(policy);
    };
    let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
    let roots = table.get("writable_roots").cloned();
    Ok(SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
        writable_roots: read(roots, "sandbox_workspace_write.writable_roots")?.unwrap_or_default(),
        network_access: flag("network_access"),
        exclude_tmpdir_env_var: flag("exclude_tmpdir_env_var"),
        exclude_slash_tmp: flag("exclude_slash_tmp"),
    }))
}

/// What the configuration says of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Trusted,
    Unknown,
}

/// Whether the configuration trusts the directory, or the repository it is in.
pub(crate) fn trust(shared: &Map<String, Value>, cwd: &Path) -> Trust {
    let projects = shared.get("projects").and_then(Value::as_object);
    let level = |path: &Path| {
        let project = projects.and_then(|projects| projects.get(path.to_str()?));
        project.and_then(|project| project.get("trust_level")?.as_str().map(str::to_owned))
    };
    let repository = || {
        let mut above = cwd.ancestors();
        above.find(|folder| folder.join(".git").exists())
    };
    let real = cwd.canonicalize().ok();
    let places = [Some(cwd.to_owned()), real, repository().map(PathBuf::from)];
    // The nearest that says something decides.
    let said = places.into_iter().flatten().find_map(|place| level(&place));
    match said.as_deref() {
        Some("trusted") => Trust::Trusted,
        _ => Trust::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnlane_protocol::policy::ApprovalsReviewer;

    use super::*;
    use crate::config::NATIVE;

    fn config(shared: Value) -> Config {
        let Value::Object(shared) = shared else {
            panic!("a table");
        };
        Config {
            shared,
            ..Config::default()
        }
    }

    #[test]
    fn nothing_is_granted_that_nobody_configured() {
        let settings = settings(&config(json!({})), Path::new("/w"), NATIVE).unwrap();
        assert_eq!(settings.approval_policy, ApprovalPolicy::OnRequest);
        assert_eq!(
            settings.sandbox_policy,
            SandboxPolicy::from_mode("read-only").unwrap()
        );
        assert_eq!(
            (settings.model.as_str(), settings.provider.as_str()),
            (MODEL, PROVIDER)
        );
    }

    #[test]
    fn codex_is_told_only_the_model_and_provider_that_are_configured() {
        let names = |shared: Value| {
            let settings = settings(&config(shared), Path::new("/w"), "codex").unwrap();
            (settings.model, settings.provider)
        };
        assert_eq!(names(json!({})), (String::new(), String::new()));
        let named = names(json!({"model": "m-1", "model_provider": "local"}));
        assert_eq!(named, ("m-1".to_owned(), "local".to_owned()));
    }

    #[test]
    fn a_trusted_directory_or_repository_may_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let path = root.to_str().unwrap().to_owned();
        let trusting = |level: &str| config(json!({"projects": {&path: {"trust_level": level}}}));
        let policy =
            |config: &Config, cwd: &Path| settings(config, cwd, NATIVE).unwrap().sandbox_policy;
        let writable = SandboxPolicy::from_mode("workspace-write").unwrap();
        let readable = SandboxPolicy::from_mode("read-only").unwrap();
        assert_eq!(policy(&trusting("trusted"), &root), writable);
        assert_eq!(policy(&trusting("trusted"), &inner), readable);
        std::fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(policy(&trusting("trusted"), &inner), writable);
        assert_eq!(policy(&trusting("untrusted"), &inner), readable);
    }

    #[test]
    fn what_is_configured_is_taken() {
        let config = config(json!({
            "model": "m-1",
            "approval_policy": {"granular": {"mcp_elicitations": true, "rules": false,
                                             "sandbox_approval": true}},
            "approvals_reviewer": "guardian_subagent",
            "sandbox_mode": "workspace-write",
            "sandbox_workspace_write": {"writable_roots": ["/extra"], "network_access": true},
        }));
        let settings = settings(&config, Path::new("/w"), NATIVE).unwrap();
        assert!(
            matches!(settings.approval_policy, ApprovalPolicy::Granular(granular)
            if granular.sandbox_approval && !granular.rules)
        );
        let reviewer = ApprovalsReviewer::AutoReview;
        assert_eq!(settings.approvals_reviewer, Some(reviewer));
        let SandboxPolicy::WorkspaceWrite(write) = settings.sandbox_policy else {
            panic!("{:?}", settings.sandbox_policy);
        };
        assert_eq!(write.writable_roots, ["/extra"]);
        assert!(write.network_access && !write.exclude_slash_tmp);
    }

    #[test]
    fn a_policy_nobody_knows_is_an_error_that_names_its_key() {
        for (key, value) in [
            ("approval_policy", json!({"sometimes": true})),
            ("approvals_reviewer", json!("nobody")),
        ] {
            let config = config(json!({key: value}));
            let error = settings(&config, Path::new("/w"), NATIVE).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.starts_with(&format!("config.toml: {key}: ")), "{text}");
        }
    }
}
