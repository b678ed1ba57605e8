//! Clocks that jump: order, ownership and fences follow commits, never the time that is passed in.

use turnlane_store::lane::Taken;
use turnlane_store::queue::{Claim, Fate, RowState};
use turnlane_store::recovery::{FoundFate, Recover, Whose};
use turnlane_store::turn::Complete;

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    rows_keep_the_order_of_their_adds_when_the_clock_jumps,
    turns_keep_their_numbers_when_the_clock_jumps,
    an_end_before_its_beginning_is_recorded,
    a_row_due_at_a_time_follows_the_clock,
    a_lane_with_work_is_found_after_the_clock_went_back,
];
on_many_workers![
    a_clock_that_jumps_makes_no_live_worker_dead,
    a_clock_that_jumps_makes_no_dead_worker_live,
    a_clock_that_went_back_does_not_bring_an_old_grip_back,
];

/// Now, far ahead, far back.
const TIMES: [i64; 5] = [NOW, i64::MAX / 2, 0, 1, NOW + 1];

fn at(at_ms: i64) -> Claim {
    Claim { at_ms, ..head() }
}

async fn rows_keep_the_order_of_their_adds_when_the_clock_jumps(db: Db) {
    let hand = db.one().await;
    for (name, at_ms) in ["a", "b", "c", "d", "e"].into_iter().zip(TIMES) {
        let mut add = append(row(name));
        add.at_ms = at_ms;
        hand.append(add).await.unwrap();
    }
    assert_eq!(hand.names().await, ["a", "b", "c", "d", "e"]);
    for name in ["a", "b", "c", "d", "e"] {
        let claimed = ours(hand.claim_and_accept(at(0), accepting()).await.unwrap());
        let turn = begun(claimed);
        assert_eq!(turn.row.id, row_id(name));
        hand.finish(&turn).await;
    }
}

async fn turns_keep_their_numbers_when_the_clock_jumps(db: Db) {
    let hand = db.one().await;
    for (name, at_ms) in ["a", "b", "c", "d", "e"].into_iter().zip(TIMES) {
        hand.add(&[name]).await;
        let claimed = ours(hand.claim_and_accept(at(at_ms), accepting()).await.unwrap());
        hand.finish(&begun(claimed)).await;
    }
    let turns = hand.all_turns().await;
    let told: Vec<_> = turns.iter().map(|turn| (turn.ord, turn.id)).collect();
    let expected: Vec<_> = (1..).zip(["a", "b", "c", "d", "e"].map(turn_id)).collect();
    assert_eq!(told, expected);
}

async fn an_end_before_its_beginning_is_recorded(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let end = Complete {
        at_ms: 3,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    let turn = hand.all_turns().await.remove(0);
    assert_eq!((turn.started_ms, turn.completed_ms), (NOW, Some(3)));
    assert_eq!(hand.stored("a").await.ended_ms, Some(3));
}

async fn a_row_due_at_a_time_follows_the_clock(db: Db) {
    let hand = db.one().await;
    let mut later = row("a");
    later.not_before_ms = NOW;
    hand.append(append(later)).await.unwrap();
    not_now(hand.claim(at(NOW - 1)).await.unwrap());
    not_now(hand.claim(at(0)).await.unwrap());
    assert_eq!(ours(hand.claim(at(NOW)).await.unwrap()).row.id, row_id("a"));
}

async fn a_lane_with_work_is_found_after_the_clock_went_back(db: Db) {
    let hand = db.one().await;
    let mut add = append(row("a"));
    add.at_ms = i64::MAX / 2;
    hand.append(add).await.unwrap();
    assert_eq!(hand.ready(0, 10).await.unwrap().lanes, [thread()]);
    let turn = hand.direct("b").await;
    let end = Complete {
        at_ms: i64::MAX / 2,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    assert_eq!(hand.ready(0, 10).await.unwrap().lanes, [thread()]);
    assert_eq!(ours(hand.claim(at(0)).await.unwrap()).row.id, row_id("a"));
}

fn search(at_ms: i64) -> Recover {
    Recover {
        at_ms,
        ..recover(Whose::Dead, FoundFate::Done)
    }
}

async fn a_clock_that_jumps_makes_no_live_worker_dead(db: Db) {
    let (owner, other) = db.two().await;
    let turn = owner.direct("a").await;
    for at_ms in TIMES {
        assert!(other.recover(search(at_ms)).await.unwrap().lanes.is_empty());
        let elsewhere = Taken::Elsewhere(owner.worker());
        assert_eq!(other.take(thread()).await.unwrap(), elsewhere);
    }
    owner.finish(&turn).await;
}

async fn a_clock_that_jumps_makes_no_dead_worker_live(db: Db) {
    let (owner, other) = db.two().await;
    owner.direct("a").await;
    db.kill(owner).await;
    assert_eq!(other.recover(search(0)).await.unwrap().lanes.len(), 1);
    assert_eq!(other.state("a").await, RowState::Done);
}

async fn a_clock_that_went_back_does_not_bring_an_old_grip_back(db: Db) {
    let (old, new) = db.two().await;
    let turn = old.direct("a").await;
    let taking = Recover {
        whose: Whose::Of(old.worker()),
        ..search(i64::MAX / 2)
    };
    new.recover(taking).await.unwrap();
    for at_ms in TIMES {
        let end = Complete {
            at_ms,
            ..complete(&turn, Fate::Done)
        };
        assert!(is_fenced(&old.complete(end).await));
    }
}
