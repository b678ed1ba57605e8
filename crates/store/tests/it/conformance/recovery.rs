//! What dead workers leave behind, and that every decision about it is carried out once.

use turnlane_store::StoreError;
use turnlane_store::queue::{NewRow, Row, RowState};
use turnlane_store::recovery::{
    Deciding, Decision, Found, FoundFate, Loss, Recover, Recovered, Whose,
};
use turnlane_store::turn::TurnStatus;

use crate::backend::on_many_workers;
use crate::build::*;

on_many_workers![
    nothing_dead_means_nothing_done,
    a_live_worker_is_left_alone,
    a_claimed_row_of_a_dead_worker_waits_again_and_is_counted,
    a_started_row_of_a_dead_worker_ends_with_its_turn,
    a_started_row_may_be_tried_again,
    a_started_row_may_hold_the_lane,
    a_row_may_be_cancelled_with_its_worker,
    the_one_who_decides_sees_the_row_its_turn_and_its_engine,
    an_engine_may_be_asked_before_a_decision,
    a_row_that_was_asked_about_is_decided_once,
    a_row_whose_asker_died_is_found_again,
    an_idle_lane_of_a_dead_worker_becomes_nobodys,
    rows_bound_to_a_dead_worker_are_cancelled,
    a_recovered_lane_is_shown_without_the_rows_that_went,
    a_bound_row_of_a_live_worker_stays,
    recovery_twice_is_recovery_once,
    recovery_goes_on_where_the_limit_cut_it_off,
    a_wait_survives_its_worker,
    two_workers_that_recover_at_once_decide_once,
    a_dead_worker_that_owns_nothing_is_forgotten,
    a_lane_that_was_recovered_can_be_claimed_at_once,
];

/// A worker that began the row `a` in front of `b` and died, and one that lives.
async fn began_and_died(db: &Db) -> Hand {
    let (owner, other) = db.two().await;
    owner.add(&["a", "b"]).await;
    owner.begin().await;
    db.kill(owner).await;
    other
}

async fn claimed_and_died(db: &Db) -> Hand {
    let (owner, other) = db.two().await;
    owner.add(&["a", "b"]).await;
    owner.claim_head().await;
    db.kill(owner).await;
    other
}

fn again(loss: Loss) -> FoundFate {
    FoundFate::Back {
        turn: turn_id("a2"),
        loss,
    }
}

/// Checks what every recovered lane with a row has in common.
async fn recovered(hand: &Hand, fate: FoundFate) -> Row {
    let before = hand.lane().await;
    let recovered = hand.recover_with(fate).await;
    assert_eq!(recovered.lanes.len(), 1);
    let lane = &recovered.lanes[0];
    assert_eq!(
        (lane.thread, lane.row, lane.grip),
        (thread(), Some(row_id("a")), None)
    );
    assert_eq!(lane.lane, hand.lane().await);
    assert_eq!((lane.lane.owner, lane.lane.active), (None, None));
    assert_eq!(lane.lane.fence.0, before.fence.0 + 1);
    hand.stored("a").await
}

async fn nothing_dead_means_nothing_done(db: Db) {
    let (first, second) = db.two().await;
    first.add(&["a"]).await;
    let lane = first.lane().await;
    assert_eq!(
        second.recover_with(FoundFate::Done).await,
        Recovered::default()
    );
    assert_eq!(first.lane().await, lane);
}

async fn a_live_worker_is_left_alone(db: Db) {
    let (owner, other) = db.two().await;
    let turn = owner.direct("a").await;
    assert!(other.recover_with(FoundFate::Done).await.lanes.is_empty());
    owner.finish(&turn).await;
}

async fn a_claimed_row_of_a_dead_worker_waits_again_and_is_counted(db: Db) {
    let hand = claimed_and_died(&db).await;
    let row = recovered(&hand, again(Loss::Counted)).await;
    assert_eq!(
        (row.state, row.losses, row.attempts),
        (RowState::Queued, 1, 1)
    );
    assert_eq!((row.turn, row.last_turn), (turn_id("a2"), None));
    assert_eq!(hand.names().await, ["a", "b"]);
    assert!(hand.all_turns().await.is_empty());
}

