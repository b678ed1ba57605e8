//! The owner of processes on the wire: a session of `process.v1`, or one connection of
//! `exec-server.v0`.
//!
//! A session knows its processes by their names and outlives the connection that opened it, if that
//! may come back. Its end is final: every process is ended by force and no start succeeds any more.
//! Which connection is attached, and for how long none may be, is decided by `sessions`.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use turnlane_process::End;

use super::dialect::Dialect;
use super::entry::{Asked, Entry, Slot};
use super::ready::Ready;

/// Undelivered output a process may have while its connection is there.
const WINDOW_ATTACHED_BYTES: usize = 256 * 1024;
/// And while it is not. With the chunk that is then evicted for room it is 512 KiB; of the 896 KiB
/// that are kept, 384 KiB stay for what was sent and never received.
const WINDOW_DETACHED_BYTES: usize = 448 * 1024;

/// How many processes there may be, and are.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) per_session_max: usize,
    pub(crate) total_max: usize,
    /// Of the whole server.
    pub(crate) total: Arc<AtomicUsize>,
}

/// What a session needs of its server.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) capacity: Capacity,
    /// How long the name of a closed process stays taken.
    pub(crate) retain: Duration,
    /// Told when a process closed, so that somebody forgets it in time.
    pub(crate) sweep: Arc<Notify>,
}

/// The owner of processes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) dialect: Dialect,
    pub(crate) ready: Arc<Ready>,
    around: Surroundings,
    open: Arc<AtomicUsize>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    named: HashMap<Box<str>, Arc<Entry>>,
    /// Closed, and when; oldest first.
    closed: VecDeque<(Instant, Arc<Entry>)>,
    /// Without a name any more, but with members that outlived the leader. Their containment lives
    /// as long as we hold the process.
    background: Vec<Arc<Entry>>,
    starts: u64,
    over: bool,
}

/// Why a name could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimError {
    Exists,
    Full,
    /// The session ended meanwhile.
    Over,
}

impl Session {
    pub(crate) fn new(id: String, dialect: Dialect, around: Surroundings) -> Arc<Self> {
        Arc::new(Self {
            id,
            dialect,
            ready: Arc::default(),
            around,
            open: Arc::default(),
            table: Mutex::default(),
        })
    }

    /// Takes the name of a process to be; dropping the claim gives it back.
    pub(crate) fn claim(self: &Arc<Self>, id: &str, asked: Asked) -> Result<Claim, ClaimError> {
        let forgotten = self.forget_closed();
        drop(forgotten);
        let mut table = self.lock();
        if table.over {
            return Err(ClaimError::Over);
        }
        if table.named.contains_key(id) {
            return Err(ClaimError::Exists);
        }
        table.starts += 1;
        let number = table.starts;
        let entry = self.enter(&mut table, id, number, asked)?;
        drop(table);
        Ok(Claim {
            session: Arc::clone(self),
            entry,
            kept: false,
        })
    }

    /// The same with a name of ours: `session-N`. A failed start uses up its number.
    pub(crate) fn claim_next(self: &Arc<Self>, asked: Asked) -> Result<Claim, ClaimError> {
        let mut table = self.lock();
        table.starts += 1;
        let number = table.starts;
        if table.over {
            return Err(ClaimError::Over);
        }
        let entry = self.enter(&mut table, &format!("session-{number}"), number, asked)?;
        drop(table);
        Ok(Claim {
            session: Arc::clone(self),
            entry,
            kept: false,
        })
    }

    fn enter(
        &self,
        table: &mut Table,
        id: &str,
        number: u64,
        asked: Asked,
    ) -> Result<Arc<Entry>, ClaimError> {
        let capacity = &self.around.capacity;
        let slot = Slot::take(&[
            (&self.open, capacity.per_session_max),
            (&capacity.total, capacity.total_max),
        ])
        .ok_or(ClaimError::Full)?;
        let entry = Entry::new(self.dialect, id, number, asked, &self.ready, slot);
        table.named.insert(id.into(), Arc::clone(&entry));
        Ok(entry)
    }

