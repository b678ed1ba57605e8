//! Items of `codex exec --json` as items of the protocol.
//!
//! The mapping is one to one. A type that this code does not know has no mapping and is left out.

use std::borrow::Cow;

use serde_json::{Map, Value};
use turnlane_protocol::item::{
    AgentMessage, CollabAgentToolCall, CommandAction, CommandExecution, CommandOutcome,
    CommandSource, Extra, FileChange, FileUpdate, FileUpdateKind, ItemBody, ItemStatus,
    McpToolCall, McpToolError, McpToolResult, Reasoning, WebSearch,
};
use turnlane_protocol::notification::{PlanStep, PlanStepStatus};

use super::wire::ItemFields;

/// An item as this engine tells it.
#[derive(Debug, PartialEq)]
pub(super) enum MappedItem {
    /// An agentMessage; the last one is the answer of the turn.
    Message(String),
    /// A reasoning item.
    Reasoning(String),
    /// A command, a patch, a call of a tool or a search.
    Tool(Box<ItemBody>),
    /// The whole plan.
    Plan(Vec<PlanStep>),
    /// A warning of the turn.
    Warning(String),
    /// An item of a type that is not known.
    Unknown(String),
}

/// Maps an item of a thread that works in `cwd`.
pub(super) fn map(item: ItemFields<'_>, cwd: &str) -> MappedItem {
    let body = match item.kind.as_deref() {
        Some("agent_message") => return MappedItem::Message(owned(item.text)),
        Some("reasoning") => return MappedItem::Reasoning(owned(item.text)),
        Some("error") => return MappedItem::Warning(owned(item.message)),
        Some("todo_list") => return MappedItem::Plan(plan(&item)),
        Some("command_execution") => command(item, cwd),
        Some("file_change") => file_change(&item),
        Some("mcp_tool_call") => mcp_tool_call(item),
        Some("collab_tool_call") => collab_tool_call(item),
        Some("web_search") => web_search(item),
        other => return MappedItem::Unknown(other.unwrap_or_default().to_owned()),
    };
    MappedItem::Tool(Box::new(body))
}

fn owned(text: Option<Cow<'_, str>>) -> String {
    text.map(Cow::into_owned).unwrap_or_default()
}

/// The body of an agentMessage.
pub(super) fn message_body(text: String) -> ItemBody {
    ItemBody::AgentMessage(AgentMessage {
        text,
        ..AgentMessage::default()
    })
}

/// The body of a reasoning item.
pub(super) fn reasoning_body(text: String) -> ItemBody {
    ItemBody::Reasoning(Reasoning {
        summary: vec![text],
        ..Reasoning::default()
    })
}

/// Ends a body whose item Codex did not complete.
pub(super) fn fail(body: &mut ItemBody) {
    match body {
        ItemBody::CommandExecution(command) => {
            command.status = ItemStatus::Failed;
            command.outcome = Some(CommandOutcome::Interrupted);
        }
        ItemBody::FileChange(change) => change.status = ItemStatus::Failed,
        ItemBody::McpToolCall(call) => call.status = ItemStatus::Failed,
        ItemBody::CollabAgentToolCall(call) => call.status = ItemStatus::Failed,
        // The others have no status.
        _ => {}
    }
}

fn status(item: &ItemFields<'_>) -> ItemStatus {
    match item.status.as_deref() {
        Some("in_progress") | None => ItemStatus::InProgress,
        Some("completed") => ItemStatus::Completed,
        Some("failed") => ItemStatus::Failed,
        Some("declined") => ItemStatus::Declined,
        Some(other) => ItemStatus::Unlisted(camel_case(other)),
    }
}