async fn a_started_row_of_a_dead_worker_ends_with_its_turn(db: Db) {
    let hand = began_and_died(&db).await;
    let row = recovered(&hand, FoundFate::Done).await;
    assert_eq!((row.state, row.ended_ms), (RowState::Done, Some(NOW)));
    let turn = hand.all_turns().await.remove(0);
    assert_eq!(
        (turn.status, turn.completed_ms),
        (TurnStatus::Interrupted, Some(NOW))
    );
    assert_eq!(turn.error, Some(json("\"stopped\"")));
    assert_eq!(hand.all_items().await.len(), 1);
    assert_eq!(hand.begin().await.row.id, row_id("b"));
}

async fn a_started_row_may_be_tried_again(db: Db) {
    let hand = began_and_died(&db).await;
    let row = recovered(&hand, again(Loss::Retry)).await;
    assert_eq!((row.state, row.losses), (RowState::Queued, 0));
    assert_eq!(
        (row.turn, row.last_turn),
        (turn_id("a2"), Some(turn_id("a")))
    );
    assert_eq!(hand.names().await, ["a", "b"]);
    let turn = hand.begin().await;
    assert_eq!(
        (turn.turn.id, turn.turn.attempt, turn.turn.ord),
        (turn_id("a2"), 2, 2)
    );
}

async fn a_started_row_may_hold_the_lane(db: Db) {
    let hand = began_and_died(&db).await;
    let failure = json("\"stopped\"");
    let turn = turn_id("a2");
    let row = recovered(&hand, FoundFate::Block { failure, turn }).await;
    assert_eq!(
        (row.state, row.failure),
        (RowState::Blocked, Some(json("\"stopped\"")))
    );
    assert_eq!((row.turn, row.last_turn), (turn, Some(turn_id("a"))));
    assert_eq!(hand.names().await, ["a", "b"]);
    not_now(hand.claim(head()).await.unwrap());
}

async fn a_row_may_be_cancelled_with_its_worker(db: Db) {
    let hand = claimed_and_died(&db).await;
    let row = recovered(&hand, FoundFate::Cancel).await;
    assert_eq!((row.state, row.ended_ms), (RowState::Cancelled, Some(NOW)));
    assert_eq!(hand.names().await, ["b"]);
}

async fn the_one_who_decides_sees_the_row_its_turn_and_its_engine(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a"]).await;
    let claimed = owner.claim_head().await;
    owner
        .mark_sent(claimed.grip, claimed.row.id, NOW)
        .await
        .unwrap();
    db.kill(owner).await;
    let looking = Deciding::new(|found: Found<'_>| {
        let sees = found.thread == thread() && found.engine == "native" && found.turn.is_none();
        let row = (found.row.id, found.row.state, found.row.sent);
        assert!(sees && row == (row_id("a"), RowState::Claimed, true));
        Decision {
            muted: false,
            turn_error: None,
            row: FoundFate::Cancel,
        }
    });
    let search = Recover {
        deciding: looking,
        ..recover(Whose::Dead, FoundFate::Done)
    };
    assert_eq!(other.recover(search).await.unwrap().lanes.len(), 1);
    assert_eq!(other.state("a").await, RowState::Cancelled);
}

