//! The bounds of one connection, each with what happens at it.

use std::fmt;
use std::time::Duration;

use super::outgoing::LagNotice;

/// The bounds of one connection. The defaults are those of the app-server; tests make them small.
#[derive(Clone)]
pub struct Limits {
    /// At this many unanswered requests reading stops until half of them are answered.
    pub unanswered_max: usize,
    /// At this many bytes of unwritten answers reading stops until half of them are written. The
    /// same bound holds for messages that were read and not yet taken from the [`crate::Inbox`].
    pub unwritten_bytes_max: usize,
    /// Above this many waiting messages deltas are joined and states replaced.
    pub crowded_messages: usize,
    /// Above this many waiting bytes deltas are joined and states replaced.
    pub crowded_bytes: usize,
    /// Deltas are joined up to this size.
    pub joined_bytes_max: usize,
    /// Above this many waiting bytes of deltas further ones are left out.
    pub delta_bytes_max: usize,
    /// Above this many waiting bytes in all the connection is closed as a slow consumer.
    pub waiting_bytes_max: usize,
    /// When nothing could be written for this long the connection is closed as a slow consumer.
    pub stall: Duration,
    /// A websocket that was silent for this long is pinged; after two such times it is closed.
    pub ping_interval: Duration,
    /// After the other side said that it sends no more, how long its last requests may take to be
    /// answered.
    pub drain: Duration,
    /// How long the last frames (an orderly close, a reason) may take to be written.
    pub farewell: Duration,
    /// Tells a reader that deltas were left out; `None` leaves them out in silence.
    pub lag_notice: Option<LagNotice>,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            unanswered_max: 1024,
            unwritten_bytes_max: 16 * MIB,
            crowded_messages: 64,
            crowded_bytes: 256 * KIB,
            joined_bytes_max: 512 * KIB,
            delta_bytes_max: 8 * MIB,
            waiting_bytes_max: 64 * MIB,
            stall: Duration::from_mins(1),
            ping_interval: Duration::from_secs(30),
            drain: Duration::from_millis(800),
            farewell: Duration::from_secs(1),
            lag_notice: None,
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("unanswered_max", &self.unanswered_max)
            .field("unwritten_bytes_max", &self.unwritten_bytes_max)
            .field("waiting_bytes_max", &self.waiting_bytes_max)
            .field("stall", &self.stall)
            .finish_non_exhaustive()
    }
}
