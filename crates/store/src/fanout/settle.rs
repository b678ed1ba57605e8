//! The ends of attempts: reports, settlements, retries.
//!
//! The invariant here: each names the attempt it is about. An attempt that was closed before, or was
//! replaced by a newer one, changes nothing of its item, with one exception: its report is accepted
//! while the item has no result and has not ended.

use super::item::{AttemptOutcome, FanoutItem, ItemAttempt, ItemError, ItemState, ItemUsage};
use super::job::{JobNo, JobRow};
use crate::ids::ThreadId;
use crate::json::Json;
use crate::turn::TurnRow;

/// A result that an agent reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemReport {
    /// The attempt whose thread reports.
    pub item: ItemAttempt,
    /// The result.
    pub result: Json,
    /// The digest of its canonical form: equal results have equal ones.
    pub digest: [u8; 32],
    /// The usage of the attempt so far.
    pub usage: ItemUsage,
    /// True if the rest of the job is cancelled with it.
    pub stop: bool,
    /// Now.
    pub at_ms: i64,
}

/// The outcome of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It is the item's result.
    Accepted {
        /// The thread of a newer attempt that now runs in vain.
        superseded: Option<ThreadId>,
    },
    /// The same result was there.
    Duplicate,
    /// Another result was there.
    Other,
    /// The item has ended without a result.
    Ended(ItemState),
}

/// The end of an attempt, and what follows for its item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The item and its attempt.
    pub item: ItemAttempt,
    /// The outcome of the attempt; a reported or superseded attempt keeps its own.
    pub outcome: AttemptOutcome,
    /// The error of the attempt.
    pub error: Option<ItemError>,
    /// The usage of all turns of the attempt.
    pub usage: ItemUsage,
    /// The new state of the item. An item with a result stays as it is.
    pub to: SettleTo,
}

/// The state of an item after its attempt has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleTo {
    /// It has this result, taken from its final message.
    Succeeded {
        /// The result.
        result: Json,
        /// The digest of its canonical form.
        digest: [u8; 32],
    },
    /// It has its result already; only its attempt is closed. Changes nothing of a running item.
    AsReported,
    /// It is given up.
    Failed,
    /// It ends with its job.
    Cancelled,
    /// It is not run on purpose: a hook blocked it.
    Skipped,
    /// It waits again; in a job whose end was requested it is cancelled instead.
    Pending {
        /// The time before which it is not claimed.
        not_before_ms: i64,
        /// True if it goes on in its thread.
        same_thread: bool,
        /// The allowance that its return uses up.
        uses: ReturnUses,
    },
}

/// The allowance that the return of an item uses up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnUses {
    /// None: a pause, a quota, a stop.
    Nothing,
    /// A retry.
    Retry,
    /// A loss of its worker.
    Loss,
    /// A return by a limit of the provider.
    Limit,
}

/// The outcome of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The item's state afterwards. An item that is gone counts as cancelled.
    pub state: ItemState,
    /// True if the item was changed, false where the attempt was settled or replaced before.
    pub changed: bool,
}

/// An attempt that is not closed although its turn is no longer the active one of its lane.
///
/// Its item is running, or it has a result and only the attempt is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledItem {
    /// The item.
    pub item: FanoutItem,
    /// Its attempt.
    pub attempt: ItemAttempt,
    /// Its turn as it is stored; none where the thread is gone.
    pub turn: Option<TurnRow>,
    /// True if the turn produced anything beyond messages of people.
    pub has_output: bool,
    /// The usage of the attempt's earlier turns.
    pub usage: ItemUsage,
}

/// Ended items that are to run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryItems {
    /// The job.
    pub job: JobNo,
    /// The items.
    pub which: RetryWhich,
    /// A new template for them and for rows that have not run.
    pub instruction: Option<String>,
    /// Now.
    pub at_ms: i64,
}

/// The items that run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryWhich {
    /// Failed items.
    Failed,
    /// Cancelled items, rows that never ran included.
    Cancelled,
    /// Both.
    FailedOrCancelled,
    /// The items with these ids, if they failed or were cancelled; other ids are passed over.
    Items(Vec<String>),
}

/// The outcome of a retry.
///
/// A job that has ended is running again where items were chosen. A job that is importing, ready or
/// cancelling is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetriedItems {
    /// The job afterwards.
    pub job: JobRow,
    /// How many items wait again.
    pub retried: i64,
}
