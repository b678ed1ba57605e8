//! A peer: one end of a connection on which both sides may ask.
//!
//! [`Peer::start`] takes a [`Duplex`] and gives two things: a [`Peer`] (cheap to clone) that sends
//! requests and notifications, and an [`Inbox`] from which the other side's requests and
//! notifications are taken, in order. Every [`Request`] comes with a [`Responder`], whose only way
//! out is an answer. Every call resolves: by its answer, its time limit, or the end of the
//! connection. No method is known here.
//!
//! # Theory of operation
//!
//! Two tasks per connection. The *reading* task waits until the outbox allows it, takes a frame,
//! and does one of three things: resolve a pending call, refuse the frame, or put the message into
//! the inbox (a channel of [`INBOX_MESSAGES_MAX`]; when it is full reading waits). The *writing*
//! task takes what waits in the outbox in batches and writes it. They share only the outbox and
//! the table of pending calls. The reading task ends at the end of the stream, the writing task
//! when the outbox is drained or given up; either makes the other end. When the last `Peer` and
//! the `Inbox` are dropped, what waits is written and the connection is closed.

mod answered_id;
mod budget;
mod incoming;
mod limits;
mod outbox;
mod outgoing;
mod pending;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::envelope::{RequestId, encode_notification, encode_request};
use turnlane_protocol::strict;

pub use budget::{Budget, UNANSWERED_IN_PROCESS_MAX};
pub use incoming::{Inbox, Incoming, Notification, Params, Request, Responder};
pub use limits::Limits;
pub use outbox::Waiting;
pub use outgoing::{LagNotice, Outgoing, Scope, Stream};

use outbox::{Outbox, Until};
use pending::{Pending, PendingCall};
use read::Reading;
use write::Writing;

use crate::duplex::Duplex;
use crate::error::{CallError, CloseReason};

/// Messages that were read and wait to be taken. When this many wait, reading waits.
const INBOX_MESSAGES_MAX: usize = 1024;

/// What a peer is started with.
#[derive(Clone, Debug, Default)]
pub struct PeerOptions {
    /// The connection's own bounds.
    pub limits: Limits,
    /// Shared by all connections of a server: the bound on what is unanswered in the process.
    pub budget: Budget,
    /// Shared by all connections of a server: one counter for the ids of its requests.
    pub ids: RequestIds,
}

/// The ids of our own requests: integers from 0, one counter for all who share it.
#[derive(Clone, Debug, Default)]
pub struct RequestIds(Arc<AtomicI64>);

