//! An item of a job: one row of the input, its attempts and its result.

use serde::{Deserialize, Serialize};

use super::{ItemWorktree, RawJson};
use crate::ids::{ThreadId, TurnId};

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum JobItemState {
    /// It waits.
    Pending,
    /// Its turn runs.
    Running,
    /// It has a result.
    Succeeded,
    /// It was given up.
    Failed,
    /// It was not run on purpose.
    Skipped,
    /// It ended with its job.
    Cancelled,
}

impl JobItemState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// Returns true if the item has ended.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The word as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An item without its row, result and attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobItem {
    /// Its id, unique in the job.
    pub item_id: String,
    /// Its number in input order, from 0.
    pub seq: i64,
    /// The cell of the id column as it was.
    pub source_id: Option<String>,
    /// Its state.
    pub state: JobItemState,
    /// The attempt that runs or ran last; 0 before the first.
    pub attempt: u32,
    /// The time before which it is not claimed again, in milliseconds since 1970.
    pub not_before_ms: Option<i64>,
    /// The thread of its last attempt.
    pub thread_id: Option<ThreadId>,
    /// The cause of its failure, skip, cancellation or last return.
    pub error: Option<JobItemError>,
    /// The item whose result counts for this one.
    pub dup_of: Option<String>,
    /// The branch that holds its work.
    pub branch: Option<String>,
    /// The tokens of all its attempts.
    pub usage: JobItemUsage,
    /// The start of its first attempt, in milliseconds since 1970.
    pub started_at_ms: Option<i64>,
    /// The time at which its result was recorded.
    pub reported_at_ms: Option<i64>,
    /// The time of its end.
    pub ended_at_ms: Option<i64>,
}

/// An item with everything that is stored of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobItemDetail {
    /// The item.
    #[serde(flatten)]
    pub item: JobItem,
    /// Its row, an object with the columns in input order.
    pub row: RawJson,
    /// Its result.
    pub result: Option<RawJson>,
    /// Its attempts, oldest first.
    pub attempts: Vec<JobAttempt>,
    /// Its worktrees, the newest first; those of earlier attempts only while they exist.
    #[serde(default)]
    pub worktrees: Vec<ItemWorktree>,
}

/// The error of an item or an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobItemError {
    /// The kind, in one word.
    pub kind: String,
    /// The original message.
    pub message: String,
}

/// One attempt of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// Its thread.
    pub thread_id: ThreadId,
    /// Its last turn.
    pub turn_id: TurnId,
    /// Its outcome; null while it runs.
    pub outcome: Option<AttemptOutcome>,
    /// Its error.
    pub error: Option<JobItemError>,
    /// The time of its start, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// The time of its end.
    pub ended_at_ms: Option<i64>,
    /// Its tokens.
    pub usage: JobItemUsage,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum AttemptOutcome {
    /// Its result was recorded.
    Reported,
    /// It failed.
    Failed,
    /// Its worker died.
    Lost,
    /// An older attempt reported first.
    Superseded,
    /// A pause, a cancellation or an orderly stop ended it.
    Interrupted,
}

/// Tokens and cost of one or more attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobItemUsage {
    /// Tokens sent, cached ones included.
    #[serde(default)]
    pub input_tokens: i64,
    /// The part of them that came from the provider's cache.
    #[serde(default)]
    pub cached_input_tokens: i64,
    /// Tokens received, reasoning included.
    #[serde(default)]
    pub output_tokens: i64,
    /// The part of them that was reasoning.
    #[serde(default)]
    pub reasoning_output_tokens: i64,
    /// All tokens.
    pub total_tokens: i64,
    /// The cost in US dollars; null where a price is not known.
    pub cost_usd: Option<f64>,
}
