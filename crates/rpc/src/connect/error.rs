//! Why there is no connection, sorted by what the caller does about it.

use std::io;
use std::time::Duration;

/// An error from connecting. Never holds a token or a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL, the path or a header makes no sense; nothing was sent. Never retried.
    #[error("invalid endpoint: {reason}")]
    InvalidEndpoint {
        /// What is wrong with it.
        reason: String,
    },

    /// Nobody listens, or the connection broke before an answer. Trying later may help.
    #[error("the connection was refused")]
    Refused {
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// The server said 401 or 403. Another token, Host or Origin is needed.
    #[error("the server refused the connection: {body}")]
    Unauthorized {
        /// What the server said, at most 4 KiB of it.
        body: String,
    },

    /// The server gave another answer than a websocket; 503 may pass.
    #[error("the server answered {code}: {body}")]
    HttpStatus {
        /// The status.
        code: u16,
        /// What the server said, at most 4 KiB of it.
        body: String,
    },

    /// No answer in time. Trying later may help.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The time that was given.
        after: Duration,
    },

    /// What answered is not a websocket server.
    #[error("not a websocket server: {detail}")]
    Protocol {
        /// What it did.
        detail: &'static str,
    },
}

impl ConnectError {
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidEndpoint {
            reason: reason.into(),
        }
    }

    pub(super) fn refused(source: io::Error) -> Self {
        Self::Refused { source }
    }
}
