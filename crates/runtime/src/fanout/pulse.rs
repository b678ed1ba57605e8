//! The signs of life of one running item.
//!
//! The invariant here: an item is idle only while its engine says nothing, runs no command or tool and
//! waits for no decision. A wait for a held provider is no silence of the engine: the clock starts anew
//! behind it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The occupation of an engine after it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupation {
    /// The engine waits for its model, or thinks.
    Model,
    /// A command or a tool runs, or a client has to decide.
    Work,
}

/// The last sign of life of one item; shared by its lane, its hooks and the runner.
#[derive(Debug)]
pub(crate) struct Pulse {
    last: Mutex<(Instant, Occupation)>,
}

impl Default for Pulse {
    /// The item begins now.
    fn default() -> Self {
        Self {
            last: Mutex::new((Instant::now(), Occupation::Model)),
        }
    }
}

impl Pulse {
    fn last(&self) -> MutexGuard<'_, (Instant, Occupation)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine said something.
    pub(crate) fn heard(&self, occupation: Occupation) {
        *self.last() = (Instant::now(), occupation);
    }

    /// The silence of the engine; none while it works.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        let (at, occupation) = *self.last();
        (occupation == Occupation::Model).then(|| now.saturating_duration_since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_item_is_silent_since_its_engine_was_heard_and_never_while_it_works() {
        let pulse = Pulse::default();
        let minute = Duration::from_mins(1);
        let silence = || pulse.silence(Instant::now());
        tokio::time::advance(minute).await;
        assert_eq!(silence(), Some(minute));
        pulse.heard(Occupation::Work);
        tokio::time::advance(minute).await;
        assert_eq!(silence(), None);
        pulse.heard(Occupation::Model);
        tokio::time::advance(minute).await;
        assert_eq!(silence(), Some(minute));
    }
}
