//! What waits to be written to one client.
//!
//! The invariant here: putting an event in never waits. Above [`FULL_BYTES`] events that repeat are left
//! out, and a client with a way back is disconnected; the parent process is waited for by not reading its
//! commands, up to [`HELD_BYTES_MAX`], where its channel counts as broken.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::wire::Weight;

/// An outbox with as much in it is full.
const FULL_BYTES: usize = 8 * 1_048_576;
/// What the end of turns may add on top of that while the parent does not read: the receipts of a full
/// queue.
const HELD_BYTES_MAX: usize = 128 * 1_048_576;

/// What happens to a client that does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowReader {
    /// Its commands wait; there is no other way to it.
    Waited,
    /// It is disconnected and may come back with its cursor.
    Dropped,
}

/// Frames for one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    policy: SlowReader,
    waiting: Mutex<Waiting>,
    /// Something was put in, or the outbox was closed.
    filled: Notify,
    /// Something was written, or the outbox was closed.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// How many frames were put in, and how many of them were written.
    put: u64,
    written: u64,
    is_closed: bool,
    /// The client did not read and is to be disconnected.
    is_overrun: bool,
}

impl Outbox {
    pub(crate) fn new(policy: SlowReader) -> Self {
        Self {
            policy,
            waiting: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
        }
    }

    /// Puts an event in; its number, or none where it was left out.
    pub(crate) fn put(&self, event: Bytes, weight: Weight) -> Option<u64> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return None;
        }
        let is_full = waiting.bytes >= FULL_BYTES;
        if is_full && weight == Weight::Repeating {
            return None;
        }
        let overrun = match self.policy {
            SlowReader::Waited => waiting.bytes >= HELD_BYTES_MAX,
            SlowReader::Dropped => is_full,
        };
        if overrun {
            waiting.is_overrun = true;
            waiting.is_closed = true;
            waiting.frames.clear();
            drop(waiting);
            self.filled.notify_one();
            self.emptied.notify_waiters();
            return None;
        }
        waiting.bytes += event.len();
        waiting.frames.push_back(event);
        waiting.put += 1;
        let number = waiting.put;
        drop(waiting);
        self.filled.notify_one();
        Some(number)
    }

    /// The next frame for the writer; none when the outbox is closed and empty.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.lock();
                if let Some(frame) = waiting.frames.pop_front() {
                    return Some(frame);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// A frame of `bytes` bytes left.
    pub(crate) fn wrote(&self, bytes: usize) {
        let mut waiting = self.lock();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        waiting.written += 1;
        drop(waiting);
        self.emptied.notify_waiters();
    }

    /// Nothing more is put in; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
        self.emptied.notify_waiters();
    }

    pub(crate) fn is_overrun(&self) -> bool {
        self.lock().is_overrun
    }

    /// Waits until commands of this client may be read again.
    pub(crate) async fn room(&self) {
        self.until(|waiting| waiting.bytes < FULL_BYTES || waiting.is_closed)
            .await;
    }

    /// Waits until the frame of that number was written, or never will be.
    pub(crate) async fn written(&self, number: u64) {
        self.until(|waiting| waiting.written >= number || waiting.is_overrun)
            .await;
    }

    /// How many frames were put in.
    pub(crate) fn put_count(&self) -> u64 {
        self.lock().put
    }

    /// How many frames were written.
    pub(crate) fn written_count(&self) -> u64 {
        self.lock().written
    }

    async fn until(&self, holds: impl Fn(&Waiting) -> bool) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Registered before looking, so that no change in between is missed.
            emptied.as_mut().enable();
            if holds(&self.lock()) {
                return;
            }
            emptied.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_outbox_leaves_out_what_repeats_and_keeps_the_rest() {
        let outbox = Outbox::new(SlowReader::Waited);
        let long = Bytes::from(vec![0; FULL_BYTES]);
        assert_eq!(outbox.put(long, Weight::Lossless), Some(1));
        let short = || Bytes::from_static(b"{}");
        assert_eq!(outbox.put(short(), Weight::Repeating), None);
        assert_eq!(outbox.put(short(), Weight::Lossless), Some(2));
        let first = outbox.next().await.unwrap();
        outbox.wrote(first.len());
        outbox.room().await;
        outbox.written(1).await;
        assert_eq!(outbox.put(short(), Weight::Repeating), Some(3));
        outbox.close();
        assert_eq!(outbox.put(short(), Weight::Lossless), None);
        assert!(outbox.next().await.is_some() && outbox.next().await.is_some());
        assert!(outbox.next().await.is_none());
    }

    #[tokio::test]
    async fn a_client_with_a_way_back_is_dropped_when_it_does_not_read() {
        let outbox = Outbox::new(SlowReader::Dropped);
        let long = Bytes::from(vec![0; FULL_BYTES]);
        assert_eq!(outbox.put(long, Weight::Lossless), Some(1));
        assert_eq!(
            outbox.put(Bytes::from_static(b"{}"), Weight::Lossless),
            None
        );
        assert!(outbox.is_overrun());
        assert!(outbox.next().await.is_none());
    }
}
