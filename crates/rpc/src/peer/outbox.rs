//! What waits to be written to one connection, and when its reader must pause.
//!
//! Everything sent on a connection passes through here, so this is where the back-pressure rules
//! live and nowhere else. Sending never waits, because an engine must not wait for a client.
//! Instead the amounts are bounded in three ways: reading of new requests pauses while too many
//! are unanswered or too many answers unwritten; deltas are joined, states replaced and at last
//! deltas left out; and a connection that holds too much in all is given up.
//!
//! The invariants: answers and kept messages leave in the order they came, each exactly once; the
//! messages of one scope leave in the order they came (a delta is joined to an earlier one only if
//! nothing of its scope came between; a state that replaces another goes to the end).

mod queue;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::queue::{Queue, Reader, Totals};
use super::limits::Limits;
use super::outgoing::Outgoing;
use crate::error::CloseReason;

/// One write takes about this much: enough to make system calls rare, little enough to keep a
/// slow connection's memory small.
const BATCH_BYTES: usize = 128 * 1024;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) limits: Limits,
    state: Mutex<State>,
    /// The writer has something to do.
    work: Notify,
    /// Something was written or answered: the reader, or a caller that waits, may go on.
    room: Notify,
    /// Nothing more is written but the close frame.
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// What the writer holds: taken from the queue, not yet written.
    in_flight: Totals,
    unanswered: usize,
    /// Bytes of messages that were read and wait in the [`crate::Inbox`].
    undelivered_bytes: usize,
    paused: Paused,
    ping: bool,
    pong: Option<Bytes>,
    end: End,
}

/// Which bounds have stopped reading. Each one stays until its own amount is below half of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Paused {
    unanswered: bool,
    unwritten: bool,
    undelivered: bool,
}

impl Paused {
    fn any(self) -> bool {
        self.unanswered || self.unwritten || self.undelivered
    }
}

/// Whether and how the connection is ending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// The last is written, then the connection is closed.
    Draining { reason: CloseReason, until: Until },
    /// Nothing more is written but the close frame.
    Over(CloseReason),
}

/// What is still written before a connection is closed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// What waits.
    Written,
    /// That, and the answers to all requests that were read.
    Answered,
}

/// What the writer does next.
pub(super) enum Work {
    /// Write these, in this order: control frames, then messages.
    Write {
        ping: bool,
        pong: Option<Bytes>,
        frames: Vec<Bytes>,
    },
    /// Say farewell and end.
    Close(CloseReason),
}

/// Amounts of one connection, for metrics and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Messages not yet written.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Requests read and not yet answered.
    pub unanswered: usize,
    /// Whether reading has stopped for one of these.
    pub reading_paused: bool,
}

impl Outbox {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
            over: CancellationToken::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock but the lag notice of the owner; the state is
        // whole at that point.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that was read and will be answered.
    pub(super) fn request_read(&self) {
        self.state().unanswered += 1;
    }

    /// The answer to a request that was counted.
    pub(super) fn answer(&self, frame: Bytes) {
        let mut state = self.state();
        state.unanswered -= 1;
        self.append_answer(state, frame);
    }

    /// A request that was counted gets no answer: somebody else gives it.
    pub(super) fn left(&self) {
        let mut state = self.state();
        state.unanswered -= 1;
        let wakes_reader = state.paused.any();
        drop(state);
        // An end that waits for the last answer looks again.
        self.work.notify_one();
        if wakes_reader {
            self.room.notify_waiters();
        }
    }

    /// An answer to what was never counted (a refusal), or a request of ours.
    pub(super) fn send(&self, frame: Bytes) {
        self.append_answer(self.state(), frame);
    }

    fn append_answer(&self, mut state: MutexGuard<'_, State>, frame: Bytes) {
        if state.end.takes_answers() {
            state.queue.push_answer(frame);
            self.end_if_too_much(&mut state);
        }
        let wakes_reader = state.paused.any();
        drop(state);
        self.work.notify_one();
        if wakes_reader {
            self.room.notify_waiters();
        }
    }

    /// A notification. Silently ignored when the connection is ending: its subscriber is gone.
    pub(super) fn notify(&self, message: &Outgoing) {
        let mut state = self.state();
        if state.end != End::Open {
            return;
        }
        let waiting = state.waiting();
        let crowded = waiting.messages > self.limits.crowded_messages
            || waiting.bytes > self.limits.crowded_bytes;
        let reader = if crowded {
            Reader::IsBehind
        } else {
            Reader::KeepsUp
        };
        state.queue.push(message, &self.limits, reader);
        self.end_if_too_much(&mut state);
        drop(state);
        self.work.notify_one();
    }

    fn end_if_too_much(&self, state: &mut State) {
        if state.waiting().bytes > self.limits.waiting_bytes_max {
            self.end(state, CloseReason::SlowConsumer);
        }
    }

    pub(super) fn ping(&self) {
        self.state().ping = true;
        self.work.notify_one();
    }

    /// Only the latest ping is answered, which is all a peer needs.
    pub(super) fn pong(&self, payload: Bytes) {
        self.state().pong = Some(payload);
        self.work.notify_one();
    }

