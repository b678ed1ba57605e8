//! One process as the client sees it: what it told so far, in order.
//!
//! Whoever reads from the transport puts events in ([`Cell::accept`]); everybody else looks. The
//! invariant here: events pass exactly once and in the order of their numbers, to the listeners, to
//! the feed of the lossless stream and to what is kept. Numbers that come too early are held, as long
//! as there are few of them; a process whose numbers do not come together fails, alone.
//!
//! Not here: how events come ([`super::routing`], [`super::in_process`]) and how a reader that is
//! behind reads on ([`super::output`]).

pub(super) mod feed;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use turnlane_process::{Io, StreamName, TerminalSize, Until};

use super::error::ClientError;
use super::events::{Event, Exit, Hub, ProcessId};
use super::kept::Kept;
use super::output::sizes::Missing;
use feed::{Feed, Item};

/// Events held because an earlier one is missing.
const HELD_EVENTS_MAX: usize = 256;
/// Bytes of them.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// One thing a process told, without its number.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Output { stream: StreamName, bytes: Bytes },
    Exited(Exit),
    Closed { drain_timed_out: bool },
}

impl Told {
    fn len(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited(_) | Self::Closed { .. } => 0,
        }
    }

    pub(super) fn into_event(self, process: ProcessId, seq: u64) -> Event {
        match self {
            Self::Output { stream, bytes } => Event::Output {
                process,
                seq,
                stream,
                bytes,
            },
            Self::Exited(exit) => Event::Exited { process, seq, exit },
            Self::Closed { drain_timed_out } => Event::Closed {
                process,
                seq,
                drain_timed_out,
            },
        }
    }
}

/// Why nothing more will be known of a process.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Closed(String),
    Protocol(String),
}

