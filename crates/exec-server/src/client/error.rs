//! Why a call of the client has no result, sorted by what the caller does about it.
//!
//! First what is wrong with the request, then what may work later, then what is gone. One type for
//! every transport: a process that cannot be started in this program fails with the same code and
//! the same words as one that cannot be started by a server.

use std::time::Duration;

use serde_json::Value;
use turnlane_process::SpawnError;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::connect::ConnectError;

/// An error of the exec-server's client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The peer does not have what was asked for; nothing was sent.
    #[error("the peer does not support {method}")]
    Unsupported {
        /// The method, and the field where only that is missing.
        method: String,
    },

    /// Standard input was never open, was closed, or the process has ended.
    #[error("stdin is closed")]
    StdinClosed,

    /// The lossless stream of a process was taken before.
    #[error("the output of this process is already being read")]
    OutputTaken,

    /// The peer said no.
    #[error("the peer refused: {message} ({code})")]
    Rpc {
        /// The code of the contract.
        code: i64,
        /// The peer's words.
        message: String,
        /// What else it told, e.g. `kind` and `path` of a failed start.
        data: Option<Value>,
    },

    /// No connection in time. Trying later may help.
    #[error("no connection to {url} within {after:?}")]
    ConnectTimeout {
        /// Where to.
        url: String,
        /// The time that was given.
        after: Duration,
    },

    /// No connection: refused, unauthorized, or not a server of this kind.
    #[error("no connection to {url}")]
    Connect {
        /// Where to.
        url: String,
        /// Why.
        source: ConnectError,
    },

    /// The peer accepted the connection and then did not answer `initialize`.
    #[error("no answer to initialize within {after:?}")]
    InitializeTimeout {
        /// The time that was given.
        after: Duration,
    },

    /// The program of a local server could not be started.
    #[error("the server could not be started")]
    Spawn(#[source] SpawnError),

    /// The transport ended. Whether an unanswered request was carried out is unknown.
    #[error("the connection is closed: {reason}")]
    Closed {
        /// What ended it.
        reason: String,
    },

    /// The peer broke its own rules. If it is about one process, only that process has failed.
    #[error("protocol violation: {0}")]
    Protocol(String),
}

impl ClientError {
    pub(super) fn closed(reason: impl Into<String>) -> Self {
        Self::Closed {
            reason: reason.into(),
        }
    }

    pub(super) fn unsupported(method: impl Into<String>) -> Self {
        Self::Unsupported {
            method: method.into(),
        }
    }

    pub(super) fn rpc(code: i64, message: impl Into<String>) -> Self {
        Self::Rpc {
            code,
            message: message.into(),
            data: None,
        }
    }
}

impl From<ErrorObject> for ClientError {
    fn from(error: ErrorObject) -> Self {
        let ErrorObject {
            code,
            message,
            data,
        } = error;
        Self::Rpc {
            code,
            message,
            data,
        }
    }
}
