//! What the lanes, the tools and the runner of one worker know of the fan-out items that run here.
//!
//! The invariants here: an item is on the board from the load of its lane until the end of its turn is
//! on disk; every change wakes the runner, which reads the truth from the store. None of the locks is
//! held across an await.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use turnlane_engine::Hooks;
use turnlane_store::ThreadId;
use turnlane_store::fanout::{ItemAttempt, ItemError, JobNo};

use super::gate::{Gates, ItemHooks};
use super::jobs::events::{ItemEvent, JobEvent};
use super::plan::JobPlan;

/// The name under which a job interrupts the turns of its items.
pub(crate) const STOPPED_BY_JOB: &str = "fanout:job";

/// Events that wait for one watcher; then the oldest are dropped and the watcher is told so.
const EVENTS_MAX: usize = 1_024;

/// An item that runs in this worker.
#[derive(Clone)]
pub(crate) struct RunningItem {
    pub item: ItemAttempt,
    pub plan: Arc<JobPlan>,
    /// Results of this attempt that did not fit.
    pub refusals: u32,
    /// The time at which its turn is interrupted.
    pub stop_at: Option<Instant>,
    /// True if its turn was asked to stop.
    pub stopping: bool,
}

/// The board of one worker; see the module.
pub(crate) struct Board {
    pub gates: Gates,
    /// Wakes the runner.
    pub wake: Notify,
    state: Mutex<State>,
    jobs: broadcast::Sender<JobEvent>,
    items: broadcast::Sender<ItemEvent>,
    notices: AtomicU64,
}

#[derive(Default)]
struct State {
    running: HashMap<ThreadId, RunningItem>,
    /// Jobs to look at.
    changed: BTreeSet<JobNo>,
    all_changed: bool,
    /// Jobs that this worker was asked to run.
    adopted: BTreeSet<JobNo>,
    /// Jobs whose provider refused a request.
    refused: BTreeSet<JobNo>,
    /// Results that were accepted since the runner looked.
    accepted: HashMap<JobNo, u32>,
    /// Errors with which this worker ended attempts.
    verdicts: HashMap<ItemAttempt, ItemError>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            wake: Notify::new(),
            state: Mutex::default(),
            jobs: broadcast::Sender::new(EVENTS_MAX),
            items: broadcast::Sender::new(EVENTS_MAX),
            notices: AtomicU64::new(0),
        }
    }
}

/// What has changed since the runner looked last.
#[derive(Default)]
pub(crate) struct Changes {
    pub jobs: BTreeSet<JobNo>,
    pub all: bool,
    pub refused: BTreeSet<JobNo>,
    pub accepted: HashMap<JobNo, u32>,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the runner look at a job.
    pub(crate) fn look_at(&self, job: JobNo) {
        self.state().changed.insert(job);
        self.wake.notify_one();
    }

    /// Has the runner look at all its jobs.
    pub(crate) fn look_at_all(&self) {
        self.state().all_changed = true;
        self.wake.notify_one();
    }

