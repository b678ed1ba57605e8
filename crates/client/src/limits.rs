//! The bounds of one client, each with what happens at it, and when it connects again.

use std::time::Duration;

/// The bounds of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A larger frame fails the call that waits for it; the connection goes on.
    pub max_frame: usize,
    /// Requests that wait for an answer at the same time; further ones wait in the client.
    pub in_flight: usize,
    /// How long a call waits for its answer unless told otherwise.
    pub rpc_timeout: Duration,
    /// How long `initialize` may take.
    pub handshake: Duration,
    /// How long a reviewer may think before its request is declined.
    pub review: Duration,
    /// How much of a child's standard error is kept.
    pub stderr_tail: usize,
    /// Unread events of progress; beyond, the oldest are left out and a stream says so.
    pub progress_buffer: usize,
    /// The same in bytes; the newest is always kept, however long it is.
    pub progress_bytes: usize,
    /// Unread events that are never left out; beyond, the stream fails.
    pub lossless_buffer: usize,
    /// The same in bytes; one alone may be longer.
    pub lossless_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 64 * 1024 * 1024,
            in_flight: 64,
            rpc_timeout: Duration::from_secs(30),
            handshake: Duration::from_secs(30),
            review: Duration::from_mins(5),
            stderr_tail: 16 * 1024,
            progress_buffer: 1_024,
            progress_bytes: 32 * 1024 * 1024,
            lossless_buffer: 65_536,
            lossless_bytes: 256 * 1024 * 1024,
        }
    }
}

/// What happens when the connection is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconnect {
    /// Everything that waits fails; the client is closed.
    Never,
    /// Connect again with growing pauses; open turns are found again.
    Backoff {
        /// The first pause.
        initial: Duration,
        /// The longest pause.
        max: Duration,
        /// Give up this long after the loss; never when `None`.
        give_up_after: Option<Duration>,
    },
}

impl Reconnect {
    /// 100 ms growing to 10 s, without end.
    pub fn backoff() -> Self {
        Self::Backoff {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(10),
            give_up_after: None,
        }
    }
}
