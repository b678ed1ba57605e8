//! What the model is sent: entries, compactions, muted turns, messages without an entry.

use turnlane_store::queue::Fate;
use turnlane_store::turn::{
    AcceptedTurn, Complete, EntryRow, History, HistoryEnd, Later, Level, Put,
};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    an_empty_thread_has_an_empty_history,
    entries_come_in_their_order,
    a_compaction_replaces_everything_before_it,
    muted_turns_are_left_out,
    a_message_without_an_entry_is_unrecorded,
    messages_before_the_turn_of_the_compaction_are_not_unrecorded,
    other_items_are_never_unrecorded,
    a_thread_that_is_not_there_has_an_empty_history,
    what_stands_behind_a_known_history_is_the_rest_of_it,
    a_known_history_is_read_anew_when_its_last_turn_was_taken_back,
    a_known_history_is_read_anew_behind_a_compaction,
];

async fn write(hand: &Hand, turn: &AcceptedTurn, entries: Vec<EntryRow>) {
    let put = Put {
        entries,
        ..Put::default()
    };
    hand.put(turn.grip, put, Level::Visible).await.unwrap();
}

/// The entry that says the turn's first message.
fn user_entry(turn: &AcceptedTurn, further: i64) -> EntryRow {
    EntryRow {
        item_id: turn.item.as_ref().map(|item| item.id.clone()),
        ..entry(turn, further, "user")
    }
}

async fn told(hand: &Hand) -> (Vec<i64>, Vec<String>) {
    let history = hand.history(thread()).await.unwrap();
    let entries = history.entries.iter().map(|entry| entry.ord).collect();
    let unrecorded = history
        .unrecorded
        .into_iter()
        .map(|said| said.item.id)
        .collect();
    (entries, unrecorded)
}

async fn an_empty_thread_has_an_empty_history(db: Db) {
    let hand = db.one().await;
    assert_eq!(hand.history(thread()).await.unwrap(), History::default());
}

async fn entries_come_in_their_order(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let mut full = entry(&turn, 1, "toolOutput");
    full.call_ids = Some("c-1".to_owned());
    full.items = json("[{\"x\":\"\\u0000\"}]");
    write(&hand, &turn, vec![full.clone()]).await;
    write(&hand, &turn, vec![user_entry(&turn, 0)]).await;
    let history = hand.history(thread()).await.unwrap();
    assert_eq!(history.entries, [user_entry(&turn, 0), full]);
    assert!(history.unrecorded.is_empty());
}

async fn a_compaction_replaces_everything_before_it(db: Db) {
    let hand = db.one().await;
    let first = hand.direct("a").await;
    write(
        &hand,
        &first,
        vec![user_entry(&first, 0), entry(&first, 1, "output")],
    )
    .await;
    hand.finish(&first).await;
    let second = hand.direct("b").await;
    let entries = vec![
        user_entry(&second, 0),
        entry(&second, 1, EntryRow::COMPACTION),
        entry(&second, 2, "output"),
        entry(&second, 3, EntryRow::COMPACTION),
        entry(&second, 4, "output"),
    ];
    write(&hand, &second, entries).await;
    assert_eq!(told(&hand).await, (vec![6, 7], vec![]));
}

async fn muted_turns_are_left_out(db: Db) {
    let hand = db.one().await;
    for (name, end) in [("a", completed()), ("b", failed()), ("c", completed())] {
        let turn = hand.direct(name).await;
        write(&hand, &turn, vec![entry(&turn, 0, "output")]).await;
        let end = Complete {
            end,
            ..complete(&turn, Fate::Done)
        };
        hand.complete(end).await.unwrap();
    }
    let messages = vec!["item-a".to_owned(), "item-c".to_owned()];
    assert_eq!(told(&hand).await, (vec![1, 3], messages));
    assert_eq!(hand.all_turns().await.len(), 3);
}

async fn a_message_without_an_entry_is_unrecorded(db: Db) {
    let hand = db.one().await;
    let first = hand.direct("a").await;
    hand.finish(&first).await;
    let second = hand.direct("b").await;
    write(&hand, &second, vec![user_entry(&second, 0)]).await;
    let steer = item(&second, 0, "userMessage");
    hand.add_steer(second.grip, steer.clone()).await.unwrap();
    let history = hand.history(thread()).await.unwrap();
    let turns: Vec<_> = history.unrecorded.iter().map(|said| said.turn).collect();
    assert_eq!(turns, [turn_id("a"), turn_id("b")]);
    assert_eq!(
        told(&hand).await,
        (vec![1], vec!["item-a".to_owned(), steer.id])
    );
}

