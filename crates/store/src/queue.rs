//! Queued turns: the rows of a lane, from add to their end.
//!
//! The invariants here: at most one row of a lane is claimed, started or being decided (the
//! database holds this); a row that waits has a position and nothing else has; a row that comes
//! back goes to the head under a new turn id.
//!
//! Which way a row goes is decided by the lane's rules; the store only carries it out, whole or
//! not at all.

use std::fmt;
use std::sync::Arc;

use crate::ids::{Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;
use crate::lane::{LaneView, Waiting};
use crate::thread::ThreadRow;
use crate::turn::{Accept, EndedTurn, TurnRow};

/// A row to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// The row.
    pub id: RowId,
    /// The turn it will become.
    pub turn: TurnId,
    /// Who made it: `queue`, `direct`, `shim`, `schedule`, `fanout`.
    pub source: String,
    /// What the turn is started with.
    pub params: Json,
    /// The client's id of the message, or the row's.
    pub client_id: String,
    /// The same key again adds nothing.
    pub key: Option<String>,
    /// What tells other content under the same key.
    pub content_hash: [u8; 32],
    /// Not claimed before, in milliseconds since 1970; 0 means at once.
    pub not_before_ms: i64,
    /// What to do when things go wrong.
    pub policies: Policies,
    /// The only worker that may claim it, with whom it goes.
    pub bound: Option<WorkerId>,
}

/// What to do with a row when things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// When its turn failed for good.
    pub on_error: OnError,
    /// When its worker died under it.
    pub on_crash: OnCrash,
    /// When a graceful stop of its worker cut its turn.
    pub on_stop: OnStop,
    /// When it cannot be started.
    pub on_cannot_start: OnCannotStart,
    /// When the provider has no capacity or allowance.
    pub on_limit: OnLimit,
    /// How often its turn is tried.
    pub retry: Retry,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            on_error: OnError::Continue,
            on_crash: OnCrash::Block,
            on_stop: OnStop::Continue,
            on_cannot_start: OnCannotStart::Block,
            on_limit: OnLimit::Wait,
            retry: Retry {
                max_attempts: 1,
                base_ms: 1_000,
                cap_ms: 300_000,
            },
        }
    }
}

/// What happens after a turn failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The next row runs.
    Continue,
    /// The row holds the lane.
    Block,
}

/// What happens after a worker died under a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCrash {
    /// The row holds the lane.
    Block,
    /// The next row runs.
    Continue,
    /// The row runs again.
    Retry,
}

/// What happens after a graceful stop cut a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// The row goes on from its history when its lane drains again.
    Continue,
    /// The row holds the lane, as after a crash.
    Block,
    /// The row runs anew; the turn that was cut is muted.
    Retry,
}

/// What happens to a row that cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCannotStart {
    /// It holds the lane.
    Block,
    /// A failed turn is recorded and the next row runs.
    Continue,
}

/// What happens after a turn failed because of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    /// The lane waits.
    Wait,
    /// As after any other failure.
    Fail,
}

/// How often a row's turn is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// At most so often.
    pub max_attempts: u32,
    /// The pause before the second try.
    pub base_ms: i64,
    /// The longest pause.
    pub cap_ms: i64,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowState {
    /// It waits.
    Queued,
    /// A worker took it; nothing has happened yet.
    Claimed,
    /// Its turn and message are recorded.
    Started,
    /// Its worker is gone, and what has happened is being found out.
    Reconcile,
    /// It failed; at the head it holds the lane.
    Blocked,
    /// Its turn has ended.
    Done,
    /// It was given up without a turn.
    Dead,
    /// It was deleted.
    Cancelled,
}

impl RowState {
    /// Whether lists show it.
    pub const fn is_visible(self) -> bool {
        matches!(self, Self::Queued | Self::Blocked)
    }

