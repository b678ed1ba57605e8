//! All processes of a service: who runs, who is still remembered, how much that costs.
//!
//! A process is here from its start until it is over and forgotten: it has closed, nobody is left in
//! its containment, and either its time of retention has passed, the closed ones together hold too
//! much, or no handle is left that could ask for its output. The lock is held for moments; nothing
//! of a process is called under it except its own short lock.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::counts::Counts;
use crate::driver::Shared;
use crate::error::{SpawnError, SpawnErrorKind};
use crate::process::ProcessId;

const FOREVER: Duration = Duration::from_hours(24 * 365);

pub(crate) struct Registry {
    pub(crate) counts: Counts,
    /// Told when the last process is over.
    idle: Notify,
    runtime: Handle,
    retain_after_exit: Duration,
    retained_bytes_max: usize,
    processes_max: usize,
    processes: Mutex<Processes>,
}

#[derive(Default)]
struct Processes {
    entries: BTreeMap<ProcessId, Entry>,
    last_id: u64,
    /// Started or being started, and not yet over.
    live: usize,
    /// Closed ones and when they are to be forgotten, in this order. May name some that are gone.
    closed: VecDeque<(Instant, ProcessId)>,
    /// What the closed ones hold together.
    kept: usize,
    is_stopping: bool,
    /// A task waits for the first of `closed`.
    is_timed: bool,
}

struct Entry {
    shared: Arc<Shared>,
    /// What it holds, once it has closed.
    kept: usize,
    is_over: bool,
    is_forgotten: bool,
}

/// The place of one process among those that may run at once.
pub(crate) struct Slot {
    registry: Option<Arc<Registry>>,
}

