//! The one trait behind which durable state lives.
//!
//! The invariant here: **calling a method submits the operation; the future it returns ends with
//! its commit.** Operations are carried out in the order of the calls, so a lane can submit the
//! next one without waiting for the last, and dropping a future takes nothing back. Reads see
//! every operation whose future has ended, and after [`Store::flush`] every one submitted before.
//!
//! Each write names its level. *Durable*: it is on disk when the future ends. *Visible*: it
//! survives `kill -9`, other processes see it, and the next durable operation makes it durable.
//!
//! Time is passed in; a store reads no wall clock for what it records. One open store is one
//! worker.

use std::pin::Pin;

use tokio::sync::watch;

use crate::approval::{ApprovalQuery, ApprovalRow};
use crate::census::{Census, Times};
use crate::error::StoreError;
use crate::fanout::FanoutStore;
use crate::ids::{Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::lane::{Changed, LaneView, LoginStamp, OwnedLane, Paused, Ready, Taken};
use crate::queue::{
    Accepting, Append, Appended, CannotStart, Claim, Claimed, ClaimedRow, Move, QueuePage,
    QueueQuery, Row, Update,
};
use crate::recovery::{Decision, Recover, Recovered};
use crate::thread::{
    BoundThread, Fork, IdleQuery, IdleThread, NewThread, Page, Successor, Supersede, ThreadChange,
    ThreadCopy, ThreadPlace, ThreadQuery, ThreadRow, UpTo,
};
use crate::turn::{
    Accepted, AcceptedTurn, Complete, History, HistoryEnd, ItemQuery, ItemRow, Later, Level, Put,
    Refused, StartTurn, Started, TurnQuery, TurnRow,
};
use crate::worker::{Health, Worker};

/// The end of an operation that was submitted when this was made.
pub type Work<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'static>>;

/// Durable state: threads, turns, items, lanes and their queues, fan-out jobs.
pub trait Store: FanoutStore {
    /// The worker that this open store is.
    fn worker(&self) -> WorkerId;

    /// What is known of a worker; none once it has left.
    fn worker_row(&self, worker: WorkerId) -> Work<Option<Worker>>;

    /// Ends when fewer operations wait than should; who submits much awaits it first.
    fn room(&self) -> Work<()>;

    /// Ends when everything submitted before is visible to reads.
    fn flush(&self) -> Work<()>;

    /// Whether the store takes writes, and every change of that.
    fn health(&self) -> watch::Receiver<Health>;

    /// Counts the times that another process may have changed something.
    fn foreign_changes(&self) -> watch::Receiver<u64>;

    /// The lanes by what they do. Reads the lanes that do something and counts the others.
    fn census(&self) -> Work<Census>;

    /// How long commits took that waited for the disk, since the store was opened.
    fn sync_times(&self) -> Times;

    /// Gives up all lanes that run nothing, removes the worker and ends the store, after
    /// everything submitted before. Without it the worker counts as dead from the drop on.
    fn close(&self) -> Work<()>;

    // Threads.

    /// Makes a thread with an empty lane. Durable.
    fn create_thread(&self, thread: NewThread) -> Work<ThreadRow>;

    /// Finds the thread that is not archived and has the binding of this one, or makes this one.
    /// Without a binding it makes one. Durable.
    fn bind_thread(&self, thread: NewThread) -> Work<BoundThread>;

    /// Makes a thread that takes over the binding and the waiting rows of another, which is nobody's
    /// or ours. Ids, order, keys and policies of the rows stay, as do the pause and the wait that hold
    /// them; a row that is under way stays in the old lane. Durable, whole or not at all. The lane
    /// shown beside the new thread is the old one.
    fn supersede(&self, supersede: Supersede) -> Work<Changed<Successor>>;

    /// Makes a thread with a copy of another's history. Durable.
    fn fork_thread(&self, fork: Fork) -> Work<ThreadRow>;

    /// A copy of a thread's history, to be pasted into another store.
    fn copy_thread(&self, thread: ThreadId, upto: UpTo) -> Work<ThreadCopy>;

    /// Makes a thread with a history that was copied. Durable.
    fn paste_thread(&self, to: NewThread, copy: ThreadCopy) -> Work<ThreadRow>;

    /// Changes a thread that is nobody's or ours. Durable.
    fn change_thread(&self, change: ThreadChange) -> Work<Changed<ThreadRow>>;

    /// Deletes a thread that is nobody's or ours and runs nothing, with all it has. Durable.
    fn delete_thread(&self, thread: ThreadId) -> Work<()>;

    /// Deletes the turns from this number on, with items and entries, from a thread that is
    /// nobody's or ours and runs nothing. Durable.
    fn revert_thread(&self, thread: ThreadId, from_turn_ord: i64, at_ms: i64) -> Work<()>;

    /// One thread.
    fn thread(&self, thread: ThreadId) -> Work<Option<ThreadRow>>;

    /// Some threads.
    fn threads(&self, query: ThreadQuery) -> Work<Page<ThreadRow, ThreadPlace>>;

    /// The lanes of some threads, in one picture; threads that are not there are left out.
    fn lanes(&self, threads: Vec<ThreadId>) -> Work<Vec<LaneView>>;

    // The queue. Any worker may call these for any lane.

    /// Adds a row behind all others, or finds the one with its key. Durable.
    fn append(&self, append: Append) -> Work<Changed<Appended>>;

    /// Replaces what a visible row is started with. Durable.
    fn update_row(&self, update: Update) -> Work<Changed<Row>>;

    /// Deletes a visible row; false when there is none. Durable.
    fn delete_row(&self, thread: ThreadId, row: RowId, at_ms: i64) -> Work<Changed<bool>>;

    /// Puts the visible rows into this order. Durable.
    fn reorder(&self, thread: ThreadId, rows: Vec<RowId>, at_ms: i64) -> Work<LaneView>;

    /// Puts one visible row elsewhere. Durable.
    fn move_row(&self, to: Move) -> Work<Changed<Row>>;

    /// Makes a failed row wait again in its place; the head when none is named. Durable.
    fn retry_row(&self, thread: ThreadId, row: Option<RowId>, at_ms: i64) -> Work<Changed<Row>>;

    /// Stops the lane's claims, unless they are stopped. Durable.
    fn pause(&self, thread: ThreadId, paused: Paused) -> Work<LaneView>;

    /// Ends a pause and a wait, if there are any. Durable.
    fn resume(&self, thread: ThreadId, at_ms: i64) -> Work<LaneView>;

    /// Ends a pause that has this reason; another pause and a wait stay. Durable.
    fn end_pause(&self, thread: ThreadId, reason: String) -> Work<LaneView>;

    /// Ends the waits for a login that began under another stamp of the same file, of at most so many
    /// lanes that are ours or have no owner; the threads. Pauses stay. Durable.
    fn end_login_waits(&self, login: LoginStamp, limit: u32) -> Work<Vec<ThreadId>>;

    /// Some visible rows and the lane, in one picture.
    fn queue(&self, query: QueueQuery) -> Work<QueuePage>;

    /// One row in any state.
    fn row(&self, thread: ThreadId, row: RowId) -> Work<Option<Row>>;

    /// The thread whose lane has this row, in any state; a row may move to the successor of its
    /// thread.
    fn thread_of_row(&self, row: RowId) -> Work<Option<ThreadId>>;

    /// The row that is this turn or will become it.
    fn row_of_turn(&self, thread: ThreadId, turn: TurnId) -> Work<Option<Row>>;

    // The lane and its owner.

    /// A picture of one lane.
    fn look(&self, thread: ThreadId) -> Work<LaneView>;

    /// Makes a lane ours that is nobody's, ours or a dead worker's without a row under way. A lane
    /// that a dead worker left with one must be recovered first. Visible.
    fn take(&self, thread: ThreadId) -> Work<Taken>;

    /// Makes a lane nobody's that is ours and runs nothing. Visible.
    fn release(&self, grip: Grip) -> Work<()>;

    /// Lanes with something to claim at that time, at most so many.
    fn ready(&self, now_ms: i64, limit: u32) -> Work<Ready>;

    /// The lanes that are ours.
    fn owned(&self) -> Work<Vec<OwnedLane>>;

    // Turns. From a claim on, every write needs the grip that the claim gave.

    /// Begins a turn at once, or adds it to the queue. Durable.
    fn start_turn(&self, start: StartTurn) -> Work<Started>;

    /// Claims a row. Visible.
    fn claim(&self, claim: Claim) -> Work<Claimed<ClaimedRow>>;

    /// Notes that a foreign engine may see a claimed or started row from now on, with this worker's
    /// boot. Durable.
    fn mark_sent(&self, grip: Grip, row: RowId, at_ms: i64) -> Work<()>;

    /// Accepts a claimed row as a turn. Durable.
    fn accept(&self, grip: Grip, row: RowId, accepting: Accepting, at_ms: i64) -> Work<Accepted>;

    /// Deals with a claimed row that will not be accepted. Durable.
    fn unclaim(&self, grip: Grip, row: RowId, how: CannotStart, at_ms: i64) -> Work<Refused>;

    /// Claims and accepts in one transaction. Durable.
    fn claim_and_accept(&self, claim: Claim, accepting: Accepting) -> Work<Claimed<Accepted>>;

    /// Adds an item to the running turn. Durable.
    fn add_steer(&self, grip: Grip, item: ItemRow) -> Work<()>;

    /// Writes what a turn has produced.
    fn put(&self, grip: Grip, put: Put, level: Level) -> Work<()>;

    /// Ends a turn that runs, or one that an engine was asked about. Durable.
    fn complete(&self, complete: Complete) -> Work<Changed<Row>>;

    /// What the model is sent.
    fn history(&self, thread: ThreadId) -> Work<History>;

    /// What the model is sent behind what was read before, or everything if that does not hold.
    fn history_behind(&self, thread: ThreadId, known: HistoryEnd) -> Work<Later>;

    /// One turn.
    fn turn(&self, thread: ThreadId, turn: TurnId) -> Work<Option<TurnRow>>;

    /// Some turns; the page's place is a turn's number.
    fn turns(&self, query: TurnQuery) -> Work<Page<TurnRow, i64>>;

    /// Some items; the page's place is an item's number.
    fn items(&self, query: ItemQuery) -> Work<Page<ItemRow, i64>>;

    /// One item; the first of that id.
    fn item(&self, thread: ThreadId, item: String) -> Work<Option<ItemRow>>;

    /// What is shown of turns in short: of each the first userMessage and the last agentMessage.
    fn summaries(&self, thread: ThreadId, turn_ords: Vec<i64>) -> Work<Vec<ItemRow>>;

    /// Some approvals.
    fn approvals(&self, query: ApprovalQuery) -> Work<Vec<ApprovalRow>>;

    // Recovery and upkeep.

    /// Takes over lanes of dead workers, decides about their rows, resolves their open approvals,
    /// cancels waiting rows bound to those workers, and removes those that own nothing any more.
    /// Durable when something was found.
    fn recover(&self, recover: Recover) -> Work<Recovered>;

    /// The turn of the row that is being decided, as its acceptance showed it.
    fn undecided(&self, grip: Grip) -> Work<AcceptedTurn>;

    /// Records the decision about a row that an engine was asked about. Durable.
    fn decide(&self, grip: Grip, row: RowId, decision: Decision, at_ms: i64) -> Work<LaneView>;

    /// Ends waits without a time of lanes that are nobody's: a restart counts as somebody having
    /// acted. Durable when there were any.
    fn end_endless_waits(&self) -> Work<u32>;

    /// Threads that nothing happened on for a while, the oldest first.
    fn idle_threads(&self, query: IdleQuery) -> Work<Vec<IdleThread>>;

    /// Deletes a thread with all it has if it is nobody's or ours, nothing waits, runs or asks there,
    /// and nothing happened on it since that time; else changes nothing and is false. Durable.
    fn delete_if_idle(&self, thread: ThreadId, before_ms: i64) -> Work<bool>;

    /// Deletes at most 1,000 rows that ended before that time; the number of deleted ones. Visible.
    fn prune(&self, ended_before_ms: i64) -> Work<u32>;
}
