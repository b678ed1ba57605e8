//! What a connection still has to say: answers first, then what its processes tell.
//!
//! Answers wait here; events wait in the processes and are pulled by the writer. Whoever answers
//! never waits: instead the connection stops reading while more than [`ANSWER_BYTES_MAX`] wait, and
//! calls with long answers wait for room before they make them. The end of a connection is decided
//! here too, once, by whoever comes first.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::envelope::RequestId;
use turnlane_protocol::error::ErrorObject;

use super::encode;
use super::metrics::Metrics;
use super::session::Session;

/// Above this many bytes of waiting answers a connection is not read.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The outgoing side of one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Names the connection in this server.
    pub(crate) connection: u64,
    /// Wakes the writer.
    pub(crate) wake: Arc<Notify>,
    waiting: Mutex<Waiting>,
    room: Notify,
    probed: Notify,
    closing: CancellationToken,
    session: OnceLock<Arc<Session>>,
}

#[derive(Debug, Default)]
struct Waiting {
    answers: Vec<Answer>,
    /// Waiting here or taken and not yet written.
    answer_bytes: usize,
    ping: bool,
    pong: Option<Bytes>,
    farewell: Option<Farewell>,
}

/// One answer, and what is to be done when it was written.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) frame: Bytes,
    pub(crate) then: Option<Then>,
}

/// Something to be done once an answer was given to the system.
pub(crate) struct Then(pub(crate) Box<dyn FnOnce() + Send>);

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}

/// How a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Farewell {
    /// The websocket close code.
    pub(crate) code: u16,
    /// Its text.
    pub(crate) reason: String,
    /// Whether what processes have to tell is told before.
    pub(crate) last_words: LastWords,
}

/// What of the events is sent before a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastWords {
    /// All there are.
    Told,
    /// None.
    Dropped,
}

impl Farewell {
    pub(crate) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            last_words: LastWords::Dropped,
        }
    }
}

/// What the writer is to write before events.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) answers: Vec<Answer>,
    pub(crate) answer_bytes: usize,
    pub(crate) ping: bool,
    pub(crate) pong: Option<Bytes>,
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && !self.ping && self.pong.is_none()
    }
}

impl Outbox {
    pub(crate) fn new(connection: u64) -> Self {
        Self {
            connection,
            wake: Arc::default(),
            waiting: Mutex::default(),
            room: Notify::new(),
            probed: Notify::new(),
            closing: CancellationToken::new(),
            session: OnceLock::new(),
        }
    }

    /// Whose events are told here; decided by `initialize`, once.
    pub(crate) fn attach(&self, session: Arc<Session>) {
        let first = self.session.set(session).is_ok();
        debug_assert!(first, "a connection is initialised once");
    }

    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// Queues an answer. Never waits; a connection that ends has nobody to tell.
    pub(crate) fn answer(&self, frame: Vec<u8>) {
        self.answer_then(frame, None);
    }

    /// The same, with something to be done once it was written; never, if it is not.
    pub(crate) fn answer_then(&self, frame: Vec<u8>, then: Option<Then>) {
        let mut waiting = self.lock();
        if waiting.farewell.is_some() {
            return;
        }
        waiting.answer_bytes += frame.len();
        let frame = frame.into();
        waiting.answers.push(Answer { frame, then });
        drop(waiting);
        self.wake.notify_one();
    }

    /// Whether so many answers wait that nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().answer_bytes > ANSWER_BYTES_MAX
    }

    /// Resolves when answers may be made again.
    pub(crate) async fn room(&self) {
        loop {
            let changed = self.room.notified();
            if !self.is_full() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn ping(&self) {
        self.lock().ping = true;
        self.wake.notify_one();
    }

    pub(crate) fn pong(&self, payload: Bytes) {
        self.lock().pong = Some(payload);
        self.wake.notify_one();
    }

    /// Somebody else wants the session: whoever is here shall show a sign of life.
    pub(crate) fn probe(&self) {
        self.probed.notify_one();
    }

    /// Resolves once per [`Outbox::probe`].
    pub(crate) async fn probed(&self) {
        self.probed.notified().await;
    }

    /// Ends the connection after what waits. The first reason counts.
    pub(crate) fn close(&self, farewell: Farewell) {
        self.lock().farewell.get_or_insert(farewell);
        self.closing.cancel();
        self.wake.notify_one();
    }

    /// Resolves when the connection is to end.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    pub(crate) fn farewell(&self) -> Option<Farewell> {
        self.lock().farewell.clone()
    }

    /// Everything that waits, for the writer.
    pub(crate) fn take(&self) -> Work {
        let mut waiting = self.lock();
        let answers = std::mem::take(&mut waiting.answers);
        Work {
            answer_bytes: answers.iter().map(|answer| answer.frame.len()).sum(),
            answers,
            ping: std::mem::take(&mut waiting.ping),
            pong: waiting.pong.take(),
        }
    }

    /// The same, taken after something was chosen to be written behind it. The answer to a start is
    /// queued before its process may be chosen, and is therefore among what is taken.
    pub(crate) fn take_after<T>(&self, choose: impl FnOnce() -> Option<T>) -> (Option<T>, Work) {
        let chosen = choose();
        (chosen, self.take())
    }

    /// That many bytes of answers were written.
    pub(crate) fn written(&self, answer_bytes: usize) {
        self.lock().answer_bytes -= answer_bytes;
        self.room.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one request.
#[derive(Clone, Debug)]
pub(crate) struct Responder {
    pub(crate) id: RequestId,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Responder {
    pub(crate) fn respond(&self, outcome: Result<impl Serialize, ErrorObject>) {
        match outcome {
            Ok(result) => self.outbox.answer(encode::result(&self.id, &result)),
            Err(error) => self.fail(&error),
        }
    }

    /// The same for a result, with something to be done once it was written.
    pub(crate) fn respond_then(&self, result: &impl Serialize, then: Option<Then>) {
        let frame = encode::result(&self.id, result);
        self.outbox.answer_then(frame, then);
    }

    pub(crate) fn fail(&self, error: &ErrorObject) {
        self.metrics.error(error.code);
        self.outbox.answer(encode::error(&self.id, error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_outbox_has_room_again_when_it_is_written() {
        let outbox = Outbox::new(1);
        outbox.answer(vec![0; ANSWER_BYTES_MAX]);
        assert!(!outbox.is_full());
        outbox.answer(vec![0; 1]);
        assert!(outbox.is_full());
        let work = outbox.take();
        assert!(outbox.is_full(), "what is taken is not yet written");
        let (room, ()) = tokio::join!(outbox.room(), async {
            outbox.written(work.answer_bytes);
        });
        assert_eq!((room, outbox.is_full()), ((), false));
    }

    #[test]
    fn the_first_farewell_counts_and_nothing_is_said_after_it() {
        let outbox = Outbox::new(1);
        outbox.answer(b"kept".to_vec());
        outbox.close(Farewell::new(1002, "first"));
        outbox.close(Farewell::new(1000, "second"));
        outbox.answer(b"lost".to_vec());
        assert_eq!(outbox.farewell().unwrap().reason, "first");
        let answers = outbox.take().answers;
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].frame, "kept");
    }

    #[test]
    fn an_answer_queued_while_something_is_chosen_goes_before_it() {
        let outbox = Outbox::new(1);
        let (chosen, work) = outbox.take_after(|| {
            outbox.answer(b"started".to_vec());
            Some("its output")
        });
        assert_eq!(chosen, Some("its output"));
        assert_eq!(work.answers.len(), 1);
        assert_eq!(work.answer_bytes, 7);
    }
}
