//! Upkeep: ended rows are pruned, endless waits end with a restart.

use turnlane_store::Census;
use turnlane_store::queue::{CannotStart, Fate, RowState};
use turnlane_store::turn::{Complete, Keep, WaitingChange};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    rows_that_ended_long_ago_are_pruned,
    pruning_leaves_live_rows_and_history,
    pruning_takes_a_thousand_at_most,
    an_endless_wait_of_nobodys_lane_ends,
    a_wait_with_a_time_does_not_end_by_itself,
    lanes_are_counted_by_what_they_do,
    waiting_lanes_are_counted_by_what_they_wait_out,
    syncs_are_timed,
];
on_many_workers![
    an_endless_wait_of_a_live_workers_lane_goes_on,
    an_endless_wait_of_a_dead_workers_lane_ends,
];

async fn rows_that_ended_long_ago_are_pruned(db: Db) {
    let hand = db.one().await;
    hand.run("done").await;
    hand.add(&["cancelled", "dead", "recent"]).await;
    hand.delete_row(thread(), row_id("cancelled"), NOW)
        .await
        .unwrap();
    let claimed = hand.claim_head().await;
    let failure = json("1");
    let dead = CannotStart::Dead { failure };
    hand.unclaim(claimed.grip, claimed.row.id, dead, NOW)
        .await
        .unwrap();
    hand.delete_row(thread(), row_id("recent"), NOW + 1)
        .await
        .unwrap();
    assert_eq!(hand.prune(NOW).await.unwrap(), 0);
    assert_eq!(hand.prune(NOW + 1).await.unwrap(), 3);
    for name in ["done", "cancelled", "dead"] {
        assert_eq!(hand.row(thread(), row_id(name)).await.unwrap(), None);
    }
    assert_eq!(hand.state("recent").await, RowState::Cancelled);
}

async fn pruning_leaves_live_rows_and_history(db: Db) {
    let hand = db.one().await;
    hand.run("a").await;
    hand.add(&["b", "c", "d"]).await;
    hand.fail("b").await;
    hand.direct("e").await;
    assert_eq!(hand.prune(i64::MAX).await.unwrap(), 1);
    assert_eq!(hand.names().await, ["b", "c", "d"]);
    assert_eq!(hand.state("e").await, RowState::Started);
    assert_eq!(hand.all_turns().await.len(), 2);
}

async fn pruning_takes_a_thousand_at_most(db: Db) {
    let hand = db.open("one").await;
    let mut deep = new_thread("t");
    deep.max_depth = 2_000;
    hand.create_thread(deep).await.unwrap();
    for nth in 0..1_002 {
        let name = format!("{nth}");
        drop(hand.append(append(row(&name))));
        drop(hand.delete_row(thread(), row_id(&name), NOW));
        hand.room().await.unwrap();
    }
    hand.flush().await.unwrap();
    assert_eq!(hand.prune(NOW + 1).await.unwrap(), 1_000);
    assert_eq!(hand.prune(NOW + 1).await.unwrap(), 2);
}

/// Ends a direct turn so that the lane waits; a row waits in it.
async fn wait(hand: &Hand, until_ms: Option<i64>) {
    let turn = hand.direct("x").await;
    let end = Complete {
        waiting: WaitingChange::Begin(waiting(until_ms)),
        keep: Keep::UnlessIdle,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    hand.add(&["a"]).await;
    not_now(hand.claim(head()).await.unwrap());
}

async fn an_endless_wait_of_nobodys_lane_ends(db: Db) {
    let hand = db.one().await;
    wait(&hand, None).await;
    let before = hand.lane().await;
    assert_eq!(hand.end_endless_waits().await.unwrap(), 1);
    let lane = hand.lane().await;
    assert_eq!(lane.waiting, None);
    assert!(lane.revision > before.revision);
    assert_eq!(hand.ready(NOW, 10).await.unwrap().lanes, [thread()]);
    assert_eq!(hand.end_endless_waits().await.unwrap(), 0);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_wait_with_a_time_does_not_end_by_itself(db: Db) {
    let hand = db.one().await;
    wait(&hand, Some(NOW + 5)).await;
    assert_eq!(hand.end_endless_waits().await.unwrap(), 0);
    assert_eq!(hand.lane().await.waiting, Some(waiting(Some(NOW + 5))));
}

async fn an_endless_wait_of_a_live_workers_lane_goes_on(db: Db) {
    let (owner, other) = db.two().await;
    wait(&owner, None).await;
    owner.take(thread()).await.unwrap();
    assert_eq!(other.end_endless_waits().await.unwrap(), 0);
    assert_eq!(owner.lane().await.waiting, Some(waiting(None)));
}

async fn an_endless_wait_of_a_dead_workers_lane_ends(db: Db) {
    let (owner, other) = db.two().await;
    wait(&owner, None).await;
    owner.take(thread()).await.unwrap();
    db.kill(owner).await;
    assert_eq!(other.end_endless_waits().await.unwrap(), 1);
    assert_eq!(other.lane().await.waiting, None);
}

async fn lanes_are_counted_by_what_they_do(db: Db) {
    let hand = db.open("one").await;
    assert_eq!(hand.census().await.unwrap(), Census::default());
    hand.create_thread(new_thread("t")).await.unwrap();
    hand.create_thread(new_thread("other")).await.unwrap();
    let idle = Census {
        idle: 2,
        ..Census::default()
    };
    assert_eq!(hand.census().await.unwrap(), idle);
    hand.add(&["a", "b", "c"]).await;
    let queued = Census {
        queued: 1,
        idle: 1,
        rows: 3,
        ..Census::default()
    };
    assert_eq!(hand.census().await.unwrap(), queued);
    hand.pause(thread(), paused()).await.unwrap();
    let paused = Census {
        queued: 0,
        paused: 1,
        ..queued.clone()
    };
    assert_eq!(hand.census().await.unwrap(), paused);
    hand.resume(thread(), NOW).await.unwrap();
    hand.fail("a").await;
    let held = Census {
        queued: 0,
        held: 1,
        ..queued.clone()
    };
    assert_eq!(hand.census().await.unwrap(), held);
    hand.delete_row(thread(), row_id("a"), NOW).await.unwrap();
    hand.claim_head().await;
    let running = Census {
        queued: 0,
        running: 1,
        rows: 1,
        ..queued.clone()
    };
    assert_eq!(hand.census().await.unwrap(), running);
}

async fn waiting_lanes_are_counted_by_what_they_wait_out(db: Db) {
    let hand = db.one().await;
    wait(&hand, None).await;
    let waiting = Census {
        waiting: 1,
        rows: 1,
        waiting_by_kind: vec![("quota".to_owned(), 1)],
        ..Census::default()
    };
    assert_eq!(hand.census().await.unwrap(), waiting);
    // A pause comes first: the lane is counted once.
    hand.pause(thread(), paused()).await.unwrap();
    let paused = hand.census().await.unwrap();
    assert_eq!((paused.paused, paused.waiting_by_kind), (1, Vec::new()));
}

async fn syncs_are_timed(db: Db) {
    let hand = db.one().await;
    let before = hand.sync_times();
    hand.add(&["a"]).await;
    let after = hand.sync_times();
    assert!(after.count > before.count, "{before:?} {after:?}");
    assert!(after.sum >= before.sum, "{before:?} {after:?}");
    let counted: u64 = after.buckets.iter().map(|(_, count)| count).sum();
    assert!(counted <= after.count, "{after:?}");
}