    /// The process with this name.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.lock().named.get(id).cloned()
    }

    /// All processes, oldest first.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        let table = self.lock();
        let all = table.named.values().chain(&table.background);
        let mut all: Vec<_> = all.cloned().collect();
        drop(table);
        all.sort_unstable_by_key(|entry| entry.number);
        all
    }

    /// Everything of a process was told: it no longer counts, unless somebody outlived its leader,
    /// and its name is free after a while; in `exec-server.v0` at once.
    pub(crate) fn closed(&self, entry: &Entry) {
        if !entry.mark_closed() {
            return;
        }
        let survived = entry.survivors() > 0;
        if !survived {
            entry.give_slot_back();
        }
        let mut table = self.lock();
        let Some(named) = table.named.get(&entry.id).cloned() else {
            return;
        };
        match self.dialect {
            Dialect::ProcessV1 => {
                table.closed.push_back((Instant::now(), named));
                drop(table);
                self.around.sweep.notify_one();
            }
            Dialect::V0 => {
                table.named.remove(&entry.id);
                if survived {
                    table.background.push(named);
                }
                // The last handle is the caller's: it is not dropped under the lock.
            }
        }
    }

    /// Forgets processes that closed long ago. They are returned: dropping one ends what is left
    /// of it, which is not done under the lock.
    fn forget_closed(&self) -> Vec<Arc<Entry>> {
        let now = Instant::now();
        let retain = self.around.retain;
        let mut forgotten = Vec::new();
        let mut table = self.lock();
        while let Some((since, _)) = table.closed.front()
            && now.duration_since(*since) >= retain
            && let Some((_, entry)) = table.closed.pop_front()
        {
            table.named.remove(&entry.id);
            forgotten.push(entry);
        }
        drop(table);
        let (kept, gone) = forgotten
            .into_iter()
            .partition(|entry: &Arc<Entry>| entry.survivors() > 0);
        self.lock().background.extend::<Vec<_>>(kept);
        gone
    }

    /// Forgets what need not be known any more; whether something is left to forget later.
    pub(crate) fn sweep(&self) -> bool {
        drop(self.forget_closed());
        let background = std::mem::take(&mut self.lock().background);
        let (kept, gone): (Vec<_>, Vec<_>) = background
            .into_iter()
            .partition(|entry| entry.survivors() > 0);
        drop(gone);
        let mut table = self.lock();
        if table.over {
            drop(table);
            end_all(&kept);
            return false;
        }
        table.background.extend(kept);
        !table.closed.is_empty() || !table.background.is_empty()
    }

    /// Its connection is gone: processes may hold a little more before they wait.
    pub(crate) fn detached(&self) {
        self.each_process(|process| process.set_window(WINDOW_DETACHED_BYTES));
    }

    /// Another connection goes on: events are held back until the first read.
    pub(crate) fn resumed(&self) {
        for entry in self.entries() {
            entry.hold();
            if let Some(process) = entry.process() {
                process.set_window(WINDOW_ATTACHED_BYTES);
            }
        }
    }

    /// Events that are still held back flow.
    pub(crate) fn release_all(&self) {
        for entry in self.entries() {
            entry.release();
        }
    }

    fn each_process(&self, act: impl Fn(&turnlane_process::Process)) {
        for entry in self.entries() {
            if let Some(process) = entry.process() {
                act(process);
            }
        }
    }

    /// Ends every process by force, survivors too; how many still ran. Again: none.
    pub(crate) fn end(&self) -> usize {
        let mut table = self.lock();
        table.over = true;
        table.closed.clear();
        let named = std::mem::take(&mut table.named);
        let background = std::mem::take(&mut table.background);
        drop(table);
        let entries: Vec<_> = named.into_values().chain(background).collect();
        end_all(&entries)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many leaders still ran.
fn end_all(entries: &[Arc<Entry>]) -> usize {
    let mut ended = 0;
    for entry in entries {
        entry.start_cancelled.cancel();
        if let Some(process) = entry.process() {
            ended += usize::from(process.end(End::Force));
        }
    }
    ended
}

/// A name that was taken for a process that does not run yet. Dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Arc<Session>,
    entry: Arc<Entry>,
    kept: bool,
}

impl Claim {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The process runs and keeps its name, unless the session or the start ended meanwhile: then
    /// `run` is not called.
    pub(crate) fn keep(mut self, run: impl FnOnce(&Entry)) -> Option<Arc<Entry>> {
        let table = self.session.lock();
        if table.over || self.entry.start_cancelled.is_cancelled() {
            return None;
        }
        run(&self.entry);
        drop(table);
        self.kept = true;
        Some(Arc::clone(&self.entry))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.entry.input.give_up();
        self.entry.give_slot_back();
        let mut table = self.session.lock();
        let is_ours = |named: &Arc<Entry>| Arc::ptr_eq(named, &self.entry);
        if table.named.get(&self.entry.id).is_some_and(is_ours) {
            table.named.remove(&self.entry.id);
        }
    }
}

#[cfg(test)]
mod tests;
