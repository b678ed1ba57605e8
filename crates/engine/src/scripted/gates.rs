//! Gates: named points where a script waits until somebody lets it go on.
//!
//! The invariant here: a gate opens once and stays open, for every turn that stands at it or comes
//! later. A gate nobody opens is how a test makes a turn that waits until it is stopped.
//!
//! A gate knows no time; `await` steps bring their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The gates of a scripted engine, by name; cheap to clone, all clones are the same gates.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    // As many as scripts and tests name.
    by_name: Arc<Mutex<HashMap<String, watch::Sender<State>>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_open: bool,
    arrivals: usize,
}

impl Gates {
    /// Opens a gate for good, also before anybody has come to it; twice is once.
    pub fn open(&self, name: &str) {
        self.gate(name).send_modify(|state| state.is_open = true);
    }

    /// Returns once `turns` turns have come to the gate.
    pub async fn reached_by(&self, name: &str, turns: usize) {
        let mut state = self.gate(name).subscribe();
        // The map keeps the sender, so the wait cannot fail.
        let _ = state.wait_for(|state| state.arrivals >= turns).await;
    }

    /// The script's side: announces itself and waits.
    pub(super) async fn pass(&self, name: &str) {
        let gate = self.gate(name);
        gate.send_modify(|state| state.arrivals += 1);
        let _ = gate.subscribe().wait_for(|state| state.is_open).await;
    }

    fn gate(&self, name: &str) -> watch::Sender<State> {
        // A map of senders is whole at every moment.
        let mut gates = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_default().clone()
    }
}