async fn an_engine_may_be_asked_before_a_decision(db: Db) {
    let hand = claimed_and_died(&db).await;
    let asked = hand.recover_with(FoundFate::Ask).await.lanes.remove(0);
    let grip = asked.grip.unwrap();
    assert_eq!(
        (asked.row, grip.fence),
        (Some(row_id("a")), asked.lane.fence)
    );
    assert_eq!(asked.lane.owner, Some(hand.worker()));
    assert_eq!(asked.lane.active.unwrap().row, row_id("a"));
    assert_eq!(hand.state("a").await, RowState::Reconcile);
    not_now(hand.claim(head()).await.unwrap());
    let decision = Decision {
        muted: false,
        turn_error: None,
        row: again(Loss::Counted),
    };
    let lane = hand.decide(grip, row_id("a"), decision, NOW).await.unwrap();
    assert_eq!((lane.active, lane.depth), (None, 2));
    assert_eq!(hand.names().await, ["a", "b"]);
    assert_eq!(hand.stored("a").await.losses, 1);
}

async fn a_row_that_was_asked_about_is_decided_once(db: Db) {
    let hand = began_and_died(&db).await;
    let asked = hand.recover_with(FoundFate::Ask).await.lanes.remove(0);
    let decision = || Decision {
        muted: false,
        turn_error: Some(json("\"stopped\"")),
        row: FoundFate::Done,
    };
    let decide = || hand.decide(asked.grip.unwrap(), row_id("a"), decision(), NOW);
    decide().await.unwrap();
    let before = (hand.stored("a").await, hand.all_turns().await);
    assert_eq!(before.1[0].status, TurnStatus::Interrupted);
    let error = decide().await.unwrap_err();
    let twice = matches!(error, StoreError::Fenced | StoreError::RowNotFound(_));
    assert!(twice, "{error:?}");
    assert_eq!((hand.stored("a").await, hand.all_turns().await), before);
}

async fn a_row_whose_asker_died_is_found_again(db: Db) {
    let asker = began_and_died(&db).await;
    asker.recover_with(FoundFate::Ask).await;
    let third = db.open("three").await;
    db.kill(asker).await;
    let seen = Deciding::new(|found: Found<'_>| {
        assert_eq!(found.row.state, RowState::Reconcile);
        assert_eq!(found.turn.unwrap().status, TurnStatus::InProgress);
        Decision {
            muted: false,
            turn_error: Some(json("\"stopped\"")),
            row: FoundFate::Done,
        }
    });
    let search = Recover {
        deciding: seen,
        ..recover(Whose::Dead, FoundFate::Done)
    };
    assert_eq!(third.recover(search).await.unwrap().lanes.len(), 1);
    assert_eq!(third.state("a").await, RowState::Done);
}

async fn an_idle_lane_of_a_dead_worker_becomes_nobodys(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    db.kill(owner).await;
    let recovered = other.recover_with(FoundFate::Done).await;
    assert_eq!((recovered.lanes.len(), recovered.lanes[0].row), (1, None));
    assert_eq!(other.lane().await.owner, None);
}

async fn rows_bound_to_a_dead_worker_are_cancelled(db: Db) {
    let (owner, other) = db.two().await;
    let bound = NewRow {
        bound: Some(owner.worker()),
        ..row("a")
    };
    owner.append(append(bound)).await.unwrap();
    owner.add(&["b"]).await;
    let before = other.lane().await;
    db.kill(owner).await;
    other.recover_with(FoundFate::Done).await;
    let row = other.stored("a").await;
    assert_eq!((row.state, row.ended_ms), (RowState::Cancelled, Some(NOW)));
    let lane = other.lane().await;
    assert_eq!((lane.depth, other.names().await), (1, vec!["b".to_owned()]));
    assert!(lane.revision > before.revision);
    assert_eq!(other.claim_head().await.row.id, row_id("b"));
}

async fn a_recovered_lane_is_shown_without_the_rows_that_went(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let bound = NewRow {
        bound: Some(owner.worker()),
        ..row("a")
    };
    owner.append(append(bound)).await.unwrap();
    db.kill(owner).await;
    let recovered = other.recover_with(FoundFate::Done).await;
    assert_eq!(recovered.lanes[0].lane, other.lane().await);
    assert_eq!(recovered.lanes[0].lane.depth, 0);
}

