//! Calls of tools, and the small items around them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, ItemStatus};

/// A call of a tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpToolCall {
    /// The server, as the configuration calls it.
    pub server: String,
    /// The tool, as the server calls it.
    pub tool: String,
    /// What it was called with.
    pub arguments: Value,
    /// Where it stands.
    pub status: ItemStatus,
    /// What it answered.
    pub result: Option<McpToolResult>,
    /// Why it did not.
    pub error: Option<McpToolError>,
    /// How long it took.
    pub duration_ms: Option<i64>,
    /// Passed through from other engines.
    pub app_context: Option<Value>,
    /// Passed through from other engines.
    pub plugin_id: Option<String>,
    /// Whether the server says that the tool changes nothing.
    pub read_only_hint: Option<bool>,
    /// Passed through from other engines.
    pub mcp_app_resource_uri: Option<String>,
    /// Passed through from other engines.
    pub mcp_app_ui: Option<Value>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a tool of an MCP server answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpToolResult {
    /// Content blocks as MCP defines them.
    pub content: Vec<Value>,
    /// The answer as data.
    pub structured_content: Option<Value>,
    /// Members we do not know, `_meta` among them.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a tool of an MCP server did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpToolError {
    /// A text for people.
    pub message: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call of a tool of the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCall {
    /// The tool.
    pub tool: String,
    /// What it was called with.
    pub arguments: Value,
    /// Where it stands.
    pub status: ItemStatus,
    /// The group the tool belongs to.
    pub namespace: Option<String>,
    /// What it answered.
    pub content_items: Option<Vec<Value>>,
    /// Whether the client calls it a success.
    pub success: Option<bool>,
    /// How long it took.
    pub duration_ms: Option<i64>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A search of the web.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebSearch {
    /// What was searched for.
    pub query: String,
    /// What the provider did: search, open a page, find in a page.
    pub action: Option<Value>,
    /// What it found.
    pub results: Option<Vec<Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A picture the agent looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImageView {
    /// Where it is.
    pub path: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The agent waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sleep {
    /// For how long.
    pub duration_ms: u64,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Output of a function, given to the model by a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCallOutput {
    /// The function.
    pub name: String,
    /// A text, or content parts.
    pub output: Value,
    /// The group the function belongs to.
    pub namespace: Option<String>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call of a tool about other agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CollabAgentToolCall {
    /// The tool.
    pub tool: String,
    /// Where it stands.
    pub status: ItemStatus,
    /// The thread that called it.
    pub sender_thread_id: String,
    /// The threads it is about.
    pub receiver_thread_ids: Vec<String>,
    /// What those threads' agents are doing, by thread.
    pub agents_states: Extra,
    /// What the other agent is told.
    pub prompt: Option<String>,
    /// The other agent's model.
    pub model: Option<String>,
    /// The other agent's effort.
    pub reasoning_effort: Option<String>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}
