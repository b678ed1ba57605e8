//! Group commit: some operations as one transaction.
//!
//! The invariant here: an operation of the batch is answered with its value only after COMMIT has
//! returned; one that is refused changes nothing and harms no other.
//! An attempt that meets trouble leaves no transaction behind, and the batch can be tried again.
//!
//! What trouble means for the store is decided by the writer.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::crash;
use crate::error::{Source, StoreError};
use crate::sqlite::task::Task;
use crate::sqlite::writer::monotonic;
use crate::sqlite::{Class, Db, lock_holder};
use crate::turn::Level;

/// What waits for the writer.
pub(super) enum Job {
    /// An operation.
    Write(Box<dyn Task>),
    /// A read, where there are no readers; it sees what was submitted before it.
    Read(Box<dyn Task>),
    /// Somebody who wants to know when everything before is visible.
    Mark(oneshot::Sender<Result<(), StoreError>>),
    /// The last operation, and somebody who wants to know when the threads have ended.
    Last(Box<dyn Task>, oneshot::Sender<()>),
}

/// Why an attempt failed as a whole.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no room on the disk.
    Full(Source),
    /// Another process holds the database for too long.
    Busy(Source),
    /// The system does not let us write the database's files.
    Denied(Source),
    /// The database or the disk failed.
    Broken(Source),
    /// This operation took the transaction with it; the others are innocent.
    Spoiled(usize, StoreError),
    /// An operation was refused after it had changed something, and nothing can take it back alone.
    HalfDone,
}

impl Trouble {
    pub(super) fn of(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let source: Source = Arc::new(error);
        match code {
            Some(ErrorCode::DiskFull) => Self::Full(no_space()),
            // Never a fault of the disk: writing must go on when the lock is gone.
            code if lock_holder::is_lock(code) => Self::Busy(source),
            // Nothing was written; writing goes on when the rights are mended.
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::Denied(source),
            _ => Self::Broken(source),
        }
    }

    /// The trouble that an operation's error stands for, if it is more than its own.
    fn behind(error: &StoreError) -> Option<Self> {
        let (StoreError::Failed { source, .. } | StoreError::DiskFull { source }) = error else {
            return None;
        };
        match source
            .downcast_ref::<rusqlite::Error>()?
            .sqlite_error_code()
        {
            Some(ErrorCode::DiskFull) => Some(Self::Full(no_space())),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Some(Self::Denied(source.clone()))
            }
            Some(ErrorCode::SystemIoFailure) => Some(Self::Broken(source.clone())),
            _ => None,
        }
    }
}

/// What the system said when SQLite says that the disk is full: people read one text, whether the
/// disk was found full by a write or before it.
fn no_space() -> Source {
    Arc::new(std::io::Error::from(Errno::NOSPC))
}

/// How a batch ended as a whole, once it is settled.
pub(super) struct Settled {
    /// What is to be read now, each in a transaction of its own.
    pub(super) reads: Vec<Box<dyn Task>>,
    /// Set when the batch held the store's last operation.
    pub(super) left: Option<Left>,
}

/// The end of the store's last operation.
pub(super) struct Left {
    /// Who waits for the threads to end.
    pub(super) ended: oneshot::Sender<()>,
    /// Whether the operation was carried out.
    pub(super) well: bool,
}

/// Operations that are carried out and answered together.
pub(super) struct Batch {
    entries: Vec<Entry>,
    reads: Vec<Box<dyn Task>>,
    marks: Vec<oneshot::Sender<Result<(), StoreError>>>,
    // Belongs to the last entry.
    ended: Option<oneshot::Sender<()>>,
    guard: Guard,
}

/// How an operation that is refused is kept from harming its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Refusals come before the first change, nearly always; so nothing is kept to be taken back.
    /// One that comes later has the batch run again.
    Bare,
    /// Each operation has a savepoint, which costs a copy of every page it changes.
    Savepoints,
}

struct Entry {
    task: Box<dyn Task>,
    // Not to be run (again), whatever becomes of the others.
    refused: Option<StoreError>,
    // How the last run ended, if it was refused then.
    failed: Option<StoreError>,
}

impl Batch {
    pub(super) fn of(jobs: Vec<Job>) -> Self {
        let mut batch = Self {
            entries: Vec::with_capacity(jobs.len()),
            reads: Vec::new(),
            marks: Vec::new(),
            ended: None,
            guard: Guard::Bare,
        };
        for job in jobs {
            match job {
                Job::Write(task) => batch.add(task),
                Job::Read(task) => batch.reads.push(task),
                Job::Mark(mark) => batch.marks.push(mark),
                Job::Last(task, ended) => {
                    batch.add(task);
                    batch.ended = Some(ended);
                }
            }
        }
        batch
    }

    fn add(&mut self, task: Box<dyn Task>) {
        self.entries.push(Entry {
            task,
            refused: None,
            failed: None,
        });
    }

    /// How many operations are still to be carried out.
    pub(super) fn to_run(&self) -> usize {
        self.running().count()
    }

    /// Whether the commit must wait for the disk.
    pub(super) fn level(&self) -> Level {
        let durable = |entry: &Entry| entry.task.op().level == Level::Durable;
        if self.running().any(durable) {
            Level::Durable
        } else {
            Level::Visible
        }
    }