impl Failure {
    pub(super) fn error(&self) -> ClientError {
        match self {
            Self::Closed(reason) => ClientError::closed(reason),
            Self::Protocol(text) => ClientError::Protocol(text.clone()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) id: ProcessId,
    pub(super) io: Io,
    hub: Arc<Hub>,
    inner: Mutex<Inner>,
    /// Exit, close or failure; for those who wait.
    changed: Notify,
    /// Something for the one who takes the output.
    fed: Notify,
    /// Rung when that one has room again; set where the process can be held back.
    room: OnceLock<Room>,
}

/// See [`Cell::on_room`].
struct Room(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    /// The number that passes next.
    pub(super) next_seq: u64,
    held: BTreeMap<u64, Told>,
    held_bytes: usize,
    /// While the missed events are being read: the newest number that came by itself and could not
    /// be held, since reading once more will bring it.
    replay: Option<u64>,
    pub(super) exit: Option<(u64, Exit)>,
    pub(super) closed: Option<(u64, bool)>,
    pub(super) failure: Option<Failure>,
    pub(super) feed: Feed,
    pub(super) kept: Option<Kept>,
    pub(super) size: Option<TerminalSize>,
}

impl Cell {
    pub(super) fn new(id: ProcessId, io: Io, hub: Arc<Hub>, kept: Option<Kept>) -> Self {
        let size = match io {
            Io::Pty(size) => Some(size),
            Io::Pipe { .. } => None,
        };
        let inner = Inner {
            next_seq: 1,
            held: BTreeMap::new(),
            held_bytes: 0,
            replay: None,
            exit: None,
            closed: None,
            failure: None,
            feed: Feed::default(),
            kept,
            size,
        };
        Self {
            id,
            io,
            hub,
            inner: Mutex::new(inner),
            changed: Notify::new(),
            fed: Notify::new(),
            room: OnceLock::new(),
        }
    }

    /// What to do when the reader has room again after [`Feed::is_full`]; decided once.
    pub(super) fn on_room(&self, room: impl Fn() + Send + Sync + 'static) {
        let _ = self.room.set(Room(Box::new(room)));
    }

    pub(super) fn has_room(&self) {
        if let Some(Room(room)) = self.room.get() {
            room();
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every step leaves the state whole; who panicked with it did no harm.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event, whatever order it comes in; whether nothing can follow.
    pub(super) fn accept(&self, seq: u64, told: Told) -> bool {
        let mut inner = self.lock();
        if inner.is_over() || seq < inner.next_seq {
            return inner.is_over();
        }
        if seq > inner.next_seq {
            inner.hold(seq, told);
        } else {
            self.pass(&mut inner, told);
            while let Some(told) = inner.release() {
                self.pass(&mut inner, told);
            }
        }
        self.wake(&inner);
        inner.is_over()
    }

    /// An event of a dialect without numbers gets the next one.
    pub(super) fn accept_next(&self, told: Told) -> bool {
        let next_seq = self.lock().next_seq;
        self.accept(next_seq, told)
    }

    /// Numbers before `seq` will never come.
    pub(super) fn skip_to(&self, seq: u64, bytes: u64) {
        let mut inner = self.lock();
        let events = seq.saturating_sub(inner.next_seq);
        if events == 0 || inner.is_over() {
            return;
        }
        inner.next_seq = seq;
        inner
            .feed
            .push(seq - 1, Item::Missing(Missing { events, bytes }));
        self.hub.publish(&Event::Lagged {
            process: self.id.clone(),
            events,
            bytes,
        });
        while let Some(told) = inner.release() {
            self.pass(&mut inner, told);
        }
        self.wake(&inner);
    }

    fn pass(&self, inner: &mut Inner, told: Told) {
        let seq = inner.next_seq;
        inner.next_seq += 1;
        match &told {
            Told::Output { stream, bytes } => {
                if let Some(kept) = &mut inner.kept {
                    kept.push(seq, *stream, bytes);
                }
            }
            Told::Exited(exit) => inner.exit = Some((seq, *exit)),
            Told::Closed { drain_timed_out } => inner.closed = Some((seq, *drain_timed_out)),
        }
        if self.hub.is_heard() {
            let event = told.clone().into_event(self.id.clone(), seq);
            self.hub.publish(&event);
        }
        inner.feed.push(seq, Item::Told(told));
    }

    fn wake(&self, inner: &Inner) {
        self.fed.notify_one();
        if inner.exit.is_some() || inner.failure.is_some() {
            self.changed.notify_waiters();
        }
    }

    /// Nothing more will be known. What passed before stays.
    pub(super) fn fail(&self, failure: Failure) {
        let mut inner = self.lock();
        if inner.is_over() {
            return;
        }
        inner.failure = Some(failure);
        self.wake(&inner);
    }

    /// From now on gaps are filled by reading.
    pub(super) fn begin_replay(&self) -> Option<u64> {
        let mut inner = self.lock();
        if inner.is_over() {
            return None;
        }
        inner.replay = Some(0);
        Some(inner.next_seq - 1)
    }

    /// Ends the replay unless something came meanwhile that must be read too: then from where.
    pub(super) fn end_replay(&self) -> Option<u64> {
        let mut inner = self.lock();
        let newest = inner.replay.take().unwrap_or(0);
        if newest < inner.next_seq || inner.is_over() {
            return None;
        }
        inner.replay = Some(0);
        Some(inner.next_seq - 1)
    }

    pub(super) fn is_exited(&self) -> bool {
        self.lock().exit.is_some()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Waits for the exit or the close.
    pub(super) async fn wait(&self, until: Until) -> Result<Exit, ClientError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let inner = self.lock();
                let done = until == Until::Exited || inner.closed.is_some();
                if let (Some((_, exit)), true) = (inner.exit, done) {
                    return Ok(exit);
                }
                if let Some(failure) = &inner.failure {
                    return Err(failure.error());
                }
            }
            changed.await;
        }
    }

    /// Resolves when the feed may have something new.
    pub(super) async fn fed(&self) {
        self.fed.notified().await;
    }
}

impl Inner {
    /// Whether nothing can follow.
    fn is_over(&self) -> bool {
        self.closed.is_some() || self.failure.is_some()
    }

    /// The held event whose turn it is.
    fn release(&mut self) -> Option<Told> {
        let next_seq = self.next_seq;
        let told = self.held.remove(&next_seq)?;
        self.held_bytes -= told.len();
        Some(told)
    }

    fn hold(&mut self, seq: u64, told: Told) {
        if self.held.contains_key(&seq) {
            return;
        }
        self.held_bytes += told.len();
        self.held.insert(seq, told);
        if self.held.len() <= HELD_EVENTS_MAX && self.held_bytes <= HELD_BYTES_MAX {
            return;
        }
        if let Some(newest) = &mut self.replay {
            if let Some((last, told)) = self.held.pop_last() {
                self.held_bytes -= told.len();
                *newest = last.max(*newest);
            }
        } else {
            let text = format!("event {} of the process never came", self.next_seq);
            self.failure = Some(Failure::Protocol(text));
            self.held.clear();
        }
    }
}

#[cfg(test)]
mod tests;
