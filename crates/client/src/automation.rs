//! Automation: recurring turns on one prepared thread, alive as long as this process.
//!
//! The invariant here: one task owns the state and is the only one that writes it; due times stand on
//! a grid anchored at the first one, so nothing drifts and nothing comes in bursts; at most one turn
//! of an automation runs at any time. A wish to stop is a state, not a signal, so it cannot be missed.
//!
//! What must survive this process is a schedule of the server, and so are cron, time zones, retries
//! and overlap.
//!
//! Theory of operation: [`spawn`] decides the first state and starts one task (`automation/rounds.rs`)
//! that waits, runs and decides by the pure rules of `automation/plan.rs`. It publishes what it does
//! through one `watch` channel (`automation/ledger.rs`) and hears of its handles through another. It
//! ends at a terminal state, and with its last handle unless that was detached.
//!
//! ```no_run
//! use std::time::Duration;
//! use turnlane::automation::{self, AutomationSpec};
//!
//! # async fn example(thread: turnlane::Thread) {
//! let spec = AutomationSpec {
//!     max_runs: Some(3),
//!     ..AutomationSpec::new("Look for failing builds", Duration::from_secs(600))
//! };
//! let watched = automation::spawn(thread, spec);
//! let end = watched.wait().await;
//! assert_eq!(end.runs_completed, 3);
//! # }
//! ```

mod clock;
mod ledger;
mod plan;
mod rounds;
mod runner;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

pub use clock::{Clock, SystemClock};

use crate::ids::{ThreadId, TurnId};
use crate::thread::Thread;
use ledger::{Ledger, Runs};
use plan::Verdict;
use rounds::Rounds;
use runner::{Runner, ThreadRunner, Wish};

/// What is run, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomationSpec {
    /// What each turn is told.
    pub prompt: String,
    /// When the first run is due; at once when it is none or has passed.
    pub start_at: Option<SystemTime>,
    /// From one due time to the next.
    pub every: Duration,
    /// No run starts at or after this; a run that has started may pass it.
    pub stop_at: Option<SystemTime>,
    /// How many runs may succeed.
    pub max_runs: Option<u32>,
}

impl AutomationSpec {
    /// A prompt, at once and then at this interval, without an end.
    pub fn new(prompt: impl Into<String>, every: Duration) -> Self {
        Self {
            prompt: prompt.into(),
            start_at: None,
            every,
            stop_at: None,
            max_runs: None,
        }
    }
}

/// How an automation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomationStatus {
    /// The thread whose turns it runs.
    pub thread_id: ThreadId,
    /// How many runs succeeded.
    pub runs_completed: u32,
    /// When the next run is due; none unless it waits.
    pub next_due_at: Option<SystemTime>,
    /// When the latest run was submitted.
    pub last_started_at: Option<SystemTime>,
    /// When the latest run that ended did.
    pub last_finished_at: Option<SystemTime>,
    /// What it does.
    pub state: AutomationState,
    /// Why it failed.
    pub last_error: Option<String>,
}

/// What an automation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AutomationState {
    /// It waits for the next due time.
    Waiting,
    /// A turn of it was submitted and has not ended.
    Running,
    /// It ended in order; terminal.
    Stopped,
    /// It ended by an error; terminal.
    Failed,
}

impl AutomationState {
    /// Whether nothing will happen any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }
}

/// One run of an automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomationRun {
    /// Which one, from 1; runs that did not succeed have a number too.
    pub number: u64,
    /// When it was due.
    pub due_at: SystemTime,
    /// When it was submitted.
    pub started_at: SystemTime,
    /// When it ended.
    pub finished_at: Option<SystemTime>,
    /// Its turn; none until the server named it.
    pub turn_id: Option<TurnId>,
    /// What became of it.
    pub outcome: RunOutcome,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// It has not ended.
    Running,
    /// The turn completed, with or without text.
    Completed,
    /// [`AutomationHandle::stop_now`] ended it.
    Interrupted,
    /// It did not succeed.
    Failed {
        /// Why.
        error: String,
    },
}