    /// Whether it occupies its lane.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Claimed | Self::Started | Self::Reconcile)
    }

    /// Whether nothing will happen to it any more.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row.
    pub id: RowId,
    /// The turn it is or will become.
    pub turn: TurnId,
    /// The turn it last was.
    pub last_turn: Option<TurnId>,
    /// Who made it.
    pub source: String,
    /// Its place among those that wait; smaller is sooner.
    pub position: Option<i64>,
    /// How many rows wait in front of it; counted only by what adds, changes or lists rows.
    pub ahead: Option<u32>,
    /// Where it stands.
    pub state: RowState,
    /// Not claimed before, in milliseconds since 1970; 0 means at once.
    pub not_before_ms: i64,
    /// How often it was claimed.
    pub attempts: u32,
    /// How often its worker died between claim and hand-over.
    pub losses: u32,
    /// How often it was put back because of a limit.
    pub put_backs: u32,
    /// How often a graceful stop cut its turn; a stop uses up no try.
    pub stops: u32,
    /// True if its next turn goes on from the history: its message is there already.
    pub continues: bool,
    /// What to do when things go wrong.
    pub policies: Policies,
    /// The only worker that may claim it.
    pub bound: Option<WorkerId>,
    /// The same key again adds nothing.
    pub key: Option<String>,
    /// The client's id of the message, or the row's.
    pub client_id: String,
    /// Whether a foreign engine may have seen it.
    pub sent: bool,
    /// The boot of the machine in which it was sent; none while it is not, or where the boot is unknown.
    pub sent_boot: Option<String>,
    /// What the turn is started with.
    pub params: Json,
    /// Why it failed.
    pub failure: Option<Json>,
    /// When it was added, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed.
    pub updated_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
}

/// A row to be added to a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The lane.
    pub thread: ThreadId,
    /// The row.
    pub row: NewRow,
    /// For how long the keys of ended rows are remembered.
    pub key_window_ms: i64,
    /// Now.
    pub at_ms: i64,
}

/// How an add ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once per operation and taken apart at once"
)]
pub enum Appended {
    /// There is a new row.
    New(Row),
    /// The key was there with the same content.
    Repeated(Box<Repeated>),
}

/// The row that a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The row.
    pub row: Row,
    /// The turn it is or last was, once there is one.
    pub turn: Option<TurnRow>,
}

/// Other content for a row that waits.
#[derive(Clone, Debug)]
pub struct Update {
    /// The lane.
    pub thread: ThreadId,
    /// The row.
    pub row: RowId,
    /// What the turn is started with from now on. The key still stands for what was first sent, so
    /// that repeating a lost add finds the row.
    pub params: Rewriting,
    /// Now.
    pub at_ms: i64,
}

/// Makes what a row is started with out of what it was, inside the transaction that writes it.
///
/// Pure: it may be called more than once for one change, when a batch has to be run again.
#[derive(Clone)]
pub struct Rewriting(Arc<dyn Fn(&Json) -> Json + Send + Sync>);

impl Rewriting {
    /// Wraps a pure function.
    pub fn new(rewrite: impl Fn(&Json) -> Json + Send + Sync + 'static) -> Self {
        Self(Arc::new(rewrite))
    }

    /// What comes of a row's params.
    pub fn rewrite(&self, params: &Json) -> Json {
        (self.0)(params)
    }
}

impl From<Json> for Rewriting {
    /// Replaces them, whatever they were.
    fn from(params: Json) -> Self {
        Self::new(move |_| params.clone())
    }
}

impl fmt::Debug for Rewriting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewriting")
    }
}

/// A new place for one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The lane.
    pub thread: ThreadId,
    /// The row.
    pub row: RowId,
    /// Where to.
    pub to: MoveTo,
    /// Now.
    pub at_ms: i64,
}

/// A place among the visible rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// In front of this row.
    Before(RowId),
    /// Behind this row.
    After(RowId),
    /// So many rows stand in front of it; the end when there are fewer.
    Index(u32),
}

/// Which row to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The head, if it is due and nothing holds the lane.
    Head,
    /// The head, unless it failed, whatever else holds the lane; ends a pause and a wait.
    HeadNow,
    /// This row, out of order, failed or not; ends a pause and a wait.
    Row(RowId),
}

/// A claim of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The lane.
    pub thread: ThreadId,
    /// The row.
    pub which: Which,
    /// Now.
    pub at_ms: i64,
}

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once per operation and taken apart at once"
)]
pub enum Claimed<T> {
    /// The row is ours.
    Ours(T),
    /// Something holds the lane; look at it.
    NotNow(LaneView),
}

