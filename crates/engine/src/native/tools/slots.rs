//! How many calls of a turn run at once.
//!
//! The invariant here: a call that waits for a person holds no place, so nine questions do not keep
//! a tenth call from running. A place is given back when its slot is dropped, however the call ends.
//!
//! Which calls must run alone is decided by the turn.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one turn.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    places: Arc<Semaphore>,
}

impl Slots {
    /// This many calls at once; at least one.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(most)),
        }
    }

    /// Waits for a place, first come, first served.
    pub(crate) async fn take(&self) -> Slot {
        let slot = Slot {
            places: Some(Arc::clone(&self.places)),
            held: Arc::default(),
        };
        slot.take_again().await;
        slot
    }
}

/// The place of one call; all clones are one. The default has none and waits for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    places: Option<Arc<Semaphore>>,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Slot {
    /// Gives the place back for now.
    pub(crate) fn free(&self) {
        self.put(None);
    }

    /// Waits for a place again.
    pub(crate) async fn take_again(&self) {
        let Some(places) = &self.places else {
            return;
        };
        // The semaphore is never closed; if it were, a call more would run at once.
        let place = Arc::clone(places).acquire_owned().await.ok();
        self.put(place);
    }

    fn put(&self, place: Option<OwnedSemaphorePermit>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_waits_for_a_person_lets_another_one_run() {
        let slots = Slots::new(1);
        let asking = slots.take().await;
        assert_eq!(slots.places.available_permits(), 0);
        asking.free();
        let other = slots.take().await;
        assert_eq!(slots.places.available_permits(), 0);
        drop(other);
        asking.take_again().await;
        assert_eq!(slots.places.available_permits(), 0);
        drop(asking);
        assert_eq!(slots.places.available_permits(), 1);
        Slot::default().take_again().await;
    }
}
