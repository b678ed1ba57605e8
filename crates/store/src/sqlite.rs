//! The store in one SQLite file, shared by the processes of one machine.
//!
//! This module owns the connections, the threads they live on and the files beside the database.
//! Its invariant: one thread writes, in the order of submission, many operations per commit, and
//! answers after the commit; reads run on connections of their own and delay nobody, unless the
//! store was opened without any. Everything
//! SQLite may do behind our back is decided here: when it syncs, when it copies its log, what
//! happens on a full disk and after an error.
//!
//! The SQL of the operations is in the modules named after their subject; each is a function over
//! `Db` that knows nothing of threads.

mod approvals;
mod ballast;
mod batch;
mod binding;
mod checkpoint;
mod claim;
mod disk;
mod ends;
mod fanout;
mod fault;
mod filesystem;
#[cfg(test)]
mod fixture;
mod forks;
mod history;
mod inspect;
mod lane;
mod lock_holder;
mod log_room;
mod migrate;
mod open;
mod options;
mod order;
mod owner;
#[cfg(test)]
mod plans;
mod queue;
mod readers;
mod recovery;
mod rows;
mod start;
mod statement;
mod store_impl;
mod strikes;
mod sync_times;
mod task;
#[cfg(test)]
mod tests;
mod threads;
mod turns;
mod upkeep;
mod values;
mod waiting;
mod worker_life;
mod worker_lock;
mod writer;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::census::Times;
use crate::error::StoreError;
use crate::ids::{ThreadId, WorkerId};
use crate::store::Work;
use crate::turn::Level;
use crate::worker::{Health, WorkerLife};
use batch::Job;
use sync_times::SyncTimes;
use task::{Task, task};
use waiting::{WAITING_MAX, Waiting};
use worker_lock::{LockState, WorkerLocks};

pub use inspect::{Inspection, inspect, try_write};
pub use options::{LogAtClose, Options, ROOM_NEEDED_BYTES};
pub use upkeep::{Check, Size, UnjudgedLane, backup, check, compact, size, unjudged_lanes};

/// A store in one SQLite file.
///
/// Dropping it without [`close`](crate::Store::close) is a crash as others see it: what was
/// submitted is still carried out, then the worker counts as dead and its row stays.
pub struct SqliteStore {
    shared: Arc<Shared>,
    /// Not held by this: a worker that can write no more must not look alive.
    lock: Weak<File>,
}

/// What an operation gets: the connection inside its transaction, who we are, and who is dead.
pub(crate) struct Db<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) me: WorkerId,
    locks: &'a WorkerLocks,
}

impl Db<'_> {
    /// Whether a worker can never write again. This worker is never dead.
    pub(crate) fn is_dead(&self, worker: WorkerId) -> bool {
        self.life(worker) == WorkerLife::Dead
    }

    /// Whether a worker may still write; this worker may.
    pub(crate) fn life(&self, worker: WorkerId) -> WorkerLife {
        if worker == self.me {
            return WorkerLife::Alive;
        }
        let lock_file = match self.locks.state(worker) {
            LockState::Free => return WorkerLife::Dead,
            LockState::Held => return WorkerLife::Alive,
            LockState::Denied(lock_file) => lock_file,
        };
        // A record that cannot be read says nothing.
        let row = owner::worker(self, worker).ok().flatten();
        let evidence = worker_life::evidence(row.as_ref(), &lock_file);
        worker_life::judge(row.as_ref(), &evidence)
    }

    /// Whether this lane's undecided owner is told for the first time.
    pub(crate) fn tells_first(&self, thread: ThreadId) -> bool {
        self.locks.tells_first(thread)
    }
}

/// What becomes of an operation when there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Brings in new work: refused on a full disk and when too many operations wait.
    Refusable,
    /// Records what has happened: written into the room that the ballast kept.
    Kept,
}

/// What kind of operation it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Whether its commit waits for the disk.
    pub(crate) level: Level,
    /// What becomes of it when there is little room.
    pub(crate) class: Class,
    /// A verb phrase for errors: "claim a turn".
    pub(crate) doing: &'static str,
}

/// How often the store did what, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Transactions that were committed.
    pub commits: u64,
    /// Those of them that waited for the disk.
    pub durable_commits: u64,
    /// Operations in them, refused ones included.
    pub operations: u64,
    /// Attempts at a transaction that failed.
    pub failed_attempts: u64,
    /// Copies of the log into the database.
    pub checkpoints: u64,
}

/// [`Counts`] while they are counted.
#[derive(Debug, Default)]
struct Tally {
    commits: AtomicU64,
    durable_commits: AtomicU64,
    operations: AtomicU64,
    refused: AtomicU64,
    checkpoints: AtomicU64,
    syncs: SyncTimes,
}

/// What the store and its threads share.
struct Shared {
    me: WorkerId,
    locks: WorkerLocks,
    writes: Waiting<Job>,
    reads: Waiting<Box<dyn Task>>,
    // Without readers, as a database in memory is, reads wait in line with the writes.
    reads_with_writes: bool,
    health: watch::Sender<Health>,
    foreign: watch::Sender<u64>,
    tally: Tally,
    // Set by operations that delete what people wrote; cleared by the writer.
    erased: AtomicBool,
}

