//! What a dead worker left behind, and what is decided about it.
//!
//! The invariant here: deciding and recording are one transaction, so recovery that is cut off
//! begins again and ends the same. A row is never decided twice, since its state says that it was.
//!
//! The decisions are the runtime's; only what cannot be seen from outside (which workers are dead)
//! is the store's.

use std::fmt;
use std::sync::Arc;

use crate::approval::ApprovalRow;
use crate::ids::{Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;
use crate::lane::LaneView;
use crate::queue::Row;
use crate::turn::TurnRow;

/// A search for lanes that dead workers left behind.
#[derive(Clone, Debug)]
pub struct Recover {
    /// Whose lanes.
    pub whose: Whose,
    /// What is decided about their rows.
    pub deciding: Deciding,
    /// How many lanes at most.
    pub limit: u32,
    /// Now.
    pub at_ms: i64,
}

/// Whose lanes to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of every worker that is dead.
    Dead,
    /// Those of one worker, dead or not: whoever asks has made sure that it may.
    Of(WorkerId),
    /// One lane, whoever owns it: whoever asks has made sure that nothing runs in it.
    Lane(ThreadId),
    /// One lane, unless its owner is known to be alive: then it is refused as owned elsewhere.
    LaneUnlessAlive(ThreadId),
}

/// A row that a dead worker left claimed, started or being decided.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The lane.
    pub thread: ThreadId,
    /// The engine of the thread.
    pub engine: &'a str,
    /// The row as it was found.
    pub row: &'a Row,
    /// Its turn, if it was accepted.
    pub turn: Option<&'a TurnRow>,
}

/// What becomes of a row that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is noted on its turn, which ends interrupted if it is in progress.
    pub turn_error: Option<Json>,
    /// Whether that turn is readable and not part of what the model is sent: nothing of it happened.
    pub muted: bool,
    /// What becomes of the row.
    pub row: FoundFate,
}

/// What becomes of a row that a dead worker left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundFate {
    /// Its turn is in the history, and that is all.
    Done,
    /// It waits again at the head.
    Back {
        /// The turn it will become.
        turn: TurnId,
        /// Whether it is counted as a loss: nothing had happened.
        loss: Loss,
    },
    /// It is shown as failed, at the head.
    Block {
        /// Why.
        failure: Json,
        /// The turn it will become when it is tried again.
        turn: TurnId,
    },
    /// It is gone with whom it was bound to.
    Cancel,
    /// A foreign engine must be asked first: the lane becomes ours, the row is being decided.
    Ask,
    /// Only a worker with the thread's engine can decide: the lane stays its dead owner's, unchanged.
    Leave,
}

/// Whether a row's return counts as a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It does.
    Counted,
    /// Its policy wants another try.
    Retry,
}

/// Decides about rows, inside the transaction that records the decision.
///
/// Pure: it may be called more than once for one row, when a batch has to be run again.
#[derive(Clone)]
pub struct Deciding(Arc<dyn Fn(Found<'_>) -> Decision + Send + Sync>);

impl Deciding {
    /// Wraps a pure function.
    pub fn new(decide: impl Fn(Found<'_>) -> Decision + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Decides about one row.
    pub fn decide(&self, found: Found<'_>) -> Decision {
        (self.0)(found)
    }
}

impl fmt::Debug for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deciding")
    }
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Lanes that are nobody's again, or ours where an engine must be asked.
    pub lanes: Vec<RecoveredLane>,
    /// Whether there may be more.
    pub more: bool,
}

/// A lane that a dead worker left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLane {
    /// The thread.
    pub thread: ThreadId,
    /// The row that was decided, or is to be.
    pub row: Option<RowId>,
    /// The turn that was cut off, as it was ended; none where none ran or its engine must be asked.
    pub turn: Option<TurnRow>,
    /// What its decision needs, where an engine must be asked.
    pub grip: Option<Grip>,
    /// The lane afterwards.
    pub lane: LaneView,
    /// Approvals that were open and were resolved with the row's turn, oldest first.
    pub resolved: Vec<ApprovalRow>,
}
