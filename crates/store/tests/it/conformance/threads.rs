//! Threads: made, changed, put away, deleted.

use turnlane_store::StoreError;
use turnlane_store::queue::Append;
use turnlane_store::recovery::FoundFate;
use turnlane_store::thread::{NewThread, ThreadChange};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_thread_is_stored_as_it_was_given,
    a_new_thread_has_an_empty_lane,
    an_id_is_given_once,
    a_thread_that_is_not_there_is_none,
    a_change_changes_what_it_names,
    a_name_can_be_taken_away,
    a_thread_that_runs_a_turn_is_not_put_away_or_deleted,
    a_thread_that_runs_a_turn_can_be_renamed,
    an_archived_thread_keeps_its_rows_and_can_be_taken_back,
    a_thread_is_not_put_away_or_taken_back_twice,
    settings_are_changed_only_from_what_the_caller_knows,
    a_deleted_thread_is_gone_with_all_it_had,
    changes_of_a_thread_that_is_not_there_are_refused,
];
on_many_workers![
    a_thread_of_a_live_worker_is_not_changed,
    a_thread_of_a_dead_worker_is_changed,
    a_thread_that_must_be_recovered_is_not_changed,
];

async fn a_thread_is_stored_as_it_was_given(db: Db) {
    let hand = db.open("one").await;
    let given = NewThread {
        name: Some("Name \u{e9}".to_owned()),
        parent: Some(thread_id("parent")),
        binding: Some("here".to_owned()),
        facts: json("{\"odd\":\"\\u0000\"}"),
        ..new_thread("t")
    };
    let row = hand.create_thread(given.clone()).await.unwrap();
    assert_eq!(hand.thread(thread()).await.unwrap(), Some(row.clone()));
    assert_eq!((row.id, row.engine), (given.id, given.engine));
    assert_eq!((row.settings, row.facts), (given.settings, given.facts));
    assert_eq!((row.name, row.cwd), (given.name, given.cwd));
    assert_eq!((row.source, row.provider), (given.source, given.provider));
    assert_eq!((row.parent, row.binding), (given.parent, given.binding));
    assert_eq!(
        (row.created_ms, row.updated_ms, row.recency_ms),
        (NOW, NOW, NOW)
    );
    assert_eq!((row.engine_state, row.usage), (None, None));
    assert!(row.preview.is_empty() && !row.archived);
}

async fn a_new_thread_has_an_empty_lane(db: Db) {
    let hand = db.one().await;
    let lane = hand.lane().await;
    assert_eq!((lane.depth, lane.max_depth), (0, 10));
    assert_eq!((lane.owner, lane.active), (None, None));
    assert_eq!((lane.paused, lane.waiting), (None, None));
    assert!(!lane.archived);
    assert!(hand.names().await.is_empty());
}

async fn an_id_is_given_once(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    refused!(hand.create_thread(new_thread("t")), StoreError::ThreadExists(id) if *id == thread());
    assert_eq!(hand.names().await, ["a"]);
}

async fn a_thread_that_is_not_there_is_none(db: Db) {
    let hand = db.one().await;
    assert_eq!(hand.thread(thread_id("lost")).await.unwrap(), None);
}

async fn a_change_changes_what_it_names(db: Db) {
    let hand = db.one().await;
    let before = hand.thread(thread()).await.unwrap().unwrap();
    let change = ThreadChange {
        settings: Some(json("{\"model\":\"n\"}")),
        name: Some(Some("name".to_owned())),
        ..ThreadChange::of(thread(), NOW + 5)
    };
    let changed = hand.change_thread(change).await.unwrap();
    assert_eq!(changed.value, hand.thread(thread()).await.unwrap().unwrap());
    assert_eq!(changed.lane, hand.lane().await);
    let mut expected = before;
    expected.settings = json("{\"model\":\"n\"}");
    expected.name = Some("name".to_owned());
    expected.updated_ms = NOW + 5;
    assert_eq!(changed.value, expected);
    let change = ThreadChange {
        facts: Some(json("1")),
        cwd: Some("/there".to_owned()),
        ..ThreadChange::of(thread(), NOW + 5)
    };
    let changed = hand.change_thread(change).await.unwrap().value;
    (expected.facts, expected.cwd) = (json("1"), "/there".to_owned());
    assert_eq!(changed, expected);
}

async fn a_name_can_be_taken_away(db: Db) {
    let hand = db.one().await;
    for name in [Some("name".to_owned()), None] {
        let change = ThreadChange {
            name: Some(name.clone()),
            ..ThreadChange::of(thread(), NOW)
        };
        assert_eq!(hand.change_thread(change).await.unwrap().value.name, name);
    }
}

fn archive(archived: bool) -> ThreadChange {
    ThreadChange {
        archived: Some(archived),
        ..ThreadChange::of(thread(), NOW)
    }
}

async fn a_thread_that_runs_a_turn_is_not_put_away_or_deleted(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    refused!(hand.change_thread(archive(true)), StoreError::Busy(_));
    refused!(hand.delete_thread(thread()), StoreError::Busy(_));
    refused!(hand.revert_thread(thread(), 1, NOW), StoreError::Busy(_));
    assert_eq!(hand.all_turns().await, std::slice::from_ref(&turn.turn));
    hand.finish(&turn).await;
    hand.change_thread(archive(true)).await.unwrap();
    hand.delete_thread(thread()).await.unwrap();
}

