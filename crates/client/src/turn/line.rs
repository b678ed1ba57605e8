//! The line in which turns of one thread wait inside this client.
//!
//! The invariant here: places are reached in the order they were taken, one at a time, and a place
//! that is dropped, reached or not, is free at once. Nothing is sent for a place that was never
//! reached.
//!
//! How long a place is held is the task's business: until the answer where the server keeps the
//! order, until the end of the turn where it does not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The turns of one thread that wait in this client, in order of their first poll.
#[derive(Debug, Default)]
pub(crate) struct Line {
    places: Arc<Mutex<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    /// The first one is reached; numbers grow.
    taken: VecDeque<Taken>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    /// Tells its owner that it is the first; none once told.
    reached: Option<oneshot::Sender<()>>,
}

/// A place in a line; dropping it lets the next one through.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Mutex<Places>>,
    number: u64,
    reached: Option<oneshot::Receiver<()>>,
}

impl Line {
    /// Takes the last place.
    pub(crate) fn join(&self) -> Place {
        let mut places = lock(&self.places);
        let number = places.next;
        places.next += 1;
        let (tell, reached) = oneshot::channel();
        let first = places.taken.is_empty();
        places.taken.push_back(Taken {
            number,
            reached: (!first).then_some(tell),
        });
        Place {
            places: Arc::clone(&self.places),
            number,
            reached: (!first).then_some(reached),
        }
    }
}

impl Place {
    /// How many are before it.
    pub(crate) fn ahead(&self) -> usize {
        lock(&self.places).index_of(self.number).unwrap_or(0)
    }

    /// Resolves when nobody is before it. Loses nothing when cancelled.
    pub(crate) async fn reached(&mut self) {
        if let Some(reached) = &mut self.reached {
            // The sender is dropped only after it has sent.
            let _ = reached.await;
            self.reached = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        if let Some(index) = places.index_of(self.number) {
            places.taken.remove(index);
        }
        let tell = places
            .taken
            .front_mut()
            .and_then(|taken| taken.reached.take());
        drop(places);
        if let Some(tell) = tell {
            // Whoever does not listen any more is about to leave the line too.
            let _ = tell.send(());
        }
    }
}

impl Places {
    fn index_of(&self, number: u64) -> Option<usize> {
        self.taken
            .binary_search_by_key(&number, |taken| taken.number)
            .ok()
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    // Nothing in here panics between two writes.
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_reached(place: &mut Place) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(place.reached()).poll(&mut cx).is_ready()
    }

    #[test]
    fn places_are_reached_in_the_order_they_were_taken() {
        let line = Line::default();
        let mut first = line.join();
        let mut second = line.join();
        let mut third = line.join();
        assert_eq!((first.ahead(), second.ahead(), third.ahead()), (0, 1, 2));
        assert!(is_reached(&mut first));
        assert!(!is_reached(&mut second));
        drop(first);
        assert!(is_reached(&mut second));
        assert!(!is_reached(&mut third));
        assert_eq!(third.ahead(), 1);
        drop(second);
        assert!(is_reached(&mut third));
    }

    #[test]
    fn a_place_that_is_given_up_while_waiting_holds_nobody() {
        let line = Line::default();
        let first = line.join();
        let second = line.join();
        let mut third = line.join();
        drop(second);
        assert_eq!(third.ahead(), 1);
        assert!(!is_reached(&mut third));
        drop(first);
        assert!(is_reached(&mut third));
        drop(third);
        assert!(is_reached(&mut line.join()));
    }

    #[test]
    fn a_place_that_was_told_but_gave_up_lets_the_next_one_through() {
        let line = Line::default();
        let first = line.join();
        let second = line.join();
        let mut third = line.join();
        drop(first);
        drop(second);
        assert!(is_reached(&mut third));
    }
}
