//! Claims: which row, when, and that only one wins.

use futures_util::future::join_all;
use turnlane_store::StoreError;
use turnlane_store::lane::{Head, Taken};
use turnlane_store::queue::{Accepting, Claimed, NewRow, RowState};
use turnlane_store::turn::Accepted;

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_claim_takes_the_head_and_hides_it,
    a_busy_lane_is_not_claimed,
    an_empty_queue_has_nothing_to_claim,
    a_row_that_is_not_due_holds_the_lane,
    a_failed_head_is_not_started_unless_it_is_named,
    a_row_that_is_longer_than_may_be_read_is_claimed_and_accepted_apart,
    a_failed_head_holds_the_lane,
    the_head_can_be_claimed_whatever_holds_the_lane,
    a_row_can_be_claimed_out_of_order,
    a_failed_row_that_is_claimed_loses_its_failure,
    a_named_claim_does_not_pass_a_running_turn,
    a_claim_that_finds_nothing_changes_nothing_visible,
    claims_make_the_fence_grow_by_one,
];
on_many_workers![
    exactly_one_of_a_hundred_claims_wins,
    exactly_one_of_a_hundred_claims_with_acceptance_wins,
    a_lane_of_a_live_worker_is_not_claimed,
    a_lane_that_nobody_owns_can_be_claimed_by_anybody,
    a_bound_row_is_claimed_by_its_worker_only,
    eight_workers_drain_a_lane_in_order_and_once,
];

async fn a_claim_takes_the_head_and_hides_it(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    assert_eq!(claimed.row, hand.stored("a").await);
    assert_eq!(
        (claimed.row.state, claimed.row.attempts),
        (RowState::Claimed, 1)
    );
    assert_eq!(claimed.row.position, None);
    assert_eq!(hand.names().await, ["b"]);
    let lane = hand.lane().await;
    assert_eq!(lane, claimed.lane);
    assert_eq!((lane.depth, lane.owner), (1, Some(hand.worker())));
    let active = lane.active.unwrap();
    assert_eq!((active.row, active.turn), (row_id("a"), turn_id("a")));
    assert_eq!(
        (claimed.grip.thread, claimed.grip.fence),
        (thread(), lane.fence)
    );
}

async fn a_busy_lane_is_not_claimed(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    let lane = not_now(hand.claim(head()).await.unwrap());
    assert_eq!(lane.active.unwrap().row, row_id("a"));
    hand.accept(claimed.grip, claimed.row.id, accepting(), NOW)
        .await
        .unwrap();
    not_now(hand.claim(head()).await.unwrap());
    not_now(hand.claim_and_accept(head(), accepting()).await.unwrap());
    assert_eq!(hand.lane().await.fence, claimed.grip.fence);
}

async fn an_empty_queue_has_nothing_to_claim(db: Db) {
    let hand = db.one().await;
    assert_eq!(not_now(hand.claim(head()).await.unwrap()).head, Head::None);
    refused!(hand.claim(head_now()), StoreError::QueueEmpty);
    refused!(
        hand.claim_and_accept(head_now(), accepting()),
        StoreError::QueueEmpty
    );
}

async fn a_row_that_is_longer_than_may_be_read_is_claimed_and_accepted_apart(db: Db) {
    let hand = db.one().await;
    let long = NewRow {
        params: json(&format!("{{\"say\":\"{}\"}}", "x".repeat(100))),
        ..row("a")
    };
    hand.append(append(long)).await.unwrap();
    let unread = Accepting::new(|_| panic!("read inside the transaction that claims")).up_to(99);
    let claimed = match ours(hand.claim_and_accept(head(), unread).await.unwrap()) {
        Accepted::Claimed(claimed) => claimed,
        other => panic!("{other:?}"),
    };
    assert_eq!(hand.state("a").await, RowState::Claimed);
    assert_eq!(claimed.lane, hand.lane().await);
    let accepted = hand.accept(claimed.grip, claimed.row.id, accepting(), NOW);
    assert!(matches!(accepted.await.unwrap(), Accepted::Begun(_)));
    assert_eq!(hand.state("a").await, RowState::Started);
}

