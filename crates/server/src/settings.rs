//! What a thread's turns are run with: from what callers say to what is stored, and back.
//!
//! The invariant here: flat members win over `config`, `config` over the configuration, and what is
//! answered are the values in effect. Whatever cannot be meant as it was said is refused.

use serde_json::{Value, json};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::method::{
    CollaborationMode, CollaborationSettings, ModeKind, Overrides, ThreadSettings,
};
use turnlane_protocol::policy::{BuiltinProfile, SandboxPolicy};
use turnlane_runtime::Settings;

use crate::connection::Connection;
use crate::errors;
use crate::options::{PeerKind, Wanted};
use crate::rights;

/// The settings of a new thread.
pub(crate) fn of_new_thread(
    cx: &Connection,
    engine: &str,
    over: &Overrides,
) -> Result<Settings, ErrorObject> {
    check(over)?;
    let options = &cx.shared().options;
    let cwd = match &over.cwd {
        Some(cwd) => resolved(absolute(cx, cwd)?),
        None => options.cwd.display().to_string(),
    };
    let wanted = Wanted {
        cwd: &cwd,
        config: over.config.as_ref(),
        provider: over.model_provider.as_deref(),
        model: over.model.as_deref(),
        engine: Some(engine),
    };
    let mut settings = options.defaults.settings(wanted).map_err(errors::invalid)?;
    settings.cwd = cwd;
    if settings.runtime_workspace_roots.is_empty() {
        settings.runtime_workspace_roots = vec![settings.cwd.clone()];
    }
    apply(cx, &mut settings, over)?;
    resolve_roots(&mut settings);
    Ok(settings)
}

/// The settings of a thread after what a caller of resume or fork has said.
pub(crate) fn after(
    cx: &Connection,
    before: &Settings,
    over: &Overrides,
) -> Result<Settings, ErrorObject> {
    check(over)?;
    let mut settings = before.clone();
    if let Some(cwd) = &over.cwd {
        settings.cwd = resolved(absolute(cx, cwd)?);
        if settings.runtime_workspace_roots == [before.cwd.clone()] {
            settings.runtime_workspace_roots = vec![settings.cwd.clone()];
        }
    }
    apply_config(cx, &mut settings, over)?;
    apply(cx, &mut settings, over)?;
    resolve_roots(&mut settings);
    Ok(settings)
}

/// Resolves the writable roots once, for as long as the thread has them. A link that takes the place of
/// one later is refused by the spawn.
fn resolve_roots(settings: &mut Settings) {
    if let SandboxPolicy::WorkspaceWrite(limits) = &mut settings.sandbox_policy {
        for root in &mut limits.writable_roots {
            if std::path::Path::new(root.as_str()).is_absolute() {
                *root = resolved(root.clone());
            }
        }
    }
}

/// The directory without links; as it was given where it does not exist.
fn resolved(directory: String) -> String {
    let found = std::fs::canonicalize(&directory).ok();
    let found = found.and_then(|found| found.into_os_string().into_string().ok());
    found.unwrap_or(directory)
}

/// Takes the rights that `config` names. Only those: a thread that exists keeps what its caller does
/// not mention, whatever the configuration says by now.
fn apply_config(
    cx: &Connection,
    settings: &mut Settings,
    over: &Overrides,
) -> Result<(), ErrorObject> {
    let Some(config) = &over.config else {
        return Ok(());
    };
    let names = |key: &str| {
        let inner = format!("{key}.");
        config
            .keys()
            .any(|name| name == key || name.starts_with(&inner))
    };
    let sandbox =
        names("sandbox_mode") || names("sandbox_workspace_write") || names("default_permissions");
    let (approval, reviewer) = (names("approval_policy"), names("approvals_reviewer"));
    if !(sandbox || approval || reviewer) {
        return Ok(());
    }
    let wanted = Wanted {
        cwd: &settings.cwd,
        config: Some(config),
        provider: None,
        model: None,
        engine: None,
    };
    let defaults = &cx.shared().options.defaults;
    let configured = defaults.settings(wanted).map_err(errors::invalid)?;
    if sandbox {
        settings.sandbox_policy = configured.sandbox_policy;
        settings.permission_profile = configured.permission_profile;
    }
    if approval {
        settings.approval_policy = configured.approval_policy;
    }
    if reviewer {
        settings.approvals_reviewer = configured.approvals_reviewer;
    }
    Ok(())
}

fn check(over: &Overrides) -> Result<(), ErrorObject> {
    let sandbox = over.chosen_sandbox();
    let sandbox = sandbox.map_err(|_| ErrorObject::sandbox_disagreement())?;
    if over.permissions.is_some() && sandbox.is_some() {
        return Err(ErrorObject::permissions_with("sandbox"));
    }
    Ok(())
}

