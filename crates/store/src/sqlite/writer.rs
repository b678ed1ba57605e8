//! The one thread that writes.
//!
//! The invariant here: operations are carried out in the order of submission, and none is answered
//! before the transaction that holds it was committed. What the disk refused is refused to the
//! callers, and stays refused as long as this process lives: a connection that met an error is
//! replaced by a new one before it is closed, so that SQLite never reads the log afresh and finds
//! a commit in it that nobody was told about.
//!
//! After a sync that failed, the system may hold pages of the log for written that are not on the
//! disk: visible commits before it, which a later sync would not write again. A durable commit
//! behind such a hole would be lost with the machine, since the log is read up to the first hole.
//! So nothing is committed after an error before the log was copied home and emptied, which writes
//! everything anew and elsewhere. That takes the refused commit out of the log as well.
//!
//! A lock of another process is waited for, bounded by the connection's wait; then the batch is refused
//! with the name of that process, and the next batch tries again.
//!
//! Theory of operation: the thread takes everything that waits, at most `BATCH_MAX` operations,
//! without waiting for more; while nothing waits it looks every 200 ms whether another process
//! committed, whether a lock is gone and whether the disk is free again. It ends when the queue is closed and empty: then
//! it ends the readers and the checkpoint thread, closes the connection last, which copies the log
//! home unless it is short and may stay, and lets go of the worker's lock. A batch is bounded by its operations only, not by their
//! bytes: the callers bound what they submit.

mod denied;
mod erasing;
mod locked;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use crate::error::{LockHolder, Source, StoreError};
use crate::sqlite::batch::{Batch, Left, Trouble};
use crate::sqlite::checkpoint::{self, Due, LogWatch};
use crate::sqlite::disk::Disk;
use crate::sqlite::log_room::LogRoom;
use crate::sqlite::open::{self, Place, Purpose};
use crate::sqlite::strikes::Strikes;
use crate::sqlite::waiting::{Taken, Waiting};
use crate::sqlite::worker_lock::HeldLock;
use crate::sqlite::{Shared, Tally, readers};
use crate::turn::Level;
use crate::worker::Health;
use erasing::Erasing;

/// How many operations one transaction holds at most.
const BATCH_MAX: usize = 512;

/// How soon a change by another process is noticed while nothing else happens.
const IDLE: Duration = Duration::from_millis(200);

