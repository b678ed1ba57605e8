//! From items of the protocol to items of a line.
//!
//! The invariant here: an item is shown as Codex's `exec` shows it, or not at all; what we do not
//! know is left out, never guessed. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use turnlane_protocol::exec_events::{
    AgentState, CallStatus, CollabToolCall, CommandExecution, FileChange, FileUpdate,
    FileUpdateKind, ItemBody, McpToolCall, McpToolError, McpToolResult, WebSearch,
};
use turnlane_protocol::item::{self, ItemBody as Body, ItemStatus, ThreadItem};

/// Whose tools those of a client without a namespace are.
const OURS: &str = "turnlane";

/// Whether an item has begun or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Started,
    Completed,
}

/// How a line shows an item; none where it shows nothing of it.
pub(super) fn shown(item: &ThreadItem, phase: Phase, cwd: &Path) -> Option<ItemBody> {
    Some(match &item.body {
        Body::AgentMessage(message) if phase == Phase::Completed => ItemBody::AgentMessage {
            text: message.text.clone(),
        },
        Body::Reasoning(reasoning) if phase == Phase::Completed => {
            let text = reasoning.summary.join("\n");
            if text.trim().is_empty() {
                return None;
            }
            ItemBody::Reasoning { text }
        }
        Body::CommandExecution(command) => ItemBody::CommandExecution(CommandExecution {
            command: command.command.clone(),
            aggregated_output: ended(phase, command.aggregated_output.clone()).unwrap_or_default(),
            exit_code: ended(phase, command.exit_code),
            status: status(&command.status, phase),
        }),
        Body::FileChange(change) => ItemBody::FileChange(FileChange {
            changes: change
                .changes
                .iter()
                .map(|file| file_update(file, cwd))
                .collect(),
            status: not_declined(status(&change.status, phase)),
        }),
        Body::McpToolCall(call) => ItemBody::McpToolCall(mcp_call(call, phase)),
        Body::DynamicToolCall(call) => ItemBody::McpToolCall(dynamic_call(call, phase)),
        Body::CollabAgentToolCall(call) => ItemBody::CollabToolCall(collab_call(call, phase)),
        Body::WebSearch(search) => ItemBody::WebSearch(WebSearch {
            // Codex knows what is searched for only when it was.
            query: ended(phase, Some(search.query.clone())).unwrap_or_default(),
            action: action(ended(phase, search.action.as_ref())),
            call_id: item.id.to_string(),
        }),
        // Messages and reasoning that have only begun, and everything that lines never show.
        _ => return None,
    })
}

/// The item as it is when its turn ended before it did; those that show no status as they are.
pub(super) fn given_up(body: ItemBody) -> ItemBody {
    let mut body = body;
    match &mut body {
        ItemBody::CommandExecution(command) => command.status = CallStatus::Failed,
        ItemBody::FileChange(change) => change.status = CallStatus::Failed,
        ItemBody::McpToolCall(call) => call.status = CallStatus::Failed,
        ItemBody::CollabToolCall(call) => call.status = CallStatus::Failed,
        ItemBody::AgentMessage { .. }
        | ItemBody::Reasoning { .. }
        | ItemBody::WebSearch(_)
        | ItemBody::TodoList { .. }
        | ItemBody::Error { .. } => {}
    }
    body
}

fn status(status: &ItemStatus, phase: Phase) -> CallStatus {
    match (phase, status) {
        // Also when its beginning is told late, together with its end.
        (Phase::Started, _) => CallStatus::InProgress,
        (Phase::Completed, ItemStatus::Completed) => CallStatus::Completed,
        (Phase::Completed, ItemStatus::Declined) => CallStatus::Declined,
        // Ended without having come to its end, stopped, or in a word of another engine.
        (
            Phase::Completed,
            ItemStatus::InProgress
            | ItemStatus::Failed
            | ItemStatus::Interrupted
            | ItemStatus::Unlisted(_),
        ) => CallStatus::Failed,
    }
}

