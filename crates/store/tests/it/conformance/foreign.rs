//! Rows that were handed to foreign engines: the mark, lanes that are left alone, and turns whose end
//! is recorded after their engine was asked.

use turnlane_store::StoreError;
use turnlane_store::queue::{Back, Fate, RowState};
use turnlane_store::recovery::{Decision, FoundFate, Loss, Recover, Recovered, Whose};
use turnlane_store::turn::{AcceptedTurn, Complete, Keep, Put, TurnStatus};

use crate::backend::on_many_workers;
use crate::build::*;

on_many_workers![
    a_started_row_is_marked_as_sent_with_the_boot_of_its_worker,
    the_mark_is_gone_when_the_row_comes_back,
    a_decision_may_mute_the_turn_that_it_ends,
    a_muted_turn_leaves_its_row_as_it_was,
    a_lane_that_is_left_stays_its_dead_owners,
    lanes_that_are_left_do_not_count_for_the_limit,
    a_lane_that_was_left_can_be_taken_over_later,
    the_turn_that_is_being_decided_can_be_read,
    a_turn_that_an_engine_was_asked_about_ends_whole,
    the_row_of_such_a_turn_may_come_back_or_hold_the_lane,
    only_the_worker_that_decides_can_end_such_a_turn,
];

/// A worker that began the row `a` in front of `b`, marked it as sent and died, and one that lives.
async fn sent_and_died(db: &Db) -> Hand {
    let (owner, other) = db.two().await;
    owner.add(&["a", "b"]).await;
    let turn = owner.begin().await;
    owner
        .mark_sent(turn.grip, turn.row.id, NOW + 1)
        .await
        .unwrap();
    db.kill(owner).await;
    other
}

/// The turn of `a`, taken over by the worker that lives in order to ask.
async fn asked(hand: &Hand) -> AcceptedTurn {
    let lane = hand.recover_with(FoundFate::Ask).await.lanes.remove(0);
    hand.undecided(lane.grip.unwrap()).await.unwrap()
}

async fn a_started_row_is_marked_as_sent_with_the_boot_of_its_worker(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    assert_eq!((turn.row.sent, &turn.row.sent_boot), (false, &None));
    hand.mark_sent(turn.grip, turn.row.id, NOW + 1)
        .await
        .unwrap();
    let row = hand.stored("a").await;
    assert_eq!((row.state, row.sent), (RowState::Started, true));
    assert_eq!(row.sent_boot.as_deref(), Some(BOOT));
    assert_eq!(row.updated_ms, NOW + 1);
    // Again changes nothing, and its turn ends as usual.
    hand.mark_sent(turn.grip, turn.row.id, NOW + 1)
        .await
        .unwrap();
    assert_eq!(hand.stored("a").await, row);
    assert_eq!(hand.finish(&turn).await.value.state, RowState::Done);
}

async fn the_mark_is_gone_when_the_row_comes_back(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    hand.mark_sent(turn.grip, turn.row.id, NOW).await.unwrap();
    let back = Fate::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        why: Back::Retry,
    };
    let row = hand.complete(complete(&turn, back)).await.unwrap().value;
    assert_eq!((row.sent, &row.sent_boot), (false, &None));
    assert_eq!(hand.stored("a").await.sent_boot, None);
    let claimed = hand.claim_head().await;
    assert_eq!((claimed.row.sent, &claimed.row.sent_boot), (false, &None));
}

async fn a_decision_may_mute_the_turn_that_it_ends(db: Db) {
    let hand = sent_and_died(&db).await;
    let turn = asked(&hand).await;
    let decision = Decision {
        turn_error: Some(json("\"stopped\"")),
        muted: true,
        row: FoundFate::Back {
            turn: turn_id("a2"),
            loss: Loss::Counted,
        },
    };
    let lane = hand.decide(turn.grip, turn.row.id, decision, NOW + 2).await;
    assert_eq!(lane.unwrap().depth, 2);
    let ended = hand.all_turns().await.remove(0);
    assert_eq!((ended.status, ended.muted), (TurnStatus::Interrupted, true));
    assert_eq!(ended.error, Some(json("\"stopped\"")));
    let row = hand.stored("a").await;
    assert_eq!(
        (row.state, row.losses, row.sent, row.sent_boot),
        (RowState::Queued, 1, false, None)
    );
    assert_eq!(
        (row.turn, row.last_turn),
        (turn_id("a2"), Some(turn_id("a")))
    );
    assert_eq!(hand.names().await, ["a", "b"]);
}

