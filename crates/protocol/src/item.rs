//! Items: what a turn produced.
//!
//! The invariant here: an item that came from another engine is written as it was read. A type we
//! do not know, or a known type in a shape we do not know, is kept whole as [`ItemBody::Other`];
//! members we do not know are kept in `extra` beside those we do; words we do not know are kept as
//! words. So a newer Codex behind us or in front of us never loses an item on the way. Only the
//! parts of a `userMessage` are read strictly, because callers write them.
//!
//! Every member that may be null is written as null rather than left out.
//!
//! What the items of a turn must add up to is the lane's business.

mod command;
mod file_change;
mod message;
mod tool;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use command::{CommandAction, CommandExecution, CommandOutcome, CommandSource, ItemStatus};
pub use file_change::{FileChange, FileUpdate, FileUpdateKind};
pub use message::{
    AgentMessage, HookPrompt, HookPromptFragment, MessagePhase, Plan, Reasoning, Review,
    UserMessage,
};
pub use tool::{
    CollabAgentToolCall, DynamicToolCall, FunctionCallOutput, ImageView, McpToolCall, McpToolError,
    McpToolResult, Sleep, WebSearch,
};

use crate::ids::ItemId;

/// Members of an object that this crate does not know.
pub type Extra = Map<String, Value>;

/// Something a turn produced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["id", "type"])))]
#[serde(rename_all = "camelCase")]
pub struct ThreadItem {
    /// What it is, with the members of its type.
    #[serde(flatten)]
    pub body: ItemBody,
    /// The item.
    pub id: ItemId,
    /// When it began, in milliseconds since 1970.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub started_at_ms: Option<i64>,
    /// When it ended; none while it runs.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub completed_at_ms: Option<i64>,
}

impl ThreadItem {
    /// An item that has begun.
    pub fn started(id: ItemId, started_at_ms: i64, body: ItemBody) -> Self {
        Self {
            body,
            id,
            started_at_ms: Some(started_at_ms),
            completed_at_ms: None,
        }
    }

    /// The word in `type`; empty if somebody built an `Other` without one.
    pub fn type_word(&self) -> &str {
        self.body.type_word()
    }
}

impl<'de> Deserialize<'de> for ThreadItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The members that every item has, and the rest for its body.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members {
            id: ItemId,
            started_at_ms: Option<i64>,
            completed_at_ms: Option<i64>,
            // Required here, because a body without it would be taken for an unknown one.
            r#type: String,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }

        let Members {
            id,
            started_at_ms,
            completed_at_ms,
            r#type,
            mut rest,
        } = Members::deserialize(deserializer)?;
        rest.insert("type".to_owned(), Value::String(r#type));
        let body = ItemBody::deserialize(Value::Object(rest)).map_err(serde::de::Error::custom)?;
        Ok(Self {
            body,
            id,
            started_at_ms,
            completed_at_ms,
        })
    }
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $word:literal,)*) => {
        /// What an item is, with the members of its type.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "type")]
        #[non_exhaustive]
        pub enum ItemBody {
            $($(#[$doc])* #[serde(rename = $word)] $variant($body),)*
            /// A type or shape of another engine with all its members but those that every item
            /// has, `type` included, kept as it came.
            #[serde(untagged)]
            Other(Map<String, Value>),
        }

        impl ItemBody {
            /// Every type we know, in the order of the documentation.
            pub const TYPES: &[&str] = &[$($word,)*];

            fn type_word(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $word,)*
                    Self::Other(members) => {
                        members.get("type").and_then(Value::as_str).unwrap_or_default()
                    }
                }
            }
        }
    };
}

bodies! {
    /// What a person or program said to the agent.
    UserMessage(UserMessage) = "userMessage",
    /// What the agent said.
    AgentMessage(AgentMessage) = "agentMessage",
    /// What the model thought, as far as its provider shows it.
    Reasoning(Reasoning) = "reasoning",
    /// A command the agent ran or wanted to run.
    CommandExecution(Box<CommandExecution>) = "commandExecution",
    /// A patch the agent applied or wanted to apply.
    FileChange(FileChange) = "fileChange",
    /// A plan the agent wrote.
    Plan(Plan) = "plan",
    /// A call of a tool of an MCP server.
    McpToolCall(Box<McpToolCall>) = "mcpToolCall",
    /// A call of a tool of the client.
    DynamicToolCall(Box<DynamicToolCall>) = "dynamicToolCall",
    /// A search of the web.
    WebSearch(WebSearch) = "webSearch",
    /// A picture the agent looked at.
    ImageView(ImageView) = "imageView",
    /// The history was made shorter.
    ContextCompaction(Extra) = "contextCompaction",
    /// The agent waited.
    Sleep(Sleep) = "sleep",
    /// Text that hooks gave to the model.
    HookPrompt(HookPrompt) = "hookPrompt",
    /// Output of a function, given to the model by a client.
    FunctionCallOutput(FunctionCallOutput) = "functionCallOutput",
    /// A review began.
    EnteredReviewMode(Review) = "enteredReviewMode",
    /// A review ended.
    ExitedReviewMode(Review) = "exitedReviewMode",
    /// A call of a tool about other agents.
    CollabAgentToolCall(Box<CollabAgentToolCall>) = "collabAgentToolCall",
    /// Passed through from other engines.
    SubAgentActivity(Extra) = "subAgentActivity",
    /// Passed through from other engines.
    ImageGeneration(Extra) = "imageGeneration",
}
