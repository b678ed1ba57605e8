//! A queue of two classes between tasks: many may push, one reads.
//!
//! The invariant here: pushing never waits for the reader and never runs its code while a lock is
//! held. An end is told after everything that was pushed before it, again and again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::buffer::{Bounds, Buffer, Keep, Popped, TooLong, Weight};

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mail<T> {
    /// What was pushed.
    Item(T),
    /// Progress was left out here.
    Gap {
        /// How many events; 0 when it is not known what was before.
        missed: u64,
    },
    /// Nothing follows.
    End(End),
}

/// Why nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody closed it.
    Closed,
    /// Too much lay unread.
    TooSlow,
}

/// A queue of two classes; share it with an `Arc`.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    /// Counts what was left out, for [`crate::ClientMetrics::dropped_progress`].
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State<T> {
    buffer: Buffer<T>,
    end: Option<End>,
    reader: Option<Waker>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(bounds: Bounds, dropped: Arc<AtomicU64>) -> Self {
        Self {
            state: Mutex::new(State {
                buffer: Buffer::new(bounds),
                end: None,
                reader: None,
            }),
            dropped,
        }
    }

    /// Puts an item at the end; ignored after the end.
    pub(crate) fn push(&self, item: T, weight: Weight) {
        wake(self.put(item, weight));
    }

    /// Takes note of events that were left out before they came here; 0 when it is not known what
    /// was before.
    pub(crate) fn push_gap(&self, missed: u64) {
        wake(self.put_gap(missed));
    }

    /// Ends it; what was pushed is read first. The first end stays.
    pub(crate) fn close(&self) {
        wake(self.put_end());
    }

    /// Like [`Mailbox::push`], but leaves the waking to the caller, who may hold locks.
    pub(super) fn put(&self, item: T, weight: Weight) -> Option<Waker> {
        let mut state = self.state();
        if state.end.is_some() {
            return None;
        }
        match state.buffer.push(item, weight) {
            Ok(dropped) => self.count(dropped),
            Err(TooLong) => state.end = Some(End::TooSlow),
        }
        state.reader.take()
    }

    pub(super) fn put_gap(&self, missed: u64) -> Option<Waker> {
        let mut state = self.state();
        if state.end.is_some() {
            return None;
        }
        let dropped = state.buffer.push_gap(missed);
        self.count(dropped);
        state.reader.take()
    }

    pub(super) fn put_end(&self) -> Option<Waker> {
        let mut state = self.state();
        state.end.get_or_insert(End::Closed);
        state.reader.take()
    }

    /// Drops what is not wanted: see [`Buffer::retain`].
    pub(super) fn retain(&self, keep: impl FnMut(&T) -> Keep) -> bool {
        self.state().buffer.retain(keep)
    }

    /// What comes next. Only the latest reader is woken; nothing is lost when it goes away.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Mail<T>> {
        let mut state = self.state();
        let next = match state.buffer.pop() {
            Some(Popped::Item(item)) => Some(Mail::Item(item)),
            Some(Popped::Gap { missed }) => Some(Mail::Gap { missed }),
            None => state.end.map(Mail::End),
        };
        if let Some(mail) = next {
            return Poll::Ready(mail);
        }
        let reader = state.reader.replace(cx.waker().clone());
        drop(state);
        // A waker may do anything when it is dropped.
        drop(reader);
        Poll::Pending
    }

    /// What comes next. Loses nothing when cancelled.
    pub(crate) async fn next(&self) -> Mail<T> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn count(&self, dropped: u64) {
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics between two writes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
