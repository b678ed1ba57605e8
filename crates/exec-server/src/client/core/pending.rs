//! Calls that wait for an answer, and what their answers do.
//!
//! Plain data. The invariant here: whoever holds a [`Pending`] owes its caller an outcome; dropping
//! one is noticed there as well. When calls are made and resolved is decided in `core`.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::oneshot;
use turnlane_process::Io;

use crate::client::cell::Cell;
use crate::client::error::ClientError;

/// The result of a call as JSON, still in its frame.
pub(in crate::client) type Outcome = Result<Bytes, ClientError>;

/// A call without an answer.
#[derive(Debug)]
pub(in crate::client) enum Pending {
    Call(oneshot::Sender<Outcome>),
    /// Sent again, as it is, when the session goes on.
    Write {
        answer: oneshot::Sender<Outcome>,
        frame: Bytes,
    },
    /// In v0 the server names the process, and its output may follow at once.
    StartV0 {
        answer: oneshot::Sender<Outcome>,
        born: Birth,
    },
    /// Missed events; put in place by whoever reads the answer.
    Replay {
        answer: oneshot::Sender<Outcome>,
        cell: Arc<Cell>,
    },
}

impl Pending {
    pub(in crate::client) fn resolve(self, outcome: Outcome) {
        // Who stopped waiting needs no answer.
        let (Self::Call(answer)
        | Self::Write { answer, .. }
        | Self::StartV0 { answer, .. }
        | Self::Replay { answer, .. }) = self;
        let _ = answer.send(outcome);
    }
}

/// How a call is sent.
#[derive(Clone, Debug)]
pub(in crate::client) enum Kind {
    Call,
    /// Behind earlier input; not sent again.
    AfterInput,
    /// Behind earlier input, and sent again when the session goes on.
    Write,
    StartV0(Birth),
    /// What was missed of a process.
    Replay(Arc<Cell>),
}

/// A process whose name is not known before the answer.
#[derive(Clone, Debug)]
pub(in crate::client) struct Birth {
    pub(in crate::client) io: Io,
    pub(in crate::client) cell: Arc<OnceLock<Arc<Cell>>>,
}