/// A row that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRow {
    /// What its writes need from now on.
    pub grip: Grip,
    /// The row.
    pub row: Row,
    /// The lane in the same transaction.
    pub lane: LaneView,
}

/// What the function that accepts a row is shown.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance<'a> {
    /// The row, claimed or about to be.
    pub row: &'a Row,
    /// Its thread.
    pub thread: &'a ThreadRow,
}

/// What becomes of a row that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its turn begins.
    Accept(Box<Accept>),
    /// It cannot be started.
    CannotStart(Box<CannotStart>),
}

/// Turns a row into its turn, inside the transaction that accepts it.
///
/// Pure: it may be called more than once for one claim, when a batch has to be run again.
#[derive(Clone)]
pub struct Accepting {
    accept: Arc<dyn Fn(Acceptance<'_>) -> Verdict + Send + Sync>,
    params_bytes_max: usize,
}

impl Accepting {
    /// Wraps a pure function.
    pub fn new(accept: impl Fn(Acceptance<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self {
            accept: Arc::new(accept),
            params_bytes_max: usize::MAX,
        }
    }

    /// Leaves a row whose params are longer claimed where it would be claimed and accepted at once:
    /// all other lanes wait for the transaction, so that much is not read inside it.
    #[must_use]
    pub fn up_to(self, params_bytes_max: usize) -> Self {
        Self {
            params_bytes_max,
            ..self
        }
    }

    /// Returns true if the row may be decided inside the transaction that claims it.
    pub fn takes(&self, row: &Row) -> bool {
        row.params.as_str().len() <= self.params_bytes_max
    }

    /// Decides about one row.
    pub fn decide(&self, acceptance: Acceptance<'_>) -> Verdict {
        (self.accept)(acceptance)
    }
}

impl fmt::Debug for Accepting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accepting")
    }
}

/// What becomes of a row that cannot be started, without a turn of its own running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotStart {
    /// It is shown as failed, at the head.
    Block {
        /// Why.
        failure: Json,
        /// The turn it will become when it is tried again.
        turn: TurnId,
    },
    /// A failed turn is recorded under its turn id and the row is done.
    Fail(Box<EndedTurn>),
    /// It goes back to the head: nothing has happened.
    Back {
        /// The turn it will become.
        turn: TurnId,
        /// Not claimed before.
        not_before_ms: i64,
        /// What the lane waits for, if it does.
        waiting: Option<Waiting>,
    },
    /// It is given up without a turn.
    Dead {
        /// Why.
        failure: Json,
    },
    /// It is gone with whom it was bound to.
    Cancel,
}

/// What becomes of a row whose turn has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its turn is in the history, and that is all.
    Done,
    /// It waits again at the head.
    Back {
        /// The turn it will become.
        turn: TurnId,
        /// Not claimed before.
        not_before_ms: i64,
        /// Why it is back.
        why: Back,
    },
    /// It is shown as failed, at the head.
    Block {
        /// Why.
        failure: Json,
        /// The turn it will become when it is tried again.
        turn: TurnId,
    },
}

/// Why a row is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// Its policy wants another try.
    Retry,
    /// A limit; counted apart, and uses up no try.
    Limit,
    /// A graceful stop cut its turn: its next turn goes on from the history. Uses up no try.
    Continue,
    /// A graceful stop cut its turn: it runs from its beginning. Uses up no try.
    Anew,
}

/// A part of the visible rows of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueQuery {
    /// The lane.
    pub thread: ThreadId,
    /// Where to begin.
    pub from: QueueFrom,
    /// How many at most.
    pub limit: u32,
}

/// Where a list of rows begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFrom {
    /// At the head.
    Head,
    /// Behind this position; rows that leave in between hide nothing.
    After(i64),
    /// Behind so many rows.
    Offset(u32),
}

/// A part of the visible rows, and the lane in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePage {
    /// The rows, head first.
    pub rows: Vec<Row>,
    /// The position to go on behind when there are more.
    pub next: Option<i64>,
    /// The lane.
    pub lane: LaneView,
}
