//! What a process tells, numbered without gaps.
//!
//! Output, exit and close share one sequence that starts at 1. `Exited` comes after every byte the
//! leader wrote, `Closed` is last and comes once.

use bytes::Bytes;

use crate::status::ExitStatus;

/// Where output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamName {
    /// Standard output of a process with pipes.
    Stdout,
    /// Standard error of a process with pipes.
    Stderr,
    /// The terminal's one stream.
    Pty,
}

/// One thing a process told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes it wrote, at most 64 KiB.
    Output {
        /// Its number.
        seq: u64,
        /// Where they were written.
        stream: StreamName,
        /// What was written.
        bytes: Bytes,
    },
    /// The leader ended.
    Exited {
        /// Its number.
        seq: u64,
        /// How.
        status: ExitStatus,
    },
    /// Every stream ended; nothing follows.
    Closed {
        /// Its number.
        seq: u64,
        /// Somebody outside the containment still held a stream two seconds after a forced end.
        drain_timed_out: bool,
    },
}

impl Event {
    /// The event's number.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Output { seq, .. } | Self::Exited { seq, .. } | Self::Closed { seq, .. } => *seq,
        }
    }
}

/// What [`crate::Output::try_next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryNext {
    /// The next event; it counts as delivered.
    Event(Event),
    /// Nothing yet.
    Empty,
    /// `Closed` was taken before.
    Ended,
}

/// A page of what is retained, read without consuming anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Output after the number asked for, oldest first; at most 64 KiB each.
    pub chunks: Vec<(u64, StreamName, Bytes)>,
    /// Where to read on: see [`crate::Process::read`].
    pub next_seq: u64,
    /// The number of the exit and the status, once the leader was reaped.
    pub exited: Option<(u64, ExitStatus)>,
    /// The number of the close, once every stream ended.
    pub closed: Option<u64>,
    /// Something after the number asked for is no longer there.
    pub truncated: bool,
    /// Bytes that are no longer there at all.
    pub omitted_bytes: u64,
    /// The oldest output that is still there.
    pub first_seq: Option<u64>,
}
