//! Claims of items: the request, the function that makes a turn of an item, the begun turns.
//!
//! The invariant here: the function runs inside the transaction that claims, so that a turn is made of
//! the item exactly as it was claimed.

use std::fmt;
use std::sync::Arc;

use super::item::{AttemptRow, FanoutItem, ItemAttempt, ItemError, ItemUsage};
use super::job::{JobNo, JobRow};
use crate::ids::ThreadId;
use crate::json::Json;
use crate::queue::NewRow;
use crate::thread::NewThread;
use crate::turn::{Accept, AcceptedTurn};

/// A claim of items.
#[derive(Clone, Debug)]
pub struct ClaimItems {
    /// The job.
    pub job: JobNo,
    /// The most items to begin; the job's limit counts too.
    pub max: u32,
    /// The kind of items.
    pub company: Company,
    /// Makes thread, row and message of an item.
    pub making: Making,
    /// Now.
    pub at_ms: i64,
}

/// The items that a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Items that may run beside others.
    Others,
    /// One item that has lost two workers and runs by itself.
    Alone,
}

/// An item that a claim looks at.
#[derive(Clone, Copy, Debug)]
pub struct ItemToStart<'a> {
    /// Its job.
    pub job: &'a JobRow,
    /// Its number.
    pub seq: i64,
    /// Its id.
    pub item_id: &'a str,
    /// Its cells.
    pub cells: &'a Json,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The attempts before, oldest first.
    pub earlier: &'a [AttemptRow],
    /// The thread in which it goes on, if it does.
    pub thread: Option<ThreadId>,
    /// The branches that hold its work so far.
    pub branch: Option<&'a Json>,
}

/// The decision about an item that a claim looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemStart {
    /// Its turn begins.
    Begin {
        /// The thread to be made; none where the item goes on in its own.
        thread: Option<Box<NewThread>>,
        /// Its row.
        row: Box<NewRow>,
        /// Its turn.
        accept: Box<Accept>,
        /// The branches that hold its work from now on; none where they stay as they are.
        branch: Option<Json>,
    },
    /// It cannot be run at all: it fails without an attempt.
    Fail(ItemError),
}

/// Makes an item's turn, inside the transaction that claims it.
///
/// Pure but for new ids: it may be called more than once for one item, when a batch has to be run
/// again.
#[derive(Clone)]
pub struct Making(Arc<dyn Fn(ItemToStart<'_>) -> ItemStart + Send + Sync>);

impl Making {
    /// Wraps a function.
    pub fn new(make: impl Fn(ItemToStart<'_>) -> ItemStart + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Makes the turn of one item.
    pub fn make(&self, item: ItemToStart<'_>) -> ItemStart {
        (self.0)(item)
    }
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Making")
    }
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedItems {
    /// The items whose turns have begun.
    pub begun: Vec<BegunItem>,
    /// The job afterwards.
    pub job: JobRow,
    /// The time at which the next pending item of any kind becomes due that this claim left: now or
    /// earlier where only a place was missing, none where nothing is pending.
    pub next_due_ms: Option<i64>,
    /// True if an item is due that runs alone.
    pub alone_waits: bool,
}

/// An item whose turn has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunItem {
    /// The item.
    pub item: FanoutItem,
    /// Its turn.
    pub accepted: AcceptedTurn,
}

/// Another turn of a running item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairItem {
    /// The item and its attempt.
    pub item: ItemAttempt,
    /// The row of the turn.
    pub row: NewRow,
    /// The turn.
    pub accept: Accept,
    /// The usage of all turns of the attempt so far.
    pub usage: ItemUsage,
    /// Now.
    pub at_ms: i64,
}
