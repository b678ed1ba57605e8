//! What the lanes, the tools and the runner of one worker know of the fan-out items that run here.
//!
//! The invariants here: an item is on the board from the load of its lane until the end of its turn is
//! on disk; every change wakes the runner, which reads the truth from the store. None of the locks is
//! held across an await.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use turnlane_engine::{BoxFuture, Hooks};
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_protocol::usage::TokenUsage;
use turnlane_store::fanout::{ItemAttempt, ItemError, JobNo};
use turnlane_store::{Store, ThreadId};

use super::gate::{Gates, ItemHooks};
use super::jobs::events::{ItemEvent, JobEvent};
use super::plan::JobPlan;
use super::pulse::{Occupation, Pulse};
use super::worktree::TreeMade;

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
    /// The time at which its turn is interrupted, since it has nothing more to do.
    pub stop_at: Option<Instant>,
    /// The time at which its turn is interrupted with its job; a resume of the job withdraws it.
    pub job_stop_at: Option<Instant>,
    /// True if its turn was asked to stop.
    pub stopping: bool,
    /// The tokens of its turn, as far as the store does not count them in the job.
    pub uncounted: i64,
    /// The signs of life of its engine.
    pub pulse: Arc<Pulse>,
}

impl RunningItem {
    /// An item that begins to run.
    pub(crate) fn new(item: ItemAttempt, plan: Arc<JobPlan>) -> Self {
        Self {
            item,
            plan,
            refusals: 0,
            stop_at: None,
            job_stop_at: None,
            stopping: false,
            uncounted: 0,
            pulse: Arc::default(),
        }
    }
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
    /// Looks at worktrees that are under way, by job.
    tree_looks: HashMap<JobNo, usize>,
    /// Tokens of ended turns that are not settled: the store does not count them in the job yet.
    unsettled: HashMap<ItemAttempt, i64>,
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
        let mut state = self.state();
        state.adopted.remove(&job);
        state.unsettled.retain(|item, _| item.job != job);
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
        let pulse = Arc::clone(&item.pulse);
        self.state().running.insert(thread, item);
        RunningPlace {
            board: Arc::clone(self),
            thread,
            job,
            preparation: None,
            pulse,
        }
    }

    /// Notes that worktrees of a job are looked at, until the answer is dropped.
    pub(crate) fn look_at_trees(self: &Arc<Self>, job: JobNo) -> TreeLook {
        *self.state().tree_looks.entry(job).or_default() += 1;
        TreeLook {
            board: Arc::clone(self),
            job,
        }
    }

    /// Returns true if worktrees of a job are being looked at.
    pub(crate) fn looks_at_trees(&self, job: JobNo) -> bool {
        self.state().tree_looks.contains_key(&job)
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

    /// Stops the items of a job whose engines have been silent for too long. What they did is not known
    /// to be wrong, so each is noted with this error and tried again.
    pub(super) fn stop_silent(&self, job: JobNo, longest: Duration, error: &ItemError) {
        let now = Instant::now();
        let state = &mut *self.state();
        for running in state.running.values_mut() {
            let silence = running.pulse.silence(now);
            let is_idle = running.item.job == job && silence.is_some_and(|it| it >= longest);
            if is_idle && !running.stopping && running.stop_at.is_none() {
                running.stop_at = Some(now);
                state.verdicts.insert(running.item, error.clone());
            }
        }
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

    /// Has the turns of a job's items interrupted at that time, unless it is sooner already.
    pub(crate) fn stop_job_at(&self, job: JobNo, at: Instant) {
        for running in self.state().running.values_mut() {
            if running.item.job == job {
                running.job_stop_at = Some(running.job_stop_at.map_or(at, |set| set.min(at)));
            }
        }
    }

    /// Withdraws the stop of a job's items that is not carried out yet: the job was resumed.
    pub(crate) fn keep_job(&self, job: JobNo) {
        for running in self.state().running.values_mut() {
            if running.item.job == job {
                running.job_stop_at = None;
            }
        }
    }

    /// A model call of an item was paid for.
    fn spend(&self, thread: ThreadId, tokens: i64) {
        if let Some(running) = self.state().running.get_mut(&thread) {
            running.uncounted += tokens;
        }
    }

    /// The store counts these tokens of a running item in its job.
    pub(super) fn counted(&self, thread: ThreadId, tokens: i64) {
        if let Some(running) = self.state().running.get_mut(&thread) {
            running.uncounted = (running.uncounted - tokens).max(0);
        }
    }

    /// The store counts the tokens of an ended attempt in its job.
    pub(super) fn settled(&self, item: ItemAttempt) {
        self.state().unsettled.remove(&item);
        self.gates.decide(item);
    }

    /// The tokens that items of a job have used here and the store does not count yet.
    pub(super) fn uncounted(&self, job: JobNo) -> i64 {
        let state = self.state();
        let running = state.running.values().filter(|it| it.item.job == job);
        let ended = state.unsettled.iter().filter(|(item, _)| item.job == job);
        running.map(|it| it.uncounted).sum::<i64>() + ended.map(|(_, used)| used).sum::<i64>()
    }

    /// The threads whose turns are to be interrupted now, each once, and the next time for others.
    pub(crate) fn take_stops(&self) -> (Vec<ThreadId>, Option<Instant>) {
        let now = Instant::now();
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        for (thread, running) in &mut self.state().running {
            let stops = [running.stop_at, running.job_stop_at];
            match stops.into_iter().flatten().min() {
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
    pulse: Arc<Pulse>,
    /// Makes what the turn needs before it begins.
    preparation: Option<BoxFuture<'static, TreeMade>>,
}

impl RunningPlace {
    /// The same place, with what is to be made before the turn begins.
    pub(crate) fn preparing(mut self, preparation: BoxFuture<'static, TreeMade>) -> Self {
        self.preparation = Some(preparation);
        self
    }

    /// What is to be made before the turn begins, once.
    pub(crate) fn take_preparation(&mut self) -> Option<BoxFuture<'static, TreeMade>> {
        self.preparation.take()
    }

    /// Notes that the engine of the item said something.
    pub(crate) fn heard(&self, occupation: Occupation) {
        self.pulse.heard(occupation);
    }

    /// The hooks of the item's turn.
    pub(crate) fn hooks(&self, store: &Arc<dyn Store>) -> Arc<dyn Hooks> {
        let running = self.board.running(self.thread);
        Arc::new(ItemHooks {
            board: Arc::clone(&self.board),
            store: Arc::clone(store),
            job: self.job,
            tokens_max: running.and_then(|running| running.plan.limits.max_tokens),
            pulse: Arc::clone(&self.pulse),
        })
    }

    /// The turn failed with this error, and its end is not on disk yet. One that stops the whole job
    /// stops its requests and claims from now on.
    pub(crate) fn failed(&self, error: Option<&TurnError>) {
        use ErrorKind::{Auth, Budget, Plan, Quota};
        let kind = error.and_then(|error| error.kind.as_ref());
        let stops = matches!(kind, Some(Quota | Auth | Plan | Budget));
        if let Some(running) = self.board.running(self.thread).filter(|_| stops) {
            self.board.gates.refuse(running.item);
        }
    }

    /// A model call of the item's turn was paid for.
    pub(crate) fn spend(&self, last: TokenUsage) {
        let tokens = last.input_tokens + last.output_tokens;
        self.board.spend(self.thread, tokens);
    }
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        let mut state = self.board.state();
        let running = state.running.remove(&self.thread);
        if let Some(running) = running.filter(|running| running.uncounted > 0) {
            let used = state.unsettled.entry(running.item).or_default();
            *used += running.uncounted;
        }
        drop(state);
        self.board.look_at(self.job);
    }
}

/// A look at worktrees that is under way; it ends when this is dropped, and wakes the runner.
pub(crate) struct TreeLook {
    board: Arc<Board>,
    job: JobNo,
}

impl Drop for TreeLook {
    fn drop(&mut self) {
        let mut state = self.board.state();
        if let Some(looks) = state.tree_looks.get_mut(&self.job) {
            *looks -= 1;
            if *looks == 0 {
                state.tree_looks.remove(&self.job);
            }
        }
        drop(state);
        self.board.look_at(self.job);
    }
}
