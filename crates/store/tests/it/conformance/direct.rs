//! Turns asked for directly: begun at once, queued, or refused.

use turnlane_store::StoreError;
use turnlane_store::queue::{CannotStart, RowState};
use turnlane_store::turn::{StartTurn, Started, TurnStatus, WhenBusy};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_direct_turn_begins_at_once,
    a_direct_turn_passes_rows_that_wait,
    a_direct_turn_is_refused_while_another_runs,
    a_direct_turn_waits_behind_the_running_one_when_asked,
    a_direct_turn_waits_behind_rows_when_asked,
    a_direct_turn_begins_at_once_when_nothing_waits,
    a_direct_turn_waits_only_while_there_is_room,
    neither_a_failed_head_nor_a_wait_stops_a_direct_turn,
    a_direct_turn_that_cannot_start_leaves_nothing,
    a_direct_turn_that_cannot_start_may_leave_a_failed_turn,
];
on_many_workers![
    a_direct_turn_on_a_lane_of_another_worker_is_refused,
    a_direct_turn_on_a_lane_of_another_worker_is_queued_when_asked,
    a_direct_turn_takes_an_idle_lane_of_a_dead_worker,
    a_direct_turn_does_not_take_a_lane_that_must_be_recovered,
];

fn queueing(name: &str) -> StartTurn {
    StartTurn {
        when_busy: WhenBusy::Queue,
        ..start(name)
    }
}

async fn a_direct_turn_begins_at_once(db: Db) {
    let hand = db.one().await;
    let before = hand.lane().await;
    let turn = hand.direct("a").await;
    assert_eq!(turn.row, hand.stored("a").await);
    assert_eq!(
        (turn.row.state, turn.row.position),
        (RowState::Started, None)
    );
    assert_eq!((turn.row.attempts, turn.row.source.as_str()), (1, "direct"));
    assert_eq!((turn.turn.source.as_str(), turn.turn.ord), ("direct", 1));
    assert_eq!(turn.turn.status, TurnStatus::InProgress);
    assert_eq!(turn.item.unwrap().id, "item-a");
    let lane = hand.lane().await;
    assert_eq!(turn.lane, lane);
    assert_eq!((lane.owner, lane.depth), (Some(hand.worker()), 0));
    assert_eq!(
        (lane.fence, lane.fence.0),
        (turn.grip.fence, before.fence.0 + 1)
    );
    assert_eq!(lane.active.unwrap().turn, turn_id("a"));
}

async fn a_direct_turn_passes_rows_that_wait(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.direct("b").await;
    assert_eq!(hand.names().await, ["a"]);
    hand.finish(&turn).await;
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_direct_turn_is_refused_while_another_runs(db: Db) {
    let hand = db.one().await;
    hand.direct("a").await;
    let Started::Busy(lane) = hand.start_turn(start("b")).await.unwrap() else {
        panic!("not busy");
    };
    assert_eq!(lane.active.unwrap().row, row_id("a"));
    assert_eq!(hand.row(thread(), row_id("b")).await.unwrap(), None);
}

async fn a_direct_turn_waits_behind_the_running_one_when_asked(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let Started::Queued(queued) = hand.start_turn(queueing("b")).await.unwrap() else {
        panic!("not queued");
    };
    assert_eq!(
        (queued.value.state, queued.lane.depth),
        (RowState::Queued, 1)
    );
    assert_eq!(hand.names().await, ["b"]);
    hand.finish(&turn).await;
    assert_eq!(hand.begin().await.turn.id, turn_id("b"));
}

async fn a_direct_turn_waits_behind_rows_when_asked(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let queued = hand.start_turn(queueing("b")).await.unwrap();
    assert!(matches!(queued, Started::Queued(_)));
    assert_eq!(hand.names().await, ["a", "b"]);
}

async fn a_direct_turn_begins_at_once_when_nothing_waits(db: Db) {
    let hand = db.one().await;
    let begun = hand.start_turn(queueing("a")).await.unwrap();
    assert!(matches!(begun, Started::Begun(_)));
}

async fn a_direct_turn_waits_only_while_there_is_room(db: Db) {
    let hand = db.one().await;
    for name in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        hand.add(&[name]).await;
    }
    refused!(
        hand.start_turn(queueing("a")),
        StoreError::QueueFull { max_depth: 10 }
    );
    assert_eq!(hand.row(thread(), row_id("a")).await.unwrap(), None);
}

