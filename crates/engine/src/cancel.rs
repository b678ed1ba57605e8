//! Stopping a turn.
//!
//! The invariant here: a token fires once and stays fired, with the first reason. A lane that goes
//! away without a word has cancelled too, so no engine waits for somebody who has left.
//!
//! What happens at the deadline is the lane's business: it drops the engine's future.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long an engine may take to stop before its lane drops it.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// That, why and until when a turn is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Why.
    pub reason: CancelReason,
    /// When the lane stops waiting.
    pub deadline: Instant,
}

/// Why a turn is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Somebody asked for it.
    Interrupt,
    /// It took too long.
    Timeout,
    /// The worker stops.
    Shutdown,
    /// Another worker owns the lane, or the lane has gone.
    LaneGone,
}

/// The lane's side: stops a turn.
#[derive(Debug)]
pub struct CancelHandle {
    state: watch::Sender<Option<Cancelled>>,
}

impl CancelHandle {
    /// Tells the engine to stop within [`CANCEL_GRACE`]; returns what is in force.
    ///
    /// Called twice, the first reason and deadline stay.
    pub fn cancel(&self, reason: CancelReason) -> Cancelled {
        self.cancel_within(reason, CANCEL_GRACE)
    }

    /// Tells the engine to stop within this time; returns what is in force.
    ///
    /// Called twice, the first reason and deadline stay.
    pub fn cancel_within(&self, reason: CancelReason, grace: Duration) -> Cancelled {
        let new = Cancelled {
            reason,
            deadline: Instant::now() + grace,
        };
        let mut in_force = new;
        self.state.send_if_modified(|state| {
            in_force = *state.get_or_insert(new);
            in_force == new
        });
        in_force
    }
}

/// The engine's side: says when to stop. Cheap to clone, all clones fire together.
#[derive(Clone, Debug)]
pub struct CancelToken {
    state: watch::Receiver<Option<Cancelled>>,
}

impl CancelToken {
    /// What was asked for, if the turn is to stop.
    pub fn get(&self) -> Option<Cancelled> {
        let cancelled = *self.state.borrow();
        // A closed channel and an empty state: the lane left without a word.
        cancelled.or_else(|| self.state.has_changed().is_err().then(lane_gone))
    }

    /// What was asked for, if it also ends a turn whose last words are recorded.
    ///
    /// The stop of the worker does not: it leaves such a turn nothing to continue, so the turn
    /// completes. A turn that was cut there would be continued by one without a single message.
    pub fn get_at_end(&self) -> Option<Cancelled> {
        self.get()
            .filter(|cancelled| cancelled.reason != CancelReason::Shutdown)
    }

    /// Whether the turn is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.get().is_some()
    }

    /// Returns when the turn is to stop, at once if it is already; may be awaited again.
    pub async fn cancelled(&self) -> Cancelled {
        let mut state = self.state.clone();
        let cancelled = state.wait_for(Option::is_some).await;
        cancelled
            .ok()
            .and_then(|cancelled| *cancelled)
            .unwrap_or_else(lane_gone)
    }

    /// The output of a call that the end of its turn cut off after this time, for the model.
    pub(crate) fn cut_off(&self, after: Duration) -> String {
        let by = match self.get().map(|cancelled| cancelled.reason) {
            Some(CancelReason::Shutdown) => "stopped with the server",
            _ => "aborted by user",
        };
        let seconds = after.as_secs_f64();
        format!("{by} after {seconds:.1} s; it may have partly run")
    }

    /// The future's output, or why it was given up.
    ///
    /// A turn that is to stop stops: a future that is ready at the same time is dropped.
    pub async fn unless_cancelled<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, Cancelled> {
        tokio::select! {
            biased;
            cancelled = self.cancelled() => Err(cancelled),
            output = future => Ok(output),
        }
    }
}

fn lane_gone() -> Cancelled {
    Cancelled {
        reason: CancelReason::LaneGone,
        deadline: Instant::now(),
    }
}

pub(crate) fn channel() -> (CancelHandle, CancelToken) {
    let (sender, receiver) = watch::channel(None);
    (
        CancelHandle { state: sender },
        CancelToken { state: receiver },
    )
}
