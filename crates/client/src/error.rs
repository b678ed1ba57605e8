//! What can go wrong, sorted by what a caller does about it.
//!
//! The invariant here: every error can be matched without reading its text, and no text carries a
//! prompt, an output or a secret; they name keys, methods and ids. Which answer of a server becomes
//! which error is decided in [`map`], the one place that knows the words of servers.

mod connect;
pub(crate) mod map;
mod rpc;

use std::path::PathBuf;
use std::time::Duration;

pub use self::connect::{ConnectError, Version};
pub use self::rpc::RpcError;
use crate::ids::{ThreadId, TurnId};
use crate::outcome::{ErrorInfo, TurnOutcome};

/// Why a connection carries nothing any more, or did not carry this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The connection ended; whether the request was executed is unknown.
    #[error("the connection was closed: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The answer was larger than a frame may be.
    #[error("a frame of {bytes} bytes exceeds the limit of {limit}")]
    FrameTooLarge {
        /// Its length.
        bytes: u64,
        /// [`Limits::max_frame`](crate::Limits::max_frame).
        limit: usize,
    },
}

/// JSON that does not have the shape it should have.
#[derive(Debug, thiserror::Error)]
#[error("{what} does not have the expected shape")]
pub struct DecodeError {
    /// What was read.
    pub what: String,
    /// What is wrong with it.
    #[source]
    pub source: serde_json::Error,
}

/// Which side of a call broke the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Our request; it was not sent.
    Request,
    /// The server's answer.
    Response,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server refused.
    #[error("the server refused the request")]
    Rpc(#[source] RpcError),
    /// A request or answer without something it must have.
    #[error("{method}: {reason}")]
    Contract {
        /// The method.
        method: String,
        /// Whose fault it is.
        side: Side,
        /// What is missing.
        reason: String,
    },
    /// The answer is not of the expected type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The server does not serve the method.
    #[error("the server does not support {method}")]
    Unsupported {
        /// The method.
        method: String,
    },
    /// The server has too much to do.
    #[error("the server is overloaded; try again in {retry_after:?}")]
    Overloaded {
        /// When trying again makes sense.
        retry_after: Duration,
    },
    /// No answer in time; the request may still be executed.
    #[error("{method} was not answered within {after:?}")]
    Timeout {
        /// The method.
        method: String,
        /// How long we waited.
        after: Duration,
    },
    /// The caller's own argument makes no sense; nothing was sent.
    #[error("{reason}")]
    InvalidArgument {
        /// Which argument.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The thread was archived or deleted through this client, or elsewhere.
    #[error("session is closed")]
    ThreadClosed {
        /// The thread.
        thread: ThreadId,
    },
    /// The client was shut down.
    #[error("the client is closed")]
    Closed,
}

impl CallError {
    /// Returns true if the call was certainly not executed and may succeed later: repeating it does
    /// no harm.
    ///
    /// False for a lost connection: the server may have executed the call before
    /// ([`is_outcome_unknown`](Self::is_outcome_unknown)). Repeat such a call only if it changes
    /// nothing, or carries an idempotency key, or after looking whether it was executed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Overloaded { .. })
    }

    /// Returns true if the call may have been sent and nothing is known about its result: the server
    /// may have executed it, and may still do so.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Timeout { .. } | Self::Decode(_) | Self::Closed => true,
            Self::Contract { side, .. } => *side == Side::Response,
            Self::Rpc(_)
            | Self::Unsupported { .. }
            | Self::Overloaded { .. }
            | Self::InvalidArgument { .. }
            | Self::ThreadClosed { .. } => false,
        }
    }

    /// The server's code, if it answered.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Rpc(error) => Some(error.code),
            _ => None,
        }
    }
}

/// What the privilege gate refused; nothing was sent, or no thread is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// More than reading needs a word of the caller.
    #[error("privileged sandbox requires explicit escalation approval")]
    EscalationNotAllowed,
    /// More than reading needs somebody to ask.
    #[error("privileged sandbox requires non-never approval policy")]
    ApprovalRequired,
    /// More than reading needs a place.
    #[error("privileged sandbox requires explicit scope via cwd or writable roots")]
    ScopeRequired,
    /// A sandbox that is none.
    #[error("{reason}")]
    InvalidSandbox {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A key of the configuration that would lift the gate.
    #[error("config key `{key}` changes permissions; it requires explicit escalation approval")]
    ConfigBypass {
        /// The key.
        key: String,
    },
    /// The server granted more than was asked for.
    #[error("the server granted more than was asked: asked {asked}, granted {granted}")]
    Widened {
        /// What was asked, as JSON.
        asked: String,
        /// What was granted, as JSON.
        granted: String,
    },
}

