//! What processes tell, to any number of listeners.
//!
//! Each listener has a queue of its own ([`backlog`]) that loses the oldest output when it is full.
//! The invariant here: publishing never waits, whatever a listener does, so a slow one never stalls
//! the connection. Who needs every byte takes the output of a process instead.

pub(super) mod backlog;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use turnlane_process::StreamName;
use turnlane_protocol::exec_server::process::Reason;

use backlog::Backlog;

/// Names a process of one client; never used twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(Arc<str>);

impl ProcessId {
    pub(super) fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ProcessId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessId({})", self.0)
    }
}

/// How a leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The code a shell would show; 124 for a timeout, -1 when it was lost.
    pub code: i32,
    /// The signal that ended it, if one did and the peer tells.
    pub signal: Option<i32>,
    /// Why, if the peer tells.
    pub reason: Option<Reason>,
    /// Whether it looks as if the sandbox was the reason; a hint.
    pub sandbox_denied: bool,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process wrote something.
    Output {
        /// Which.
        process: ProcessId,
        /// Its number; dense from 1, shared with `Exited` and `Closed`.
        seq: u64,
        /// Where.
        stream: StreamName,
        /// What.
        bytes: Bytes,
    },
    /// A leader ended.
    Exited {
        /// Which.
        process: ProcessId,
        /// Its number.
        seq: u64,
        /// How.
        exit: Exit,
    },
    /// Every stream of a process ended; nothing of it follows.
    Closed {
        /// Which.
        process: ProcessId,
        /// Its number.
        seq: u64,
        /// Somebody outside the containment still held a stream two seconds after a forced end.
        drain_timed_out: bool,
    },
    /// Output is missing here.
    Lagged {
        /// Of which process.
        process: ProcessId,
        /// How many pieces.
        events: u64,
        /// How many bytes. Exact, except for what was lost while there was no connection: then it
        /// is what the peer tells, 0 if it tells nothing.
        bytes: u64,
    },
    /// The connection is gone. Without [`Event::Resumed`] after it, this is the last event.
    Disconnected {
        /// What ended it.
        reason: String,
    },
    /// The session goes on over a new connection; what was missed follows.
    Resumed,
}

impl Event {
    /// What the event weighs in a bounded queue.
    fn bytes(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited { .. }
            | Self::Closed { .. }
            | Self::Lagged { .. }
            | Self::Disconnected { .. }
            | Self::Resumed => 0,
        }
    }
}

/// The events of a client from the moment it was asked for.
///
/// Holds 4,096 events or 4 MiB. When more comes than is taken, the oldest output is lost, with one
/// [`Event::Lagged`] per process at the place of the loss; `Exited` and `Closed` never are.
#[derive(Debug)]
pub struct EventStream {
    backlog: Arc<Backlog>,
}

impl EventStream {
    /// The next event; `None` when the client or its connection is gone for good. Loses nothing
    /// when cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        self.backlog.next().await
    }

    /// The next event if it is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.backlog.pop()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.backlog.abandon();
    }
}

/// Everybody who listens to one client.
#[derive(Debug, Default)]
pub(super) struct Hub {
    listeners: Mutex<Listeners>,
    /// Lets the hot path see without a lock that nobody listens.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Listeners {
    backlogs: Vec<Arc<Backlog>>,
    ended: bool,
}

impl Hub {
    pub(super) fn subscribe(&self) -> EventStream {
        let backlog = Arc::new(Backlog::default());
        let mut listeners = self.lock();
        if listeners.ended {
            backlog.end();
        } else {
            listeners.backlogs.push(Arc::clone(&backlog));
            self.count
                .store(listeners.backlogs.len(), Ordering::Release);
        }
        EventStream { backlog }
    }

    /// Whether anybody would get an event.
    pub(super) fn is_heard(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(super) fn publish(&self, event: &Event) {
        if !self.is_heard() {
            return;
        }
        let mut listeners = self.lock();
        listeners.backlogs.retain(|backlog| backlog.push(event));
        self.count
            .store(listeners.backlogs.len(), Ordering::Release);
    }

    /// Nothing follows; later subscribers get an ended stream.
    pub(super) fn end(&self) {
        let mut listeners = self.lock();
        listeners.ended = true;
        for backlog in listeners.backlogs.drain(..) {
            backlog.end();
        }
        self.count.store(0, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        // A list stays whole at every step; who panicked with it did no harm.
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