/// Starts an automation of the thread.
///
/// It never fails: a spec that makes no sense gives a handle that is terminal already. Dropping the
/// last handle stops it as [`AutomationHandle::stop`] does. Nothing of it is durable. The automation
/// keeps the thread's client alive until it ends. Call it inside a tokio runtime; outside of one the
/// handle is terminal too.
pub fn spawn(thread: Thread, spec: AutomationSpec) -> AutomationHandle {
    spawn_with_clock(thread, spec, SystemClock)
}

/// The same by another clock, for tests and simulations.
pub fn spawn_with_clock(
    thread: Thread,
    spec: AutomationSpec,
    clock: impl Clock,
) -> AutomationHandle {
    start(ThreadRunner::new(thread), spec, Arc::new(clock))
}

/// Decides the first state and starts the task unless that is terminal.
fn start(runner: impl Runner, spec: AutomationSpec, clock: Arc<dyn Clock>) -> AutomationHandle {
    let verdict = plan::at_spawn(&spec, clock.now(), runner.gone());
    let (wish, wishes) = watch::channel(Wish::GoOn);
    let (mut ledger, status, runs) = Ledger::new(runner.thread_id());
    match verdict {
        Verdict::End(end) => ledger.end(end),
        Verdict::Due(due) => {
            ledger.waiting(due);
            let rounds = Rounds::new(runner, spec, clock, wishes);
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(rounds::own(rounds, ledger))),
                Err(_) => ledger.end(plan::End::failed(plan::NO_RUNTIME)),
            }
        }
    }
    AutomationHandle {
        shared: Arc::new(Shared {
            status,
            wish,
            runs,
            detached: AtomicBool::new(false),
        }),
    }
}

/// An automation; clones are the same one. Dropping the last stops it.
#[derive(Clone, Debug)]
pub struct AutomationHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    status: watch::Receiver<AutomationStatus>,
    wish: watch::Sender<Wish>,
    runs: Runs,
    /// Set: dropping the last handle stops nothing.
    detached: AtomicBool,
}

impl Shared {
    /// Wishes only grow: what was told to stop at once does not become less urgent.
    fn want(&self, wish: Wish) {
        self.wish.send_if_modified(|current| {
            let grows = wish > *current;
            if grows {
                *current = wish;
            }
            grows
        });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.detached.load(Ordering::Relaxed) {
            self.want(Wish::Stop);
        }
    }
}

impl AutomationHandle {
    /// How it stands.
    #[expect(
        clippy::unused_async,
        reason = "its callers await it, so that it may ask the owner one day"
    )]
    pub async fn status(&self) -> AutomationStatus {
        self.shared.status.borrow().clone()
    }

    /// No new run; a run in flight finishes and counts.
    ///
    /// Returns when no run can start any more: stopped, or still running the last one. Called again,
    /// or after the end, it changes nothing. Dropping the future does not take the wish back.
    pub async fn stop(&self) {
        self.shared.want(Wish::Stop);
        self.until(|state| state != AutomationState::Waiting).await;
    }

    /// No new run, and a run in flight is interrupted and does not count.
    ///
    /// Returns at the terminal state: when the end of the turn is confirmed, at the latest after five
    /// seconds. A run that completes before the interrupt reaches it counts.
    pub async fn stop_now(&self) {
        self.shared.want(Wish::StopNow);
        self.wait().await;
    }

    /// Waits for the terminal state and returns it; any number of callers may.
    pub async fn wait(&self) -> AutomationStatus {
        self.until(AutomationState::is_terminal).await
    }

    /// How it stands, now and at every change. Does not keep the automation going.
    pub fn watch(&self) -> watch::Receiver<AutomationStatus> {
        self.shared.status.clone()
    }

    /// The latest 100 runs, oldest first, the one in flight included.
    pub fn runs(&self) -> Vec<AutomationRun> {
        self.shared.runs.list()
    }

    /// Lets it go on without handles, until it ends by itself. Clones of this one can still stop it.
    pub fn detach(self) {
        self.shared.detached.store(true, Ordering::Relaxed);
    }

    async fn until(&self, reached: impl Fn(AutomationState) -> bool) -> AutomationStatus {
        let mut status = self.shared.status.clone();
        match status.wait_for(|status| reached(status.state)).await {
            Ok(reached) => reached.clone(),
            // The owner is gone, and it leaves a terminal state behind whatever ends it.
            Err(_) => self.shared.status.borrow().clone(),
        }
    }
}
