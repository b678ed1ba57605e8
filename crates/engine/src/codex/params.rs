//! Params of the requests about threads and turns, made from the settings of a turn.
//!
//! The invariant here: a model or provider that neither caller nor configuration named is not sent, so
//! that Codex uses its own configuration; an empty name counts as not named.

use serde_json::{Map, Value, json};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::policy::SandboxPolicy;

use crate::request::{RuntimeTool, TurnSettings};

/// Params of `thread/start`.
pub(super) fn thread_start(settings: &TurnSettings, tools: &[RuntimeTool]) -> Value {
    let mut params = thread(settings);
    if !tools.is_empty() {
        let tools = tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "inputSchema": tool.parameters,
            })
        });
        params.insert("dynamicTools".to_owned(), tools.collect());
    }
    Value::Object(params)
}

/// Params of `thread/resume`.
pub(super) fn thread_resume(settings: &TurnSettings, thread: &str) -> Value {
    let mut params = thread_params(settings);
    params.insert("threadId".to_owned(), json!(thread));
    params.insert("excludeTurns".to_owned(), json!(true));
    Value::Object(params)
}

fn thread(settings: &TurnSettings) -> Map<String, Value> {
    let mut params = thread_params(settings);
    if let Some(environments) = &settings.environments
        && environments.is_empty()
    {
        // No commands and no files; the names of other environments are ours, not Codex's.
        params.insert("environments".to_owned(), json!([]));
    }
    params
}

fn thread_params(settings: &TurnSettings) -> Map<String, Value> {
    let mut params = Map::new();
    let mut put = |name: &str, value: Value| params.insert(name.to_owned(), value);
    put("cwd", json!(settings.cwd));
    if !settings.model.is_empty() {
        put("model", json!(settings.model));
    }
    if !settings.provider.is_empty() {
        put("modelProvider", json!(settings.provider));
    }
    put("approvalPolicy", json!(settings.approval_policy));
    if let Some(mode) = sandbox_mode(&settings.sandbox_policy) {
        put("sandbox", json!(mode));
    }
    if !settings.config.is_empty() {
        put("config", Value::Object(settings.config.clone()));
    }
    for (name, text) in [
        ("baseInstructions", &settings.base_instructions),
        ("developerInstructions", &settings.developer_instructions),
        ("serviceTier", &settings.service_tier),
    ] {
        if let Some(text) = text {
            put(name, json!(text));
        }
    }
    if !settings.runtime_workspace_roots.is_empty() {
        let roots = json!(settings.runtime_workspace_roots);
        put("runtimeWorkspaceRoots", roots);
    }
    params
}

/// The exact limits go with each turn; a thread is started with the word for them.
fn sandbox_mode(policy: &SandboxPolicy) -> Option<&'static str> {
    match policy {
        SandboxPolicy::DangerFullAccess => Some("danger-full-access"),
        SandboxPolicy::ReadOnly { .. } => Some("read-only"),
        SandboxPolicy::WorkspaceWrite(_) => Some("workspace-write"),
        SandboxPolicy::ExternalSandbox { .. } => None,
    }
}

/// One input on its way to Codex.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) input: Vec<UserInput>,
    /// By which the message is found again in Codex's history.
    pub(super) client_id: String,
    /// Texts of hooks.
    pub(super) context: Vec<String>,
}

/// Params of `turn/start`.
pub(super) fn turn_start(settings: &TurnSettings, thread: &str, message: &Message) -> Value {
    let mut params = message_params(thread, message);
    let mut put = |name: &str, value: Value| params.insert(name.to_owned(), value);
    put("cwd", json!(settings.cwd));
    put("approvalPolicy", json!(settings.approval_policy));
    put("sandboxPolicy", json!(settings.sandbox_policy));
    if !settings.model.is_empty() {
        put("model", json!(settings.model));
    }
    if let Some(effort) = &settings.effort {
        put("effort", json!(effort));
    }
    if let Some(summary) = &settings.summary {
        put("summary", json!(summary));
    }
    if let Some(tier) = &settings.service_tier {
        put("serviceTier", json!(tier));
    }
    if let Some(schema) = &settings.output_schema {
        put("outputSchema", schema.clone());
    }
    if !settings.runtime_workspace_roots.is_empty() {
        let roots = json!(settings.runtime_workspace_roots);
        put("runtimeWorkspaceRoots", roots);
    }
    Value::Object(params)
}

/// Params of `turn/steer`.
pub(super) fn turn_steer(thread: &str, turn: &str, message: &Message) -> Value {
    let mut params = message_params(thread, message);
    params.insert("expectedTurnId".to_owned(), json!(turn));
    Value::Object(params)
}

fn message_params(thread: &str, message: &Message) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("threadId".to_owned(), json!(thread));
    params.insert("input".to_owned(), json!(message.input));
    params.insert("clientUserMessageId".to_owned(), json!(message.client_id));
    if !message.context.is_empty() {
        let entries = message.context.iter().enumerate().map(|(index, text)| {
            // Codex writes the key as a tag around the text.
            let key = format!("hook-{}", index + 1);
            (key, json!({"kind": "application", "value": text}))
        });
        params.insert("additionalContext".to_owned(), entries.collect());
    }
    params
}

#[cfg(test)]
mod tests {
    use turnlane_protocol::policy::{ApprovalPolicy, WorkspaceWrite};

    use super::*;

    fn settings() -> TurnSettings {
        TurnSettings {
            model: String::new(),
            provider: String::new(),
            cwd: "/w".to_owned(),
            runtime_workspace_roots: Vec::new(),
            environments: None,
            config: Map::new(),
            approval_policy: ApprovalPolicy::OnRequest,
            sandbox_policy: SandboxPolicy::WorkspaceWrite(WorkspaceWrite::default()),
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
    fn only_what_was_named_is_sent() {
        let sent = thread_start(&settings(), &[]);
        let expected =
            json!({"cwd": "/w", "approvalPolicy": "on-request", "sandbox": "workspace-write"});
        assert_eq!(sent, expected);
        let named = TurnSettings {
            model: "m".to_owned(),
            provider: "p".to_owned(),
            config: Map::from_iter([("k".to_owned(), json!(1))]),
            environments: Some(Vec::new()),
            ..settings()
        };
        let sent = thread_start(&named, &[]);
        assert_eq!(sent["model"], "m");
        assert_eq!(sent["modelProvider"], "p");
        assert_eq!(sent["config"], json!({"k": 1}));
        assert_eq!(sent["environments"], json!([]));
        let resumed = thread_resume(&settings(), "t");
        assert_eq!(resumed["threadId"], "t");
        assert_eq!(resumed["excludeTurns"], true);
    }

    #[test]
    fn a_turn_carries_its_client_id_and_the_context_of_hooks() {
        let message = Message {
            input: vec![UserInput::text("hello")],
            client_id: "row#2".to_owned(),
            context: vec!["one".to_owned(), "two".to_owned()],
        };
        let sent = turn_start(&settings(), "t", &message);
        assert_eq!(sent["clientUserMessageId"], "row#2");
        let context = json!({
            "hook-1": {"kind": "application", "value": "one"},
            "hook-2": {"kind": "application", "value": "two"},
        });
        assert_eq!(sent["additionalContext"], context);
        assert_eq!(sent["sandboxPolicy"]["type"], "workspaceWrite");
        assert!(sent.get("model").is_none());
        let steered = turn_steer("t", "u", &message);
        assert_eq!(steered["expectedTurnId"], "u");
    }
}
