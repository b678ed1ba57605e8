//! Bindings: one thread per name, and threads that take over from others.

use turnlane_store::lane::Changed;
use turnlane_store::queue::{
    Append, Appended, Fate, OnCrash, Policies, QueueFrom, QueueQuery, Rewriting,
};
use turnlane_store::recovery::FoundFate;
use turnlane_store::thread::{
    BoundThread, NewThread, Successor, Supersede, ThreadChange, ThreadRow,
};
use turnlane_store::turn::WaitingChange;
use turnlane_store::{Json, StoreError, ThreadId};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_binding_leads_to_one_thread,
    a_thread_without_a_binding_is_made_each_time,
    a_binding_is_free_when_its_thread_is_archived_or_deleted,
    an_unarchived_thread_whose_binding_is_taken_has_none,
    an_unarchived_thread_whose_binding_is_free_has_it_again,
    a_second_thread_with_a_taken_binding_is_not_made,
    a_successor_takes_binding_and_rows,
    rows_keep_ids_order_keys_and_policies_in_the_successor,
    params_are_rewritten_for_the_successor,
    a_row_under_way_stays_and_ends_in_the_old_lane,
    a_failed_head_holds_the_lane_of_the_successor,
    what_holds_the_rows_holds_them_in_the_successor,
    more_rows_than_may_wait_move_all_the_same,
    a_thread_that_does_not_hold_the_binding_is_not_superseded,
    a_refused_successor_changes_nothing,
    a_pause_ends_for_its_own_reason_only,
    a_pause_that_ends_for_its_reason_leaves_the_wait,
];
on_many_workers![
    two_workers_bind_one_thread,
    a_thread_of_a_live_worker_is_not_superseded,
    a_thread_of_a_dead_worker_is_superseded_when_its_row_is_decided,
];

const KEY: &str = "shim:dev@/project";

fn bound(name: &str) -> NewThread {
    NewThread {
        binding: Some(KEY.to_owned()),
        ..new_thread(name)
    }
}

async fn bind(hand: &Hand, name: &str) -> BoundThread {
    hand.bind_thread(bound(name)).await.unwrap()
}

fn made(bound: BoundThread) -> ThreadRow {
    match bound {
        BoundThread::Made(row) => row,
        BoundThread::Existing(row) => panic!("was there: {row:?}"),
    }
}

fn existing(bound: BoundThread) -> ThreadRow {
    match bound {
        BoundThread::Existing(row) => row,
        BoundThread::Made(row) => panic!("was made: {row:?}"),
    }
}

fn supersede(old: &str, new: &str) -> Supersede {
    Supersede {
        old: thread_id(old),
        new: NewThread {
            at_ms: NOW + 5,
            ..bound(new)
        },
        params: Rewriting::new(Json::clone),
    }
}

/// The thread `u` takes over from the one thread.
async fn succeed(hand: &Hand) -> Changed<Successor> {
    hand.supersede(supersede("t", "u")).await.unwrap()
}

fn archive(name: &str, archived: bool) -> ThreadChange {
    ThreadChange {
        archived: Some(archived),
        ..ThreadChange::of(thread_id(name), NOW)
    }
}

async fn waiting_in(hand: &Hand, thread: ThreadId) -> Vec<String> {
    let query = QueueQuery {
        thread,
        from: QueueFrom::Head,
        limit: 100,
    };
    let page = hand.queue(query).await.unwrap();
    assert_eq!(page.lane.depth as usize, page.rows.len());
    page.rows.into_iter().map(|row| row.client_id).collect()
}