async fn neither_a_failed_head_nor_a_wait_stops_a_direct_turn(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let claimed = hand.claim_head().await;
    let how = CannotStart::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        waiting: Some(waiting(None)),
    };
    hand.unclaim(claimed.grip, claimed.row.id, how, NOW)
        .await
        .unwrap();
    let turn = hand.direct("b").await;
    hand.finish(&turn).await;
    hand.resume(thread(), NOW).await.unwrap();
    hand.fail("a").await;
    hand.direct("c").await;
}

async fn a_direct_turn_that_cannot_start_leaves_nothing(db: Db) {
    let hand = db.one().await;
    let before = hand.lane().await;
    let failure = json("\"no\"");
    for how in [
        CannotStart::Dead { failure },
        CannotStart::Cancel,
        block("a"),
    ] {
        let start = StartTurn {
            accepting: refusing(how),
            ..start("a")
        };
        let Started::CannotStart(refused) = hand.start_turn(start).await.unwrap() else {
            panic!("begun");
        };
        assert_eq!((refused.row.state, refused.turn), (RowState::Dead, None));
        assert_eq!(hand.row(thread(), row_id("a")).await.unwrap(), None);
        assert_eq!(hand.lane().await.active, None);
    }
    let lane = hand.lane().await;
    assert_eq!((lane.depth, lane.revision), (before.depth, before.revision));
}

async fn a_direct_turn_that_cannot_start_may_leave_a_failed_turn(db: Db) {
    let hand = db.one().await;
    let start = StartTurn {
        accepting: refusing(fail()),
        ..start("a")
    };
    let Started::CannotStart(refused) = hand.start_turn(start).await.unwrap() else {
        panic!("begun");
    };
    assert_eq!(refused.row.state, RowState::Done);
    assert_eq!(refused.row, hand.stored("a").await);
    let turn = refused.turn.unwrap();
    assert_eq!((turn.id, turn.status), (turn_id("a"), TurnStatus::Failed));
    assert_eq!(turn.completed_ms, Some(NOW));
    assert_eq!(hand.all_turns().await, [turn]);
    assert_eq!(hand.lane().await.active, None);
    hand.direct("b").await;
}

async fn a_direct_turn_on_a_lane_of_another_worker_is_refused(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let refused = other.start_turn(start("a"));
    refused!(refused, StoreError::OwnedElsewhere { worker, .. } if *worker == owner.worker());
    owner.direct("b").await;
    refused!(
        other.start_turn(start("a")),
        StoreError::OwnedElsewhere { .. }
    );
}

async fn a_direct_turn_on_a_lane_of_another_worker_is_queued_when_asked(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let queued = other.start_turn(queueing("a")).await.unwrap();
    assert!(matches!(queued, Started::Queued(_)));
    assert_eq!(owner.claim_head().await.row.id, row_id("a"));
}

async fn a_direct_turn_takes_an_idle_lane_of_a_dead_worker(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let before = other.lane().await.fence;
    db.kill(owner).await;
    let turn = other.direct("a").await;
    assert_eq!(turn.lane.owner, Some(other.worker()));
    assert_eq!(turn.grip.fence.0, before.0 + 1);
}

async fn a_direct_turn_does_not_take_a_lane_that_must_be_recovered(db: Db) {
    let (owner, other) = db.two().await;
    owner.direct("a").await;
    db.kill(owner).await;
    refused!(
        other.start_turn(start("b")),
        StoreError::OwnedElsewhere { .. }
    );
    let queued = other.start_turn(queueing("b")).await.unwrap();
    assert!(matches!(queued, Started::Queued(_)));
    assert_eq!(other.lane().await.active.unwrap().row, row_id("a"));
}
