//! Turns of dead workers that foreign engines must be asked about, until each has its lane.
//!
//! The invariants here: a grip that a recovery brought is held until a lane took it over, so that no turn
//! stays undecided while this worker lives; the turns found at the start are known until each is settled
//! or left to another worker.
//!
//! Loading the lanes is the dispatcher's business, asking the engine the lane's.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use turnlane_store::{Grip, ThreadId};

/// Turns that wait for their lanes, and those found at the start.
#[derive(Debug, Default)]
pub(crate) struct Undecided(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Grip>,
    at_start: HashSet<ThreadId>,
}

impl Undecided {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a turn whose engine is to be asked.
    pub(crate) fn add(&self, grip: Grip) {
        self.state().waiting.push(grip);
    }

    /// Takes all turns out that wait for their lanes.
    pub(crate) fn take(&self) -> Vec<Grip> {
        std::mem::take(&mut self.state().waiting)
    }

    /// Everything that waits now was found at the start.
    pub(crate) fn all_found_at_start(&self) {
        let mut state = self.state();
        state.at_start = state.waiting.iter().map(|grip| grip.thread).collect();
    }

    /// The turn of this thread is decided, or is not ours to decide any more.
    pub(crate) fn settled(&self, thread: ThreadId) {
        self.state().at_start.remove(&thread);
    }

    /// Returns true until every turn found at the start is settled.
    pub(crate) fn has_some_from_start(&self) -> bool {
        !self.state().at_start.is_empty()
    }
}