/// The names of the rows that wait in the old and in the new lane.
async fn both(hand: &Hand) -> (Vec<String>, Vec<String>) {
    let old = waiting_in(hand, thread()).await;
    (old, waiting_in(hand, thread_id("u")).await)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn a_binding_leads_to_one_thread(db: Db) {
    let hand = db.open("one").await;
    let first = made(bind(&hand, "t").await);
    assert_eq!(first.binding.as_deref(), Some(KEY));
    assert_eq!(existing(bind(&hand, "u").await), first);
    assert_eq!(hand.thread(thread_id("u")).await.unwrap(), None);
}

async fn a_thread_without_a_binding_is_made_each_time(db: Db) {
    let hand = db.open("one").await;
    for name in ["t", "u"] {
        let row = made(hand.bind_thread(new_thread(name)).await.unwrap());
        assert_eq!((row.id, row.binding), (thread_id(name), None));
    }
}

async fn a_binding_is_free_when_its_thread_is_archived_or_deleted(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.change_thread(archive("t", true)).await.unwrap();
    made(bind(&hand, "u").await);
    hand.delete_thread(thread_id("u")).await.unwrap();
    made(bind(&hand, "v").await);
}

async fn an_unarchived_thread_whose_binding_is_taken_has_none(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.change_thread(archive("t", true)).await.unwrap();
    made(bind(&hand, "u").await);
    let back = hand.change_thread(archive("t", false)).await.unwrap();
    assert_eq!(back.value.binding, None);
    assert_eq!(existing(bind(&hand, "v").await).id, thread_id("u"));
}

async fn an_unarchived_thread_whose_binding_is_free_has_it_again(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.change_thread(archive("t", true)).await.unwrap();
    let back = hand.change_thread(archive("t", false)).await.unwrap();
    assert_eq!(back.value.binding.as_deref(), Some(KEY));
    assert_eq!(existing(bind(&hand, "u").await).id, thread());
}

async fn a_second_thread_with_a_taken_binding_is_not_made(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    refused!(
        hand.create_thread(bound("u")),
        StoreError::BindingTaken { thread: holder, .. } if *holder == thread()
    );
    assert_eq!(hand.thread(thread_id("u")).await.unwrap(), None);
}

async fn a_successor_takes_binding_and_rows(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b", "c"]).await;
    let before = hand.lane().await;
    let changed = succeed(&hand).await;
    let successor = changed.value;
    assert_eq!(successor.thread.binding.as_deref(), Some(KEY));
    assert_eq!(hand.thread(thread()).await.unwrap().unwrap().binding, None);
    assert_eq!(both(&hand).await, (vec![], names(&["a", "b", "c"])));
    assert_eq!(changed.lane, hand.lane().await);
    assert!(changed.lane.revision > before.revision);
    assert_eq!(successor.lane, hand.look(thread_id("u")).await.unwrap());
    assert_eq!(existing(bind(&hand, "v").await).id, thread_id("u"));
    let ready = hand.ready(NOW, 10).await.unwrap().lanes;
    assert_eq!(ready, [thread_id("u")]);
    // Rows that are added later stand behind those that have moved.
    let append = Append {
        thread: thread_id("u"),
        ..append(row("d"))
    };
    hand.append(append).await.unwrap();
    assert_eq!(both(&hand).await.1, names(&["a", "b", "c", "d"]));
}

async fn rows_keep_ids_order_keys_and_policies_in_the_successor(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    let mut first = keyed("a", "k", "same");
    first.policies = Policies {
        on_crash: OnCrash::Retry,
        ..Policies::default()
    };
    first.not_before_ms = NOW + 9;
    hand.append(append(first)).await.unwrap();
    let mut expected = hand.stored("a").await;
    succeed(&hand).await;
    assert_eq!(hand.row(thread(), row_id("a")).await.unwrap(), None);
    let moved = hand.row(thread_id("u"), row_id("a")).await.unwrap();
    expected.updated_ms = NOW + 5;
    assert_eq!(moved, Some(expected));
    let owner = hand.thread_of_row(row_id("a")).await.unwrap();
    assert_eq!(owner, Some(thread_id("u")));
    let again = Append {
        thread: thread_id("u"),
        ..append(keyed("b", "k", "same"))
    };
    let again = hand.append(again).await.unwrap().value;
    assert!(matches!(again, Appended::Repeated(found) if found.row.id == row_id("a")));
}

async fn params_are_rewritten_for_the_successor(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b"]).await;
    let take_over = Supersede {
        params: Rewriting::new(|params| json(&format!("[{}]", params.as_str()))),
        ..supersede("t", "u")
    };
    hand.supersede(take_over).await.unwrap();
    let moved = hand.row(thread_id("u"), row_id("b")).await.unwrap();
    assert_eq!(moved.unwrap().params, json("[{\"say\":\"b\"}]"));
}

async fn a_row_under_way_stays_and_ends_in_the_old_lane(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let changed = succeed(&hand).await;
    assert_eq!(changed.lane.active.unwrap().row, row_id("a"));
    assert_eq!(both(&hand).await, (vec![], names(&["b"])));
    hand.finish(&turn).await;
    assert_eq!(hand.all_turns().await.len(), 1);
    let claimed = hand.claim(head()).await.unwrap();
    not_now(claimed);
}

async fn a_failed_head_holds_the_lane_of_the_successor(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b"]).await;
    hand.fail("a").await;
    let held = hand.lane().await.head;
    let changed = succeed(&hand).await;
    assert_eq!(changed.value.lane.head, held);
    assert_eq!(both(&hand).await, (vec![], names(&["a", "b"])));
}

async fn what_holds_the_rows_holds_them_in_the_successor(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let mut end = complete(&turn, Fate::Done);
    end.waiting = WaitingChange::Begin(waiting(Some(NOW + 50)));
    hand.complete(end).await.unwrap();
    hand.pause(thread(), paused()).await.unwrap();
    let before = hand.lane().await;
    assert!(before.waiting.is_some() && before.paused.is_some());
    let lane = succeed(&hand).await.value.lane;
    assert_eq!((lane.paused, lane.waiting), (before.paused, before.waiting));
}

async fn more_rows_than_may_wait_move_all_the_same(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a", "b", "c"]).await;
    let mut take_over = supersede("t", "u");
    take_over.new.max_depth = 2;
    hand.supersede(take_over).await.unwrap();
    assert_eq!(both(&hand).await.1, names(&["a", "b", "c"]));
    let append = Append {
        thread: thread_id("u"),
        ..append(row("d"))
    };
    refused!(hand.append(append), StoreError::QueueFull { max_depth: 2 });
}

async fn a_thread_that_does_not_hold_the_binding_is_not_superseded(db: Db) {
    let hand = db.one().await;
    let not_held = async |name: &str| {
        refused!(
            hand.supersede(supersede(name, "u")),
            StoreError::BindingNotHeld { thread: named, key } if *named == thread_id(name) && key == KEY
        );
    };
    not_held("t").await;
    made(bind(&hand, "v").await);
    not_held("t").await;
    hand.change_thread(archive("v", true)).await.unwrap();
    not_held("v").await;
    refused!(
        hand.supersede(supersede("lost", "u")),
        StoreError::ThreadNotFound(_)
    );
    let mut unbound = supersede("t", "u");
    unbound.new.binding = None;
    refused!(hand.supersede(unbound), StoreError::BindingNotHeld { .. });
}

async fn a_refused_successor_changes_nothing(db: Db) {
    let hand = db.open("one").await;
    made(bind(&hand, "t").await);
    hand.add(&["a"]).await;
    hand.create_thread(new_thread("u")).await.unwrap();
    let before = hand.lane().await;
    refused!(
        hand.supersede(supersede("t", "u")),
        StoreError::ThreadExists(_)
    );
    assert_eq!(hand.lane().await, before);
    let row = hand.thread(thread()).await.unwrap().unwrap();
    assert_eq!(row.binding.as_deref(), Some(KEY));
    assert_eq!(both(&hand).await, (names(&["a"]), vec![]));
}

async fn a_pause_ends_for_its_own_reason_only(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let lane = hand.pause(thread(), paused()).await.unwrap();
    let other = hand.end_pause(thread(), "other".to_owned()).await.unwrap();
    assert_eq!(other, lane);
    let ended = hand.end_pause(thread(), paused().reason).await.unwrap();
    assert_eq!(ended.paused, None);
    assert!(ended.revision > lane.revision);
    let again = hand.end_pause(thread(), paused().reason).await.unwrap();
    assert_eq!(again, ended);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_pause_that_ends_for_its_reason_leaves_the_wait(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let mut end = complete(&turn, Fate::Done);
    end.waiting = WaitingChange::Begin(waiting(None));
    hand.complete(end).await.unwrap();
    hand.pause(thread(), paused()).await.unwrap();
    let lane = hand.end_pause(thread(), paused().reason).await.unwrap();
    assert_eq!((lane.paused, lane.waiting), (None, Some(waiting(None))));
}

async fn two_workers_bind_one_thread(db: Db) {
    let (one, two) = (db.open("one").await, db.open("two").await);
    let (first, second) = tokio::join!(one.bind_thread(bound("t")), two.bind_thread(bound("u")));
    let row = match (first.unwrap(), second.unwrap()) {
        (BoundThread::Made(made), BoundThread::Existing(found))
        | (BoundThread::Existing(found), BoundThread::Made(made)) => {
            assert_eq!(made, found);
            made
        }
        other => panic!("not one thread: {other:?}"),
    };
    assert_eq!(existing(bind(&two, "v").await), row);
}

async fn a_thread_of_a_live_worker_is_not_superseded(db: Db) {
    let (owner, other) = (db.open("one").await, db.open("two").await);
    made(bind(&owner, "t").await);
    owner.add(&["a"]).await;
    owner.take(thread()).await.unwrap();
    refused!(
        other.supersede(supersede("t", "u")),
        StoreError::OwnedElsewhere { .. }
    );
    succeed(&owner).await;
}

async fn a_thread_of_a_dead_worker_is_superseded_when_its_row_is_decided(db: Db) {
    let (owner, other) = (db.open("one").await, db.open("two").await);
    made(bind(&owner, "t").await);
    owner.add(&["a", "b"]).await;
    owner.begin().await;
    db.kill(owner).await;
    refused!(
        other.supersede(supersede("t", "u")),
        StoreError::OwnedElsewhere { .. }
    );
    other.recover_with(FoundFate::Done).await;
    succeed(&other).await;
    assert_eq!(both(&other).await, (vec![], names(&["b"])));
}
