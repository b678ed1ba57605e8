//! Threads that take no calls: those that are not there, and those put away.

use turnlane_store::StoreError;
use turnlane_store::queue::Update;
use turnlane_store::thread::ThreadChange;

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    calls_for_a_thread_that_is_not_there_are_refused,
    an_archived_thread_refuses_every_change_of_its_queue,
];

fn update(name: &str) -> Update {
    Update {
        thread: thread(),
        row: row_id(name),
        params: json("{\"say\":\"other\"}").into(),
        at_ms: NOW + 5,
    }
}

async fn calls_for_a_thread_that_is_not_there_are_refused(db: Db) {
    let hand = db.open("one").await;
    refused!(hand.update_row(update("a")), StoreError::ThreadNotFound(_));
    refused!(
        hand.delete_row(thread(), row_id("a"), NOW),
        StoreError::ThreadNotFound(_)
    );
    refused!(
        hand.reorder(thread(), Vec::new(), NOW),
        StoreError::ThreadNotFound(_)
    );
    refused!(
        hand.retry_row(thread(), None, NOW),
        StoreError::ThreadNotFound(_)
    );
    refused!(
        hand.pause(thread(), paused()),
        StoreError::ThreadNotFound(_)
    );
    refused!(hand.resume(thread(), NOW), StoreError::ThreadNotFound(_));
    refused!(hand.queue(whole_queue()), StoreError::ThreadNotFound(_));
    refused!(hand.look(thread()), StoreError::ThreadNotFound(_));
    refused!(hand.take(thread()), StoreError::ThreadNotFound(_));
    refused!(hand.claim(head()), StoreError::ThreadNotFound(_));
    refused!(
        hand.claim_and_accept(head(), accepting()),
        StoreError::ThreadNotFound(_)
    );
    refused!(hand.start_turn(start("a")), StoreError::ThreadNotFound(_));
}

async fn an_archived_thread_refuses_every_change_of_its_queue(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let archive = ThreadChange {
        archived: Some(true),
        ..ThreadChange::of(thread(), NOW)
    };
    hand.change_thread(archive).await.unwrap();
    refused!(hand.append(append(row("b"))), StoreError::Archived(_));
    refused!(hand.update_row(update("a")), StoreError::Archived(_));
    refused!(
        hand.delete_row(thread(), row_id("a"), NOW),
        StoreError::Archived(_)
    );
    refused!(
        hand.reorder(thread(), vec![row_id("a")], NOW),
        StoreError::Archived(_)
    );
    refused!(hand.retry_row(thread(), None, NOW), StoreError::Archived(_));
    refused!(hand.pause(thread(), paused()), StoreError::Archived(_));
    refused!(hand.resume(thread(), NOW), StoreError::Archived(_));
    refused!(hand.claim(head_now()), StoreError::Archived(_));
    refused!(hand.claim(this_row("a")), StoreError::Archived(_));
    refused!(hand.start_turn(start("b")), StoreError::Archived(_));
    assert!(not_now(hand.claim(head()).await.unwrap()).archived);
    assert_eq!(hand.names().await, ["a"]);
}
