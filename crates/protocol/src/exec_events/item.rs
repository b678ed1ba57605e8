//! Items as lines of `exec --json` show them.
//!
//! The invariant here: `id` and `type` come first, then the members of the type in the order of
//! Codex 0.166. The one exception is ours on purpose: a search names its call `call_id`, where Codex
//! writes a second `id`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// Something a turn produced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// `item_N`, counted from 0 in every process.
    pub id: String,
    /// What it is, with the members of its type.
    #[serde(flatten)]
    pub body: ItemBody,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemBody {
    /// What the agent said.
    AgentMessage {
        /// The words.
        text: String,
    },
    /// What the model thought, as far as its provider shows it.
    Reasoning {
        /// The summary.
        text: String,
    },
    /// A command.
    CommandExecution(CommandExecution),
    /// A patch.
    FileChange(FileChange),
    /// A call of a tool of an MCP server, or of a client.
    McpToolCall(McpToolCall),
    /// A call of a tool about other agents.
    CollabToolCall(CollabToolCall),
    /// A search of the web.
    WebSearch(WebSearch),
    /// The agent's plan.
    TodoList {
        /// Its steps.
        items: Vec<TodoItem>,
    },
    /// A warning for people; not the end of anything.
    Error {
        /// The text.
        message: String,
    },
}

/// Where a command, patch or call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It has begun and not ended.
    InProgress,
    /// It did what it should.
    Completed,
    /// It did not, or was stopped.
    Failed,
    /// Somebody said no; commands only.
    Declined,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandExecution {
    /// The command line with its shell.
    pub command: String,
    /// Output and errors together.
    pub aggregated_output: String,
    /// Its exit code; none while it runs, or when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// Where it stands.
    pub status: CallStatus,
}

/// A patch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileChange {
    /// What it does, file by file.
    pub changes: Vec<FileUpdate>,
    /// Where it stands; never [`CallStatus::Declined`].
    pub status: CallStatus,
}

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileUpdate {
    /// The file, absolute.
    pub path: String,
    /// Whether it is new, gone or other than before.
    pub kind: FileUpdateKind,
}

/// Whether a file is new, gone or other than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileUpdateKind {
    /// New.
    Add,
    /// Gone.
    Delete,
    /// Other than before.
    Update,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpToolCall {
    /// The server, as the configuration calls it.
    pub server: String,
    /// The tool, as the server calls it.
    pub tool: String,
    /// What it was called with.
    pub arguments: Value,
    /// What it answered.
    pub result: Option<McpToolResult>,
    /// Why it did not.
    pub error: Option<McpToolError>,
    /// Where it stands.
    pub status: CallStatus,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpToolResult {
    /// Content blocks as MCP defines them.
    pub content: Vec<Value>,
    /// The answer as data.
    pub structured_content: Option<Value>,
    /// What the server said besides.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Why a tool did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpToolError {
    /// A text for people.
    pub message: String,
}

/// A call of a tool about other agents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollabToolCall {
    /// The tool: `spawn_agent`, `send_input`, `wait`, `close_agent`.
    pub tool: String,
    /// The thread that called it.
    pub sender_thread_id: String,
    /// The threads it is about.
    pub receiver_thread_ids: Vec<String>,
    /// What the other agent is told.
    pub prompt: Option<String>,
    /// What those agents are doing, by thread.
    pub agents_states: BTreeMap<String, AgentState>,
    /// Where it stands.
    pub status: CallStatus,
}

/// What another agent is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentState {
    /// The word: `pending_init`, `running`, `interrupted`, `completed`, `errored`, `shutdown`,
    /// `not_found`.
    pub status: String,
    /// What it said last.
    pub message: Option<String>,
}

/// A search of the web.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WebSearch {
    /// What was searched for.
    pub query: String,
    /// What the provider did: `search`, `open_page`, `find_in_page`, `other`.
    pub action: Map<String, Value>,
    /// The provider's name for the call.
    pub call_id: String,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// Whether it is.
    pub completed: bool,
}
