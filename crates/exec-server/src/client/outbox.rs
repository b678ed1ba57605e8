//! What waits to be written.
//!
//! Two lanes: calls, and behind them input for processes. An end never waits behind a gigabyte of
//! input. The invariant here: only input can be much, and it is bounded: who has more waits. Calls
//! are bounded by their callers, who each wait for an answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Input that waits for the connection; beyond it writes wait in their callers.
const INPUT_BYTES_MAX: usize = 1024 * 1024;

/// Input that is written before calls are looked at again.
const INPUT_BYTES_AT_ONCE: usize = 256 * 1024;

/// One thing to write.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Bytes),
    Ping,
    Pong(Bytes),
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    lanes: Mutex<Lanes>,
    arrived: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct Lanes {
    calls: VecDeque<Out>,
    input: VecDeque<Bytes>,
    input_bytes: usize,
    closing: bool,
}

impl Outbox {
    pub(super) fn push(&self, out: Out) {
        self.lock().calls.push_back(out);
        self.arrived.notify_one();
    }

    /// Adds input if there is room for it; a single larger one is taken when there is nothing.
    pub(super) fn try_push_input(&self, frame: &Bytes) -> bool {
        let mut lanes = self.lock();
        if lanes.input_bytes > 0 && lanes.input_bytes + frame.len() > INPUT_BYTES_MAX {
            return false;
        }
        lanes.input_bytes += frame.len();
        lanes.input.push_back(frame.clone());
        drop(lanes);
        self.arrived.notify_one();
        true
    }

    /// Resolves when there may be room for input. To be polled before the try that failed.
    pub(super) fn room(&self) -> tokio::sync::futures::Notified<'_> {
        self.room.notified()
    }

    /// Nothing will be added; what is there is still written.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.arrived.notify_one();
        self.room.notify_waiters();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Forgets what waits: the connection it was for is gone.
    pub(super) fn clear(&self) {
        let mut lanes = self.lock();
        *lanes = Lanes {
            closing: lanes.closing,
            ..Lanes::default()
        };
        drop(lanes);
        self.room.notify_waiters();
    }

    /// What to write next, all calls and some input; `None` when it is closed and empty.
    pub(super) async fn next(&self) -> Option<Vec<Out>> {
        loop {
            {
                let mut lanes = self.lock();
                let batch = lanes.take();
                if !batch.is_empty() {
                    drop(lanes);
                    self.room.notify_waiters();
                    return Some(batch);
                }
                if lanes.closing {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn take(&mut self) -> Vec<Out> {
        let mut batch: Vec<Out> = self.calls.drain(..).collect();
        let mut taken = 0;
        while taken < INPUT_BYTES_AT_ONCE
            && let Some(frame) = self.input.pop_front()
        {
            taken += frame.len();
            batch.push(Out::Frame(frame));
        }
        self.input_bytes -= taken;
        batch
    }
}