    /// Refuses what is still to be carried out and can be refused on a full disk.
    pub(super) fn refuse_new(&mut self, source: &Source) {
        for entry in self.entries.iter_mut().filter(|e| e.refused.is_none()) {
            match entry.task.op().class {
                Class::Refusable => {
                    let source = source.clone();
                    entry.refused = Some(StoreError::DiskFull { source });
                }
                Class::Kept => {}
            }
        }
    }

    /// Refuses one operation.
    pub(super) fn refuse_one(&mut self, index: usize, error: StoreError) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.refused = Some(error);
        }
    }

    /// Refuses everything that is still to be carried out; `why` is told what it tried to do.
    pub(super) fn refuse_all(&mut self, why: impl Fn(&'static str) -> StoreError) {
        for entry in self.entries.iter_mut().filter(|e| e.refused.is_none()) {
            entry.refused = Some(why(entry.task.op().doing));
        }
    }

    /// Carries out what is to be carried out, as one transaction, with `first` at its beginning, when
    /// nobody else can write; how long its commit took, unless it had nothing to write.
    pub(super) fn attempt(
        &mut self,
        db: &Db<'_>,
        first: impl FnOnce(),
    ) -> Result<Option<Duration>, Trouble> {
        let attempted = self.transaction(db, first);
        if attempted.is_err() && !db.connection.is_autocommit() {
            // If even this fails, the writer's next attempt does as well and is dealt with then.
            let _ = db.connection.execute_batch("ROLLBACK");
        }
        attempted
    }

    /// From now on an operation that is refused half-way is taken back alone.
    pub(super) fn use_savepoints(&mut self) {
        self.guard = Guard::Savepoints;
    }

    fn transaction(
        &mut self,
        db: &Db<'_>,
        first: impl FnOnce(),
    ) -> Result<Option<Duration>, Trouble> {
        let changes = db.connection.total_changes();
        execute(db.connection, "BEGIN IMMEDIATE").map_err(Trouble::of)?;
        first();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if entry.refused.is_none() {
                entry.failed = None;
                let task = entry.task.as_mut();
                entry.failed = match self.guard {
                    Guard::Bare => run_bare(db, index, task)?,
                    Guard::Savepoints => run_in_savepoint(db, index, task)?,
                };
            }
        }
        self.crash_point("before-commit");
        crash::point("commit:before");
        let writes = db.connection.total_changes() != changes;
        let began = monotonic();
        execute(db.connection, "COMMIT").map_err(Trouble::of)?;
        let took = began.elapsed();
        crash::point("commit:after");
        self.crash_point("after-commit");
        Ok(writes.then_some(took))
    }

    /// Answers everybody.
    pub(super) fn settle(self) -> Settled {
        let mut well = false;
        for entry in self.entries {
            let end = entry.refused.or(entry.failed).map_or(Ok(()), Err);
            well = end.is_ok();
            entry.task.settle(end);
        }
        for mark in self.marks {
            // Whoever asked may have gone.
            let _ = mark.send(Ok(()));
        }
        // The last operation is the last entry: nothing can be submitted behind it.
        let left = self.ended.map(|ended| Left { ended, well });
        Settled {
            reads: self.reads,
            left,
        }
    }

    fn running(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.refused.is_none())
    }

    fn crash_point(&self, side: &str) {
        for entry in self.running() {
            crash::operation(entry.task.op().doing, side);
        }
    }
}

/// Runs one operation; `Some` when it was refused before it changed anything.
fn run_bare(db: &Db<'_>, index: usize, task: &mut dyn Task) -> Result<Option<StoreError>, Trouble> {
    let changes = db.connection.total_changes();
    let Err(error) = task.run(db) else {
        return Ok(None);
    };
    if let Some(trouble) = Trouble::behind(&error) {
        return Err(trouble);
    }
    if db.connection.is_autocommit() {
        return Err(Trouble::Spoiled(index, error));
    }
    if db.connection.total_changes() != changes {
        return Err(Trouble::HalfDone);
    }
    Ok(Some(error))
}

/// Runs one operation; `Some` when it was refused and changed nothing.
fn run_in_savepoint(
    db: &Db<'_>,
    index: usize,
    task: &mut dyn Task,
) -> Result<Option<StoreError>, Trouble> {
    execute(db.connection, "SAVEPOINT operation").map_err(Trouble::of)?;
    let Err(error) = task.run(db) else {
        execute(db.connection, "RELEASE operation").map_err(Trouble::of)?;
        return Ok(None);
    };
    if let Some(trouble) = Trouble::behind(&error) {
        return Err(trouble);
    }
    // SQLite ends the whole transaction on some errors, the neighbours' work with it.
    if db.connection.is_autocommit() {
        return Err(Trouble::Spoiled(index, error));
    }
    execute(db.connection, "ROLLBACK TO operation").map_err(Trouble::of)?;
    execute(db.connection, "RELEASE operation").map_err(Trouble::of)?;
    Ok(Some(error))
}

/// Executes a statement that is kept prepared.
pub(super) fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
