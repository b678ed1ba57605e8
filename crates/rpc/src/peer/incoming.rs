//! What the other side asks and tells: requests with their responders, and notifications.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use turnlane_protocol::envelope::{ReceivedStamp, RequestId, encode_error, encode_result};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::strict;

use super::budget::BudgetPermit;
use super::{Core, Peer};

/// One message of the other side that is not an answer.
#[derive(Debug)]
pub enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
}

/// A request and the means to answer it.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub method: String,
    /// With what.
    pub params: Params,
    /// Answers it, once.
    pub responder: Responder,
}

/// A notification of the other side.
#[derive(Debug)]
pub struct Notification {
    /// What happened.
    pub method: String,
    /// To what.
    pub params: Params,
    /// When, and as which event of its thread; servers send this.
    pub stamp: ReceivedStamp,
}

/// Params as raw JSON, until somebody knows their type.
#[derive(Clone, Default)]
pub struct Params(Option<Bytes>);

impl Params {
    pub(super) fn new(raw: Option<Bytes>) -> Self {
        Self(raw)
    }

    /// The raw JSON; absent params are `{}`.
    pub fn raw(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(b"{}")
    }

    /// Whether the caller sent any.
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }

    /// Reads them as `T`, whose structs must be objects; the error is ready to be the answer.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ErrorObject> {
        strict::read(self.raw()).map_err(|why| ErrorObject::invalid_params(&why))
    }

    /// As [`Self::parse`], with the bounds of [`turnlane_protocol::bounds`] on texts and lists: for
    /// a server, which stores them and sends them to others.
    pub fn parse_bounded<T: DeserializeOwned>(&self) -> Result<T, ErrorObject> {
        strict::read_params(self.raw()).map_err(|why| ErrorObject::invalid_params(&why))
    }
}

impl fmt::Debug for Params {
    /// Without the content, which may be a prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Params({} bytes)", self.raw().len())
    }
}

/// The duty to answer one request.
///
/// Answering never waits. Dropping a responder answers too, with an internal error: no path
/// through a handler, not even a panic, leaves a request without an answer. After the end of the
/// connection an answer goes nowhere, in silence.
pub struct Responder {
    core: Arc<Core>,
    /// `None` once answered.
    id: Option<RequestId>,
    _budget: BudgetPermit,
}

impl Responder {
    pub(super) fn new(core: Arc<Core>, id: RequestId, budget: BudgetPermit) -> Self {
        Self {
            core,
            id: Some(id),
            _budget: budget,
        }
    }

    /// Answers with a result. One that cannot be written as JSON is our fault and is answered so.
    pub fn result(mut self, result: &impl Serialize) {
        if let Some(id) = self.id.take() {
            let frame = encode_result(&id, result).unwrap_or_else(|why| {
                tracing::error!(error = %why, "a result cannot be written as JSON");
                encode_error(
                    Some(&id),
                    &ErrorObject::internal("result could not be written"),
                )
            });
            self.core.outbox.answer(frame.into());
        }
    }

    /// Answers with an error.
    pub fn error(mut self, error: &ErrorObject) {
        self.refuse(error);
    }

    /// Answers with whichever it is.
    pub fn respond(self, outcome: Result<impl Serialize, ErrorObject>) {
        match outcome {
            Ok(result) => self.result(&result),
            Err(error) => self.error(&error),
        }
    }

    /// The id the caller gave its request; how other messages name it.
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// Leaves the request without an answer, because somebody else answers it or nobody waits any
    /// more. It no longer counts as unanswered.
    pub fn leave(mut self) {
        if self.id.take().is_some() {
            self.core.outbox.left();
        }
    }

    /// Resolves when the caller can no longer be answered, so that work for it may stop.
    pub async fn abandoned(&self) {
        self.core.ended.cancelled().await;
    }

    fn refuse(&mut self, error: &ErrorObject) {
        if let Some(id) = self.id.take() {
            self.core
                .outbox
                .answer(encode_error(Some(&id), error).into());
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.refuse(&ErrorObject::internal(
            "request was abandoned by its handler",
        ));
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The messages of one connection, in the order they came.
///
/// Whoever takes them must not await a call on the same connection between two of them: while
/// nobody takes messages, reading stops after a while, and the answer cannot come.
#[derive(Debug)]
pub struct Inbox {
    pub(super) messages: mpsc::Receiver<(Incoming, usize)>,
    pub(super) peer: Peer,
}

impl Inbox {
    /// The next message, or `None` after the end of the connection. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Incoming> {
        let (message, bytes) = self.messages.recv().await?;
        self.peer.core().outbox.delivered(bytes);
        Some(message)
    }

    /// The peer these messages come from.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Drop for Inbox {
    /// What nobody will take any more no longer counts as waiting: the connection may live on, and
    /// its calls with it. The requests among it are answered by their responders.
    fn drop(&mut self) {
        self.messages.close();
        while let Ok((message, bytes)) = self.messages.try_recv() {
            drop(message);
            self.peer.core().outbox.delivered(bytes);
        }
    }
}