async fn messages_before_the_turn_of_the_compaction_are_not_unrecorded(db: Db) {
    let hand = db.one().await;
    let first = hand.direct("a").await;
    hand.finish(&first).await;
    let second = hand.direct("b").await;
    write(
        &hand,
        &second,
        vec![entry(&second, 0, EntryRow::COMPACTION)],
    )
    .await;
    hand.finish(&second).await;
    let third = hand.direct("c").await;
    hand.finish(&third).await;
    let messages = vec!["item-b".to_owned(), "item-c".to_owned()];
    assert_eq!(told(&hand).await, (vec![1], messages));
}

async fn other_items_are_never_unrecorded(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    write(&hand, &turn, vec![user_entry(&turn, 0)]).await;
    let put = items(vec![item(&turn, 0, "agentMessage")]);
    hand.put(turn.grip, put, Level::Visible).await.unwrap();
    assert_eq!(told(&hand).await, (vec![1], vec![]));
}

async fn a_thread_that_is_not_there_has_an_empty_history(db: Db) {
    let hand = db.one().await;
    let history = hand.history(thread_id("lost")).await.unwrap();
    assert_eq!(history, History::default());
}

/// A turn with a message and an answer, ended.
async fn said(hand: &Hand, name: &str) -> AcceptedTurn {
    let turn = hand.direct(name).await;
    let entries = vec![user_entry(&turn, 0), entry(&turn, 1, "output")];
    write(hand, &turn, entries).await;
    hand.finish(&turn).await;
    turn
}

/// Where a history ends that was read for the turn after this one.
fn behind(history: &History, last: &AcceptedTurn) -> HistoryEnd {
    let entry = history.entries.last().unwrap();
    HistoryEnd {
        ord: entry.ord,
        turn: entry.turn,
        next_turn_ord: last.turn.ord + 1,
    }
}

async fn what_stands_behind_a_known_history_is_the_rest_of_it(db: Db) {
    let hand = db.one().await;
    said(&hand, "a").await;
    let last = said(&hand, "b").await;
    let known = hand.history(thread()).await.unwrap();
    let end = behind(&known, &last);
    let nothing = hand.history_behind(thread(), end).await.unwrap();
    assert_eq!(nothing, Later::Behind(History::default()));

    let muted = hand.direct("c").await;
    write(&hand, &muted, vec![user_entry(&muted, 0)]).await;
    let end_of_muted = Complete {
        end: failed(),
        ..complete(&muted, Fate::Done)
    };
    hand.complete(end_of_muted).await.unwrap();
    said(&hand, "d").await;
    let unanswered = hand.direct("e").await;
    write(&hand, &unanswered, vec![entry(&unanswered, 0, "note")]).await;

    let later = hand.history_behind(thread(), end).await.unwrap();
    let Later::Behind(later) = later else {
        panic!("nothing was taken back: {later:?}");
    };
    assert_eq!(later.unrecorded.len(), 1);
    let whole = History {
        entries: [known.entries, later.entries].concat(),
        unrecorded: later.unrecorded,
    };
    assert_eq!(whole.entries.len(), 7);
    assert_eq!(hand.history(thread()).await.unwrap(), whole);
}

async fn a_known_history_is_read_anew_when_its_last_turn_was_taken_back(db: Db) {
    let hand = db.one().await;
    said(&hand, "a").await;
    let last = said(&hand, "b").await;
    let end = behind(&hand.history(thread()).await.unwrap(), &last);
    hand.revert_thread(thread(), 2, NOW).await.unwrap();
    let anew = async || Later::Anew(hand.history(thread()).await.unwrap());
    let later = hand.history_behind(thread(), end).await.unwrap();
    assert_eq!(later, anew().await);
    // The next turn has the numbers of the one that is gone.
    let next = said(&hand, "c").await;
    assert_eq!(next.turn.ord, last.turn.ord);
    let later = hand.history_behind(thread(), end).await.unwrap();
    assert_eq!(later, anew().await);
}

async fn a_known_history_is_read_anew_behind_a_compaction(db: Db) {
    let hand = db.one().await;
    let last = said(&hand, "a").await;
    let end = behind(&hand.history(thread()).await.unwrap(), &last);
    let turn = hand.direct("b").await;
    let compaction = vec![entry(&turn, 0, EntryRow::COMPACTION)];
    write(&hand, &turn, compaction).await;
    let later = hand.history_behind(thread(), end).await.unwrap();
    let whole = hand.history(thread()).await.unwrap();
    assert_eq!(whole.entries.len(), 1);
    assert_eq!(later, Later::Anew(whole));
}