    /// Counts what was put into the [`crate::Inbox`].
    pub(super) fn undelivered(&self, bytes: usize) {
        self.state().undelivered_bytes += bytes;
    }

    /// Counts what was taken from the [`crate::Inbox`].
    pub(super) fn delivered(&self, bytes: usize) {
        let mut state = self.state();
        state.undelivered_bytes -= bytes;
        let wakes_reader = state.paused.any();
        drop(state);
        if wakes_reader {
            self.room.notify_waiters();
        }
    }

    /// Resolves when the next frame may be read.
    pub(super) async fn readable(&self) {
        loop {
            let room = self.room.notified();
            if !self.state().update_reading(&self.limits) {
                return;
            }
            room.await;
        }
    }

    /// Resolves when a caller may add a request of its own: as with reading, a bound that makes
    /// the caller wait and never drops.
    pub(super) async fn writable(&self) {
        loop {
            let room = self.room.notified();
            {
                let state = self.state();
                let waiting = state.waiting();
                if waiting.messages < self.limits.unanswered_max
                    && waiting.bytes < self.limits.unwritten_bytes_max
                    || state.end != End::Open
                {
                    return;
                }
            }
            room.await;
        }
    }

    /// Resolves when fewer than `bytes` wait, or nothing is taken any more.
    pub(super) async fn below(&self, bytes: usize) {
        loop {
            let room = self.room.notified();
            {
                let state = self.state();
                if state.waiting().bytes < bytes || state.end != End::Open {
                    return;
                }
            }
            room.await;
        }
    }

    /// What the writer does next; waits until there is something.
    pub(super) async fn work(&self) -> Work {
        loop {
            {
                let mut state = self.state();
                if let End::Over(reason) = &state.end {
                    return Work::Close(reason.clone());
                }
                let (ping, pong) = (std::mem::take(&mut state.ping), state.pong.take());
                let (frames, taken) = state.queue.take(BATCH_BYTES, &self.limits);
                if ping || pong.is_some() || !frames.is_empty() {
                    state.in_flight = taken;
                    return Work::Write { ping, pong, frames };
                }
                if let Some(reason) = state.drained() {
                    self.end(&mut state, reason.clone());
                    return Work::Close(reason);
                }
            }
            self.work.notified().await;
        }
    }

    /// The last batch is written.
    pub(super) fn written(&self) {
        let mut state = self.state();
        state.in_flight = Totals::default();
        drop(state);
        self.room.notify_waiters();
    }

    /// Writes what is to be written, then ends.
    pub(super) fn drain(&self, reason: CloseReason, until: Until) {
        let mut state = self.state();
        if matches!(state.end, End::Open) {
            state.end = End::Draining { reason, until };
        }
        drop(state);
        self.work.notify_one();
        self.room.notify_waiters();
    }

    /// Ends without writing what waits.
    pub(super) fn give_up(&self, reason: CloseReason) {
        self.end(&mut self.state(), reason);
    }

    /// The one way to the end: whoever waits here, for whatever, is woken.
    fn end(&self, state: &mut State, reason: CloseReason) {
        state.give_up(reason);
        self.over.cancel();
        self.work.notify_one();
        self.room.notify_waiters();
    }

    /// Resolves once nothing more is written; what the reader and the writer race against.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    pub(super) fn waiting(&self) -> Waiting {
        let state = self.state();
        let Totals {
            messages, bytes, ..
        } = state.waiting();
        let State {
            unanswered, paused, ..
        } = *state;
        Waiting {
            messages,
            bytes,
            unanswered,
            reading_paused: paused.any(),
        }
    }
}

impl State {
    /// Queue and writer together.
    fn waiting(&self) -> Totals {
        let mut totals = self.queue.totals();
        totals.add(&self.in_flight);
        totals
    }

    /// Whether reading is paused, by the rule: stop at a bound, go on below half of it.
    fn update_reading(&mut self, limits: &Limits) -> bool {
        if self.end != End::Open {
            self.paused = Paused::default();
            return false;
        }
        let stops = |paused: bool, amount: usize, bound: usize| {
            amount >= if paused { bound.div_ceil(2) } else { bound }
        };
        let bytes_max = limits.unwritten_bytes_max;
        self.paused = Paused {
            unanswered: stops(
                self.paused.unanswered,
                self.unanswered,
                limits.unanswered_max,
            ),
            unwritten: stops(
                self.paused.unwritten,
                self.waiting().answer_bytes,
                bytes_max,
            ),
            undelivered: stops(self.paused.undelivered, self.undelivered_bytes, bytes_max),
        };
        self.paused.any()
    }

    fn give_up(&mut self, reason: CloseReason) {
        let reason = match &self.end {
            End::Open => reason,
            End::Draining { reason, .. } => reason.clone(),
            End::Over(_) => return,
        };
        self.end = End::Over(reason);
        self.queue.clear();
    }

    fn drained(&self) -> Option<CloseReason> {
        match &self.end {
            End::Draining { reason, until } if *until == Until::Written || self.unanswered == 0 => {
                Some(reason.clone())
            }
            _ => None,
        }
    }
}

impl End {
    /// After the other side's end of file its last requests are still answered.
    fn takes_answers(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Draining { until, .. } => *until == Until::Answered,
            Self::Over(_) => false,
        }
    }
}
