//! Adds with a key: the same again is the same row, something else is refused.

use turnlane_store::StoreError;
use turnlane_store::queue::{Append, Appended, CannotStart, Repeated, RowState};
use turnlane_store::thread::NewThread;
use turnlane_store::turn::{StartTurn, Started, TurnStatus, WhenBusy};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    the_same_key_and_content_is_the_same_row,
    the_same_key_with_other_content_is_refused,
    a_repeat_is_answered_when_the_queue_is_full,
    a_repeat_finds_a_row_that_runs_and_its_turn,
    a_repeat_finds_a_row_that_has_ended_within_the_window,
    after_the_window_a_key_is_free,
    a_row_given_up_keeps_its_key_for_the_window,
    after_a_deletion_a_key_is_free,
    a_key_belongs_to_one_thread,
    a_key_still_stands_for_what_was_first_sent_after_an_update,
    rows_without_a_key_are_never_repeats,
    a_direct_turn_repeats_too,
    a_repeat_of_a_row_that_came_back_names_the_turn_it_last_was,
];
on_many_workers![the_same_add_from_eight_workers_at_once_is_one_row];

async fn repeat(hand: &Hand, add: Append) -> Repeated {
    match hand.append(add).await.unwrap().value {
        Appended::Repeated(repeated) => *repeated,
        Appended::New(row) => panic!("new: {row:?}"),
    }
}

async fn the_same_key_and_content_is_the_same_row(db: Db) {
    let hand = db.one().await;
    let first = new(hand.append(append(keyed("a", "key", "x"))).await.unwrap());
    let lane = hand.lane().await;
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!((repeated.row, repeated.turn), (first, None));
    assert_eq!(hand.lane().await, lane);
    assert_eq!(hand.row(thread(), row_id("b")).await.unwrap(), None);
}

async fn the_same_key_with_other_content_is_refused(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let other = hand.append(append(keyed("b", "key", "y")));
    refused!(other, StoreError::KeyTaken { key } if key == "key");
    assert_eq!(hand.names().await, ["a"]);
}

async fn a_repeat_is_answered_when_the_queue_is_full(db: Db) {
    let hand = db.open("one").await;
    let shallow = NewThread {
        max_depth: 1,
        ..new_thread("t")
    };
    hand.create_thread(shallow).await.unwrap();
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(repeated.row.id, row_id("a"));
    let other = hand.append(append(keyed("b", "key", "y")));
    refused!(other, StoreError::KeyTaken { .. });
    let new_key = hand.append(append(keyed("b", "new", "x")));
    refused!(new_key, StoreError::QueueFull { max_depth: 1 });
}

async fn a_repeat_finds_a_row_that_runs_and_its_turn(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let claimed = hand.claim_head().await;
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(
        (repeated.row.state, repeated.turn),
        (RowState::Claimed, None)
    );
    let turn = begun(
        hand.accept(claimed.grip, claimed.row.id, accepting(), NOW)
            .await
            .unwrap(),
    );
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(repeated.row.state, RowState::Started);
    assert_eq!(repeated.turn, Some(turn.turn));
}

async fn a_repeat_finds_a_row_that_has_ended_within_the_window(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let turn = hand.begin().await;
    hand.finish(&turn).await;
    let mut last_moment = append(keyed("b", "key", "x"));
    last_moment.at_ms = NOW + WINDOW - 1;
    let repeated = repeat(&hand, last_moment.clone()).await;
    assert_eq!(repeated.row.state, RowState::Done);
    assert_eq!(repeated.turn.unwrap().status, TurnStatus::Completed);
    last_moment.row = keyed("b", "key", "y");
    refused!(hand.append(last_moment), StoreError::KeyTaken { .. });
}

async fn after_the_window_a_key_is_free(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let turn = hand.begin().await;
    hand.finish(&turn).await;
    let mut late = append(keyed("b", "key", "y"));
    late.at_ms = NOW + WINDOW;
    assert_eq!(new(hand.append(late).await.unwrap()).id, row_id("b"));
    // A live row counts before an ended one with the same key.
    let repeated = repeat(&hand, append(keyed("c", "key", "y"))).await;
    assert_eq!(repeated.row.id, row_id("b"));
}

