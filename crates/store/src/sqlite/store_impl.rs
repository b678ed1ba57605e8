//! The store's methods over SQLite: which function carries each out, how durable, how urgent.
//!
//! The invariant here: every method is submitted as exactly one operation. What brings in new work
//! is refused on a full disk; what records work under way is kept.
//!
//! The operations themselves are in the modules named after their subject.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::fault::Fault;
use super::{
    Class, Db, Op, SqliteStore, approvals, binding, claim, forks, history, lane, order, owner,
    queue, recovery, rows, start, threads, turns,
};
use crate::approval::{ApprovalQuery, ApprovalRow};
use crate::census::{Census, Times};
use crate::ids::{Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::lane::{Changed, LaneView, LoginStamp, OwnedLane, Paused, Ready, Taken};
use crate::queue::{
    Accepting, Append, Appended, CannotStart, Claim, Claimed, ClaimedRow, Move, QueuePage,
    QueueQuery, Row, Update,
};
use crate::recovery::{Decision, Recover, Recovered};
use crate::store::{Store, Work};
use crate::thread::{
    BoundThread, Fork, IdleQuery, IdleThread, NewThread, Page, Successor, Supersede, ThreadChange,
    ThreadCopy, ThreadPlace, ThreadQuery, ThreadRow, UpTo,
};
use crate::turn::{
    Accepted, AcceptedTurn, Complete, History, HistoryEnd, ItemQuery, ItemRow, Later, Level, Put,
    Refused, StartTurn, Started, TurnQuery, TurnRow,
};
use crate::worker::{Health, Worker};

/// Brings in new work; on disk when it ends.
pub(super) const fn new(doing: &'static str) -> Op {
    Op {
        level: Level::Durable,
        class: Class::Refusable,
        doing,
    }
}

/// Changes or ends what is there; on disk when it ends.
pub(super) const fn kept(doing: &'static str) -> Op {
    Op {
        level: Level::Durable,
        class: Class::Kept,
        doing,
    }
}

/// The same operation, without waiting for the disk.
pub(super) const fn visible(op: Op) -> Op {
    Op {
        level: Level::Visible,
        ..op
    }
}

impl SqliteStore {
    pub(super) fn change<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Fn(&Db<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Work<T> {
        let doing = op.doing;
        self.write(op, move |db| {
            work(db).map_err(|fault| fault.while_trying_to(doing))
        })
    }

    /// As [`change`](Self::change), for what deletes text of people: the log is emptied after it.
    fn erase<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Fn(&Db<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Work<T> {
        let shared = Arc::clone(&self.shared);
        self.change(op, move |db| {
            shared.erased.store(true, Ordering::Relaxed);
            work(db)
        })
    }

    pub(super) fn find<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl Fn(&Db<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Work<T> {
        self.read(doing, move |db| {
            work(db).map_err(|fault| fault.while_trying_to(doing))
        })
    }
}

impl Store for SqliteStore {
    fn worker(&self) -> WorkerId {
        self.worker()
    }

    fn worker_row(&self, worker: WorkerId) -> Work<Option<Worker>> {
        self.find("read a worker", move |db| owner::worker(db, worker))
    }

    fn room(&self) -> Work<()> {
        self.room()
    }

    fn flush(&self) -> Work<()> {
        self.flush()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health()
    }

    fn foreign_changes(&self) -> watch::Receiver<u64> {
        self.foreign_changes()
    }

    fn census(&self) -> Work<Census> {
        self.find("count the lanes", lane::census)
    }

    fn sync_times(&self) -> Times {
        self.sync_times()
    }

    fn close(&self) -> Work<()> {
        self.shut_down(|db| {
            recovery::leave(db).map_err(|fault| fault.while_trying_to("close the store"))
        })
    }

    fn create_thread(&self, thread: NewThread) -> Work<ThreadRow> {
        let op = new("create a thread");
        self.change(op, move |db| threads::create(db, &thread))
    }

    fn bind_thread(&self, thread: NewThread) -> Work<BoundThread> {
        let op = new("bind a thread");
        self.change(op, move |db| binding::bind(db, &thread))
    }

    fn supersede(&self, supersede: Supersede) -> Work<Changed<Successor>> {
        let op = new("supersede a thread");
        self.change(op, move |db| binding::supersede(db, &supersede))
    }

    fn fork_thread(&self, fork: Fork) -> Work<ThreadRow> {
        let op = new("fork a thread");
        self.change(op, move |db| forks::fork(db, &fork))
    }

    fn copy_thread(&self, thread: ThreadId, upto: UpTo) -> Work<ThreadCopy> {
        self.find("copy a thread", move |db| forks::copy(db, thread, upto))
    }

    fn paste_thread(&self, to: NewThread, copy: ThreadCopy) -> Work<ThreadRow> {
        let op = new("paste a thread");
        self.change(op, move |db| forks::paste(db, &to, &copy))
    }

    fn change_thread(&self, change: ThreadChange) -> Work<Changed<ThreadRow>> {
        let op = kept("change a thread");
        self.change(op, move |db| threads::change(db, &change))
    }

    fn delete_thread(&self, thread: ThreadId) -> Work<()> {
        let op = kept("delete a thread");
        self.erase(op, move |db| threads::delete(db, thread))
    }

    fn revert_thread(&self, thread: ThreadId, from_turn_ord: i64, at_ms: i64) -> Work<()> {
        let op = kept("revert a thread");
        self.erase(op, move |db| {
            threads::revert(db, thread, from_turn_ord, at_ms)
        })
    }

    fn thread(&self, thread: ThreadId) -> Work<Option<ThreadRow>> {
        self.find("read a thread", move |db| threads::thread(db, thread))
    }

    fn threads(&self, query: ThreadQuery) -> Work<Page<ThreadRow, ThreadPlace>> {
        self.find("list threads", move |db| threads::threads(db, &query))
    }

    fn lanes(&self, threads: Vec<ThreadId>) -> Work<Vec<LaneView>> {
        self.find("look at lanes", move |db| lane::look_at(db, &threads))
    }

    fn append(&self, append: Append) -> Work<Changed<Appended>> {
        let op = new("add a queued turn");
        self.change(op, move |db| queue::append(db, &append))
    }

    fn update_row(&self, update: Update) -> Work<Changed<Row>> {
        let op = kept("update a queued turn");
        self.change(op, move |db| queue::update(db, &update))
    }

    fn delete_row(&self, thread: ThreadId, row: RowId, at_ms: i64) -> Work<Changed<bool>> {
        let op = kept("delete a queued turn");
        self.change(op, move |db| queue::delete(db, thread, row, at_ms))
    }

    fn reorder(&self, thread: ThreadId, rows: Vec<RowId>, at_ms: i64) -> Work<LaneView> {
        let op = kept("reorder a queue");
        self.change(op, move |db| order::reorder(db, thread, &rows, at_ms))
    }

    fn move_row(&self, to: Move) -> Work<Changed<Row>> {
        let op = kept("move a queued turn");
        self.change(op, move |db| order::move_row(db, &to))
    }

    fn retry_row(&self, thread: ThreadId, row: Option<RowId>, at_ms: i64) -> Work<Changed<Row>> {
        let op = kept("retry a queued turn");
        self.change(op, move |db| queue::retry(db, thread, row, at_ms))
    }

    fn pause(&self, thread: ThreadId, paused: Paused) -> Work<LaneView> {
        let op = kept("pause a queue");
        self.change(op, move |db| queue::pause(db, thread, &paused))
    }

    fn resume(&self, thread: ThreadId, _at_ms: i64) -> Work<LaneView> {
        let op = kept("resume a queue");
        self.change(op, move |db| queue::resume(db, thread))
    }

    fn end_pause(&self, thread: ThreadId, reason: String) -> Work<LaneView> {
        let op = kept("end a pause");
        self.change(op, move |db| queue::end_pause(db, thread, &reason))
    }

    fn end_login_waits(&self, login: LoginStamp, limit: u32) -> Work<Vec<ThreadId>> {
        let op = kept("end the waits for a login");
        self.change(op, move |db| lane::end_login_waits(db, &login, limit))
    }

    fn queue(&self, query: QueueQuery) -> Work<QueuePage> {
        self.find("list a queue", move |db| queue::queue(db, &query))
    }

    fn row(&self, thread: ThreadId, row: RowId) -> Work<Option<Row>> {
        self.find("read a queued turn", move |db| {
            rows::find_row(db, thread, row)
        })
    }

    fn thread_of_row(&self, row: RowId) -> Work<Option<ThreadId>> {
        self.find("find the thread of a queued turn", move |db| {
            rows::thread_of_row(db, row)
        })
    }

    fn row_of_turn(&self, thread: ThreadId, turn: TurnId) -> Work<Option<Row>> {
        self.find("read the queued turn of a turn", move |db| {
            rows::find_row_of_turn(db, thread, turn)
        })
    }

    fn look(&self, thread: ThreadId) -> Work<LaneView> {
        self.find("look at a lane", move |db| lane::look(db, thread))
    }

    fn take(&self, thread: ThreadId) -> Work<Taken> {
        let op = visible(kept("take a lane"));
        self.change(op, move |db| owner::take(db, thread))
    }

    fn release(&self, grip: Grip) -> Work<()> {
        let op = visible(kept("release a lane"));
        self.change(op, move |db| owner::release(db, grip))
    }

    fn ready(&self, now_ms: i64, limit: u32) -> Work<Ready> {
        self.find("find lanes with work", move |db| {
            owner::ready(db, now_ms, limit)
        })
    }

    fn owned(&self) -> Work<Vec<OwnedLane>> {
        self.find("find the worker's lanes", owner::owned)
    }

    fn start_turn(&self, start: StartTurn) -> Work<Started> {
        let op = new("start a turn");
        self.change(op, move |db| start::start_turn(db, &start))
    }

    fn claim(&self, claim: Claim) -> Work<Claimed<ClaimedRow>> {
        let op = visible(new("claim a turn"));
        self.change(op, move |db| claim::claim(db, &claim))
    }

    fn mark_sent(&self, grip: Grip, row: RowId, at_ms: i64) -> Work<()> {
        let op = kept("mark a queued turn as sent");
        self.change(op, move |db| claim::mark_sent(db, grip, row, at_ms))
    }

    fn accept(&self, grip: Grip, row: RowId, accepting: Accepting, at_ms: i64) -> Work<Accepted> {
        let op = kept("accept a turn");
        self.change(op, move |db| {
            claim::accept(db, grip, row, &accepting, at_ms)
        })
    }

    fn unclaim(&self, grip: Grip, row: RowId, how: CannotStart, at_ms: i64) -> Work<Refused> {
        let op = kept("give up a claim");
        self.change(op, move |db| claim::unclaim(db, grip, row, &how, at_ms))
    }

    fn claim_and_accept(&self, claim: Claim, accepting: Accepting) -> Work<Claimed<Accepted>> {
        let op = new("claim and accept a turn");
        self.change(op, move |db| {
            claim::claim_and_accept(db, &claim, &accepting)
        })
    }

    fn add_steer(&self, grip: Grip, item: ItemRow) -> Work<()> {
        let op = kept("add to a running turn");
        self.change(op, move |db| turns::add_steer(db, grip, &item))
    }

    fn put(&self, grip: Grip, put: Put, level: Level) -> Work<()> {
        let op = Op {
            level,
            ..kept("write what a turn has produced")
        };
        self.change(op, move |db| turns::put(db, grip, &put))
    }

    fn complete(&self, complete: Complete) -> Work<Changed<Row>> {
        let op = kept("complete a turn");
        self.change(op, move |db| turns::complete(db, &complete))
    }

    fn history(&self, thread: ThreadId) -> Work<History> {
        self.find("read a history", move |db| history::history(db, thread))
    }

    fn history_behind(&self, thread: ThreadId, known: HistoryEnd) -> Work<Later> {
        self.find("read on in a history", move |db| {
            history::behind(db, thread, known)
        })
    }

    fn turn(&self, thread: ThreadId, turn: TurnId) -> Work<Option<TurnRow>> {
        self.find("read a turn", move |db| rows::find_turn(db, thread, turn))
    }

    fn turns(&self, query: TurnQuery) -> Work<Page<TurnRow, i64>> {
        self.find("list turns", move |db| history::turns(db, &query))
    }

    fn items(&self, query: ItemQuery) -> Work<Page<ItemRow, i64>> {
        self.find("list items", move |db| history::items(db, &query))
    }

    fn item(&self, thread: ThreadId, item: String) -> Work<Option<ItemRow>> {
        self.find("read an item", move |db| history::item(db, thread, &item))
    }

    fn summaries(&self, thread: ThreadId, turn_ords: Vec<i64>) -> Work<Vec<ItemRow>> {
        self.find("sum turns up", move |db| {
            history::summaries(db, thread, &turn_ords)
        })
    }

    fn approvals(&self, query: ApprovalQuery) -> Work<Vec<ApprovalRow>> {
        self.find("read approvals", move |db| approvals::approvals(db, query))
    }

    /// One durable operation that writes nothing, and so syncs nothing, when nobody is dead.
    fn recover(&self, recover: Recover) -> Work<Recovered> {
        let op = kept("recover lanes");
        let sweep = self.change(op, move |db| recovery::recover(db, &recover));
        let forget_files = self.forgetting_worker_files();
        Box::pin(async move {
            let sweep = sweep.await?;
            forget_files(&sweep.gone);
            Ok(sweep.recovered)
        })
    }

    fn undecided(&self, grip: Grip) -> Work<AcceptedTurn> {
        self.find("read a turn that is being decided", move |db| {
            turns::undecided(db, grip)
        })
    }

    fn decide(&self, grip: Grip, row: RowId, decision: Decision, at_ms: i64) -> Work<LaneView> {
        let op = kept("record a decision");
        self.change(op, move |db| {
            recovery::decide(db, grip, row, &decision, at_ms)
        })
    }

    /// One durable operation that writes nothing, and so syncs nothing, when no lane waits so.
    fn end_endless_waits(&self) -> Work<u32> {
        self.change(kept("end endless waits"), owner::end_endless_waits)
    }

    fn idle_threads(&self, query: IdleQuery) -> Work<Vec<IdleThread>> {
        self.find("find idle threads", move |db| {
            threads::idle_since(db, query)
        })
    }

    fn delete_if_idle(&self, thread: ThreadId, before_ms: i64) -> Work<bool> {
        let op = kept("delete an idle thread");
        self.erase(op, move |db| threads::delete_if_idle(db, thread, before_ms))
    }

    fn prune(&self, ended_before_ms: i64) -> Work<u32> {
        let op = visible(kept("prune ended queued turns"));
        self.change(op, move |db| queue::prune(db, ended_before_ms))
    }
}
