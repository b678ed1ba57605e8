//! Places for connections that have shown nothing yet: no token, no finished handshake.
//!
//! The invariant here: strangers cannot hold these places. There are [`Options::unadmitted_max`]
//! per listener; when all are taken, the oldest connection is dropped for the new one. A connection
//! gives its place back when it is admitted, and takes one of the [`ConnectionLimit`] then.
//!
//! A connection keeps its place for [`Options::unadmitted_time_min`] whatever happens. Without that,
//! a flood would drop an honest client between its `connect` and its first write. New connections
//! wait in the system's backlog meanwhile.
//!
//! [`Options::unadmitted_max`]: super::Options::unadmitted_max
//! [`Options::unadmitted_time_min`]: super::Options::unadmitted_time_min
//! [`ConnectionLimit`]: super::ConnectionLimit

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The places of one listener. Clones share them.
#[derive(Clone)]
pub(super) struct Unadmitted(Arc<Places>);

struct Places {
    max: usize,
    time_min: Duration,
    taken: Mutex<Taken>,
    /// Notified when a place is given back.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    /// The number of the next place; so the first entry of `holders` is the oldest.
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    since: Instant,
    dropped: CancellationToken,
}

/// The place of one connection; dropping it gives it back.
pub(super) struct Place {
    number: u64,
    places: Arc<Places>,
    dropped: CancellationToken,
}

impl Unadmitted {
    /// Zero places would admit no connection, so there is at least one.
    pub(super) fn new(max: usize, time_min: Duration) -> Self {
        Self(Arc::new(Places {
            max: max.max(1),
            time_min,
            taken: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// Resolves when [`Self::enter`] has a free place, or may drop the oldest connection.
    pub(super) async fn room(&self) {
        loop {
            // Registered before the look, so that no notification is lost between the two.
            let freed = self.0.freed.notified();
            let evictable_at = {
                let taken = self.0.taken();
                if taken.holders.len() < self.0.max {
                    return;
                }
                match taken.holders.first_key_value() {
                    Some((_, oldest)) => oldest.since + self.0.time_min,
                    None => return,
                }
            };
            if evictable_at <= Instant::now() {
                return;
            }
            tokio::select! {
                () = freed => {}
                () = sleep_until(evictable_at) => {}
            }
        }
    }

    /// Takes a place. When all are taken, the oldest connection is told to end.
    pub(super) fn enter(&self) -> Place {
        let dropped = CancellationToken::new();
        let mut taken = self.0.taken();
        while taken.holders.len() >= self.0.max {
            let Some((_, oldest)) = taken.holders.pop_first() else {
                break;
            };
            oldest.dropped.cancel();
        }
        let number = taken.next;
        taken.next += 1;
        let holder = Holder {
            since: Instant::now(),
            dropped: dropped.clone(),
        };
        taken.holders.insert(number, holder);
        Place {
            number,
            places: Arc::clone(&self.0),
            dropped,
        }
    }
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the place was still held.
    fn give_back(&self, number: u64) -> bool {
        let held = self.taken().holders.remove(&number).is_some();
        if held {
            self.freed.notify_one();
        }
        held
    }
}

impl Place {
    /// Gives the place back because the connection is admitted; it can no longer be dropped for
    /// another one. False if that has already happened.
    pub(super) fn leave(&self) -> bool {
        self.places.give_back(self.number)
    }

    /// Resolves when the connection must make way for a new one; never once [`Self::leave`] was true.
    pub(super) async fn dropped(&self) {
        self.dropped.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_dropped(place: &Place) -> bool {
        place.dropped.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_connection_makes_way_and_an_admitted_one_does_not() {
        let unadmitted = Unadmitted::new(2, Duration::from_millis(20));
        let admitted = unadmitted.enter();
        assert!(admitted.leave());
        let oldest = unadmitted.enter();
        let second = unadmitted.enter();
        let third = unadmitted.enter();
        assert!(is_dropped(&oldest));
        assert!(!oldest.leave(), "a dropped connection cannot be admitted");
        assert!(!is_dropped(&second) && !is_dropped(&third) && !is_dropped(&admitted));
        drop(second);
        let _fourth = unadmitted.enter();
        assert!(!is_dropped(&third), "a place given back is used first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_keeps_its_place_for_the_shortest_time() {
        let unadmitted = Unadmitted::new(1, Duration::from_millis(20));
        let begun = Instant::now();
        unadmitted.room().await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "a free place is room");
        let silent = unadmitted.enter();
        unadmitted.room().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(20));

        let waiting = unadmitted.clone();
        drop(silent);
        let next = unadmitted.enter();
        let room = tokio::spawn(async move { waiting.room().await });
        tokio::task::yield_now().await;
        assert!(!room.is_finished());
        drop(next);
        room.await.unwrap();
        assert_eq!(
            begun.elapsed(),
            Duration::from_millis(20),
            "a place given back ends the wait"
        );
    }
}
