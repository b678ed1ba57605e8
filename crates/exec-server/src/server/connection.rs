//! One connection: frames in, methods called, and its end.
//!
//! # Theory of operation
//!
//! Two tasks. The *reading* one is [`Connection::run`]: it takes frames, answers what can be
//! answered at once, and gives what must wait to [`Calls`]; it stops taking frames while too many
//! answers wait to be written. The *writing* one is `writer`'s. Either may decide that the
//! connection ends, and so may the server and whoever wants the session; that decision is in the
//! [`Outbox`] and the reading task is woken by it. At the end calls are dropped, the session is
//! detached or ended at once, and only then the last words are written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout};
use turnlane_protocol::envelope::{Message, RequestId};
use turnlane_rpc::{Counted, Duplex, FrameError, FrameReader, Frames, Inbound};

use super::Shared;
use super::calls::Calls;
use super::dialect::{Dialect, Handshake};
use super::metrics::Connected;
use super::outbox::{Farewell, LastWords, Outbox, Responder};
use super::peer::Peer;
use super::session::Session;
use super::writer::{FAREWELL_MAX, Writer};
use super::{encode, message};
use crate::failure;
use crate::fs::Files;

/// A websocket is pinged this often.
const PING_EVERY: Duration = Duration::from_secs(30);
/// And given up when nothing came for this long.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// Or for this long, when somebody else wants its session.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// Websocket close codes.
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const TOO_LARGE: u16 = 1009;
const INTERNAL: u16 = 1011;

/// One connection, from its first frame to its end.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Peer,
    pub(super) is_websocket: bool,
    pub(super) outbox: Arc<Outbox>,
    pub(super) handshake: Handshake,
    pub(super) session: Option<Arc<Session>>,
    pub(super) files: Arc<Files>,
    pub(super) calls: Calls,
    pub(super) connected: Connected,
}

/// When a silent connection is given up.
#[derive(Debug)]
struct Watch {
    heard_at: Instant,
    next_ping: Instant,
    probe_ends: Option<Instant>,
}

impl Connection {
    /// Serves a connection to its end.
    pub(crate) async fn serve(shared: Arc<Shared>, duplex: Duplex, peer: Peer) {
        let Frames {
            is_websocket,
            reader,
            writer,
            counted,
        } = duplex.framed(&shared.framing()).into_frames();
        let outbox = shared.open_outbox();
        let connection = Self {
            handshake: Handshake::new(shared.options.dialect),
            connected: shared.metrics.connected(),
            peer,
            is_websocket,
            outbox: Arc::clone(&outbox),
            session: None,
            files: Arc::new(Files::new(shared.service.hidden())),
            calls: Calls::default(),
            shared,
        };
        let writing = tokio::spawn(
            Writer {
                frames: writer,
                outbox,
            }
            .run(),
        );
        connection.run(reader, writing, counted).await;
    }

    async fn run(
        mut self,
        mut reader: FrameReader,
        writing: tokio::task::JoinHandle<()>,
        counted: Counted,
    ) {
        let farewell = self.read(&mut reader).await;
        tracing::debug!(peer = %self.peer, code = farewell.code, reason = farewell.reason, "connection ends");
        self.outbox.close(farewell);
        // Whatever these wait for, the end does not.
        self.calls = Calls::default();
        // Only who is attached can tell the last words of processes.
        let tells = self
            .outbox
            .farewell()
            .is_some_and(|farewell| farewell.last_words == LastWords::Told);
        if !tells {
            self.leave();
        }
        // The writer's own panic would be a bug; the connection ends all the same.
        let _ = writing.await;
        self.leave();
        if self.is_websocket {
            // Unread bytes would turn our close frame into a reset.
            let _ = timeout(FAREWELL_MAX, reader.discard()).await;
        }
        drop((reader, counted));
    }

    /// Gives the session up: it is detached if its client may come back, else it ends. Again:
    /// nothing.
    fn leave(&mut self) {
        self.shared.close_outbox(self.outbox.connection);
        let Some(session) = self.session.take() else {
            return;
        };
        match session.dialect {
            Dialect::ProcessV1 if self.peer.may_return() => {
                let sessions = &self.shared.sessions;
                sessions.detach(&session, self.outbox.connection);
            }
            Dialect::ProcessV1 => {
                self.shared.sessions.end(&session);
            }
            Dialect::V0 => {
                session.end();
            }
        }
    }

