//! Holds of providers, in memory: while a provider is held, no item makes a request to it.
//!
//! The invariants here: there is one hold per provider and worker; a hold only grows until it is over.
//! A job that was stopped for its quota, its login or its budget makes no further request at all. A job
//! with a cap of tokens makes no request once it has used them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use turnlane_engine::{BoxFuture, Gate, Hooks, Limited};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::Store;
use turnlane_store::fanout::{ItemAttempt, JobKey, JobNo};

use super::board::Board;
use super::pulse::{Occupation, Pulse};

/// The shortest hold: a provider that names no time is left alone for as long.
const HOLD_MIN: Duration = Duration::from_millis(100);

/// The holds of all providers, and the jobs that may make no request.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    state: Mutex<State>,
    /// Told when the runner has decided about a refused attempt.
    decided: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<String, Instant>,
    halted: HashMap<JobNo, TurnError>,
    /// Attempts that the provider refused for good, until the runner has decided what follows.
    refused: HashSet<ItemAttempt>,
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

    /// An attempt met a quota, a login or a budget: its job asks nothing more until that is decided.
    pub(super) fn refuse(&self, item: ItemAttempt) {
        self.state().refused.insert(item);
    }

    /// What follows from the end of an attempt is decided.
    pub(super) fn decide(&self, item: ItemAttempt) {
        if self.state().refused.remove(&item) {
            self.decided.notify_waiters();
        }
    }

    /// Returns true if an attempt of a job was refused and nobody has decided what follows.
    pub(crate) fn is_undecided(&self, job: JobNo) -> bool {
        self.state().refused.iter().any(|item| item.job == job)
    }

    /// Waits until the provider may be asked.
    async fn pass(&self, job: JobNo, provider: &str) -> Gate {
        loop {
            let decided = self.decided.notified();
            if let Some(error) = self.state().halted.get(&job) {
                return Gate::Stop(Box::new(error.clone()));
            }
            if self.is_undecided(job) {
                decided.await;
                continue;
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
    pub store: Arc<dyn Store>,
    pub job: JobNo,
    pub pulse: Arc<Pulse>,
    /// The tokens that the job may use.
    pub tokens_max: Option<i64>,
}

impl ItemHooks {
    /// The error of a request that the cap of the job does not allow.
    ///
    /// The store counts what was reported and settled, over all workers; the board adds what runs here.
    async fn beyond_cap(&self) -> Option<TurnError> {
        let max = self.tokens_max?;
        let uncounted = self.board.uncounted(self.job);
        let counted = match self.store.job(JobKey::No(self.job)).await {
            Ok(row) => row.map_or(0, |row| row.counts.usage.total_tokens),
            Err(error) => {
                let message = format!("the usage of the job cannot be read: {error}");
                let kind = ErrorKind::Other;
                return Some(TurnError::new(message, CodexErrorInfo::Other, kind));
            }
        };
        let used = counted + uncounted;
        if used < max {
            return None;
        }
        let message = format!("the job has used {used} of {max} tokens");
        let word = CodexErrorInfo::Unlisted("sessionBudgetExceeded".into());
        Some(TurnError::new(message, word, ErrorKind::Budget))
    }
}

impl Hooks for ItemHooks {
    fn gate<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Gate> {
        Box::pin(async move {
            let passed = self.board.gates.pass(self.job, provider).await;
            // The engine was held, not silent.
            self.pulse.heard(Occupation::Model);
            if !matches!(passed, Gate::Go) {
                return passed;
            }
            match self.beyond_cap().await {
                Some(error) => Gate::Stop(Box::new(error)),
                None => Gate::Go,
            }
        })
    }

    fn limited<'a>(&'a self, provider: &'a str, delay: Duration) -> BoxFuture<'a, Limited> {
        Box::pin(async move {
            self.board.gates.hold(provider, delay);
            self.board.provider_refused(self.job);
            Limited::Hold
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const HELD: Duration = Duration::from_secs(2);

    /// Polls once; the runtime's clock stands still.
    fn is_ready<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(future.poll(&mut context), Poll::Ready(_))
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_provider_gets_no_request_of_any_job_until_its_time() {
        let gates = Gates::default();
        gates.hold("openai", HELD);
        let mut first = pin!(gates.pass(JobNo(1), "openai"));
        let mut second = pin!(gates.pass(JobNo(2), "openai"));
        let mut other = pin!(gates.pass(JobNo(1), "other"));
        assert!(is_ready(other.as_mut()), "another provider is not held");
        tokio::time::advance(Duration::from_millis(1_999)).await;
        assert!(!is_ready(first.as_mut()));
        assert!(!is_ready(second.as_mut()));
        // A shorter hold does not end the longer one.
        gates.hold("openai", Duration::ZERO);
        assert!(gates.held_until("openai").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_ready(first.as_mut()));
        assert!(is_ready(second.as_mut()));
        assert_eq!(gates.held_until("openai"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_attempt_stops_the_requests_of_its_job_until_that_is_decided() {
        let gates = Gates::default();
        let attempt = |job| ItemAttempt {
            job: JobNo(job),
            seq: 0,
            attempt: 1,
        };
        gates.refuse(attempt(1));
        let mut waits = pin!(gates.pass(JobNo(1), "openai"));
        let mut other = pin!(gates.pass(JobNo(2), "openai"));
        assert!(is_ready(other.as_mut()), "another job may ask");
        assert!(!is_ready(waits.as_mut()));
        gates.decide(attempt(2));
        assert!(!is_ready(waits.as_mut()));
        gates.decide(attempt(1));
        assert!(is_ready(waits.as_mut()), "it was about the item alone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_halted_while_it_waits_makes_no_request() {
        let gates = Gates::default();
        gates.hold("openai", HELD);
        let mut waits = pin!(gates.pass(JobNo(1), "openai"));
        assert!(!is_ready(waits.as_mut()));
        let error = TurnError::new("no more", CodexErrorInfo::Other, ErrorKind::Quota);
        gates.halt(JobNo(1), error);
        tokio::time::advance(HELD).await;
        assert!(matches!(waits.await, Gate::Stop(_)));
        assert!(matches!(gates.pass(JobNo(2), "openai").await, Gate::Go));
        gates.release(JobNo(1));
        assert!(matches!(gates.pass(JobNo(1), "openai").await, Gate::Go));
    }
}
