//! The reading task of a connection.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use turnlane_protocol::envelope::{Message, RequestId, decode, encode_error};
use turnlane_protocol::error::ErrorObject;

use super::Core;
use super::answered_id::answered_id;
use super::budget::Budget;
use super::incoming::{Incoming, Notification, Params, Request, Responder};
use super::outbox::Until;
use crate::duplex::Kind;
use crate::error::CloseReason;
use crate::frame::{FrameError, FrameReader, Inbound, TooLarge};

/// What a refused caller is told to wait before it asks again.
const RETRY_AFTER_MS: u64 = 250;

pub(super) struct Reading {
    pub(super) core: Arc<Core>,
    pub(super) frames: FrameReader,
    pub(super) kind: Kind,
    pub(super) budget: Budget,
    pub(super) inbox: mpsc::Sender<(Incoming, usize)>,
}

impl Reading {
    /// Reads until the connection ends, says how it ended, and gives back what it read from.
    pub(super) async fn run(mut self) -> FrameReader {
        let core = Arc::clone(&self.core);
        let outbox = &core.outbox;
        let reason = tokio::select! {
            reason = self.read() => reason,
            // The writer has failed or given up: nothing read now could be answered.
            () = outbox.over() => return self.frames,
        };
        // Whoever takes messages learns of the end at once.
        let Self {
            frames,
            inbox,
            kind,
            ..
        } = self;
        drop(inbox);
        match (kind, reason) {
            // End of file on a stream says only that no more requests come: the last ones are
            // answered, as whoever wrote `echo … | turnlane app-server` expects.
            (Kind::Stream, CloseReason::Remote) => {
                core.pending.end(&CloseReason::Remote);
                outbox.drain(CloseReason::Remote, Until::Answered);
                let _ = timeout(outbox.limits.drain, outbox.over()).await;
                outbox.give_up(CloseReason::Remote);
            }
            (_, reason) => outbox.give_up(reason),
        }
        frames
    }

    async fn read(&mut self) -> CloseReason {
        let mut silent_intervals = 0;
        loop {
            self.core.outbox.readable().await;
            let next = match self.kind {
                Kind::Stream => self.frames.next().await,
                Kind::WebSocket => {
                    let interval = self.core.outbox.limits.ping_interval;
                    let Ok(next) = timeout(interval, self.frames.next()).await else {
                        silent_intervals += 1;
                        if silent_intervals >= 2 {
                            return CloseReason::Silent;
                        }
                        self.core.outbox.ping();
                        continue;
                    };
                    silent_intervals = 0;
                    next
                }
            };
            match next {
                Ok(Some(Inbound::Message(frame))) => self.message(frame).await,
                Ok(Some(Inbound::TooLarge(frame))) => self.too_large(&frame),
                Ok(Some(Inbound::Ping(payload))) => self.core.outbox.pong(payload),
                Ok(Some(Inbound::Alive)) => {}
                Ok(Some(Inbound::Close(_)) | None) => return CloseReason::Remote,
                Err(FrameError::TooLarge) => return CloseReason::TooLarge,
                Err(FrameError::Protocol(what)) => return CloseReason::Protocol(what),
                Err(FrameError::Io(why)) => return CloseReason::Io(why.kind()),
            }
        }
    }

    async fn message(&mut self, frame: Bytes) {
        let bytes = frame.len();
        let own = |raw: &serde_json::value::RawValue| frame.slice_ref(raw.get().as_bytes());
        let message = match decode(&frame) {
            Err(refusal) => return self.refuse(refusal.id.as_ref(), &refusal.error),
            Ok(Message::Answer { id, outcome }) => {
                if let Some(id) = id.and_then(|id| id.as_i64()) {
                    self.core.pending.resolve(id, outcome.map(own));
                }
                return;
            }
            Ok(Message::Notification {
                method,
                params,
                stamp,
            }) => {
                let params = Params::new(params.map(own));
                Incoming::Notification(Notification {
                    method: method.into_owned(),
                    params,
                    stamp,
                })
            }
            Ok(Message::Request { id, method, params }) => {
                let Some(budget) = self.budget.take() else {
                    return self.refuse(Some(&id), &ErrorObject::overloaded(RETRY_AFTER_MS));
                };
                self.core.outbox.request_read();
                let responder = Responder::new(Arc::clone(&self.core), id, budget);
                let params = Params::new(params.map(own));
                Incoming::Request(Request {
                    method: method.into_owned(),
                    params,
                    responder,
                })
            }
        };
        self.core.outbox.undelivered(bytes);
        if let Err(unwanted) = self.inbox.send((message, bytes)).await {
            // Nobody takes messages here: a client that only calls.
            self.core.outbox.delivered(bytes);
            if let (Incoming::Request(request), _) = unwanted.0 {
                request
                    .responder
                    .error(&ErrorObject::unknown_method(&request.method));
            }
        }
    }

    fn refuse(&self, id: Option<&RequestId>, error: &ErrorObject) {
        self.core.outbox.send(encode_error(id, error).into());
    }

    /// An answer we wait for fails its caller; everything else is told to its sender.
    fn too_large(&self, frame: &TooLarge) {
        let id = answered_id(&frame.head);
        if !id.is_some_and(|id| self.core.pending.too_large(id, frame)) {
            self.refuse(None, &ErrorObject::message_too_large(frame.limit));
        }
    }
}
