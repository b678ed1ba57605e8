//! What an answer does, one step at a time.
//!
//! The invariant here: items carry our ids and the protocol's bodies, so a step becomes a
//! notification without another look at what the provider wrote; its own words stay in `raw`.
//!
//! Times are not here; whoever announces a step knows when it did.

use serde_json::value::RawValue;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::ItemBody;
use turnlane_protocol::usage::TokenUsage;

use crate::native::sse::Exceeded;

/// Something an answer did.
#[derive(Clone, Debug)]
pub enum Step {
    /// An item began.
    Opened {
        /// The item.
        item_id: ItemId,
        /// What it holds already: all of it if its end came without a beginning.
        body: ItemBody,
    },
    /// A message grew.
    TextDelta {
        /// The item.
        item_id: ItemId,
        /// What comes after the text so far.
        delta: String,
    },
    /// A further part of a summary began; the first one is not announced.
    ReasoningSummaryPartAdded {
        /// The item.
        item_id: ItemId,
        /// Which part, from 1.
        summary_index: i64,
    },
    /// A part of a summary grew.
    ReasoningSummaryDelta {
        /// The item.
        item_id: ItemId,
        /// Which part, from 0.
        summary_index: i64,
        /// What comes after its text so far.
        delta: String,
    },
    /// A part of the thoughts themselves grew.
    ReasoningTextDelta {
        /// The item.
        item_id: ItemId,
        /// Which part, from 0.
        content_index: i64,
        /// What comes after its text so far.
        delta: String,
    },
    /// A message, reasoning or web search ended; it was opened before.
    Completed(CompletedItem),
    /// Something only the history keeps: reasoning that shows nothing.
    Kept {
        /// Where it stands in the output.
        place: u64,
        /// What to replay.
        raw: Box<RawValue>,
    },
    /// An item ends with what arrived, because its answer was given up; not sent to the model.
    LeftOpen {
        /// The item.
        item_id: ItemId,
        /// What arrived.
        body: ItemBody,
    },
    /// A tool is to be run. Comes only right before [`Terminal::Completed`], in output order.
    Call(Call),
    /// Something a person should know.
    Warning(String),
    /// What the response used; absent if the provider does not say.
    Usage(TokenUsage),
    /// The response is over; no step follows but [`Step::LeftOpen`].
    Terminal(Terminal),
}

/// An item that ended.
#[derive(Clone, Debug)]
pub struct CompletedItem {
    /// The item.
    pub item_id: ItemId,
    /// All of it.
    pub body: ItemBody,
    /// Where it stands in the output.
    pub place: u64,
    /// The Responses item to replay: as the provider wrote it, or built from what arrived.
    /// None for what must not be replayed: an empty message, reasoning without encrypted content.
    pub raw: Option<Box<RawValue>>,
}

/// A tool call of the model.
#[derive(Clone, Debug)]
pub struct Call {
    /// Names the call; never empty.
    pub call_id: String,
    /// The tool; empty if the provider gave none.
    pub name: String,
    /// JSON of a function's arguments, `{}` if there are none, not checked any further; the plain
    /// input of a custom tool.
    pub arguments: String,
    /// How the tool was called.
    pub kind: CallKind,
    /// Where it stands in the output.
    pub place: u64,
    /// The Responses item as the provider wrote it, or built from what arrived.
    pub raw: Box<RawValue>,
}

/// How a tool was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// `function_call`, with arguments.
    Function,
    /// `custom_tool_call`, with input.
    Custom,
}

/// How a response ended.
#[derive(Clone, Debug)]
pub enum Terminal {
    /// As it should.
    Completed {
        /// `false`: the provider wants to be asked again.
        end_turn: Option<bool>,
    },
    /// The provider stopped early; the text counts, the calls do not.
    Incomplete {
        /// The provider's word; `unknown` if it gave none.
        reason: String,
        /// How many calls were left out.
        calls_dropped: usize,
    },
    /// The provider gave up.
    Failed {
        /// The `error` of the response or the event, else the event itself.
        error: Box<RawValue>,
    },
}

/// Why a response has no [`Terminal`].
///
/// The texts go behind `stream disconnected before completion: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The answer ended before its terminal event, whatever had arrived.
    #[error("stream closed before response.completed")]
    Cut,
    /// The answer or one of its events is too large.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// The response has more items than anybody can mean.
    #[error("the response has more than {items_max} items")]
    TooManyItems {
        /// The limit.
        items_max: usize,
    },
    /// A whole answer is not a response object.
    #[error("the answer is not a response")]
    NotAResponse,
}
