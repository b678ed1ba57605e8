//! Approvals: what clients are asked, what they answer, and the list of what is open.
//!
//! The invariant here: a decision that callers send is one of the listed ones or an error, never
//! something near it, so nothing unreadable can become a yes. What another engine offers as a
//! decision is kept as it came, since only the person who is asked has to understand it.
//!
//! When to ask, whom, and for how long is the runtime's business.

mod decision;
mod questions;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use decision::Decision;
pub use questions::{
    ContentItem, DynamicToolCallAnswer, DynamicToolCallParams, GrantScope,
    PermissionsApprovalAnswer, PermissionsApprovalParams, UserInputAnswer, UserInputAnswers,
    UserInputOption, UserInputParams, UserInputQuestion,
};

use crate::ids::{ApprovalId, ItemId, ThreadId, TurnId};
use crate::item::{CommandAction, Extra, FileUpdate};

/// Asks about a command.
pub const COMMAND_METHOD: &str = "item/commandExecution/requestApproval";
/// Asks about a patch.
pub const FILE_CHANGE_METHOD: &str = "item/fileChange/requestApproval";
/// Asks for more permissions.
pub const PERMISSIONS_METHOD: &str = "item/permissions/requestApproval";
/// Asks a person questions of the agent.
pub const USER_INPUT_METHOD: &str = "item/tool/requestUserInput";
/// Has a tool of the client called.
pub const TOOL_CALL_METHOD: &str = "item/tool/call";
/// Passes a question of an MCP server on; its params are the server's.
pub const ELICITATION_METHOD: &str = "mcpServer/elicitation/request";
/// Lists what is open.
pub const LIST_METHOD: &str = "approval/list";
/// Decides what is open without being subscribed.
pub const RESPOND_METHOD: &str = "approval/respond";

/// A decision somebody may make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OfferedDecision {
    /// One we know.
    Known(Decision),
    /// One of another engine, kept as it came.
    Unlisted(Value),
}

/// The answer to both kinds of requests. A member beside the decision might limit it, so an answer
/// with one is no decision that we know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// What was decided.
    pub decision: Decision,
}

/// Params of [`COMMAND_METHOD`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandApprovalParams {
    /// What is asked: to start a command, or to write to one that runs.
    #[serde(default)]
    pub kind: CommandApprovalKind,
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item of the command.
    pub item_id: ItemId,
    /// When the question arose.
    pub started_at_ms: i64,
    /// Where the command would run.
    pub environment_id: Option<String>,
    /// Why the agent asks.
    pub reason: Option<String>,
    /// The command line.
    pub command: Option<String>,
    /// Its directory.
    pub cwd: Option<String>,
    /// What it does, as far as its text tells.
    pub command_actions: Option<Vec<CommandAction>>,
    /// The beginning of the command that could be allowed from now on.
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// What may be answered.
    pub available_decisions: Option<Vec<OfferedDecision>>,
    /// The approval; an [`ApprovalId`] when it is ours, other text from other engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// When it is declined if nobody answers; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Members of other engines: permissions and network rules that they propose.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What is asked about a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CommandApprovalKind {
    /// To start it.
    #[default]
    Command,
    /// To write to it.
    WriteStdin,
    /// A word of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// Params of [`FILE_CHANGE_METHOD`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileChangeApprovalParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item of the patch.
    pub item_id: ItemId,
    /// When the question arose.
    pub started_at_ms: i64,
    /// Why the agent asks.
    pub reason: Option<String>,
    /// A directory the agent wants to write in from now on.
    pub grant_root: Option<String>,
    /// The approval; an [`ApprovalId`] when it is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// When it is declined if nobody answers; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Members of other engines.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An open question, for those who are not subscribed to its thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The approval.
    pub approval_id: ApprovalId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
    /// What it is about.
    pub kind: ApprovalKind,
    /// The command line, for commands.
    pub command: Option<String>,
    /// The directory, for commands.
    pub cwd: Option<String>,
    /// What the patch does, for patches.
    pub changes: Option<Vec<FileUpdate>>,
    /// Why the agent asks.
    pub reason: Option<String>,
    /// What may be answered.
    pub available_decisions: Vec<OfferedDecision>,
    /// When the question arose.
    pub requested_at_ms: i64,
    /// When it is declined if nobody answers.
    pub expires_at_ms: Option<i64>,
}

/// What an approval is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ApprovalKind {
    /// A command.
    Command,
    /// A patch.
    FileChange,
    /// More permissions for the rest of the turn.
    Permissions,
}

/// Params of [`LIST_METHOD`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalListParams {
    /// Only those of this thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The answer to [`LIST_METHOD`], the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalListAnswer {
    /// What is open.
    pub data: Vec<Approval>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of [`RESPOND_METHOD`]; its answer is an empty object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    /// The approval.
    pub approval_id: String,
    /// What is decided.
    pub decision: Decision,
}