    /// Reads until the connection ends, and says why it does.
    async fn read(&mut self, reader: &mut FrameReader) -> Farewell {
        let now = Instant::now();
        let mut watch = Watch {
            heard_at: now,
            next_ping: now + PING_EVERY,
            probe_ends: None,
        };
        let outbox = Arc::clone(&self.outbox);
        loop {
            let reads = !outbox.is_full() && !self.calls.are_full();
            tokio::select! {
                biased;
                () = outbox.closing() => return Farewell::new(NORMAL, ""),
                ended = self.calls.ended() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(peer = %self.peer, "a call panicked; its connection is closed");
                        return Farewell::new(INTERNAL, "internal error");
                    }
                }
                () = outbox.probed(), if self.is_websocket => {
                    // Whoever asks again and again does not lengthen it.
                    watch.probe_ends.get_or_insert(Instant::now() + PROBE_MAX);
                    outbox.ping();
                }
                () = outbox.room(), if outbox.is_full() => watch.heard_at = Instant::now(),
                found = reader.next(), if reads => {
                    watch.heard_at = Instant::now();
                    watch.probe_ends = None;
                    if let Err(farewell) = self.found(found) {
                        return farewell;
                    }
                }
                () = sleep_until(watch.due()), if self.is_websocket => {
                    if let Err(farewell) = self.silent(&mut watch, reads) {
                        return farewell;
                    }
                }
            }
        }
    }

    /// It is time to ping, or to give up.
    fn silent(&self, watch: &mut Watch, reads: bool) -> Result<(), Farewell> {
        let now = Instant::now();
        let silence = now.duration_since(watch.heard_at);
        let lost =
            watch.probe_ends.is_some_and(|ends| ends <= now) || reads && silence >= SILENCE_MAX;
        if lost {
            return Err(Farewell::new(GOING_AWAY, "no sign of life"));
        }
        if watch.next_ping <= now {
            watch.next_ping = now + PING_EVERY;
            self.outbox.ping();
        }
        Ok(())
    }

    fn found(&mut self, found: Result<Option<Inbound>, FrameError>) -> Result<(), Farewell> {
        match found {
            Ok(Some(Inbound::Message(frame))) => self.message(&frame),
            Ok(Some(Inbound::Ping(payload))) => {
                self.outbox.pong(payload);
                Ok(())
            }
            Ok(Some(Inbound::Alive)) => Ok(()),
            Ok(Some(Inbound::TooLarge(_))) | Err(FrameError::TooLarge) => {
                tracing::info!(peer = %self.peer, "a message exceeds the limit");
                Err(Farewell::new(TOO_LARGE, "message exceeds the limit"))
            }
            Ok(Some(Inbound::Close(_)) | None) => Err(Farewell::new(NORMAL, "")),
            Err(FrameError::Protocol(why)) => Err(Farewell::new(PROTOCOL_ERROR, why)),
            Err(FrameError::Io(_)) => Err(Farewell::new(GOING_AWAY, "read failed")),
        }
    }

    fn message(&mut self, frame: &Bytes) -> Result<(), Farewell> {
        match message::decode(frame) {
            Ok(Message::Request { id, method, params }) => {
                let responder = self.responder(id);
                self.request(&responder, &method, params);
                Ok(())
            }
            Ok(Message::Notification { method, .. }) => {
                let notified = self.handshake.notified(&method);
                notified.map_err(|why| self.violated(why))
            }
            Ok(Message::Answer { id, outcome }) => {
                let word = if outcome.is_ok() { "response" } else { "error" };
                let id = message::shown_id(id.as_ref());
                Err(self.violated(format!("unexpected client {word} for request id {id}")))
            }
            Err(why) => self.unreadable(&why),
        }
    }

    /// A message that cannot be read is answered without an id in `process.v1` and is the end of the
    /// connection in `exec-server.v0`.
    fn unreadable(&self, why: &str) -> Result<(), Farewell> {
        let kind = if self.is_websocket { "websocket " } else { "" };
        let text = format!(
            "failed to parse {kind}JSON-RPC message from {}: {why}",
            self.peer
        );
        match self.handshake.rules() {
            Dialect::V0 => Err(self.violated(text)),
            Dialect::ProcessV1 => {
                let error = failure::invalid_request(text);
                self.shared.metrics.error(error.code);
                let id = RequestId::from(failure::UNREADABLE_ID);
                self.outbox.answer(encode::error(&id, &error));
                Ok(())
            }
        }
    }

    fn violated(&self, why: String) -> Farewell {
        tracing::warn!(peer = %self.peer, reason = why, "connection closed");
        Farewell::new(PROTOCOL_ERROR, why)
    }

    pub(super) fn responder(&self, id: RequestId) -> Responder {
        Responder {
            id,
            outbox: Arc::clone(&self.outbox),
            metrics: Arc::clone(&self.shared.metrics),
        }
    }
}

/// A connection nobody serves any more has lost its client too.
impl Drop for Connection {
    fn drop(&mut self) {
        self.outbox.close(Farewell::new(GOING_AWAY, ""));
        self.leave();
    }
}

impl Watch {
    fn due(&self) -> Instant {
        let next = self.next_ping.min(self.heard_at + SILENCE_MAX);
        self.probe_ends.map_or(next, |ends| next.min(ends))
    }
}