fn command(item: ItemFields<'_>, cwd: &str) -> ItemBody {
    let status = status(&item);
    let exit_code = item.exit_code.as_ref().and_then(Value::as_i64);
    let outcome = match status {
        ItemStatus::Declined => Some(CommandOutcome::Declined),
        _ => exit_code.map(|_| CommandOutcome::Exited),
    };
    let command = owned(item.command);
    ItemBody::CommandExecution(Box::new(CommandExecution {
        command_actions: vec![CommandAction::unknown(command.as_str())],
        command,
        cwd: cwd.to_owned(),
        status,
        process_id: None,
        source: Some(CommandSource::Agent),
        aggregated_output: item.aggregated_output.map(Cow::into_owned),
        exit_code: exit_code.and_then(|code| i32::try_from(code).ok()),
        duration_ms: None,
        plugin_id: None,
        script_path: None,
        outcome,
        extra: Extra::new(),
    }))
}

fn file_change(item: &ItemFields<'_>) -> ItemBody {
    let changes = item.changes.as_ref().and_then(Value::as_array);
    let update = |change: &Value| {
        let kind = match change["kind"].as_str() {
            Some("add") => FileUpdateKind::Add,
            Some("delete") => FileUpdateKind::Delete,
            _ => FileUpdateKind::Update { move_path: None },
        };
        Some(FileUpdate {
            path: change["path"].as_str()?.to_owned(),
            kind,
            // Codex does not tell it here.
            diff: String::new(),
            extra: Extra::new(),
        })
    };
    ItemBody::FileChange(FileChange {
        changes: changes.into_iter().flatten().filter_map(update).collect(),
        status: status(item),
        extra: Extra::new(),
    })
}

fn mcp_tool_call(item: ItemFields<'_>) -> ItemBody {
    let status = status(&item);
    let result = match item.result {
        Some(Value::Object(result)) => Some(mcp_result(result)),
        _ => None,
    };
    let error = item.error.and_then(|error| {
        let message = error["message"].as_str()?.to_owned();
        let extra = Extra::new();
        Some(McpToolError { message, extra })
    });
    ItemBody::McpToolCall(Box::new(McpToolCall {
        status,
        server: owned(item.server),
        tool: owned(item.tool),
        arguments: item.arguments.unwrap_or_default(),
        result,
        error,
        duration_ms: None,
        app_context: None,
        plugin_id: None,
        read_only_hint: None,
        mcp_app_resource_uri: None,
        mcp_app_ui: None,
        extra: Extra::new(),
    }))
}

fn mcp_result(mut result: Map<String, Value>) -> McpToolResult {
    let content = match result.remove("content") {
        Some(Value::Array(content)) => content,
        _ => Vec::new(),
    };
    let structured = result.remove("structured_content");
    McpToolResult {
        content,
        structured_content: structured.filter(|value| !value.is_null()),
        extra: result,
    }
}

fn collab_tool_call(item: ItemFields<'_>) -> ItemBody {
    let status = status(&item);
    let receivers = item.receiver_thread_ids;
    let receivers = receivers.as_ref().and_then(Value::as_array);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let agents_states = match item.agents_states {
        Some(Value::Object(states)) => states.into_iter().map(agent_state).collect(),
        _ => Extra::new(),
    };
    ItemBody::CollabAgentToolCall(Box::new(CollabAgentToolCall {
        tool: camel_case(item.tool.as_deref().unwrap_or_default()),
        status,
        sender_thread_id: owned(item.sender_thread_id),
        receiver_thread_ids: receivers.into_iter().flatten().filter_map(text).collect(),
        agents_states,
        prompt: item.prompt.map(Cow::into_owned),
        model: None,
        reasoning_effort: None,
        extra: Extra::new(),
    }))
}

/// Writes the status word of an agent as the protocol does.
fn agent_state((thread, mut state): (String, Value)) -> (String, Value) {
    if let Some(Value::String(status)) = state.get_mut("status") {
        *status = camel_case(status);
    }
    (thread, state)
}

fn web_search(item: ItemFields<'_>) -> ItemBody {
    let action = item.action.map(|mut action| {
        if let Some(Value::String(word)) = action.get_mut("type") {
            *word = camel_case(word);
        }
        action
    });
    ItemBody::WebSearch(WebSearch {
        query: owned(item.query),
        action: action.filter(|action| !action.is_null()),
        ..WebSearch::default()
    })
}