/// What only the end of an item shows.
fn ended<T>(phase: Phase, value: Option<T>) -> Option<T> {
    value.filter(|_| phase == Phase::Completed)
}

fn not_declined(status: CallStatus) -> CallStatus {
    match status {
        CallStatus::Declined => CallStatus::Failed,
        other => other,
    }
}

fn file_update(file: &item::FileUpdate, cwd: &Path) -> FileUpdate {
    FileUpdate {
        // A path that is absolute stays as it is.
        path: cwd.join(&file.path).display().to_string(),
        kind: match file.kind {
            item::FileUpdateKind::Add => FileUpdateKind::Add,
            item::FileUpdateKind::Delete => FileUpdateKind::Delete,
            item::FileUpdateKind::Update { .. } | item::FileUpdateKind::Unlisted(_) => {
                FileUpdateKind::Update
            }
        },
    }
}

fn mcp_call(call: &item::McpToolCall, phase: Phase) -> McpToolCall {
    McpToolCall {
        server: call.server.clone(),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        result: ended(phase, call.result.as_ref()).map(|result| McpToolResult {
            content: result.content.clone(),
            structured_content: result.structured_content.clone(),
            meta: result.extra.get("_meta").cloned(),
        }),
        error: ended(phase, call.error.as_ref()).map(|error| McpToolError {
            message: error.message.clone(),
        }),
        status: not_declined(status(&call.status, phase)),
    }
}

fn dynamic_call(call: &item::DynamicToolCall, phase: Phase) -> McpToolCall {
    let texts: Vec<String> = call.content_items.iter().flatten().map(text_of).collect();
    let refused = ended(phase, call.success) == Some(false);
    let answered = ended(phase, call.content_items.as_ref()).is_some();
    McpToolCall {
        server: call.namespace.clone().unwrap_or_else(|| OURS.to_owned()),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        error: refused.then(|| McpToolError {
            message: texts.join("\n"),
        }),
        result: (answered && !refused).then(|| McpToolResult {
            content: texts
                .into_iter()
                .map(|text| json!({"type": "text", "text": text}))
                .collect(),
            structured_content: None,
            meta: None,
        }),
        status: if refused {
            CallStatus::Failed
        } else {
            not_declined(status(&call.status, phase))
        },
    }
}

/// The words of a content item; one that has none as it is.
fn text_of(item: &Value) -> String {
    let text = item.get("text").and_then(Value::as_str);
    text.map_or_else(|| item.to_string(), str::to_owned)
}

fn collab_call(call: &item::CollabAgentToolCall, phase: Phase) -> CollabToolCall {
    let state = |(thread, state): (&String, &Value)| {
        let text = |key: &str| state.get(key).and_then(Value::as_str);
        let state = AgentState {
            status: snake_case(text("status").unwrap_or("not_found")),
            message: text("message").map(str::to_owned),
        };
        (thread.clone(), state)
    };
    CollabToolCall {
        tool: snake_case(&call.tool),
        sender_thread_id: call.sender_thread_id.clone(),
        receiver_thread_ids: call.receiver_thread_ids.clone(),
        prompt: call.prompt.clone(),
        agents_states: call
            .agents_states
            .iter()
            .map(state)
            .collect::<BTreeMap<_, _>>(),
        status: not_declined(status(&call.status, phase)),
    }
}

/// What a search did, with its type in the spelling of lines.
fn action(action: Option<&Value>) -> Map<String, Value> {
    let mut members = match action {
        Some(Value::Object(members)) => members.clone(),
        _ => Map::new(),
    };
    let kind = members.get("type").and_then(Value::as_str);
    let kind = snake_case(kind.unwrap_or("other"));
    members.insert("type".to_owned(), Value::String(kind));
    members
}

fn snake_case(word: &str) -> String {
    let mut snake = String::with_capacity(word.len() + 4);
    for letter in word.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
