//! Why there is no connection.
//!
//! The invariant here: whatever keeps a client from being connected has a variant of its own, told as
//! soon as it is known. What goes wrong on a connection is in [`super`].

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::{CallError, RpcError};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint makes no sense; nothing was sent.
    #[error("invalid endpoint: {reason}")]
    InvalidEndpoint {
        /// What is wrong with it.
        reason: String,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// [`Client::connect_default`](crate::Client::connect_default) found no server.
    #[error(
        "no server was found: no daemon answers at {daemon}, and neither `turnlane` nor `codex` can be \
         started; run `turnlane serve`, or put one of the two programs on the PATH"
    )]
    NoServer {
        /// Where a daemon was looked for.
        daemon: String,
        /// Why `codex`, the last one that was tried, could not be started.
        #[source]
        source: std::io::Error,
    },
    /// The program ended before it answered.
    #[error("the server ended before it answered: {}", shown_status(.status.as_ref()))]
    ServerExited {
        /// How it ended, if that was seen.
        status: Option<ExitStatus>,
        /// The end of what it wrote to standard error.
        stderr_tail: String,
    },
    /// No answer to `initialize`.
    #[error("no answer to initialize within {after:?}")]
    HandshakeTimeout {
        /// How long we waited.
        after: Duration,
    },
    /// No connection to that address: nobody listens there, or the system does not let us connect.
    #[error("cannot connect to {at} (`turnlane serve` starts a daemon)")]
    Refused {
        /// Where; without anything secret.
        at: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The server wants another token.
    #[error("the server refused the connection: {body}")]
    Unauthorized {
        /// What it said.
        body: String,
    },
    /// The server gave another answer than a websocket.
    #[error("the server answered {code}: {body}")]
    HttpStatus {
        /// The status.
        code: u16,
        /// What it said.
        body: String,
    },
    /// What answered is no app-server.
    #[error("not an app-server: {detail}")]
    Protocol {
        /// What it did.
        detail: String,
    },
    /// The server refused `initialize`.
    #[error("the server refused initialize")]
    Initialize(#[source] RpcError),
    /// The server is older than the caller wants.
    #[error("the server has version {found}, {required} is required")]
    VersionTooOld {
        /// What it has.
        found: Version,
        /// What was asked for.
        required: Version,
    },
    /// The server's version cannot be read, and the caller wants one.
    #[error("the server's version cannot be read from {user_agent:?}")]
    VersionUnknown {
        /// What the server said of itself.
        user_agent: String,
    },
    /// A call that comes right after `initialize` failed: hooks about tools need a server that has
    /// `hook/register`.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Options that cannot be used together.
    #[error("{what}: {reason}")]
    InvalidArgument {
        /// Which option.
        what: &'static str,
        /// Why not.
        reason: String,
    },
}

fn shown_status(status: Option<&ExitStatus>) -> String {
    status.map_or_else(|| "status unknown".to_owned(), ToString::to_string)
}

/// Three numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub patch: u32,
}

impl Version {
    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