async fn a_bound_row_of_a_live_worker_stays(db: Db) {
    let (owner, other) = db.two().await;
    let bound = NewRow {
        bound: Some(owner.worker()),
        ..row("a")
    };
    owner.append(append(bound)).await.unwrap();
    other.recover_with(FoundFate::Done).await;
    assert_eq!(owner.claim_head().await.row.id, row_id("a"));
}

async fn recovery_twice_is_recovery_once(db: Db) {
    let hand = began_and_died(&db).await;
    hand.recover_with(again(Loss::Counted)).await;
    let before = (
        hand.lane().await,
        hand.stored("a").await,
        hand.all_turns().await,
    );
    assert_eq!(
        hand.recover_with(again(Loss::Counted)).await,
        Recovered::default()
    );
    let after = (
        hand.lane().await,
        hand.stored("a").await,
        hand.all_turns().await,
    );
    assert_eq!(after, before);
}

async fn recovery_goes_on_where_the_limit_cut_it_off(db: Db) {
    let (owner, other) = db.two().await;
    for name in ["u", "v"] {
        owner.create_thread(new_thread(name)).await.unwrap();
    }
    for name in ["t", "u", "v"] {
        owner.take(thread_id(name)).await.unwrap();
    }
    db.kill(owner).await;
    let search = Recover {
        limit: 2,
        ..recover(Whose::Dead, FoundFate::Done)
    };
    let first = other.recover(search.clone()).await.unwrap();
    assert_eq!((first.lanes.len(), first.more), (2, true));
    let second = other.recover(search.clone()).await.unwrap();
    assert_eq!((second.lanes.len(), second.more), (1, false));
    assert_eq!(other.recover(search).await.unwrap(), Recovered::default());
    for name in ["t", "u", "v"] {
        assert_eq!(other.look(thread_id(name)).await.unwrap().owner, None);
    }
}

async fn a_wait_survives_its_worker(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a", "b"]).await;
    let claimed = owner.claim_head().await;
    let how = turnlane_store::queue::CannotStart::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        waiting: Some(waiting(Some(NOW + 10))),
    };
    owner
        .unclaim(claimed.grip, claimed.row.id, how, NOW)
        .await
        .unwrap();
    owner.pause(thread(), paused()).await.unwrap();
    db.kill(owner).await;
    other.recover_with(FoundFate::Done).await;
    let lane = other.lane().await;
    assert_eq!(
        (lane.waiting, lane.paused),
        (Some(waiting(Some(NOW + 10))), Some(paused()))
    );
}

async fn two_workers_that_recover_at_once_decide_once(db: Db) {
    let first = claimed_and_died(&db).await;
    let second = db.open("three").await;
    let search = || recover(Whose::Dead, again(Loss::Counted));
    let (one, two) = (first.recover(search()), second.recover(search()));
    let found = one.await.unwrap().lanes.len() + two.await.unwrap().lanes.len();
    assert_eq!(found, 1);
    assert_eq!(first.stored("a").await.losses, 1);
}

async fn a_dead_worker_that_owns_nothing_is_forgotten(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let name = owner.worker();
    db.kill(owner).await;
    other.recover_with(FoundFate::Done).await;
    // Whoever comes back under that name is a live worker like any other.
    let reborn = db.open("one").await;
    assert_eq!(reborn.worker(), name);
    reborn.direct("a").await;
    assert!(other.recover_with(FoundFate::Done).await.lanes.is_empty());
}

async fn a_lane_that_was_recovered_can_be_claimed_at_once(db: Db) {
    let hand = began_and_died(&db).await;
    assert_eq!(hand.ready(NOW, 10).await.unwrap().lanes, []);
    assert_eq!(
        hand.ready(NOW, 10).await.unwrap().owners,
        [worker_id("one")]
    );
    hand.recover_with(FoundFate::Done).await;
    let found = hand.ready(NOW, 10).await.unwrap();
    assert_eq!((found.lanes, found.owners), (vec![thread()], vec![]));
}
