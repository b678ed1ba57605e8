//! Which processes of a session have something to tell, in the order in which they get their turn.
//!
//! A process is in the queue at most once. It is put there by its [`Bell`], which the process
//! service rings from the task that reads the process, so ringing never takes another lock than the
//! queue's and never drops a process. The queue outlives connections: what is in it when one is lost
//! waits for the next. Only the attached connection's writer takes from it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::entry::Entry;

/// The queue of one session.
#[derive(Debug, Default)]
pub(crate) struct Ready(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Weak<Entry>>,
    taker: Option<Taker>,
}

/// The writer of the attached connection.
#[derive(Debug)]
struct Taker {
    connection: u64,
    wake: Arc<Notify>,
}

impl Ready {
    /// From now on `connection` takes, and is woken.
    pub(crate) fn join(&self, connection: u64, wake: Arc<Notify>) {
        wake.notify_one();
        self.lock().taker = Some(Taker { connection, wake });
    }

    /// Nobody takes any more, if it was `connection` who did.
    pub(crate) fn leave(&self, connection: u64) {
        let mut waiting = self.lock();
        if waiting
            .taker
            .as_ref()
            .is_some_and(|taker| taker.connection == connection)
        {
            waiting.taker = None;
        }
    }

    /// The next process with something to tell, if `connection` is the one that takes.
    pub(crate) fn next(&self, connection: u64) -> Option<Arc<Entry>> {
        let mut waiting = self.lock();
        if waiting.taker.as_ref()?.connection != connection {
            return None;
        }
        loop {
            // One that was forgotten meanwhile has nobody to tell it to.
            if let Some(entry) = waiting.queue.pop_front()?.upgrade() {
                return Some(entry);
            }
        }
    }

    fn push(&self, entry: Weak<Entry>) {
        let mut waiting = self.lock();
        waiting.queue.push_back(entry);
        if let Some(taker) = &waiting.taker {
            taker.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts one process into the queue of its session.
#[derive(Debug)]
pub(crate) struct Bell {
    queued: AtomicBool,
    entry: Weak<Entry>,
    ready: Arc<Ready>,
}

impl Bell {
    pub(crate) fn new(entry: Weak<Entry>, ready: Arc<Ready>) -> Self {
        Self {
            queued: AtomicBool::new(false),
            entry,
            ready,
        }
    }

    /// The process has something to tell. Never waits; rung twice, it is in the queue once.
    pub(crate) fn ring(&self) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(Weak::clone(&self.entry));
        }
    }

    /// The process was taken from the queue. To be called before its events are looked at: what
    /// comes after the last look must ring again.
    pub(crate) fn heard(&self) {
        self.queued.store(false, Ordering::Release);
    }
}