    /// Has this worker run a job.
    pub(crate) fn adopt(&self, job: JobNo) {
        let mut state = self.state();
        state.adopted.insert(job);
        state.changed.insert(job);
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets a job that this worker was asked to run.
    pub(crate) fn leave(&self, job: JobNo) {
        self.state().adopted.remove(&job);
    }

    pub(crate) fn adopted(&self) -> BTreeSet<JobNo> {
        self.state().adopted.clone()
    }

    /// A provider refused a request of a job.
    pub(super) fn provider_refused(&self, job: JobNo) {
        let mut state = self.state();
        state.refused.insert(job);
        state.changed.insert(job);
        drop(state);
        self.wake.notify_one();
    }

    /// A result was accepted: its item needs no place any more.
    pub(super) fn result_accepted(&self, job: JobNo) {
        let mut state = self.state();
        *state.accepted.entry(job).or_default() += 1;
        state.changed.insert(job);
        drop(state);
        self.wake.notify_one();
    }

    pub(crate) fn take_changes(&self) -> Changes {
        let mut state = self.state();
        Changes {
            jobs: std::mem::take(&mut state.changed),
            all: std::mem::take(&mut state.all_changed),
            refused: std::mem::take(&mut state.refused),
            accepted: std::mem::take(&mut state.accepted),
        }
    }

    /// Takes a place for an item that begins to run in this thread.
    pub(crate) fn place(self: &Arc<Self>, thread: ThreadId, item: RunningItem) -> RunningPlace {
        let job = item.item.job;
        self.state().running.insert(thread, item);
        RunningPlace {
            board: Arc::clone(self),
            thread,
            job,
        }
    }

    /// The number of items that run here.
    pub(crate) fn running_count(&self) -> usize {
        self.state().running.len()
    }

    /// The item that runs in a thread.
    pub(crate) fn running(&self, thread: ThreadId) -> Option<RunningItem> {
        self.state().running.get(&thread).cloned()
    }

    /// The attempts of a job that run here.
    pub(crate) fn attempts_of(&self, job: JobNo) -> Vec<ItemAttempt> {
        let state = self.state();
        let attempts = state.running.values().map(|running| running.item);
        attempts.filter(|item| item.job == job).collect()
    }

    /// Counts a result that did not fit; how many there were in this attempt.
    pub(super) fn count_refusal(&self, thread: ThreadId) -> u32 {
        let mut state = self.state();
        let Some(running) = state.running.get_mut(&thread) else {
            return 0;
        };
        running.refusals += 1;
        running.refusals
    }

    /// Notes with which error this worker ended an attempt.
    pub(super) fn judge(&self, item: ItemAttempt, error: ItemError) {
        self.state().verdicts.insert(item, error);
    }

    pub(crate) fn take_verdict(&self, item: ItemAttempt) -> Option<ItemError> {
        self.state().verdicts.remove(&item)
    }

    /// Has the turn of a thread's item interrupted at that time, unless it is sooner already.
    pub(super) fn stop_thread_at(&self, thread: ThreadId, at: Instant) {
        if let Some(running) = self.state().running.get_mut(&thread) {
            running.stop_at = Some(running.stop_at.map_or(at, |set| set.min(at)));
        }
        self.wake.notify_one();
    }

    /// Has the turns of a job's items interrupted at that time.
    pub(crate) fn stop_job_at(&self, job: JobNo, at: Instant) {
        for running in self.state().running.values_mut() {
            if running.item.job == job {
                running.stop_at = Some(running.stop_at.map_or(at, |set| set.min(at)));
            }
        }
        self.wake.notify_one();
    }

    /// Withdraws a stop that is not carried out yet: the job was resumed.
    pub(crate) fn keep_job(&self, job: JobNo) {
        for running in self.state().running.values_mut() {
            if running.item.job == job {
                running.stop_at = None;
            }
        }
    }

    /// The threads whose turns are to be interrupted now, each once, and the next time for others.
    pub(crate) fn take_stops(&self) -> (Vec<ThreadId>, Option<Instant>) {
        let now = Instant::now();
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        for (thread, running) in &mut self.state().running {
            match running.stop_at {
                Some(at) if !running.stopping && at <= now => {
                    running.stopping = true;
                    due.push(*thread);
                }
                Some(at) if !running.stopping => {
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
                _ => {}
            }
        }
        (due, next)
    }

    /// Counts a notice of an item's thread that only subscribers of that thread got.
    pub(crate) fn count_notice(&self) {
        self.notices.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of such notices.
    pub(crate) fn notices(&self) -> u64 {
        self.notices.load(Ordering::Relaxed)
    }

    pub(crate) fn job_events(&self) -> broadcast::Receiver<JobEvent> {
        self.jobs.subscribe()
    }

    pub(crate) fn item_events(&self) -> broadcast::Receiver<ItemEvent> {
        self.items.subscribe()
    }

    /// Tells those who watch jobs.
    pub(crate) fn tell_job(&self, event: JobEvent) {
        // Without watchers there is no one to tell.
        let _ = self.jobs.send(event);
    }

    /// Returns true if someone watches jobs.
    pub(crate) fn jobs_are_watched(&self) -> bool {
        self.jobs.receiver_count() > 0
    }

    /// Returns true if someone watches items.
    pub(crate) fn items_are_watched(&self) -> bool {
        self.items.receiver_count() > 0
    }

    pub(crate) fn tell_item(&self, event: ItemEvent) {
        let _ = self.items.send(event);
    }
}

/// The place of one running item; given back when it is dropped.
pub(crate) struct RunningPlace {
    board: Arc<Board>,
    thread: ThreadId,
    job: JobNo,
}

impl RunningPlace {
    /// The hooks of the item's turn.
    pub(crate) fn hooks(&self) -> Arc<dyn Hooks> {
        Arc::new(ItemHooks {
            board: Arc::clone(&self.board),
            job: self.job,
        })
    }
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        self.board.state().running.remove(&self.thread);
        self.board.look_at(self.job);
    }
}
