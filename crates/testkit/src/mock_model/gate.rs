//! A gate: a point in an answer where the mock waits until the test lets it go on.
//!
//! The invariant here: when [`Gate::reached`] returns, everything before the gate has been handed
//! to the socket, so what the client does next cannot depend on bytes still in the mock. A gate
//! opens once and stays open; a gate nobody opens is how a test makes a model that falls silent.
//!
//! A gate knows no time: a test that may wait in vain wraps it in [`crate::wait::within`].

use std::sync::Arc;

use tokio::sync::watch;

/// Stops an answer at a chosen point; cheap to clone, all clones are one gate.
///
/// One gate may stand in several answers: [`Gate::reached_by`] counts them, and
/// [`Gate::release`] lets all go on. Dropping it does not open it.
#[derive(Clone, Debug)]
pub struct Gate {
    sides: Arc<Sides>,
}

#[derive(Debug)]
struct Sides {
    arrivals: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate, for [`Reply::gated_by`](super::Reply::gated_by).
    #[expect(
        clippy::new_without_default,
        reason = "a gate by default says nothing about being closed"
    )]
    pub fn new() -> Self {
        let sides = Sides {
            arrivals: watch::Sender::new(0),
            open: watch::Sender::new(false),
        };
        Self {
            sides: Arc::new(sides),
        }
    }

    /// Returns once an answer stands at this gate, or stood there.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Returns once `answers` answers have come to this gate.
    pub async fn reached_by(&self, answers: usize) {
        let mut arrivals = self.sides.arrivals.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = arrivals.wait_for(|&count| count >= answers).await;
    }

    /// How many answers have come to this gate so far.
    pub fn arrivals(&self) -> usize {
        *self.sides.arrivals.borrow()
    }

    /// Opens the gate for good; a second call changes nothing.
    pub fn release(&self) {
        self.sides.open.send_replace(true);
    }

    /// The answer's side: announces itself and waits for the release.
    pub(super) async fn pass(self) {
        self.sides.arrivals.send_modify(|count| *count += 1);
        let mut open = self.sides.open.subscribe();
        let _ = open.wait_for(|&open| open).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gate_counts_those_who_wait_and_lets_all_go() {
        let gate = Gate::new();
        let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(gate.clone().pass())).collect();
        gate.reached_by(3).await;
        assert!(waiting.iter().all(|answer| !answer.is_finished()));
        gate.release();
        for answer in waiting {
            answer.await.unwrap();
        }
        gate.clone().pass().await;
        assert_eq!(gate.arrivals(), 4);
    }
}
