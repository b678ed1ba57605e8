//! What is kept for those who come back, by number and by weight.
//!
//! The invariant here: the tests ask for what was missed, and look inside only for how much is held.
//! What a lane makes of it for somebody who comes back is tested in `tests/it/subscribing.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::notification::{DeltaKind, ItemPlace};
use turnlane_store::Fence;
use turnlane_store::lane::{Head, LaneView};
use turnlane_store::queue::{QueuePage, RowState};
use uuid::Uuid;

use super::{ALL_BYTES_MAX, BYTES_MAX, Missed, QUEUE_BYTES_MAX, Remembered, Ring};
use crate::lane::rows::under_way;
use crate::notice::{Notice, NoticeBody};

fn notice(seq: u64, body: NoticeBody) -> Arc<Notice> {
    Arc::new(Notice {
        thread: ThreadId::from_uuid(Uuid::nil()),
        seq,
        at_ms: 0,
        body,
    })
}

fn delta(seq: u64, bytes: usize) -> Arc<Notice> {
    let place = ItemPlace {
        thread_id: ThreadId::from_uuid(Uuid::nil()),
        turn_id: TurnId::from_uuid(Uuid::nil()),
        item_id: "i".into(),
    };
    let (kind, text) = (DeltaKind::AgentMessage, "x".repeat(bytes));
    notice(seq, NoticeBody::Delta { kind, place, text })
}

fn queue(seq: u64, rows: usize) -> Arc<Notice> {
    let lane = LaneView {
        thread: Uuid::nil().into(),
        fence: Fence(0),
        owner: None,
        active: None,
        depth: 0,
        max_depth: 1000,
        paused: None,
        waiting: None,
        revision: 0,
        head: Head::None,
        archived: false,
    };
    let page = QueuePage {
        rows: vec![under_way(RowState::Queued); rows],
        next: None,
        lane,
    };
    notice(seq, NoticeBody::Queue(Box::new(page)))
}

fn ring() -> Ring {
    Ring::new(Arc::default())
}

fn seqs(missed: &Missed) -> Vec<u64> {
    missed.notices.iter().map(|notice| notice.seq).collect()
}

#[test]
fn a_queue_that_grows_is_not_kept_once_for_every_row() {
    let mut ring = ring();
    for seq in 1..=1_000 {
        ring.push(&queue(seq, seq.min(100).try_into().unwrap_or(100)));
    }
    assert!(ring.bytes <= QUEUE_BYTES_MAX, "{} bytes", ring.bytes);
    let missed = ring.after(0).unwrap_or_default();
    assert_eq!(seqs(&missed), [0; 0]);
    assert!(missed.queue, "it is told as it is now");
}

#[test]
fn small_pictures_of_the_queue_are_kept_one_by_one() {
    let mut ring = ring();
    ring.push(&queue(1, 1));
    ring.push(&queue(2, 0));
    ring.push(&delta(3, 1));
    let missed = ring.after(0).unwrap_or_default();
    assert_eq!(seqs(&missed), [1, 2, 3]);
    assert!(!missed.queue);
}

#[test]
fn pictures_of_the_queue_go_first_and_nothing_else_is_lost_with_them() {
    let mut ring = ring();
    ring.push(&queue(1, 1));
    ring.push(&delta(2, 1));
    ring.push(&queue(3, 100));
    ring.push(&delta(4, 1));
    let missed = ring.after(0).unwrap_or_default();
    assert_eq!(seqs(&missed), [2, 4]);
    assert!(missed.queue);
    let missed = ring.after(3).unwrap_or_default();
    assert_eq!(seqs(&missed), [4]);
    assert!(!missed.queue, "the big one was seen");
    ring.push(&queue(5, 0));
    let missed = ring.after(0).unwrap_or_default();
    assert_eq!(seqs(&missed), [2, 4, 5]);
    assert!(!missed.queue, "the last one tells it");
}

#[test]
fn what_is_gone_cannot_be_asked_for_and_the_rest_can() {
    let mut ring = ring();
    for seq in 1..=3 {
        ring.push(&delta(seq, BYTES_MAX / 2));
    }
    assert!(ring.after(0).is_none());
    assert_eq!(ring.after(2).as_ref().map(seqs), Some(vec![3]));
    ring.forget(3);
    assert!(ring.after(2).is_none());
    assert_eq!(ring.after(3).as_ref().map(seqs), Some(Vec::new()));
}

#[test]
fn all_lanes_together_keep_no_more_than_their_bound() {
    let all = Arc::new(Remembered::default());
    let held = || all.0.load(Ordering::Relaxed);
    let mut rings: Vec<_> = (0..200).map(|_| Ring::new(Arc::clone(&all))).collect();
    for ring in &mut rings {
        for seq in 1..=3 {
            ring.push(&delta(seq, BYTES_MAX / 4));
        }
    }
    assert!(held() <= ALL_BYTES_MAX, "{} bytes", held());
    let last = rings.last().and_then(|ring| ring.after(3));
    assert_eq!(last.as_ref().map(seqs), Some(Vec::new()));
    drop(rings);
    assert_eq!(held(), 0, "a lane that is unloaded keeps nothing");
}
