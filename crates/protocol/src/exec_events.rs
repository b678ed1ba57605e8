//! The lines of `exec --json`: one event of a run per line.
//!
//! The invariant here: an event is written with the members, and in the order, that scripts written
//! for Codex 0.166 read; what is ours (`turn_usage`, `turn_id`, `kind`, `retry_at`, `will_retry`)
//! stands behind what is theirs. A line is one object without a line break in it, whatever splits it:
//! U+0085, U+2028 and U+2029 are escaped, since some readers take them for line ends.
//!
//! Which events a run tells, and when, is decided by whoever follows the turn. Only what we write has
//! types: lines of the real Codex repeat keys and grow members, so whoever reads them reads maps.

mod item;
mod line;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use item::{
    AgentState, CallStatus, CollabToolCall, CommandExecution, FileChange, FileUpdate,
    FileUpdateKind, Item, ItemBody, McpToolCall, McpToolError, McpToolResult, TodoItem, WebSearch,
};
pub use line::encode_line;

use crate::turn_error::ErrorKind;
use crate::usage::TokenCounts;

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Event {
    /// The thread of the run; the first line.
    #[serde(rename = "thread.started")]
    ThreadStarted {
        /// The thread.
        thread_id: String,
    },
    /// The turn of the run has begun.
    #[serde(rename = "turn.started")]
    TurnStarted,
    /// The turn has ended by itself; the last line of a good run.
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        /// The thread up to the end of the turn.
        usage: Usage,
        /// The turn alone; none when its engine cannot tell.
        turn_usage: Option<Usage>,
        /// The turn.
        turn_id: String,
    },
    /// The turn has failed or was stopped; the last line of such a run.
    #[serde(rename = "turn.failed")]
    TurnFailed {
        /// Why.
        error: Failure,
        /// The turn.
        turn_id: String,
    },
    /// An item has begun.
    #[serde(rename = "item.started")]
    ItemStarted {
        /// The item.
        item: Item,
    },
    /// An item is other than before; lists of things to do only.
    #[serde(rename = "item.updated")]
    ItemUpdated {
        /// The item.
        item: Item,
    },
    /// An item has ended.
    #[serde(rename = "item.completed")]
    ItemCompleted {
        /// The item.
        item: Item,
    },
    /// A model call failed.
    #[serde(rename = "error")]
    Error {
        /// A text for people.
        message: String,
        /// What went wrong, as programs act on it.
        kind: ErrorKind,
        /// Whether the turn goes on with another try.
        will_retry: bool,
    },
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// A text for people.
    pub message: String,
    /// What went wrong, as programs act on it.
    pub kind: ErrorKind,
    /// When trying again makes sense, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
}

/// Counts of tokens: exactly these five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Everything the model read.
    pub input_tokens: i64,
    /// The part of it that came from the provider's cache.
    pub cached_input_tokens: i64,
    /// The part of it that was written to the provider's cache.
    pub cache_write_input_tokens: i64,
    /// Everything the model wrote.
    pub output_tokens: i64,
    /// The part of it that was reasoning.
    pub reasoning_output_tokens: i64,
}

impl From<TokenCounts> for Usage {
    fn from(counts: TokenCounts) -> Self {
        Self {
            input_tokens: counts.input_tokens,
            cached_input_tokens: counts.cached_input_tokens,
            cache_write_input_tokens: counts.cache_write_input_tokens,
            output_tokens: counts.output_tokens,
            reasoning_output_tokens: counts.reasoning_output_tokens,
        }
    }
}