impl Shared {
    fn new(me: WorkerId, locks: WorkerLocks, readers: usize, health: Health) -> Self {
        Self {
            me,
            locks,
            writes: Waiting::new(),
            reads: Waiting::new(),
            reads_with_writes: readers == 0,
            health: watch::Sender::new(health),
            foreign: watch::Sender::new(0),
            tally: Tally::default(),
            erased: AtomicBool::new(false),
        }
    }

    fn db<'a>(&'a self, connection: &'a Connection) -> Db<'a> {
        Db {
            connection,
            me: self.me,
            locks: &self.locks,
        }
    }
}

impl SqliteStore {
    /// How often the store did what.
    pub fn counts(&self) -> Counts {
        let tally = &self.shared.tally;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            commits: count(&tally.commits),
            durable_commits: count(&tally.durable_commits),
            operations: count(&tally.operations),
            failed_attempts: count(&tally.refused),
            checkpoints: count(&tally.checkpoints),
        }
    }

    /// How long commits took that waited for the disk.
    pub(crate) fn sync_times(&self) -> Times {
        self.shared.tally.syncs.read()
    }

    /// One more handle of the worker's lock; none in memory and once the store has ended.
    ///
    /// The worker counts as alive until every handle is closed, so whoever outlives this process to
    /// end the processes that it started holds one until they are gone.
    pub fn worker_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = self.lock.upgrade();
        let copy = lock.map(|file| file.try_clone()).transpose()?;
        Ok(copy.map(OwnedFd::from))
    }

    /// Submits a write. It may run more than once, in transactions of which only the last counts.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Fn(&Db<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Work<T> {
        let limit = match op.class {
            Class::Refusable => Some(WAITING_MAX),
            // Its submitters wait for room first.
            Class::Kept => None,
        };
        let (task, end) = task(op, work);
        match self.shared.writes.push(Job::Write(task), limit) {
            Ok(()) => end,
            Err(error) => refused(error),
        }
    }

    /// Submits a read, which runs in one deferred transaction.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl Fn(&Db<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Work<T> {
        let op = Op {
            level: Level::Visible,
            class: Class::Refusable,
            doing,
        };
        let (task, end) = task(op, work);
        let pushed = if self.shared.reads_with_writes {
            self.shared.writes.push(Job::Read(task), Some(WAITING_MAX))
        } else {
            self.shared.reads.push(task, Some(WAITING_MAX))
        };
        match pushed {
            Ok(()) => end,
            Err(error) => refused(error),
        }
    }

    /// The worker that this open store is.
    pub(crate) fn worker(&self) -> WorkerId {
        self.shared.me
    }

    /// Ends when fewer operations wait than should.
    pub(crate) fn room(&self) -> Work<()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.writes.room().await })
    }

    /// Ends when everything submitted before is visible to reads.
    pub(crate) fn flush(&self) -> Work<()> {
        let (mark, reached) = oneshot::channel();
        match self.shared.writes.push(Job::Mark(mark), None) {
            Ok(()) => Box::pin(async move { reached.await.unwrap_or(Err(StoreError::Closed)) }),
            Err(error) => refused(error),
        }
    }

    /// Whether the store takes writes, and every change of that.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.subscribe()
    }

    /// Counts the times that another process may have changed something.
    pub(crate) fn foreign_changes(&self) -> watch::Receiver<u64> {
        self.shared.foreign.subscribe()
    }

    /// Carries out a last write behind everything submitted, then ends the threads and, if the
    /// write succeeded, removes the worker's lock. Ends when all that has happened; what is
    /// submitted later is answered with `Closed`, a second call too.
    pub(crate) fn shut_down(
        &self,
        last: impl Fn(&Db<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Work<()> {
        let op = Op {
            level: Level::Visible,
            class: Class::Kept,
            doing: "close the store",
        };
        let (task, end) = task(op, last);
        let (ended, threads_ended) = oneshot::channel();
        if let Err(error) = self.shared.writes.push_last(Job::Last(task, ended)) {
            return refused(error);
        }
        Box::pin(async move {
            let end = end.await;
            // Also when the writer died: then there is nothing more to wait for.
            let _ = threads_ended.await;
            end
        })
    }

    /// Removes, later, the locks of workers whose rows were deleted, except of those that live after
    /// all.
    pub(crate) fn forgetting_worker_files(&self) -> impl FnOnce(&[WorkerId]) + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move |workers| {
            for worker in workers.iter().filter(|worker| **worker != shared.me) {
                shared.locks.forget_dead(*worker);
            }
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shared.writes.close();
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("worker", &self.shared.me)
            .finish_non_exhaustive()
    }
}

/// The end of an operation that was not taken in.
fn refused<T: Send + 'static>(error: StoreError) -> Work<T> {
    Box::pin(std::future::ready(Err(error)))
}
