//! The lane of a thread as it is stored: what runs, who owns it, what holds it, what is next.
//!
//! The invariant here: a [`LaneView`] is one consistent picture, taken in one transaction. It is
//! out of date as soon as it is read; only a claim or a start decides, inside its own transaction.
//!
//! What to do about a picture is decided by the lane's rules in the runtime.

use serde::{Deserialize, Serialize};

use crate::ids::{Fence, RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;

/// A picture of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The thread.
    pub thread: ThreadId,
    /// How often it was claimed or changed its owner.
    pub fence: Fence,
    /// The worker that owns it; nobody's when none.
    pub owner: Option<WorkerId>,
    /// The row that is claimed, started or being decided, and its turn.
    pub active: Option<Active>,
    /// How many rows wait, failed ones included.
    pub depth: u32,
    /// How many may.
    pub max_depth: u32,
    /// Somebody has stopped it.
    pub paused: Option<Paused>,
    /// It waits for a provider or a person.
    pub waiting: Option<Waiting>,
    /// Counts the changes of what is visible of the queue.
    pub revision: i64,
    /// The first of the rows that wait.
    pub head: Head,
    /// The thread is put away.
    pub archived: bool,
}

/// What occupies a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// The row.
    pub row: RowId,
    /// Its turn, which may not have been accepted yet.
    pub turn: TurnId,
}

/// The first of the rows that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// None waits.
    None,
    /// It may be claimed from this time on; 0 means at once.
    Due {
        /// The row.
        row: RowId,
        /// In milliseconds since 1970.
        at_ms: i64,
    },
    /// It failed and holds the lane.
    Failed {
        /// The row.
        row: RowId,
        /// Why it failed, as it was stored.
        failure: Json,
    },
    /// Only another worker may claim it.
    BoundElsewhere {
        /// The row.
        row: RowId,
        /// That worker.
        worker: WorkerId,
    },
}

/// Somebody has stopped a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// `user`, `interrupt`, or what the caller said.
    pub reason: String,
    /// The client.
    pub by: Option<String>,
    /// When, in milliseconds since 1970.
    pub since_ms: i64,
}

/// What a queue waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The kind of error it waits out.
    pub kind: String,
    /// The error's text.
    pub message: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Until when; none when only a person or a restart can end it.
    pub until_ms: Option<i64>,
    /// How many waits in a row this is, from 1; what back-off counts.
    pub nth: u32,
    /// The login that was refused, for a wait that ends when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginStamp>,
}

/// A file that holds a login, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginStamp {
    /// The file's path. Workers with another login file leave the wait alone.
    pub file: String,
    /// Differs when the file changes; compared and never read.
    pub stamp: String,
}

impl Waiting {
    /// Whether it still holds at that time.
    pub fn holds(&self, now_ms: i64) -> bool {
        self.until_ms.is_none_or(|until_ms| until_ms > now_ms)
    }
}

/// What a change of a queue has made, and the lane right after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// What was made.
    pub value: T,
    /// The lane in the same transaction.
    pub lane: LaneView,
}

/// How a lane was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once per operation and taken apart at once"
)]
pub enum Taken {
    /// It is ours; the grip is in the view's fence.
    Ours(LaneView),
    /// A live worker owns it.
    Elsewhere(WorkerId),
}

/// A lane of ours and where its queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedLane {
    /// The thread.
    pub thread: ThreadId,
    /// Its revision.
    pub revision: i64,
}

/// Lanes worth a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Lanes that are idle, not paused, nobody's or ours, and due, longest due first.
    pub lanes: Vec<ThreadId>,
    /// Live-looking workers that own such lanes, for the check whether they are dead.
    pub owners: Vec<WorkerId>,
    /// When the next lane becomes due, if one does.
    pub next_ms: Option<i64>,
}