async fn a_muted_turn_leaves_its_row_as_it_was(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a"]).await;
    let first = owner.begin().await;
    let goes_on = Fate::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        why: Back::Continue,
    };
    owner.complete(complete(&first, goes_on)).await.unwrap();
    owner.begin().await;
    db.kill(owner).await;
    let second = asked(&other).await;
    assert!(second.row.continues, "nothing is decided yet");
    let decision = Decision {
        turn_error: None,
        muted: true,
        row: FoundFate::Back {
            turn: turn_id("a3"),
            loss: Loss::Counted,
        },
    };
    let decided = other.decide(second.grip, second.row.id, decision, NOW);
    decided.await.unwrap();
    assert!(other.stored("a").await.continues);
}

async fn a_lane_that_is_left_stays_its_dead_owners(db: Db) {
    let (owner, other) = db.two().await;
    owner.create_thread(new_thread("u")).await.unwrap();
    owner.take(thread_id("u")).await.unwrap();
    owner.add(&["a", "b"]).await;
    owner.begin().await;
    let dead = owner.worker();
    db.kill(owner).await;
    let before = (
        other.lane().await,
        other.stored("a").await,
        other.all_turns().await,
    );
    // The idle lane of the same worker is taken over.
    let recovered = other.recover_with(FoundFate::Leave).await;
    let threads: Vec<_> = recovered.lanes.iter().map(|lane| lane.thread).collect();
    assert_eq!((threads, recovered.more), (vec![thread_id("u")], false));
    let after = (
        other.lane().await,
        other.stored("a").await,
        other.all_turns().await,
    );
    assert_eq!(after, before);
    assert_eq!(after.0.owner, Some(dead));
    assert!(other.worker_row(dead).await.unwrap().is_some());
    // Nothing begins there meanwhile; rows may be added.
    refused!(
        other.start_turn(start("c")),
        StoreError::OwnedElsewhere { .. }
    );
    other.add(&["d"]).await;
    assert_eq!(other.names().await, ["b", "d"]);
    assert_eq!(
        other.recover_with(FoundFate::Leave).await,
        Recovered::default()
    );
}

async fn lanes_that_are_left_do_not_count_for_the_limit(db: Db) {
    let (owner, other) = db.two().await;
    owner.direct("a").await;
    owner.create_thread(new_thread("u")).await.unwrap();
    owner.take(thread_id("u")).await.unwrap();
    db.kill(owner).await;
    let search = Recover {
        limit: 1,
        ..recover(Whose::Dead, FoundFate::Leave)
    };
    let recovered = other.recover(search).await.unwrap();
    assert_eq!((recovered.lanes.len(), recovered.more), (1, false));
    assert_eq!(recovered.lanes[0].thread, thread_id("u"));
}

async fn a_lane_that_was_left_can_be_taken_over_later(db: Db) {
    let hand = sent_and_died(&db).await;
    hand.recover_with(FoundFate::Leave).await;
    let able = db.open("three").await;
    let turn = asked(&able).await;
    assert_eq!(able.lane().await.owner, Some(able.worker()));
    able.finish(&turn).await;
    assert_eq!(hand.state("a").await, RowState::Done);
    assert_eq!(hand.all_turns().await[0].status, TurnStatus::Completed);
}