/// The permission profile that a caller names, where there is one with this name.
pub(crate) fn profile(
    cx: &Connection,
    permissions: Option<&str>,
) -> Result<Option<BuiltinProfile>, ErrorObject> {
    let find = |id| cx.shared().options.defaults.permission_profile(id);
    let found = permissions.map(find).transpose();
    found.map_err(ErrorObject::permission_profile)
}

/// Refuses what would not start a turn because of the rules about commands.
pub(crate) fn check_rules(cx: &Connection, cwd: Option<&str>) -> Result<(), ErrorObject> {
    let checked = cx.shared().options.defaults.check_rules(cwd);
    checked.map_err(ErrorObject::bad_rules)
}

fn apply(cx: &Connection, settings: &mut Settings, over: &Overrides) -> Result<(), ErrorObject> {
    let set = |to: &mut String, value: &Option<String>| {
        if let Some(value) = value {
            to.clone_from(value);
        }
    };
    let set_some = |to: &mut Option<String>, value: &Option<String>| {
        if value.is_some() {
            to.clone_from(value);
        }
    };
    set(&mut settings.model, &over.model);
    set(&mut settings.provider, &over.model_provider);
    if let Some(policy) = over.approval_policy {
        settings.approval_policy = policy;
    }
    if let Some(reviewer) = over.approvals_reviewer {
        settings.approvals_reviewer = Some(reviewer);
    }
    // Checked before: the two names do not disagree.
    if let Ok(Some(sandbox)) = over.chosen_sandbox() {
        settings.sandbox_policy = sandbox.clone();
        settings.permission_profile = None;
    }
    if let Some(profile) = profile(cx, over.permissions.as_deref())? {
        settings.sandbox_policy = profile.policy();
        settings.permission_profile = Some(profile.id().to_owned());
    }
    if let Some(config) = &over.config {
        let more = config
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        settings.config.extend(more);
    }
    if let Some(roots) = &over.runtime_workspace_roots {
        settings.runtime_workspace_roots.clone_from(roots);
    }
    if over.personality.is_some() {
        settings.personality = over.personality;
    }
    set_some(&mut settings.base_instructions, &over.base_instructions);
    set_some(
        &mut settings.developer_instructions,
        &over.developer_instructions,
    );
    set_some(&mut settings.service_tier, &over.service_tier);
    Ok(())
}

/// Refuses a policy that the client may not ask for, or that this machine cannot enforce.
pub(crate) fn check_sandbox(cx: &Connection, policy: &SandboxPolicy) -> Result<(), ErrorObject> {
    rights::check(cx, policy)?;
    let machine = &cx.shared().options.service;
    turnlane_exec_server::policy::check_machine(machine, policy)
        .map_err(ErrorObject::sandbox_unavailable)
}

/// A directory as it is stored: absolute. Only whoever started us knows our own directory.
pub(crate) fn absolute(cx: &Connection, cwd: &str) -> Result<String, ErrorObject> {
    let path = std::path::Path::new(cwd);
    if path.is_absolute() {
        return Ok(cwd.to_owned());
    }
    match cx.kind() {
        PeerKind::Stdio => Ok(cx.shared().options.cwd.join(path).display().to_string()),
        PeerKind::Unix | PeerKind::WebSocket | PeerKind::OpenWebSocket => {
            Err(ErrorObject::relative_cwd(cwd))
        }
    }
}

/// The settings as `thread/settings/updated` shows them.
pub(crate) fn shown(settings: &Settings) -> ThreadSettings {
    ThreadSettings {
        cwd: settings.cwd.clone(),
        approval_policy: settings.approval_policy,
        approvals_reviewer: settings.approvals_reviewer.unwrap_or_default(),
        sandbox_policy: settings.sandbox_policy.clone(),
        active_permission_profile: active_profile(settings),
        model: settings.model.clone(),
        model_provider: settings.provider.clone(),
        service_tier: settings.service_tier.clone(),
        effort: settings.effort.clone(),
        summary: settings.summary,
        collaboration_mode: collaboration(settings),
        multi_agent_mode: Some(turnlane_protocol::method::thread_start::MULTI_AGENT_MODE.into()),
        personality: settings.personality,
        disabled_plugin_ids: Vec::new(),
    }
}

/// The profile in use as clients are shown it; null where the sandbox was chosen by itself.
pub(crate) fn active_profile(settings: &Settings) -> Option<Value> {
    let id = settings.permission_profile.as_ref()?;
    Some(json!({"id": id, "extends": null}))
}

/// The one way of working together that we have.
pub(crate) fn collaboration(settings: &Settings) -> CollaborationMode {
    CollaborationMode {
        mode: ModeKind::Default,
        settings: CollaborationSettings {
            model: settings.model.clone(),
            reasoning_effort: settings.effort.clone(),
            developer_instructions: settings.developer_instructions.clone(),
        },
    }
}
