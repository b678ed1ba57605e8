//! What an automation shows: its status and its latest runs.
//!
//! The invariant here: the ledger is the only writer of both, and its owner is one task. Each change
//! of state is published whole, runs before status, so who saw a state sees the run it speaks of. A
//! ledger that is dropped leaves a terminal state behind, so nobody waits in vain.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::plan::{End, PANICKED, RUNTIME_ENDED};
use super::{AutomationRun, AutomationState, AutomationStatus, RunOutcome};
use crate::ids::{ThreadId, TurnId};

/// How many runs are kept; the oldest goes.
const RUNS_MAX: usize = 100;

/// Where the turn of a run is noted when the server names it.
pub(super) type TurnSlot = Arc<OnceLock<TurnId>>;

/// Writes what an automation shows.
#[derive(Debug)]
pub(super) struct Ledger {
    status: AutomationStatus,
    published: watch::Sender<AutomationStatus>,
    runs: Runs,
    runs_begun: u64,
}

/// The latest runs; clones are the same list.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Debug)]
struct Entry {
    /// Without its turn, which is in the slot.
    run: AutomationRun,
    turn: TurnSlot,
}

impl Runs {
    pub(super) fn list(&self) -> Vec<AutomationRun> {
        let shown = |entry: &Entry| AutomationRun {
            turn_id: entry.turn.get().cloned(),
            ..entry.run.clone()
        };
        self.lock().iter().map(shown).collect()
    }

    // Entries are changed whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// An automation that waits for nothing yet.
    pub(super) fn new(thread_id: ThreadId) -> (Self, watch::Receiver<AutomationStatus>, Runs) {
        let status = AutomationStatus {
            thread_id,
            runs_completed: 0,
            next_due_at: None,
            last_started_at: None,
            last_finished_at: None,
            state: AutomationState::Waiting,
            last_error: None,
        };
        let (published, shown) = watch::channel(status.clone());
        let runs = Runs::default();
        let ledger = Self {
            status,
            published,
            runs: runs.clone(),
            runs_begun: 0,
        };
        (ledger, shown, runs)
    }

    pub(super) fn next_due(&self) -> Option<SystemTime> {
        self.status.next_due_at
    }

    pub(super) fn runs_completed(&self) -> u32 {
        self.status.runs_completed
    }

    pub(super) fn waiting(&mut self, due: SystemTime) {
        self.status.next_due_at = Some(due);
        self.publish(AutomationState::Waiting);
    }

    /// A run begins: its number, and where its turn is to be noted.
    pub(super) fn running(
        &mut self,
        due_at: SystemTime,
        started_at: SystemTime,
    ) -> (u64, TurnSlot) {
        self.runs_begun = self.runs_begun.saturating_add(1);
        let number = self.runs_begun;
        let turn = TurnSlot::default();
        let run = AutomationRun {
            number,
            due_at,
            started_at,
            finished_at: None,
            turn_id: None,
            outcome: RunOutcome::Running,
        };
        {
            let mut runs = self.runs.lock();
            if runs.len() == RUNS_MAX {
                runs.pop_front();
            }
            runs.push_back(Entry {
                run,
                turn: Arc::clone(&turn),
            });
        }
        self.status.next_due_at = None;
        self.status.last_started_at = Some(started_at);
        self.publish(AutomationState::Running);
        (number, turn)
    }

    /// The run in flight ended. Shown with the state that follows.
    pub(super) fn ran(&mut self, finished_at: SystemTime, outcome: RunOutcome) {
        self.status.last_finished_at = Some(finished_at);
        if outcome == RunOutcome::Completed {
            self.status.runs_completed = self.status.runs_completed.saturating_add(1);
            self.status.last_error = None;
        }
        self.close_run(Some(finished_at), outcome);
    }

    /// The automation ended.
    pub(super) fn end(&mut self, end: End) {
        let (state, error) = match end {
            End::Stopped => (AutomationState::Stopped, None),
            End::Failed(why) => (AutomationState::Failed, Some(why)),
        };
        // Still open only if the loop panicked, or its runtime ended.
        if let Some(error) = error.clone() {
            self.close_run(None, RunOutcome::Failed { error });
        }
        self.status.next_due_at = None;
        self.status.last_error = error;
        self.publish(state);
    }

    fn close_run(&self, finished_at: Option<SystemTime>, outcome: RunOutcome) {
        let mut runs = self.runs.lock();
        let open = runs
            .back_mut()
            .filter(|entry| entry.run.outcome == RunOutcome::Running);
        if let Some(entry) = open {
            entry.run.finished_at = finished_at;
            entry.run.outcome = outcome;
        }
    }

    fn publish(&mut self, state: AutomationState) {
        self.status.state = state;
        self.published.send_replace(self.status.clone());
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if self.status.state.is_terminal() {
            return;
        }
        let why = if std::thread::panicking() {
            PANICKED
        } else {
            RUNTIME_ENDED
        };
        self.end(End::failed(why));
    }
}