async fn a_failed_head_is_not_started_unless_it_is_named(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.fail("a").await;
    refused!(hand.claim(head_now()), StoreError::HeadFailed { row, .. } if *row == row_id("a"));
    assert_eq!(
        ours(hand.claim(this_row("a")).await.unwrap()).row.id,
        row_id("a")
    );
}

async fn a_row_that_is_not_due_holds_the_lane(db: Db) {
    let hand = db.one().await;
    let later = NewRow {
        not_before_ms: NOW + 10,
        ..row("a")
    };
    hand.append(append(later)).await.unwrap();
    hand.add(&["b"]).await;
    let lane = not_now(hand.claim(head()).await.unwrap());
    let (row, at_ms) = (row_id("a"), NOW + 10);
    assert_eq!(lane.head, Head::Due { row, at_ms });
    let mut due = head();
    due.at_ms = NOW + 10;
    assert_eq!(ours(hand.claim(due).await.unwrap()).row.id, row_id("a"));
}

async fn a_failed_head_holds_the_lane(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.fail("a").await;
    let lane = not_now(hand.claim(head()).await.unwrap());
    let (row, failure) = (row_id("a"), json("\"no\""));
    assert_eq!(lane.head, Head::Failed { row, failure });
    assert!(
        hand.delete_row(thread(), row_id("a"), NOW)
            .await
            .unwrap()
            .value
    );
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn the_head_can_be_claimed_whatever_holds_the_lane(db: Db) {
    let hand = db.one().await;
    let later = NewRow {
        not_before_ms: NOW + 10,
        ..row("a")
    };
    hand.append(append(later)).await.unwrap();
    hand.pause(thread(), paused()).await.unwrap();
    let claimed = ours(hand.claim(head_now()).await.unwrap());
    assert_eq!((claimed.row.id, claimed.lane.paused), (row_id("a"), None));
}

async fn a_row_can_be_claimed_out_of_order(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    let claimed = ours(hand.claim(this_row("b")).await.unwrap());
    assert_eq!(claimed.row.id, row_id("b"));
    assert_eq!(hand.names().await, ["a", "c"]);
}

async fn a_failed_row_that_is_claimed_loses_its_failure(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    hand.fail("a").await;
    let turn = begun(ours(
        hand.claim_and_accept(this_row("a"), accepting())
            .await
            .unwrap(),
    ));
    assert_eq!((turn.row.failure, turn.row.attempts), (None, 2));
    assert_eq!((turn.turn.id, turn.turn.attempt), (turn_id("a+"), 2));
}

async fn a_named_claim_does_not_pass_a_running_turn(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.begin().await;
    not_now(hand.claim(head_now()).await.unwrap());
    not_now(hand.claim(this_row("b")).await.unwrap());
    assert_eq!(hand.names().await, ["b"]);
}

async fn a_claim_that_finds_nothing_changes_nothing_visible(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    hand.fail("a").await;
    let lane = hand.lane().await;
    assert_eq!(not_now(hand.claim(head()).await.unwrap()), lane);
    assert_eq!(hand.lane().await, lane);
}

async fn claims_make_the_fence_grow_by_one(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let before = hand.lane().await.fence;
    let first = hand.begin().await;
    // The claim also made the lane ours: one step in all.
    assert_eq!(first.grip.fence.0, before.0 + 1);
    hand.finish(&first).await;
    assert_eq!(hand.claim_head().await.grip.fence.0, before.0 + 2);
}

async fn eight(db: &Db) -> Vec<Hand> {
    let mut hands = vec![db.one().await];
    for name in ["2", "3", "4", "5", "6", "7", "8"] {
        hands.push(db.open(name).await);
    }
    hands
}

async fn exactly_one_of_a_hundred_claims_wins(db: Db) {
    let hands = eight(&db).await;
    hands[0].add(&["a"]).await;
    let claims = (0..100).map(|nth| hands[nth % hands.len()].claim(head()));
    let claimed = join_all(claims).await;
    let won = |claimed: &&Result<Claimed<_>, StoreError>| {
        matches!(claimed.as_ref().unwrap(), Claimed::Ours(_))
    };
    assert_eq!(claimed.iter().filter(won).count(), 1);
    assert_eq!(hands[5].state("a").await, RowState::Claimed);
    assert_eq!(hands[5].stored("a").await.attempts, 1);
}

async fn exactly_one_of_a_hundred_claims_with_acceptance_wins(db: Db) {
    let hands = eight(&db).await;
    hands[0].add(&["a"]).await;
    let claims = (0..100).map(|nth| hands[nth % hands.len()].claim_and_accept(head(), accepting()));
    let claimed = join_all(claims).await;
    let won = |claimed: &&Result<Claimed<_>, StoreError>| {
        matches!(claimed.as_ref().unwrap(), Claimed::Ours(_))
    };
    assert_eq!(claimed.iter().filter(won).count(), 1);
    assert_eq!(hands[5].all_turns().await.len(), 1);
    assert_eq!(hands[5].all_items().await.len(), 1);
}

async fn a_lane_of_a_live_worker_is_not_claimed(db: Db) {
    let (owner, other) = db.two().await;
    other.add(&["a"]).await;
    assert!(matches!(
        owner.take(thread()).await.unwrap(),
        Taken::Ours(_)
    ));
    for claim in [head(), head_now(), this_row("a")] {
        let lane = not_now(other.claim(claim).await.unwrap());
        assert_eq!(lane.owner, Some(owner.worker()));
    }
    assert_eq!(owner.claim_head().await.row.id, row_id("a"));
}

async fn a_lane_that_nobody_owns_can_be_claimed_by_anybody(db: Db) {
    let (first, second) = db.two().await;
    first.add(&["a"]).await;
    assert_eq!(second.claim_head().await.lane.owner, Some(second.worker()));
    not_now(first.claim(head()).await.unwrap());
}

async fn a_bound_row_is_claimed_by_its_worker_only(db: Db) {
    let (first, second) = db.two().await;
    let bound = NewRow {
        bound: Some(second.worker()),
        ..row("a")
    };
    first.append(append(bound)).await.unwrap();
    for claim in [head(), head_now(), this_row("a")] {
        let lane = not_now(first.claim(claim).await.unwrap());
        let (row, worker) = (row_id("a"), second.worker());
        assert_eq!(lane.head, Head::BoundElsewhere { row, worker });
    }
    let row = row_id("a");
    assert_eq!(second.lane().await.head, Head::Due { row, at_ms: 0 });
    assert_eq!(second.claim_head().await.row.id, row);
}

async fn eight_workers_drain_a_lane_in_order_and_once(db: Db) {
    let hands = eight(&db).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    hands[0].add(&names).await;
    let drain = hands.iter().map(|hand| async move {
        while !hand.names().await.is_empty() {
            let claim = hand.claim_and_accept(head(), accepting()).await.unwrap();
            if let Claimed::Ours(accepted) = claim {
                let turn = begun(accepted);
                let mut end = complete(&turn, turnlane_store::queue::Fate::Done);
                end.keep = turnlane_store::turn::Keep::Ours;
                let grip = end.grip;
                hand.complete(end).await.unwrap();
                hand.release(grip).await.unwrap();
            }
        }
    });
    join_all(drain).await;
    let turns = hands[0].all_turns().await;
    let expected: Vec<_> = names.iter().map(|name| turn_id(name)).collect();
    let ran: Vec<_> = turns.iter().map(|turn| turn.id).collect();
    assert_eq!(ran, expected);
}
