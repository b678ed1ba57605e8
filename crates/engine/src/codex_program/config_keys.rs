//! The keys of a thread's `config` that reach Codex.
//!
//! The invariant here: a thread whose commands are confined starts no program of its client's choice
//! outside of that sandbox. Codex's configuration names programs in many places (`notify`, hooks, MCP
//! servers, commands that fetch keys), and a client may give `config` to a thread that a worker runs much
//! later. So only keys that neither start programs nor grant rights pass; any other key is refused by
//! name. A thread without a sandbox passes all of them.

use serde_json::{Map, Value};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use crate::outcome::EngineError;
use crate::request::TurnSettings;

/// Keys that choose a model and how it answers.
const HARMLESS: [&str; 15] = [
    "compact_prompt",
    "developer_instructions",
    "hide_agent_reasoning",
    "model",
    "model_auto_compact_token_limit",
    "model_context_window",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "personality",
    "project_doc_max_bytes",
    "service_tier",
    "show_raw_agent_reasoning",
    "tool_output_token_limit",
    "web_search",
];

/// Keys that the server has made settings of the thread from; Codex gets those settings.
const SETTLED: [&str; 6] = [
    "approval_policy",
    "approvals_reviewer",
    "default_permissions",
    "model_provider",
    "sandbox_mode",
    "sandbox_workspace_write",
];

/// A key that is not passed to Codex.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` in the thread's `config` is not passed to Codex, because it could start programs or grant \
     rights outside of the thread's sandbox; write it into Codex's own config.toml"
)]
pub struct RefusedKey {
    key: String,
}

impl RefusedKey {
    /// The error of a turn that cannot start for this reason.
    pub fn to_error(&self) -> EngineError {
        EngineError::new(
            self.to_string(),
            CodexErrorInfo::BadRequest,
            ErrorKind::Unsupported,
        )
    }
}

/// The keys of the thread that Codex gets.
pub fn passed_config(settings: &TurnSettings) -> Result<Map<String, Value>, RefusedKey> {
    if !settings.sandbox_policy.is_confined() && !settings.requires_sandbox {
        return Ok(settings.config.clone());
    }
    let mut passed = Map::new();
    for (key, value) in &settings.config {
        let table = key.split('.').next().unwrap_or(key);
        if HARMLESS.contains(&key.as_str()) {
            passed.insert(key.clone(), value.clone());
        } else if !SETTLED.contains(&table) {
            return Err(RefusedKey { key: key.clone() });
        }
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};

    use super::*;

    fn settings(mode: &str, config: &Value) -> TurnSettings {
        TurnSettings {
            model: String::new(),
            provider: String::new(),
            cwd: "/w".into(),
            runtime_workspace_roots: vec![],
            environments: None,
            config: config.as_object().unwrap().clone(),
            approval_policy: ApprovalPolicy::Never,
            sandbox_policy: SandboxPolicy::from_mode(mode).unwrap(),
            requires_sandbox: false,
            effort: None,
            summary: None,
            service_tier: None,
            output_schema: None,
            base_instructions: None,
            developer_instructions: None,
        }
    }

    #[test]
    fn a_confined_thread_cannot_make_codex_start_programs() {
        for key in [
            "notify",
            "mcp_servers.x.command",
            "mcp_servers",
            "hooks",
            "model_providers.x.auth",
            "shell_environment_policy",
            "features.anything",
            "model_instructions_file",
            "a_key_of_next_year",
        ] {
            for mode in ["read-only", "workspace-write"] {
                let refused = passed_config(&settings(mode, &json!({"model": "m", key: ["sh"]})));
                let error = refused.unwrap_err().to_error();
                assert_eq!(error.kind, Some(ErrorKind::Unsupported));
                assert!(error.message.contains(key), "{}", error.message);
            }
            let mut open = settings("danger-full-access", &json!({key: ["sh"]}));
            assert!(passed_config(&open).unwrap().contains_key(key), "{key}");
            open.requires_sandbox = true;
            assert!(passed_config(&open).is_err(), "{key}");
        }
    }

    #[test]
    fn rights_go_as_settings_and_the_model_as_a_key() {
        let config = json!({
            "model_reasoning_effort": "low", "sandbox_mode": "danger-full-access",
            "sandbox_workspace_write.network_access": true, "approval_policy": "never",
        });
        let passed = passed_config(&settings("workspace-write", &config)).unwrap();
        assert_eq!(
            Value::Object(passed),
            json!({"model_reasoning_effort": "low"})
        );
    }
}
