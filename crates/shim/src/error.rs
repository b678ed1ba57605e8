//! How a shim ends, and why a lane could not be opened.

use turnlane::CallError;

use crate::run::StopSignal;

/// How a shim ended. The caller turns it into an exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// In order.
    Ordered,
    /// By a signal, which the caller raises again.
    Signal(StopSignal),
    /// It could not start.
    StartFailed(String),
    /// Another shim holds the binding, or another worker the lane.
    Held(String),
    /// The store failed.
    Store(String),
    /// The channel to the orchestrator is broken.
    Channel(String),
}

impl Exit {
    /// The exit code; none where a signal ends the process.
    pub fn code(&self) -> Option<u8> {
        match self {
            Self::Ordered => Some(0),
            Self::Signal(_) => None,
            Self::StartFailed(_) => Some(3),
            Self::Held(_) => Some(4),
            Self::Store(_) => Some(5),
            Self::Channel(_) => Some(6),
        }
    }

    /// Why, where it did not end in order.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Ordered | Self::Signal(_) => None,
            Self::StartFailed(reason)
            | Self::Held(reason)
            | Self::Store(reason)
            | Self::Channel(reason) => Some(reason),
        }
    }
}

/// Why a call of the lane failed, sorted by what the shim does about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    /// Another connection or worker has it: ask again.
    #[error("{0}")]
    Held(String),
    /// The server said no, with its word for the reason.
    #[error("{message}")]
    Refused {
        reason: Option<String>,
        message: String,
    },
    /// The store could not write; the same call may succeed later.
    #[error("{0}")]
    Store(String),
    /// The server cannot be reached, or did not answer.
    #[error("{0}")]
    Unreachable(String),
}

impl From<CallError> for LaneError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rpc(error) => match error.reason() {
                Some("bindingInUse" | "ownedElsewhere") => Self::Held(error.message),
                Some("diskFull" | "storeFailed") => Self::Store(error.message),
                reason => match reason.map(str::to_owned) {
                    None if error.code == INTERNAL => Self::Store(error.message),
                    reason => Self::Refused {
                        reason,
                        message: error.message,
                    },
                },
            },
            CallError::Unsupported { .. }
            | CallError::InvalidArgument { .. }
            | CallError::Contract { .. }
            | CallError::Decode(_)
            | CallError::ThreadClosed { .. } => Self::Refused {
                reason: None,
                message: error.to_string(),
            },
            other => Self::Unreachable(other.to_string()),
        }
    }
}

/// The JSON-RPC code of a failure inside the server.
const INTERNAL: i64 = -32603;

impl LaneError {
    /// The server's word for a refusal.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Refused { reason, .. } => reason.as_deref(),
            _ => None,
        }
    }
}