impl Slot {
    /// Gives the place back.
    pub(crate) fn release(&mut self) {
        if let Some(registry) = self.registry.take() {
            let mut processes = registry.lock();
            processes.live -= 1;
            if processes.live == 0 {
                registry.idle.notify_waiters();
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

impl Registry {
    pub(super) fn new(
        runtime: Handle,
        retain_after_exit: Duration,
        retained_bytes_max: usize,
        processes_max: usize,
    ) -> Self {
        Self {
            counts: Counts::default(),
            idle: Notify::new(),
            runtime,
            retain_after_exit,
            retained_bytes_max,
            processes_max,
            processes: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Processes> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A place for one more process.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Slot, SpawnError> {
        let mut processes = self.lock();
        if processes.is_stopping {
            return Err(stopping());
        }
        if processes.live >= self.processes_max {
            let detail = format!("at most {} at once", self.processes_max);
            return Err(SpawnError::new(SpawnErrorKind::TooManyProcesses).because(detail));
        }
        processes.live += 1;
        let registry = Some(Arc::clone(self));
        Ok(Slot { registry })
    }

    /// Takes a started process in and names it. Refused when the service stops: then nobody would
    /// end it.
    pub(super) fn enter(
        &self,
        make: impl FnOnce(ProcessId) -> Arc<Shared>,
    ) -> Result<Arc<Shared>, SpawnError> {
        let mut processes = self.lock();
        if processes.is_stopping {
            return Err(stopping());
        }
        processes.last_id += 1;
        let id = ProcessId(processes.last_id);
        let shared = make(id);
        let entry = Entry {
            shared: Arc::clone(&shared),
            kept: 0,
            is_over: false,
            is_forgotten: false,
        };
        processes.entries.insert(id, entry);
        Ok(shared)
    }

    /// Every process, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        let processes = self.lock();
        let all = processes.entries.values();
        all.map(|entry| Arc::clone(&entry.shared)).collect()
    }

    /// No process may be started from now on; all that are not over.
    pub(super) fn stop(&self) -> Vec<Arc<Shared>> {
        let mut processes = self.lock();
        processes.is_stopping = true;
        let live = processes.entries.values().filter(|entry| !entry.is_over);
        live.map(|entry| Arc::clone(&entry.shared)).collect()
    }

    /// Resolves when every process is over.
    pub(super) async fn emptied(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // From here on a notice is not missed; only then is it safe to look.
            idle.as_mut().enable();
            if self.lock().live == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Forgets everybody; drivers that still run do not need to be known.
    pub(super) fn clear(&self) {
        let entries = std::mem::take(&mut self.lock().entries);
        drop(entries);
    }

    /// A process has closed: its output is kept from now on for a while.
    pub(crate) fn closed(self: &Arc<Self>, shared: &Shared) {
        let (kept, is_owned) = {
            let state = shared.lock();
            (state.store.kept_charge(), state.is_owned)
        };
        let mut processes = self.lock();
        let Some(entry) = processes.entries.get_mut(&shared.id) else {
            return;
        };
        if !is_owned {
            entry.is_forgotten = true;
            return;
        }
        entry.kept = kept;
        processes.kept += kept;
        // Longer than can be told is as long as the service lives.
        let now = Instant::now();
        let at = now
            .checked_add(self.retain_after_exit)
            .unwrap_or(now + FOREVER);
        processes.closed.push_back((at, shared.id));
        let is_timed = std::mem::replace(&mut processes.is_timed, true);
        let gone = processes.over_budget(self.retained_bytes_max);
        drop(processes);
        release(gone);
        if !is_timed {
            self.runtime.spawn(forget_in_time(Arc::downgrade(self)));
        }
    }

    /// Nobody is left of a process that has closed.
    pub(crate) fn finished(&self, shared: &Shared) {
        let mut processes = self.lock();
        let Some(entry) = processes.entries.get_mut(&shared.id) else {
            return;
        };
        entry.is_over = true;
        if entry.is_forgotten {
            let gone = processes.remove(shared.id);
            drop(processes);
            drop(gone);
        }
    }

    /// No handle is left that could ask for the output of a process.
    pub(crate) fn disowned(&self, shared: &Shared) {
        let mut processes = self.lock();
        let gone = processes.forget(shared.id);
        drop(processes);
        release(gone);
    }

    /// Forgets whose time has passed; when to look again.
    fn forget_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut processes = self.lock();
        let mut gone = Vec::new();
        while let Some(&(at, id)) = processes.closed.front() {
            if at > now {
                break;
            }
            processes.closed.pop_front();
            gone.extend(processes.forget(id));
        }
        let next = processes.closed.front().map(|(at, _)| *at);
        processes.is_timed = next.is_some();
        drop(processes);
        release(gone);
        next
    }
}

impl Processes {
    /// Marks a closed process as forgotten and says whose output can go. One that still has
    /// survivors stays in the list.
    fn forget(&mut self, id: ProcessId) -> Option<Arc<Shared>> {
        let entry = self.entries.get_mut(&id)?;
        self.kept -= std::mem::take(&mut entry.kept);
        if entry.is_over {
            return self.remove(id);
        }
        let shared = Arc::clone(&entry.shared);
        let has_closed = shared.lock().store.closed().is_some();
        entry.is_forgotten = has_closed;
        has_closed.then_some(shared)
    }

    fn remove(&mut self, id: ProcessId) -> Option<Arc<Shared>> {
        let entry = self.entries.remove(&id)?;
        self.kept -= entry.kept;
        Some(entry.shared)
    }

    /// The oldest closed ones, as many as hold too much.
    fn over_budget(&mut self, most: usize) -> Vec<Arc<Shared>> {
        let mut gone = Vec::new();
        while self.kept > most
            && let Some((_, id)) = self.closed.pop_front()
        {
            gone.extend(self.forget(id));
        }
        gone
    }
}

/// Gives up the output of processes nobody remembers; what was not delivered stays with whoever
/// reads it.
fn release(gone: impl IntoIterator<Item = Arc<Shared>>) {
    for shared in gone {
        shared.lock().store.release();
    }
}

/// Waits for the first closed process whose time has passed, until there is none.
async fn forget_in_time(registry: Weak<Registry>) {
    loop {
        let Some(next) = registry
            .upgrade()
            .and_then(|registry| registry.forget_due())
        else {
            return;
        };
        sleep_until(next).await;
    }
}

fn stopping() -> SpawnError {
    SpawnError::new(SpawnErrorKind::Other).because("the process service is stopping")
}
