//! Which terminal receipts have left, and therefore how far the receipts file may advance.
//!
//! The invariant here: the file names a turn only when its receipt, and every receipt before it, was written
//! to some client. A receipt that was lost with its client holds the file where it is, until a client gets
//! it again or says by its cursor that it has read it; else the next shim reports from there.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Shim;
use super::ending::Cause;
use super::hub::Written;
use crate::receipts::LastReported;
use crate::wire::Event;

/// Receipts that are waited for. Beyond, the file stays where it is: the next shim repeats receipts rather
/// than losing one.
const OPEN_MAX: usize = 10_000;
/// How soon after its writing a receipt is recorded.
const RECORD_PAUSE: Duration = Duration::from_millis(5);

/// A point up to which the file may advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) thread: String,
    /// None at the beginning of a thread.
    pub(super) turn: Option<String>,
}

/// A receipt that was put into outboxes and is not known to have left.
#[derive(Debug)]
struct Delivery {
    reported: Reported,
    seq: u64,
    /// The frames that carry it; one of them is enough.
    frames: Vec<Written>,
    is_read: bool,
}

/// The receipts that have not left, oldest first.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    open: VecDeque<Delivery>,
    is_overrun: bool,
}

impl Deliveries {
    pub(super) fn add(&mut self, reported: Reported, seq: u64, frames: Vec<Written>) {
        self.push(Delivery {
            reported,
            seq,
            frames,
            is_read: false,
        });
    }

    /// Adds a point that needs no receipt.
    fn add_mark(&mut self, reported: Reported) {
        self.push(Delivery {
            reported,
            seq: 0,
            frames: Vec::new(),
            is_read: true,
        });
    }

    fn push(&mut self, delivery: Delivery) {
        self.is_overrun |= self.open.len() >= OPEN_MAX;
        if !self.is_overrun {
            self.open.push_back(delivery);
        }
    }

    /// A client has read everything up to this event.
    pub(super) fn read_up_to(&mut self, seq: u64) {
        for delivery in &mut self.open {
            delivery.is_read |= delivery.seq <= seq;
        }
    }

    /// An event was put into an outbox once more.
    pub(super) fn sent_again(&mut self, seq: u64, frame: Written) {
        for delivery in self.open.iter_mut().filter(|open| open.seq == seq) {
            delivery.frames.push(frame);
        }
    }

    /// One frame has the newest `count` receipts in it.
    pub(super) fn sent_newest(&mut self, count: usize, frame: Written) {
        for delivery in self.open.iter_mut().rev().take(count) {
            delivery.frames.push(frame);
        }
    }

    /// Takes out what has left; the newest of it. `written` counts the frames that were written to a
    /// client, or is none for a client that is gone.
    pub(super) fn advance(&mut self, written: impl Fn(u64) -> Option<u64>) -> Option<Reported> {
        let mut newest = None;
        while let Some(delivery) = self.open.front() {
            let has_left =
                |frame: &Written| written(frame.client).is_some_and(|count| count >= frame.number);
            if !delivery.is_read && !delivery.frames.iter().any(has_left) {
                break;
            }
            newest = self.open.pop_front().map(|delivery| delivery.reported);
        }
        newest
    }

    /// Returns true while the oldest receipt is under way to a client that is there.
    pub(super) fn is_under_way(&self, written: impl Fn(u64) -> Option<u64>) -> bool {
        let is_open = |frame: &Written| written(frame.client).is_some();
        let oldest = self.open.front();
        oldest.is_some_and(|oldest| oldest.frames.iter().any(is_open))
    }
}

impl Shim {
    /// Tells all clients.
    pub(super) fn tell(&mut self, event: &Event) {
        let (seq, frames) = self.hub.tell(event);
        if let Some(turn) = &event.ends_turn {
            let reported = Reported {
                thread: event
                    .former_thread
                    .clone()
                    .unwrap_or_else(|| self.machine.thread().to_owned()),
                turn: Some(turn.clone()),
            };
            self.deliveries.add(reported, seq, frames);
        }
    }

    /// Another thread has the binding; nothing of it was reported.
    pub(super) fn mark_thread(&mut self) {
        let thread = self.machine.thread().to_owned();
        self.deliveries.add_mark(Reported { thread, turn: None });
    }

    /// Records how far receipts have left.
    pub(super) fn note_written(&mut self) {
        let newest = self.deliveries.advance(|client| self.hub.written(client));
        let Some(Reported { thread, turn }) = newest else {
            return;
        };
        let binding = self.lane.binding().to_owned();
        let last = LastReported {
            binding,
            thread,
            turn,
        };
        if !self.receipts.record(last) {
            self.end(Cause::InternalError);
        }
    }

    /// When written receipts are looked for again.
    pub(super) fn record_at(&self) -> Option<Instant> {
        let is_under_way = self
            .deliveries
            .is_under_way(|client| self.hub.written(client));
        is_under_way.then(|| Instant::now() + RECORD_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(turn: &str) -> Reported {
        Reported {
            thread: "t".to_owned(),
            turn: Some(turn.to_owned()),
        }
    }

    fn frame(client: u64, number: u64) -> Written {
        Written { client, number }
    }

    #[test]
    fn the_file_advances_in_order_and_only_behind_written_receipts() {
        let mut deliveries = Deliveries::default();
        deliveries.add(reported("1"), 1, vec![frame(7, 1)]);
        deliveries.add(reported("2"), 2, vec![frame(7, 2)]);
        assert_eq!(deliveries.advance(|_| Some(0)), None);
        assert!(deliveries.is_under_way(|_| Some(0)));
        assert_eq!(deliveries.advance(|_| Some(1)), Some(reported("1")));
        assert_eq!(deliveries.advance(|_| Some(2)), Some(reported("2")));
        assert!(!deliveries.is_under_way(|_| Some(2)));
    }

    #[test]
    fn a_receipt_that_was_lost_with_its_client_holds_the_file() {
        let mut deliveries = Deliveries::default();
        // The first client went away; the second one has only the later receipt.
        let written = |client| (client == 2).then_some(9);
        deliveries.add(reported("1"), 1, vec![frame(1, 4)]);
        deliveries.add(reported("2"), 2, vec![frame(2, 1)]);
        assert_eq!(deliveries.advance(written), None);
        assert!(!deliveries.is_under_way(written));
        // It is sent again to a client that comes back, or that client has read it.
        deliveries.sent_again(1, frame(2, 9));
        assert_eq!(deliveries.advance(written), Some(reported("2")));
        deliveries.add(reported("3"), 3, Vec::new());
        deliveries.add(reported("4"), 4, Vec::new());
        deliveries.read_up_to(3);
        assert_eq!(deliveries.advance(written), Some(reported("3")));
        deliveries.sent_newest(100, frame(2, 9));
        assert_eq!(deliveries.advance(written), Some(reported("4")));
    }

    #[test]
    fn too_many_lost_receipts_leave_the_file_where_it_is() {
        let mut deliveries = Deliveries::default();
        for seq in 0..=OPEN_MAX as u64 {
            deliveries.add(reported(&seq.to_string()), seq, vec![frame(1, seq)]);
        }
        let last = (OPEN_MAX - 1).to_string();
        assert_eq!(
            deliveries.advance(|_| Some(u64::MAX)),
            Some(reported(&last))
        );
        deliveries.add(reported("later"), 20_000, vec![frame(1, 1)]);
        assert_eq!(deliveries.advance(|_| Some(u64::MAX)), None);
    }
}
