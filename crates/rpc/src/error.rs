//! Why a call has no result and why a connection ended.
//!
//! Sorted by what the caller does about it: the other side said no (read the error), it did not
//! answer (try again or give up), the connection is gone (connect anew), or our own types do not
//! fit (a bug or another version on the other side).

use std::time::Duration;

use turnlane_protocol::error::ErrorObject;

/// Why a request we sent has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The other side answered with an error.
    #[error("the peer refused the request")]
    Refused(#[source] ErrorObject),

    /// No answer in time. The request may still be executed; a late answer is ignored.
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long we waited.
        after: Duration,
    },

    /// The connection ended first. Whether the request was executed is unknown.
    #[error("the connection ended before the answer")]
    Closed(#[source] CloseReason),

    /// The answer was longer than a frame may be and was skipped; the connection goes on.
    #[error("the answer of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The longest frame the connection reads.
        limit: usize,
    },

    /// The params cannot be written as JSON. Nothing was sent.
    #[error("params cannot be written as JSON")]
    Encode(#[source] serde_json::Error),

    /// The result is not of the expected type.
    #[error("the result does not have the expected shape")]
    Decode(#[source] serde_json::Error),
}

/// Why a connection ended; the same for everyone who waited on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// We closed it: [`crate::Peer::close`], or the last handle was dropped.
    #[error("closed by this side")]
    Local,

    /// The other side closed it: end of file or a websocket close frame.
    #[error("closed by the other side")]
    Remote,

    /// The other side read too little: too much waited for it, or nothing was taken for too long.
    #[error("slow consumer")]
    SlowConsumer,

    /// The other side gave no sign of life between two pings.
    #[error("no sign of life")]
    Silent,

    /// A websocket message above the limit.
    #[error("message too large")]
    TooLarge,

    /// Bytes that are no websocket frames.
    #[error("websocket protocol violation: {0}")]
    Protocol(&'static str),

    /// The operating system failed; reset connections are here.
    #[error("connection failed: {0}")]
    Io(std::io::ErrorKind),
}

impl CloseReason {
    /// Code and text of the websocket close frame that tells the other side.
    pub(crate) fn close_frame(&self) -> (u16, &'static str) {
        match self {
            Self::Local | Self::Remote => (1000, ""),
            Self::SlowConsumer => (1013, "slow consumer"),
            Self::Silent | Self::Io(_) => (1001, "going away"),
            Self::TooLarge => (1009, "message too large"),
            Self::Protocol(_) => (1002, "protocol error"),
        }
    }
}