/// A hook said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blocked by hook '{hook}' at {phase}: {message}")]
pub struct Block {
    /// Its name.
    pub hook: String,
    /// When it was asked.
    pub phase: String,
    /// Its reason.
    pub message: String,
}

/// Why a turn has no successful outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The turn failed.
    #[error("the turn failed: {}", .info.message)]
    Failed {
        /// The turn.
        turn: TurnId,
        /// Why.
        info: Box<ErrorInfo>,
        /// What there is of it.
        outcome: Box<TurnOutcome>,
    },
    /// The turn was interrupted.
    #[error("the turn was interrupted")]
    Interrupted {
        /// The turn.
        turn: TurnId,
        /// What there is of it.
        outcome: Box<TurnOutcome>,
    },
    /// A hook said no.
    #[error(transparent)]
    Blocked(Block),
    /// The turn took too long and was interrupted.
    #[error("the turn did not end within {after:?}")]
    Timeout {
        /// The turn, if it had begun.
        turn: Option<TurnId>,
        /// How long it had.
        after: Duration,
        /// Whether the interrupt was confirmed.
        ended: bool,
    },
    /// Another turn runs, and the caller did not want to wait.
    #[error("turn {active} is running")]
    Busy {
        /// It.
        active: TurnId,
    },
    /// The server made our input part of another turn.
    #[error("the input became part of turn {into}")]
    Merged {
        /// It.
        into: TurnId,
    },
    /// The connection was lost, and whether the turn ran cannot be known.
    #[error("whether the turn ran is unknown (client id {client_id})")]
    Lost {
        /// The id of our message.
        client_id: String,
    },
    /// The stream was not read for too long; the turn goes on.
    #[error("the stream was not read fast enough")]
    ConsumerTooSlow,
    /// A file that was to be attached is not there.
    #[error("attachment not found: {}", .path.display())]
    AttachmentNotFound {
        /// It.
        path: PathBuf,
    },
    /// The privilege gate refused.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why there is no thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// The server has no such thread.
    #[error("thread {id} not found")]
    NotFound {
        /// The thread.
        id: ThreadId,
    },
    /// It is put away; unarchive it first.
    #[error("thread {id} is archived")]
    Archived {
        /// The thread.
        id: ThreadId,
    },
    /// Another process runs it.
    #[error("thread {id} is in use by another process")]
    InUse {
        /// The thread.
        id: ThreadId,
    },
    /// The server answered with another thread than was asked for.
    #[error("{method} returned mismatched thread id: requested={requested} actual={actual}")]
    MismatchedThread {
        /// The method.
        method: &'static str,
        /// What was asked for.
        requested: ThreadId,
        /// What came.
        actual: ThreadId,
    },
    /// A rollback beyond the beginning.
    #[error("the thread has only {have} turns")]
    NotEnoughTurns {
        /// How many there are.
        have: u32,
    },
    /// A hook said no.
    #[error(transparent)]
    Blocked(Block),
    /// A file that was to be attached is not there.
    #[error("attachment not found: {}", .path.display())]
    AttachmentNotFound {
        /// It.
        path: PathBuf,
    },
    /// The privilege gate refused.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a running turn did not take further input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// Nothing runs.
    #[error("no active turn to steer")]
    NoActiveTurn,
    /// Another turn runs than the caller meant.
    #[error("expected turn {expected}, but {actual} is running")]
    Stale {
        /// What the caller meant.
        expected: TurnId,
        /// What runs.
        actual: TurnId,
    },
    /// The running turn takes no input.
    #[error("a {kind} turn takes no input")]
    NotSteerable {
        /// What it is: `review`, `compact`, `engine`.
        kind: String,
    },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a client did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The child could not be ended.
    #[error("the server could not be ended")]
    Process(#[source] std::io::Error),
    /// It had been shut down before.
    #[error("the client is closed")]
    Closed,
}

/// Why [`quick_run`](crate::quick_run) has no outcome.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum QuickRunError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The turn did not succeed.
    #[error("{run}")]
    Run {
        /// Why.
        #[source]
        run: TurnError,
        /// The server did not end in order either.
        shutdown: Option<ShutdownError>,
    },
    /// The turn succeeded, but the server did not end in order.
    #[error("{source}")]
    Shutdown {
        /// Why.
        #[source]
        source: ShutdownError,
        /// What the turn gave.
        outcome: Box<TurnOutcome>,
    },
}

/// In words, with all causes: a `main` that returns an error shows this, and nobody reads 2 KB of
/// field names.
impl std::fmt::Debug for QuickRunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut said = self.to_string();
        f.write_str(&said)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat the text of their cause.
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}