async fn a_row_given_up_keeps_its_key_for_the_window(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let claimed = hand.claim_head().await;
    let dead = CannotStart::Dead {
        failure: json("\"no\""),
    };
    hand.unclaim(claimed.grip, claimed.row.id, dead, NOW)
        .await
        .unwrap();
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!((repeated.row.state, repeated.turn), (RowState::Dead, None));
}

async fn after_a_deletion_a_key_is_free(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    hand.delete_row(thread(), row_id("a"), NOW).await.unwrap();
    let row = new(hand.append(append(keyed("b", "key", "y"))).await.unwrap());
    assert_eq!(row.id, row_id("b"));
    assert_eq!(hand.names().await, ["b"]);
}

async fn a_key_belongs_to_one_thread(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let elsewhere = Append {
        thread: thread_id("u"),
        ..append(keyed("a", "key", "y"))
    };
    assert_eq!(new(hand.append(elsewhere).await.unwrap()).id, row_id("a"));
}

async fn a_key_still_stands_for_what_was_first_sent_after_an_update(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let update = turnlane_store::queue::Update {
        thread: thread(),
        row: row_id("a"),
        params: json("\"y\"").into(),
        at_ms: NOW,
    };
    hand.update_row(update).await.unwrap();
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(repeated.row.params, json("\"y\""));
}

async fn rows_without_a_key_are_never_repeats(db: Db) {
    let hand = db.one().await;
    let mut twin = row("b");
    twin.content_hash = row("a").content_hash;
    hand.append(append(row("a"))).await.unwrap();
    new(hand.append(append(twin)).await.unwrap());
    assert_eq!(hand.names().await, ["a", "b"]);
}

async fn a_direct_turn_repeats_too(db: Db) {
    let hand = db.one().await;
    let direct = |name: &str, content: &str| StartTurn {
        row: keyed(name, "key", content),
        ..start(name)
    };
    let Started::Begun(turn) = hand.start_turn(direct("a", "x")).await.unwrap() else {
        panic!("not begun");
    };
    for when_busy in [WhenBusy::Refuse, WhenBusy::Queue] {
        let again = StartTurn {
            when_busy,
            ..direct("b", "x")
        };
        let Started::Repeated(repeated) = hand.start_turn(again).await.unwrap() else {
            panic!("not repeated");
        };
        assert_eq!(repeated.turn.as_ref(), Some(&turn.turn));
    }
    refused!(
        hand.start_turn(direct("b", "y")),
        StoreError::KeyTaken { .. }
    );
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(repeated.row.id, row_id("a"));
}

async fn a_repeat_of_a_row_that_came_back_names_the_turn_it_last_was(db: Db) {
    let hand = db.one().await;
    hand.append(append(keyed("a", "key", "x"))).await.unwrap();
    let turn = hand.begin().await;
    let again = back("a2", turnlane_store::queue::Back::Retry);
    hand.complete(complete(&turn, again)).await.unwrap();
    let repeated = repeat(&hand, append(keyed("b", "key", "x"))).await;
    assert_eq!(repeated.row.state, RowState::Queued);
    assert_eq!(repeated.turn.unwrap().id, turn.turn.id);
}

async fn the_same_add_from_eight_workers_at_once_is_one_row(db: Db) {
    let first = db.one().await;
    let mut hands = vec![first];
    for name in ["2", "3", "4", "5", "6", "7", "8"] {
        hands.push(db.open(name).await);
    }
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let adds = names
        .iter()
        .zip(&hands)
        .map(|(name, hand)| hand.append(append(keyed(name, "key", "x"))));
    let added = futures_util::future::join_all(adds).await;
    let is_new = |added: &Result<_, StoreError>| {
        let added: &turnlane_store::lane::Changed<Appended> = added.as_ref().unwrap();
        matches!(added.value, Appended::New(_))
    };
    assert_eq!(added.iter().filter(|added| is_new(added)).count(), 1);
    assert_eq!(hands[3].names().await.len(), 1);
}