/// The writing thread's own.
pub(super) struct Writer {
    shared: Arc<Shared>,
    place: Place,
    connection: Connection,
    // What the connection is set to; unknown when it is new.
    level: Option<Level>,
    // What the log holds may not be on the disk although it was synced.
    log_has_holes: bool,
    data_version: Option<i64>,
    disk: Disk,
    strikes: Strikes,
    // The process that held a lock when we last wanted to write, until a write succeeds.
    locked_by: Option<LockHolder>,
    // The system did not let us write when we last wanted to, until a write succeeds.
    denied: bool,
    erasing: Erasing,
    log: LogWatch,
    log_room: LogRoom,
    // Where the checkpoint thread is asked, once there is one: a short life needs none.
    checkpoints: Option<Arc<Waiting<()>>>,
    others: Vec<JoinHandle<()>>,
    // Let go of last.
    held: Option<HeldLock>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        place: Place,
        disk: Disk,
        log: LogWatch,
        held: HeldLock,
    ) -> Self {
        // Taken before anybody can look: from here on a change by somebody else counts.
        let data_version = data_version(&connection);
        let log_room = LogRoom::beside(&place);
        Self {
            shared,
            place,
            connection,
            level: None,
            log_has_holes: false,
            data_version,
            disk,
            strikes: Strikes::default(),
            locked_by: None,
            denied: false,
            erasing: Erasing::new(),
            log,
            log_room,
            checkpoints: None,
            others: Vec::new(),
            held: Some(held),
        }
    }

    /// Ends this thread before the writer ends.
    pub(super) fn joins(&mut self, thread: JoinHandle<()>) {
        self.others.push(thread);
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut left = None;
        loop {
            match self.shared.writes.take(BATCH_MAX, Some(IDLE)) {
                Taken::Jobs(jobs) => left = self.deal_with(Batch::of(jobs)).or(left),
                Taken::Idle => {
                    self.look_at_lock();
                    self.look_at_rights();
                    self.look_at_disk();
                    self.go_on_erasing();
                }
                Taken::Over => break,
            }
            // While another process holds a lock nobody writes, and looking might wait for it.
            if self.locked_by.is_none() {
                self.notice_others();
            }
        }
        self.end(left);
    }

    fn deal_with(&mut self, mut batch: Batch) -> Option<Left> {
        self.look_at_disk();
        if self.strikes.are_out() {
            batch.refuse_all(|_| StoreError::WritesOff);
        } else if let Some(source) = self.disk.full() {
            batch.refuse_new(source);
        }
        if batch.to_run() > 0 {
            self.carry_out(&mut batch);
        }
        self.erase_deleted();
        let settled = batch.settle();
        for read in settled.reads {
            readers::answer(&self.connection, &self.shared, read);
        }
        match self.log.due() {
            Due::Nothing => {}
            Due::Ask => self.ask_for_checkpoint(),
            Due::Here => {
                let copied = checkpoint::copy_log(&self.connection, &self.shared);
                self.log_has_holes |= copied.is_err();
            }
        }
        settled.left
    }

    /// Has the log copied by the thread for that, which is started at the first time.
    fn ask_for_checkpoint(&mut self) {
        if self.checkpoints.is_none() {
            let asked = Arc::new(Waiting::new());
            let (place, shared) = (self.place.clone(), Arc::clone(&self.shared));
            let queue = Arc::clone(&asked);
            match open::spawn("store-log", move || {
                checkpoint::run(&place, &queue, &shared);
            }) {
                Ok(thread) => self.joins(thread),
                // The log grows until the writer copies it.
                Err(error) => tracing::warn!(%error, "nobody copies the log"),
            }
            self.checkpoints = Some(asked);
        }
        if let Some(checkpoints) = &self.checkpoints {
            // Asked already is as good.
            let _ = checkpoints.push((), Some(1));
        }
    }

    /// Tries until the batch is committed or everything in it is refused.
    fn carry_out(&mut self, batch: &mut Batch) {
        // Each turn of the loop leaves fewer operations to run, uses up the ballast, or puts up the
        // savepoints.
        while batch.to_run() > 0 {
            let trouble = match self.attempt(batch) {
                Ok(()) => return,
                Err(trouble) => self.sorted(trouble),
            };
            match trouble {
                Trouble::Spoiled(index, error) => batch.refuse_one(index, error),
                Trouble::HalfDone => batch.use_savepoints(),
                Trouble::Full(source) => {
                    // Only a sync or the shared memory fails like this.
                    self.log_has_holes |= is_io(&source);
                    let again = self.disk.found_full(source.clone());
                    let source = self.disk.full().cloned().unwrap_or(source);
                    self.tell_health();
                    if again {
                        batch.refuse_new(&source);
                    } else {
                        batch.refuse_all(|_| StoreError::DiskFull {
                            source: source.clone(),
                        });
                    }
                }
                Trouble::Busy(source) => {
                    let holder = self.found_locked();
                    batch.refuse_all(|doing| StoreError::Locked {
                        doing,
                        holder: holder.clone(),
                        source: source.clone(),
                    });
                }
                Trouble::Denied(source) => {
                    let error = self.found_denied(source);
                    batch.refuse_all(|_| error.clone());
                }
                Trouble::Broken(source) => {
                    batch.refuse_all(failed(&source));
                    self.broken(&source);
                }
            }
            self.shared.tally.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn attempt(&mut self, batch: &mut Batch) -> Result<(), Trouble> {
        let (level, operations) = (batch.level(), batch.to_run());
        self.close_holes().map_err(Trouble::of)?;
        if self.level != Some(level) {
            let word = match level {
                Level::Durable => "FULL",
                Level::Visible => "NORMAL",
            };
            let set = self.connection.pragma_update(None, "synchronous", word);
            set.map_err(|error| Trouble::Broken(Arc::new(error)))?;
            self.level = Some(level);
        }
        let (log, room) = (&self.log, &mut self.log_room);
        // What little room a full disk has is for what must be written.
        let is_full = self.disk.full().is_some();
        let make_room = || {
            if !is_full {
                room.make(log.pages());
            }
        };
        let took = batch.attempt(&self.shared.db(&self.connection), make_room)?;
        self.shared.tally.committed(level, operations, took);
        self.found_unlocked();
        self.found_writable();
        Ok(())
    }

    /// A disk that is full may fail without saying so.
    fn sorted(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Broken(source) if is_io(&source) && self.disk.is_out_of_room() => {
                Trouble::Full(source)
            }
            other => other,
        }
    }

    /// Empties the log if it may have holes.
    fn close_holes(&mut self) -> rusqlite::Result<()> {
        if self.log_has_holes {
            checkpoint::empty_log(&self.connection)?;
            self.log_has_holes = false;
        }
        Ok(())
    }

    /// Replaces the connection after an error, and stops writing when that happens too often.
    fn broken(&mut self, source: &Source) {
        tracing::error!(error = %source, "a transaction failed and was refused");
        if self.strikes.add(monotonic()) {
            tracing::error!("writing failed too often and is off until the next start");
        }
        self.tell_health();
        if let Place::Memory = self.place {
            return;
        }
        // The old one is without a transaction and may still do.
        self.reconnect();
        self.log_has_holes = true;
        // At once, while the system still remembers what it did not write; else the next batch
        // tries again before it does anything.
        if let Err(error) = self.close_holes() {
            tracing::error!(%error, "the log cannot be emptied");
        }
    }

    /// Replaces the connection; whether that was possible.
    fn reconnect(&mut self) -> bool {
        let opened = open::connect(&self.place, Purpose::Write).and_then(|mut connection| {
            self.log.follow(&mut connection)?;
            // Joins those who use the shared memory before the old connection leaves them.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => {
                // The old one is closed here and not before. A connection that closes as the last
                // one lets go of the shared memory, and when it cannot empty the log, the next one
                // reads the refused commit out of it.
                self.connection = connection;
                self.level = None;
                self.data_version = None;
                true
            }
            Err(error) => {
                tracing::error!(%error, "the database cannot be opened again");
                false
            }
        }
    }

    fn look_at_disk(&mut self) {
        self.disk.look(monotonic());
        self.tell_health();
    }

    fn tell_health(&self) {
        let health = if self.strikes.are_out() {
            Health::WritesOff
        } else if self.locked_by.is_some() {
            Health::Locked
        } else if self.denied {
            Health::NotWritable
        } else {
            self.disk.health()
        };
        self.shared.health.send_if_modified(|known| {
            let changed = *known != health;
            if changed {
                tracing::info!(?health, "the store's health changed");
                *known = health;
            }
            changed
        });
    }

    /// Tells those who care when another process, or an unknown one, committed something.
    fn notice_others(&mut self) {
        let now = data_version(&self.connection);
        // Not known counts as changed: looking once too often harms nobody.
        if now.is_none() || now != self.data_version {
            self.shared.foreign.send_modify(|count| *count += 1);
        }
        self.data_version = now;
    }

    /// Has the close leave a log that may stay. One that may have holes never does: a commit that was
    /// refused would be found in it.
    fn leave_log(&self) {
        if !self.log.may_stay() || self.log_has_holes || self.strikes.any() {
            return;
        }
        let stays = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(stays, true) {
            tracing::debug!(%error, "the log is copied home");
        }
    }

    fn end_others(&self) {
        self.shared.reads.close();
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.close();
        }
    }

    fn end(mut self, left: Option<Left>) {
        self.end_others();
        for thread in self.others.drain(..) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
        self.leave_log();
        let held = self.held.take();
        // Closes the connection, as the last one of this process.
        drop(self);
        let Some(left) = left else {
            return;
        };
        match held {
            // The worker's row is gone, so its file goes too.
            Some(held) if left.well => held.remove(),
            held => drop(held),
        }
        // Whoever asked may have gone.
        let _ = left.ended.send(());
    }
}

