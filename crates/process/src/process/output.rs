//! The lossless stream of a process, and waiting for output without taking it.
//!
//! There is at most one [`Output`] at a time. What is taken from it counts as delivered; that is the
//! only thing that lets a stalled child go on.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::Doorbell;
use crate::driver::Shared;
use crate::error::OutputTaken;
use crate::event::{Event, TryNext};

/// The lossless stream of one process. What is taken from it counts as delivered. Dropped, it can be
/// taken again and goes on where it was; until then nothing is delivered and the child may wait.
pub struct Output {
    shared: Arc<Shared>,
    /// `Closed` was taken.
    has_ended: bool,
}

impl Output {
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Self, OutputTaken> {
        take(shared)?;
        let shared = Arc::clone(shared);
        let has_ended = {
            let state = shared.lock();
            let closed = state.store.closed();
            closed.is_some_and(|(seq, _)| seq <= state.consumer.position)
        };
        Ok(Self { shared, has_ended })
    }

    /// Takes the stream so that nobody else can, and lets nothing wait for it.
    pub(super) fn take_for_good(shared: &Shared) -> Result<(), OutputTaken> {
        take(shared)?;
        shared.retain();
        Ok(())
    }

    /// The next event, `None` after `Closed`. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        if self.has_ended {
            return None;
        }
        let event = poll_fn(|cx| match self.shared.take_event(Some(cx)) {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        });
        let event = event.await;
        self.has_ended = matches!(event, Event::Closed { .. });
        Some(event)
    }

    /// The next event if there is one.
    pub fn try_next(&mut self) -> TryNext {
        if self.has_ended {
            return TryNext::Ended;
        }
        match self.shared.take_event(None) {
            Some(event) => {
                self.has_ended = matches!(event, Event::Closed { .. });
                TryNext::Event(event)
            }
            None => TryNext::Empty,
        }
    }

    /// Moves the position forward: everything up to `seq` counts as delivered and is not told again.
    pub fn skip_to(&mut self, seq: u64) {
        let closed = self.shared.skip_to(seq);
        self.has_ended |= closed.is_some_and(|closed| closed <= seq);
    }

    /// Moves the position back: what was taken after `seq` counts as undelivered and is told again,
    /// unless it is no longer there. For a consumer that lost what it took.
    pub fn rewind_to(&mut self, seq: u64) {
        self.shared.recall(seq);
        let closed = self.shared.lock().store.closed();
        self.has_ended = closed.is_some_and(|(closed, _)| closed <= self.position());
    }

    /// The number of the last event that was taken.
    pub fn position(&self) -> u64 {
        self.shared.lock().consumer.position
    }

    /// Rings when something comes after [`Output::try_next`] said [`TryNext::Empty`]; at once if
    /// something is there already.
    pub fn set_doorbell(&mut self, doorbell: Doorbell) {
        let mut state = self.shared.lock();
        let is_there = state.store.next_after(state.consumer.position).is_some();
        state.consumer.rings = !is_there;
        let now = is_there.then(|| Arc::clone(&doorbell));
        let before = state.consumer.doorbell.replace(doorbell);
        drop(state);
        drop(before);
        if let Some(ring) = now {
            ring();
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.consumer.is_taken = false;
        state.consumer.rings = false;
        let gone = (state.consumer.waker.take(), state.consumer.doorbell.take());
        let is_owned = state.is_owned;
        drop(state);
        drop(gone);
        if !is_owned {
            self.shared.retain();
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("id", &self.shared.id)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

fn take(shared: &Shared) -> Result<(), OutputTaken> {
    let mut state = shared.lock();
    if std::mem::replace(&mut state.consumer.is_taken, true) {
        return Err(OutputTaken);
    }
    Ok(())
}

/// Waits for something after `after`; see [`crate::Process::readable`].
pub(super) async fn readable(shared: &Shared, after: u64) {
    let _counted = Reader::new(shared);
    loop {
        let mut arrived = pin!(shared.arrived.notified());
        // From here on a notice is not missed; only then is it safe to look.
        arrived.as_mut().enable();
        if shared.lock().store.has_after(after) {
            return;
        }
        arrived.await;
    }
}

/// Lets the driver know that somebody is to be told.
struct Reader<'a> {
    shared: &'a Shared,
}

impl<'a> Reader<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.lock().readers += 1;
        Self { shared }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.shared.lock().readers -= 1;
    }
}
