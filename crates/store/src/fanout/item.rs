//! An item and its attempts, as they are stored.
//!
//! The invariant here: an item ends once, unless a retry makes it pending again; a result is written
//! once and never changed.

use std::ops::{Add, Sub};

use super::job::JobNo;
use crate::ids::{ThreadId, TurnId};
use crate::json::Json;

/// The tokens of one or more attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemUsage {
    /// Tokens sent, cached ones included.
    pub input_tokens: i64,
    /// Tokens from the provider's cache.
    pub cached_input_tokens: i64,
    /// Tokens received, reasoning included.
    pub output_tokens: i64,
    /// Tokens of reasoning.
    pub reasoning_output_tokens: i64,
    /// All tokens.
    pub total_tokens: i64,
}

impl ItemUsage {
    /// The larger of both, number by number: usage never falls.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.max(other.cached_input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            reasoning_output_tokens: self
                .reasoning_output_tokens
                .max(other.reasoning_output_tokens),
            total_tokens: self.total_tokens.max(other.total_tokens),
        }
    }
}

impl Add for ItemUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens + other.input_tokens,
            cached_input_tokens: self.cached_input_tokens + other.cached_input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            reasoning_output_tokens: self.reasoning_output_tokens + other.reasoning_output_tokens,
            total_tokens: self.total_tokens + other.total_tokens,
        }
    }
}

impl Sub for ItemUsage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens - other.input_tokens,
            cached_input_tokens: self.cached_input_tokens - other.cached_input_tokens,
            output_tokens: self.output_tokens - other.output_tokens,
            reasoning_output_tokens: self.reasoning_output_tokens - other.reasoning_output_tokens,
            total_tokens: self.total_tokens - other.total_tokens,
        }
    }
}

/// One attempt of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemAttempt {
    /// The job.
    pub job: JobNo,
    /// The item's number.
    pub seq: i64,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemState {
    /// It waits.
    Pending,
    /// Its turn has begun and is not settled.
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

/// The error of an item or an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// The kind, in one word.
    pub kind: String,
    /// The message, for people.
    pub message: String,
}

/// An item as it is stored, or a row that never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanoutItem {
    /// Its number.
    pub seq: i64,
    /// Its id.
    pub item_id: String,
    /// Its state.
    pub state: ItemState,
    /// The attempt that runs or ran last; 0 before the first.
    pub attempt: u32,
    /// Retries it has used.
    pub retries_used: u32,
    /// Workers that died while they ran it.
    pub losses: u32,
    /// Returns by a limit of the provider.
    pub limit_returns: u32,
    /// Repair turns of this attempt.
    pub repairs: u32,
    /// The time before which it is not claimed.
    pub not_before_ms: i64,
    /// The thread of its last attempt.
    pub thread: Option<ThreadId>,
    /// The turn of its last attempt.
    pub turn: Option<TurnId>,
    /// True if its next attempt goes on in that thread.
    pub same_thread: bool,
    /// The cause of its failure, skip, cancellation or last return.
    pub error: Option<ItemError>,
    /// The row whose result counts for this one.
    pub dup_of: Option<i64>,
    /// The branch that holds its work.
    pub branch: Option<Json>,
    /// The usage of all its attempts.
    pub usage: ItemUsage,
    /// The start of its first attempt.
    pub started_ms: Option<i64>,
    /// The time at which its result was recorded.
    pub reported_ms: Option<i64>,
    /// The time of its end.
    pub ended_ms: Option<i64>,
}

/// A change of what an item shows of the branches with its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchChange {
    /// The job.
    pub job: JobNo,
    /// The item's number.
    pub seq: i64,
    /// What the caller saw.
    pub seen: Option<Json>,
    /// What replaces it.
    pub to: Option<Json>,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// Its result was recorded.
    Reported,
    /// It failed.
    Failed,
    /// Its worker died.
    Lost,
    /// An older attempt reported first.
    Superseded,
    /// A pause, a cancellation or an orderly stop cut it.
    Interrupted,
}

/// An attempt as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// Its number, from 1.
    pub attempt: u32,
    /// Its thread.
    pub thread: ThreadId,
    /// Its last turn.
    pub turn: TurnId,
    /// Its outcome; none while it runs. A reported or superseded attempt may still run: it is closed
    /// when it has an end.
    pub outcome: Option<AttemptOutcome>,
    /// Its error.
    pub error: Option<ItemError>,
    /// Its usage.
    pub usage: ItemUsage,
    /// The time of its start.
    pub started_ms: i64,
    /// The time at which it was closed.
    pub ended_ms: Option<i64>,
}

/// An item with everything that is stored of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemDetail {
    /// The item.
    pub item: FanoutItem,
    /// Its cells.
    pub cells: Json,
    /// Its result; for a duplicate the result of the row it duplicates.
    pub result: Option<Json>,
    /// Its attempts, oldest first; empty in an export page.
    pub attempts: Vec<AttemptRow>,
}

/// A part of a job's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsQuery {
    /// The job.
    pub job: JobNo,
    /// From this number on.
    pub from_seq: i64,
    /// Only items in one of these states; all where none is named.
    pub states: Vec<ItemState>,
    /// The most items to return.
    pub limit: u32,
}

/// Some items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsPage {
    /// The items; there may be fewer than the limit although more follow.
    pub items: Vec<FanoutItem>,
    /// The number from which more follow.
    pub next_seq: Option<i64>,
}
