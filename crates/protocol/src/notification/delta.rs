//! More text of an item: the most frequent notifications.
//!
//! Two ways to write one: as a value, like every other notification, and with [`encode_delta`],
//! which borrows the text and marks where it stands in the frame, for servers that may have to
//! join it with the next one.

use serde::{Deserialize, Serialize};

use super::method;
use crate::envelope::{Delta, Stamp};
use crate::ids::{ItemId, ThreadId, TurnId};

/// More text of a message, a plan or a command's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemDelta {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
    /// What comes after the text so far.
    pub delta: String,
}

/// More text of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryDelta {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
    /// Which part, from 0.
    pub summary_index: i64,
    /// What comes after the text so far.
    pub delta: String,
}

/// More text of the thoughts themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReasoningTextDelta {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
    /// Which part, from 0.
    pub content_index: i64,
    /// What comes after the text so far.
    pub delta: String,
}

/// Which text grows. Deltas may be joined when kind and place are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// That of a message.
    AgentMessage,
    /// That of a plan.
    Plan,
    /// A part of a summary.
    ReasoningSummary {
        /// Which part, from 0.
        summary_index: i64,
    },
    /// A part of the thoughts themselves.
    ReasoningText {
        /// Which part, from 0.
        content_index: i64,
    },
    /// The output of a command.
    CommandOutput,
}

impl DeltaKind {
    /// The method that carries it.
    pub fn method(self) -> &'static str {
        match self {
            Self::AgentMessage => method::AGENT_MESSAGE_DELTA,
            Self::Plan => method::PLAN_DELTA,
            Self::ReasoningSummary { .. } => method::REASONING_SUMMARY_TEXT_DELTA,
            Self::ReasoningText { .. } => method::REASONING_TEXT_DELTA,
            Self::CommandOutput => method::COMMAND_OUTPUT_DELTA,
        }
    }
}

/// Whose text grows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemPlace {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
}

/// The frame of a delta, ready to be joined with the next one.
pub fn encode_delta(
    kind: DeltaKind,
    place: &ItemPlace,
    text: &str,
    stamp: Stamp,
) -> Result<Delta, serde_json::Error> {
    /// The params without the text.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        thread_id: ThreadId,
        turn_id: TurnId,
        item_id: &'a ItemId,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary_index: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content_index: Option<i64>,
    }

    let (summary_index, content_index) = match kind {
        DeltaKind::ReasoningSummary { summary_index } => (Some(summary_index), None),
        DeltaKind::ReasoningText { content_index } => (None, Some(content_index)),
        DeltaKind::AgentMessage | DeltaKind::Plan | DeltaKind::CommandOutput => (None, None),
    };
    let head = Head {
        thread_id: place.thread_id,
        turn_id: place.turn_id,
        item_id: &place.item_id,
        summary_index,
        content_index,
    };
    crate::envelope::encode_delta(kind.method(), &head, text, stamp)
}