fn plan(item: &ItemFields<'_>) -> Vec<PlanStep> {
    let items = item.items.as_ref().and_then(Value::as_array);
    let step = |item: &Value| {
        let status = match item["completed"].as_bool() {
            Some(true) => PlanStepStatus::Completed,
            // Codex does not tell which of the others it works on.
            _ => PlanStepStatus::Pending,
        };
        let step = item["text"].as_str()?.to_owned();
        Some(PlanStep { step, status })
    };
    items.into_iter().flatten().filter_map(step).collect()
}

/// `spawn_agent` as `spawnAgent`.
fn camel_case(word: &str) -> String {
    let mut parts = word.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::wire;
    use super::*;

    fn mapped(item: &Value) -> MappedItem {
        let line = json!({"type": "item.completed", "item": item}).to_string();
        map(wire::read(line.as_bytes()).unwrap().item.unwrap(), "/work")
    }

    fn body(item: &Value) -> Value {
        match mapped(item) {
            MappedItem::Tool(body) => serde_json::to_value(body).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_and_patches_are_mapped() {
        let command = body(&json!({"id": "item_0", "type": "command_execution",
            "command": "ls", "aggregated_output": "a\n", "exit_code": 2, "status": "failed"}));
        assert_eq!(command["type"], "commandExecution");
        assert_eq!(command["cwd"], "/work");
        assert_eq!(command["exitCode"], 2);
        assert_eq!(command["status"], "failed");
        assert_eq!(command["aggregatedOutput"], "a\n");
        let change = body(
            &json!({"type": "file_change", "status": "completed", "changes": [
            {"path": "/a", "kind": "add"}, {"path": "/d", "kind": "delete"},
            {"path": "/u", "kind": "update"}, {"kind": "add"}]}),
        );
        let kinds = change["changes"].as_array().unwrap();
        let kinds: Vec<_> = kinds.iter().map(|change| &change["kind"]["type"]).collect();
        assert_eq!(kinds, ["add", "delete", "update"]);
        assert_eq!(change["changes"][0]["diff"], "");
    }

    #[test]
    fn calls_and_searches_are_mapped() {
        let call = body(
            &json!({"type": "mcp_tool_call", "server": "toy", "tool": "add",
            "arguments": {"a": 2}, "status": "completed", "error": null,
            "result": {"content": [{"type": "text", "text": "5"}], "structured_content": {"sum": 5},
                "_meta": {"m": 1}}}),
        );
        assert_eq!(call["result"]["structuredContent"]["sum"], 5);
        assert_eq!(call["result"]["_meta"]["m"], 1);
        assert_eq!(call["arguments"]["a"], 2);
        let call = body(&json!({"type": "collab_tool_call", "tool": "spawn_agent",
            "sender_thread_id": "s", "receiver_thread_ids": ["r"], "prompt": "p",
            "agents_states": {"r": {"status": "pending_init", "message": null}},
            "status": "completed"}));
        assert_eq!(call["tool"], "spawnAgent");
        assert_eq!(call["agentsStates"]["r"]["status"], "pendingInit");
        let search = body(&json!({"type": "web_search", "query": "q",
            "action": {"type": "open_page", "url": "u"}}));
        assert_eq!(search["action"], json!({"type": "openPage", "url": "u"}));
    }

    #[test]
    fn words_plans_and_warnings_are_mapped() {
        let text = json!({"type": "agent_message", "text": "t"});
        assert_eq!(mapped(&text), MappedItem::Message("t".to_owned()));
        let warning = json!({"type": "error", "message": "m"});
        assert_eq!(mapped(&warning), MappedItem::Warning("m".to_owned()));
        let unknown = json!({"type": "later"});
        assert_eq!(mapped(&unknown), MappedItem::Unknown("later".to_owned()));
        let list = json!({"type": "todo_list", "items": [
            {"text": "a", "completed": true}, {"text": "b", "completed": false}, {"text": 3}]});
        let MappedItem::Plan(steps) = mapped(&list) else {
            panic!("not a plan")
        };
        let steps = serde_json::to_value(steps).unwrap();
        let expected =
            json!([{"step": "a", "status": "completed"}, {"step": "b", "status": "pending"}]);
        assert_eq!(steps, expected);
    }
}