async fn the_turn_that_is_being_decided_can_be_read(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a"]).await;
    let begun = owner.begin().await;
    let more = Put {
        items: vec![item(&begun, 0, "agentMessage")],
        engine_state: Some(json("{\"v\":1}")),
        ..Put::default()
    };
    owner
        .put(begun.grip, more, turnlane_store::turn::Level::Durable)
        .await
        .unwrap();
    owner
        .mark_sent(begun.grip, begun.row.id, NOW)
        .await
        .unwrap();
    db.kill(owner).await;
    let read = asked(&other).await;
    assert_eq!((read.turn, read.item), (begun.turn, begun.item));
    assert_eq!(read.next_item_ord, begun.next_item_ord + 1);
    assert_eq!(read.next_entry_ord, begun.next_entry_ord);
    assert_eq!(read.thread.engine_state, Some(json("{\"v\":1}")));
    assert_eq!(read.row, other.stored("a").await);
    assert_eq!((read.row.state, read.row.sent), (RowState::Reconcile, true));
    assert_eq!(read.lane, other.lane().await);
    other.finish(&read_again(&other, read.grip).await).await;
    refused!(other.undecided(read.grip), StoreError::TurnNotFound);
}

async fn read_again(hand: &Hand, grip: turnlane_store::Grip) -> AcceptedTurn {
    hand.undecided(grip).await.unwrap()
}

async fn a_turn_that_an_engine_was_asked_about_ends_whole(db: Db) {
    let hand = sent_and_died(&db).await;
    let turn = asked(&hand).await;
    let put = Put {
        items: vec![item(&turn, 0, "agentMessage")],
        thread_usage: Some(json("7")),
        engine_state: Some(json("{\"v\":2}")),
        ..Put::default()
    };
    let end = Complete {
        put,
        keep: Keep::Ours,
        at_ms: NOW + 5,
        ..complete(&turn, Fate::Done)
    };
    let done = hand.complete(end.clone()).await.unwrap();
    assert_eq!(done.value.state, RowState::Done);
    assert_eq!((done.lane.active, done.lane.depth), (None, 1));
    let ended = hand.all_turns().await.remove(0);
    assert_eq!(
        (ended.status, ended.completed_ms),
        (TurnStatus::Completed, Some(NOW + 5))
    );
    let kinds: Vec<_> = hand.all_items().await.into_iter().map(|i| i.kind).collect();
    assert_eq!(kinds, ["userMessage", "agentMessage"]);
    let row = hand.thread(thread()).await.unwrap().unwrap();
    assert_eq!(
        (row.usage, row.engine_state),
        (Some(json("7")), Some(json("{\"v\":2}")))
    );
    refused!(hand.complete(end), StoreError::RowNotFound(_));
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn the_row_of_such_a_turn_may_come_back_or_hold_the_lane(db: Db) {
    let hand = sent_and_died(&db).await;
    let turn = asked(&hand).await;
    let block = Fate::Block {
        failure: json("\"stopped\""),
        turn: turn_id("a2"),
    };
    let end = Complete {
        end: failed(),
        ..complete(&turn, block)
    };
    let done = hand.complete(end).await.unwrap();
    assert_eq!(
        (done.value.state, done.value.sent),
        (RowState::Blocked, false)
    );
    assert_eq!(hand.names().await, ["a", "b"]);
    not_now(hand.claim(head()).await.unwrap());
}

async fn only_the_worker_that_decides_can_end_such_a_turn(db: Db) {
    let hand = sent_and_died(&db).await;
    let turn = asked(&hand).await;
    let third = db.open("three").await;
    refused!(
        third.complete(complete(&turn, Fate::Done)),
        StoreError::Fenced
    );
    refused!(third.undecided(turn.grip), StoreError::Fenced);
    // The mark is for rows that are claimed or started, not for one that is being decided.
    refused!(
        hand.mark_sent(turn.grip, turn.row.id, NOW),
        StoreError::RowNotFound(_)
    );
    db.kill(hand).await;
    let again = asked(&third).await;
    refused!(
        third.complete(complete(&turn, Fate::Done)),
        StoreError::Fenced
    );
    third.finish(&again).await;
}