impl RequestIds {
    /// The next id.
    pub fn next_id(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the two tasks and the handles share.
#[derive(Debug)]
pub(crate) struct Core {
    outbox: Outbox,
    pending: Arc<Pending>,
    /// Set when nothing can be sent or answered any more.
    ended: CancellationToken,
    /// Set when both tasks are gone and the connection is closed.
    closed: CancellationToken,
}

impl Core {
    fn end(&self, reason: &CloseReason) {
        self.pending.end(reason);
        self.ended.cancel();
    }
}

/// The sending side of a connection. Clones are the same peer.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Handle>);

/// Its drop is the last handle's drop.
#[derive(Debug)]
struct Handle {
    core: Arc<Core>,
    ids: RequestIds,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.outbox.drain(CloseReason::Local, Until::Written);
    }
}

impl Peer {
    /// Starts the two tasks of a connection; needs a tokio runtime.
    pub fn start(duplex: Duplex, options: PeerOptions) -> (Peer, Inbox) {
        let Duplex {
            reader,
            writer,
            kind,
            permit,
        } = duplex;
        let core = Arc::new(Core {
            outbox: Outbox::new(options.limits),
            pending: Arc::default(),
            ended: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        let (inbox, messages) = mpsc::channel(INBOX_MESSAGES_MAX);
        let reading = Reading {
            core: Arc::clone(&core),
            frames: reader,
            kind,
            budget: options.budget,
            inbox,
        };
        let writing = tokio::spawn(
            Writing {
                core: Arc::clone(&core),
                frames: writer,
            }
            .run(),
        );
        let closing = Arc::clone(&core);
        tokio::spawn(async move {
            let mut rest = reading.run().await;
            // The writer's own panic would be a bug; the callers are released all the same.
            let _ = writing.await;
            closing.end(&CloseReason::Local);
            // A socket closed on unread bytes is reset, and the other side may lose the close frame
            // that says why. A reader that goes away fails the other side's next write, and with it
            // what that has not read of ours: the interrupt of a client that leaves. So what it still
            // sends is taken until it closes too.
            let _ = timeout(closing.outbox.limits.farewell, rest.discard()).await;
            drop(rest);
            drop(permit);
            closing.closed.cancel();
        });
        let peer = Peer(Arc::new(Handle {
            core,
            ids: options.ids,
        }));
        (peer.clone(), Inbox { messages, peer })
    }

    pub(crate) fn core(&self) -> &Core {
        &self.0.core
    }

    /// Sends a request and waits for its answer, for as long as the connection lives.
    ///
    /// Waits before sending while too much of ours is unwritten. Dropping the future stops waiting;
    /// the request may be executed all the same.
    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let id = self.0.ids.next_id();
        let frame =
            encode_request(&RequestId::from(id), method, params).map_err(CallError::Encode)?;
        self.core().outbox.writable().await;
        let answer = self.request(id, frame.into())?.answer().await?;
        strict::read(&answer).map_err(CallError::Decode)
    }

    /// [`Peer::call`] with a time limit.
    pub async fn call_within<R: DeserializeOwned>(
        &self,
        after: Duration,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CallError> {
        let call = self.call(method, params);
        timeout(after, call)
            .await
            .unwrap_or(Err(CallError::Timeout { after }))
    }

    /// Sends a request that was serialised before, under an id of [`RequestIds`]: how one question
    /// goes to several peers with the same id. Never waits to send; the returned future is the
    /// answer's raw result.
    pub fn ask(
        &self,
        id: i64,
        frame: Bytes,
    ) -> Result<impl Future<Output = Result<Bytes, CallError>> + Send + 'static, CallError> {
        self.request(id, frame).map(PendingCall::answer)
    }

    fn request(&self, id: i64, frame: Bytes) -> Result<PendingCall, CallError> {
        // The caller waits before the request is out, so no answer can come too early.
        let call = self.core().pending.add(id)?;
        self.core().outbox.send(frame);
        Ok(call)
    }

    /// Sends a notification to this peer; never waits, never fails: a connection that is ending
    /// has nobody to tell.
    pub fn notify(&self, message: &Outgoing) {
        self.core().outbox.notify(message);
    }

    /// Sends a notification without stamp, as clients do.
    pub fn tell(&self, method: &str, params: &impl Serialize) -> Result<(), CallError> {
        let frame = encode_notification(method, params, None).map_err(CallError::Encode)?;
        self.notify(&Outgoing::kept(frame, None));
        Ok(())
    }

    /// Closes the connection in order: what waits is written first.
    pub fn close(&self) {
        self.core().outbox.drain(CloseReason::Local, Until::Written);
    }

    /// Resolves when the connection is closed and its tasks are gone, with the reason.
    pub async fn closed(&self) -> CloseReason {
        self.core().closed.cancelled().await;
        self.core().pending.reason().unwrap_or(CloseReason::Local)
    }

    /// Resolves when fewer than `bytes` wait to be written, or when the connection ends: for a
    /// sender that can wait, such as one that reads the output of a process.
    ///
    /// Several that wait go on together, so each may add one message beyond the bound.
    pub async fn room(&self, bytes: usize) {
        self.core().outbox.below(bytes).await;
    }

    /// What waits on this connection.
    pub fn waiting(&self) -> Waiting {
        self.core().outbox.waiting()
    }
}
