//! Holds of providers, in memory: while a provider is held, no item makes a request to it.
//!
//! The invariants here: there is one hold per provider and worker; a hold only grows until it is over.
//! A job that was stopped for its quota, its login or its budget makes no further request at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::{BoxFuture, Gate, Hooks, Limited};
use turnlane_protocol::turn_error::TurnError;
use turnlane_store::fanout::JobNo;

use super::board::Board;

/// The shortest hold: a provider that names no time is left alone for as long.
const HOLD_MIN: Duration = Duration::from_millis(100);

/// The holds of all providers, and the jobs that may make no request.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<String, Instant>,
    halted: HashMap<JobNo, TurnError>,
}

impl Gates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a provider alone for a while; a longer hold stays.
    pub(crate) fn hold(&self, provider: &str, delay: Duration) {
        let until = Instant::now() + delay.max(HOLD_MIN);
        let mut state = self.state();
        let held = state.held.entry(provider.to_owned()).or_insert(until);
        *held = (*held).max(until);
    }

    /// The end of the hold of a provider; none if it is not held.
    pub(crate) fn held_until(&self, provider: &str) -> Option<Instant> {
        let mut state = self.state();
        let until = *state.held.get(provider)?;
        if until <= Instant::now() {
            state.held.remove(provider);
            return None;
        }
        Some(until)
    }

    /// Lets no item of a job make a request: its turns fail with this error.
    pub(crate) fn halt(&self, job: JobNo, error: TurnError) {
        self.state().halted.insert(job, error);
    }

    /// Lets the items of a job make requests again.
    pub(crate) fn release(&self, job: JobNo) {
        self.state().halted.remove(&job);
    }

    /// Waits until the provider may be asked.
    async fn pass(&self, job: JobNo, provider: &str) -> Gate {
        loop {
            if let Some(error) = self.state().halted.get(&job) {
                return Gate::Stop(Box::new(error.clone()));
            }
            match self.held_until(provider) {
                None => return Gate::Go,
                Some(until) => tokio::time::sleep_until(until).await,
            }
        }
    }
}

/// The gate of one item's turn.
pub(super) struct ItemHooks {
    pub board: Arc<Board>,
    pub job: JobNo,
}

impl Hooks for ItemHooks {
    fn gate<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Gate> {
        Box::pin(self.board.gates.pass(self.job, provider))
    }

    fn limited<'a>(&'a self, provider: &'a str, delay: Duration) -> BoxFuture<'a, Limited> {
        Box::pin(async move {
            self.board.gates.hold(provider, delay);
            self.board.provider_refused(self.job);
            Limited::Hold
        })
    }
}