async fn a_thread_that_runs_a_turn_can_be_renamed(db: Db) {
    let hand = db.one().await;
    hand.direct("a").await;
    let change = ThreadChange {
        name: Some(Some("name".to_owned())),
        ..ThreadChange::of(thread(), NOW)
    };
    let changed = hand.change_thread(change).await.unwrap();
    assert_eq!(changed.value.name.as_deref(), Some("name"));
    assert!(changed.lane.active.is_some());
}

async fn an_archived_thread_keeps_its_rows_and_can_be_taken_back(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let put_away = hand.change_thread(archive(true)).await.unwrap();
    assert!(put_away.value.archived && put_away.lane.archived);
    assert_eq!(hand.names().await, ["a", "b"]);
    let back = hand.change_thread(archive(false)).await.unwrap();
    assert!(!back.value.archived && !back.lane.archived);
    assert_eq!(hand.begin().await.row.id, row_id("a"));
}

async fn a_thread_is_not_put_away_or_taken_back_twice(db: Db) {
    let hand = db.one().await;
    refused!(
        hand.change_thread(archive(false)),
        StoreError::NotArchived(_)
    );
    hand.change_thread(archive(true)).await.unwrap();
    refused!(hand.change_thread(archive(true)), StoreError::Archived(_));
    hand.change_thread(archive(false)).await.unwrap();
}

async fn settings_are_changed_only_from_what_the_caller_knows(db: Db) {
    let hand = db.one().await;
    let known = hand.thread(thread()).await.unwrap().unwrap().settings;
    let change = |to: &str| ThreadChange {
        settings: Some(json(to)),
        settings_were: Some(known.clone()),
        ..ThreadChange::of(thread(), NOW)
    };
    hand.change_thread(change("1")).await.unwrap();
    refused!(
        hand.change_thread(change("2")),
        StoreError::SettingsChanged(_)
    );
    let settings = hand.thread(thread()).await.unwrap().unwrap().settings;
    assert_eq!(settings, json("1"));
}

async fn a_deleted_thread_is_gone_with_all_it_had(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    let elsewhere = Append {
        thread: thread_id("u"),
        ..append(row("a"))
    };
    hand.append(elsewhere).await.unwrap();
    hand.run("a").await;
    hand.add(&["b"]).await;
    hand.delete_thread(thread()).await.unwrap();
    assert_eq!(hand.thread(thread()).await.unwrap(), None);
    assert_eq!(hand.row(thread(), row_id("a")).await.unwrap(), None);
    refused!(hand.look(thread()), StoreError::ThreadNotFound(_));
    assert!(hand.all_turns().await.is_empty() && hand.all_items().await.is_empty());
    assert_eq!(hand.look(thread_id("u")).await.unwrap().depth, 1);
    // Its id is free, and whoever has it next begins with nothing.
    hand.create_thread(new_thread("t")).await.unwrap();
    assert!(hand.names().await.is_empty() && hand.all_turns().await.is_empty());
}

async fn changes_of_a_thread_that_is_not_there_are_refused(db: Db) {
    let hand = db.open("one").await;
    let change = ThreadChange::of(thread(), NOW);
    refused!(hand.change_thread(change), StoreError::ThreadNotFound(_));
    refused!(hand.delete_thread(thread()), StoreError::ThreadNotFound(_));
    refused!(
        hand.revert_thread(thread(), 1, NOW),
        StoreError::ThreadNotFound(_)
    );
}

async fn a_thread_of_a_live_worker_is_not_changed(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    let change = ThreadChange::of(thread(), NOW);
    refused!(
        other.change_thread(change.clone()),
        StoreError::OwnedElsewhere { .. }
    );
    refused!(
        other.change_thread(archive(true)),
        StoreError::OwnedElsewhere { .. }
    );
    refused!(
        other.delete_thread(thread()),
        StoreError::OwnedElsewhere { .. }
    );
    refused!(
        other.revert_thread(thread(), 1, NOW),
        StoreError::OwnedElsewhere { .. }
    );
    owner.change_thread(change).await.unwrap();
}

async fn a_thread_of_a_dead_worker_is_changed(db: Db) {
    let (owner, other) = db.two().await;
    owner.take(thread()).await.unwrap();
    db.kill(owner).await;
    other.change_thread(archive(true)).await.unwrap();
    other.delete_thread(thread()).await.unwrap();
}

async fn a_thread_that_must_be_recovered_is_not_changed(db: Db) {
    let (owner, other) = db.two().await;
    owner.direct("a").await;
    db.kill(owner).await;
    let change = ThreadChange::of(thread(), NOW);
    refused!(
        other.change_thread(change),
        StoreError::OwnedElsewhere { .. }
    );
    refused!(
        other.delete_thread(thread()),
        StoreError::OwnedElsewhere { .. }
    );
    other.recover_with(FoundFate::Done).await;
    other.delete_thread(thread()).await.unwrap();
}
