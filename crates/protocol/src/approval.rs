//! Approvals: what clients are asked, what they answer, and the list of what is open.
//!
//! The invariant here: a decision that callers send is one of the listed ones or an error, never
//! something near it, so nothing unreadable can become a yes. What another engine offers as a
//! decision is kept as it came, since only the person who is asked has to understand it.
//!
//! When to ask, whom, and for how long is the runtime's business.

mod questions;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

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

/// The names of decisions, in the order error texts list them.
const DECISION_WORDS: &[&str] = &[
    "accept",
    "acceptForSession",
    "acceptWithExecpolicyAmendment",
    "decline",
    "cancel",
];

/// What somebody decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Yes, once.
    Accept,
    /// Yes, and the same again while the thread is loaded.
    AcceptForSession,
    /// Yes, and every command that begins like this.
    AcceptWithExecpolicyAmendment {
        /// The beginning of the command, word by word.
        execpolicy_amendment: Vec<String>,
    },
    /// No; the model is told and the turn goes on.
    Decline,
    /// No; the turn is stopped.
    Cancel,
}

/// Reads the exact spelling and nothing near it: serde's own reading of an enum also takes
/// `{"accept": null}` for `"accept"`, and an array for the members of an object.
impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unknown = || D::Error::custom("not a decision of an approval");
        match Value::deserialize(deserializer)? {
            Value::String(word) => match word.as_str() {
                "accept" => Ok(Self::Accept),
                "acceptForSession" => Ok(Self::AcceptForSession),
                "decline" => Ok(Self::Decline),
                "cancel" => Ok(Self::Cancel),
                word => Err(D::Error::unknown_variant(word, DECISION_WORDS)),
            },
            Value::Object(decision) => {
                let inner = only_member(&decision, "acceptWithExecpolicyAmendment");
                let inner = inner.and_then(Value::as_object);
                let words = inner.and_then(|inner| only_member(inner, "execpolicy_amendment"));
                let words = words.and_then(Value::as_array).ok_or_else(unknown)?;
                let words = words.iter().map(|word| word.as_str().map(str::to_owned));
                Ok(Self::AcceptWithExecpolicyAmendment {
                    execpolicy_amendment: words.collect::<Option<_>>().ok_or_else(unknown)?,
                })
            }
            _ => Err(unknown()),
        }
    }
}

/// The value of the only member, if it has this name.
fn only_member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members.get(name).filter(|_| members.len() == 1)
}

impl Decision {
    /// Whether the thing may be done.
    pub fn is_accept(&self) -> bool {
        match self {
            Self::Accept | Self::AcceptForSession | Self::AcceptWithExecpolicyAmendment { .. } => {
                true
            }
            Self::Decline | Self::Cancel => false,
        }
    }
}

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

/// The answer to both kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub expires_at_ms: i64,
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
