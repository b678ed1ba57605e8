//! Operations that are submitted without waiting: their order, and what dropping them means.

use futures_util::future::join_all;
use turnlane_store::queue::{Claimed, Fate};
use turnlane_store::turn::{Level, Put};
use turnlane_store::{Health, StoreError};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    operations_commit_in_the_order_of_their_calls,
    a_dropped_operation_is_carried_out,
    a_refused_operation_does_not_fail_its_neighbours,
    a_turn_can_be_submitted_whole,
    a_read_after_a_flush_sees_everything_before_it,
    a_close_comes_after_everything_submitted_before,
    a_new_store_takes_writes,
    a_store_with_room_says_so_at_once,
];
on_many_workers![adds_of_many_workers_at_once_are_all_kept_in_the_order_of_each];

fn names(count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("{nth:02}")).collect()
}

async fn operations_commit_in_the_order_of_their_calls(db: Db) {
    let hand = db.open("one").await;
    let mut deep = new_thread("t");
    deep.max_depth = 100;
    let created = hand.create_thread(deep);
    let names = names(100);
    let mut adds: Vec<_> = names
        .iter()
        .map(|name| hand.append(append(row(name))))
        .collect();
    // Whoever waits first for the last one sees all of them.
    adds.pop().unwrap().await.unwrap();
    assert_eq!(hand.names().await, names);
    created.await.unwrap();
    for (nth, added) in join_all(adds).await.into_iter().enumerate() {
        assert_eq!(added.unwrap().lane.depth as usize, nth + 1);
    }
}

async fn a_dropped_operation_is_carried_out(db: Db) {
    let hand = db.one().await;
    drop(hand.append(append(row("a"))));
    hand.flush().await.unwrap();
    assert_eq!(hand.names().await, ["a"]);
}

async fn a_refused_operation_does_not_fail_its_neighbours(db: Db) {
    let hand = db.one().await;
    let before = hand.append(append(row("a")));
    let mut lost = append(row("x"));
    lost.thread = thread_id("lost");
    let refused = hand.append(lost);
    let twice = hand.create_thread(new_thread("t"));
    let after = hand.append(append(row("b")));
    before.await.unwrap();
    refused!(refused, StoreError::ThreadNotFound(_));
    refused!(twice, StoreError::ThreadExists(_));
    after.await.unwrap();
    assert_eq!(hand.names().await, ["a", "b"]);
}

async fn a_turn_can_be_submitted_whole(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let writes: Vec<_> = (0..20)
        .map(|nth| {
            hand.put(
                turn.grip,
                items(vec![item(&turn, nth, "command")]),
                Level::Visible,
            )
        })
        .collect();
    let end = hand.complete(complete(&turn, Fate::Done));
    let next = hand.claim_and_accept(head(), accepting());
    let too_late = hand.put(turn.grip, Put::default(), Level::Visible);
    for write in join_all(writes).await {
        write.unwrap();
    }
    end.await.unwrap();
    assert!(matches!(next.await.unwrap(), Claimed::Ours(_)));
    refused!(too_late, StoreError::Fenced);
    assert_eq!(hand.all_items().await.len(), 22);
}

async fn a_read_after_a_flush_sees_everything_before_it(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    for nth in 0..10 {
        let put = items(vec![item(&turn, nth, "command")]);
        drop(hand.put(turn.grip, put, Level::Visible));
    }
    hand.flush().await.unwrap();
    assert_eq!(hand.all_items().await.len(), 11);
}

async fn a_close_comes_after_everything_submitted_before(db: Db) {
    let hand = db.one().await;
    let adds: Vec<_> = ["a", "b", "c"]
        .map(|name| hand.append(append(row(name))))
        .into();
    let closed = hand.close();
    let late = hand.append(append(row("d")));
    closed.await.unwrap();
    for added in join_all(adds).await {
        added.unwrap();
    }
    refused!(late, StoreError::Closed);
}

async fn a_new_store_takes_writes(db: Db) {
    let hand = db.one().await;
    assert_eq!(*hand.health().borrow(), Health::Good);
}

async fn a_store_with_room_says_so_at_once(db: Db) {
    let hand = db.one().await;
    hand.room().await.unwrap();
}

async fn adds_of_many_workers_at_once_are_all_kept_in_the_order_of_each(db: Db) {
    let first = db.open("one").await;
    let mut deep = new_thread("t");
    deep.max_depth = 100;
    first.create_thread(deep).await.unwrap();
    let mut hands = vec![first];
    for name in ["2", "3", "4"] {
        hands.push(db.open(name).await);
    }
    let names = names(80);
    let adds = names.iter().enumerate();
    let adds = adds.map(|(nth, name)| hands[nth % 4].append(append(row(name))));
    for added in join_all(adds.collect::<Vec<_>>()).await {
        added.unwrap();
    }
    let stored = hands[0].names().await;
    assert_eq!(stored.len(), 80);
    for mine in 0..4 {
        let of_one = |name: &&String| name.parse::<usize>().unwrap() % 4 == mine;
        assert!(stored.iter().filter(of_one).is_sorted());
    }
}