impl Drop for Writer {
    /// Also when the thread panics: nobody may wait for an answer that never comes.
    fn drop(&mut self) {
        self.shared.writes.abandon();
        self.end_others();
    }
}

impl Tally {
    fn committed(&self, level: Level, operations: usize, took: Option<Duration>) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if level == Level::Durable {
            self.durable_commits.fetch_add(1, Ordering::Relaxed);
            if let Some(took) = took {
                self.syncs.add(took);
            }
        }
        self.operations
            .fetch_add(operations as u64, Ordering::Relaxed);
    }
}

/// A number that moves when another connection commits. Only on the connection that writes do our
/// own commits not count.
fn data_version(connection: &Connection) -> Option<i64> {
    let read = connection.prepare_cached("PRAGMA data_version");
    let version = read.and_then(|mut statement| statement.query_row([], |row| row.get(0)));
    version
        .inspect_err(|error| tracing::warn!(%error, "cannot tell whether another process wrote"))
        .ok()
}

fn failed(source: &Source) -> impl Fn(&'static str) -> StoreError {
    move |doing| StoreError::Failed {
        doing,
        source: source.clone(),
    }
}

fn is_io(source: &Source) -> bool {
    let error = source.downcast_ref::<rusqlite::Error>();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::SystemIoFailure)
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how far failures lie apart and how long commits take; nothing of it is stored"
)]
pub(super) fn monotonic() -> Instant {
    Instant::now()
}
