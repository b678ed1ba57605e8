//! Adding, changing, deleting and retrying rows that wait.

use turnlane_store::lane::Head;
use turnlane_store::queue::{Append, CannotStart, NewRow, Row, RowState, Update};
use turnlane_store::thread::NewThread;
use turnlane_store::{StoreError, WorkerId};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_new_row_is_stored_as_it_was_given,
    rows_wait_in_the_order_of_their_adds,
    an_add_to_a_thread_that_is_not_there_is_refused,
    the_row_beyond_the_maximum_is_refused,
    a_row_under_way_leaves_room_for_another,
    an_update_changes_what_a_row_is_started_with_and_nothing_else,
    an_update_of_a_failed_row_leaves_it_failed,
    a_deleted_row_is_cancelled_and_not_listed,
    deleting_a_row_that_is_not_there_says_so,
    a_row_under_way_is_not_deleted_updated_or_retried,
    a_retried_row_waits_again_in_its_place,
    a_retry_without_a_name_is_of_the_head,
    only_failed_rows_are_retried,
    every_visible_change_counts_in_the_revision,
    calls_for_a_row_that_is_not_there_are_refused,
];
on_many_workers![any_worker_may_change_the_queue_of_a_lane_that_another_owns];

async fn a_new_row_is_stored_as_it_was_given(db: Db) {
    let hand = db.one().await;
    let given = NewRow {
        not_before_ms: 77,
        bound: Some(worker_id("one")),
        ..keyed("a", "key", "content")
    };
    let row = uncounted(new(hand.append(append(given.clone())).await.unwrap()));
    assert_eq!(hand.stored("a").await, row);
    let of_turn = hand.row_of_turn(thread(), row.turn).await.unwrap();
    assert_eq!(of_turn.as_ref(), Some(&row));
    assert_eq!((row.id, row.turn), (given.id, given.turn));
    assert_eq!((row.source, row.params), (given.source, given.params));
    assert_eq!((row.client_id, row.key), (given.client_id, given.key));
    assert_eq!((row.not_before_ms, row.bound), (77, given.bound));
    assert_eq!(row.policies, given.policies);
    assert_eq!((row.state, row.last_turn), (RowState::Queued, None));
    assert_eq!((row.attempts, row.losses, row.put_backs), (0, 0, 0));
    assert_eq!(
        (row.created_ms, row.updated_ms, row.ended_ms),
        (NOW, NOW, None)
    );
    assert!(row.position.is_some() && !row.sent && row.failure.is_none());
}

async fn rows_wait_in_the_order_of_their_adds(db: Db) {
    let hand = db.one().await;
    hand.add(&["c", "a", "b"]).await;
    assert_eq!(hand.names().await, ["c", "a", "b"]);
    let lane = hand.lane().await;
    let row = row_id("c");
    assert_eq!((lane.depth, lane.head), (3, Head::Due { row, at_ms: 0 }));
}

async fn an_add_to_a_thread_that_is_not_there_is_refused(db: Db) {
    let hand = db.one().await;
    let lost = Append {
        thread: thread_id("lost"),
        ..append(row("a"))
    };
    refused!(hand.append(lost), StoreError::ThreadNotFound(id) if *id == thread_id("lost"));
}

async fn the_row_beyond_the_maximum_is_refused(db: Db) {
    let hand = shallow(&db).await;
    hand.add(&["a", "b"]).await;
    refused!(
        hand.append(append(row("c"))),
        StoreError::QueueFull { max_depth: 2 }
    );
    assert_eq!(hand.names().await, ["a", "b"]);
    assert!(
        hand.delete_row(thread(), row_id("a"), NOW)
            .await
            .unwrap()
            .value
    );
    hand.add(&["c"]).await;
    assert_eq!(hand.names().await, ["b", "c"]);
}

async fn a_row_under_way_leaves_room_for_another(db: Db) {
    let hand = shallow(&db).await;
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    hand.add(&["c"]).await;
    refused!(
        hand.append(append(row("d"))),
        StoreError::QueueFull { max_depth: 2 }
    );
    // What comes back may stand one above the maximum; nothing is lost for want of room.
    let how = block("a");
    let refused = hand
        .unclaim(claimed.grip, claimed.row.id, how, NOW)
        .await
        .unwrap();
    assert_eq!((refused.lane.depth, refused.lane.max_depth), (3, 2));
    assert_eq!(hand.names().await, ["a", "b", "c"]);
    refused!(
        hand.append(append(row("d"))),
        StoreError::QueueFull { max_depth: 2 }
    );
}

/// A store whose one thread takes two rows.
async fn shallow(db: &Db) -> Hand {
    let hand = db.open("one").await;
    let thread = NewThread {
        max_depth: 2,
        ..new_thread("t")
    };
    hand.create_thread(thread).await.unwrap();
    hand
}

/// The row as a plain read shows it, which does not count what is in front of it.
fn uncounted(row: Row) -> Row {
    Row { ahead: None, ..row }
}

fn update(name: &str) -> Update {
    Update {
        thread: thread(),
        row: row_id(name),
        params: json("{\"say\":\"other\"}").into(),
        at_ms: NOW + 5,
    }
}

async fn an_update_changes_what_a_row_is_started_with_and_nothing_else(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let before = hand.stored("a").await;
    let after = uncounted(hand.update_row(update("a")).await.unwrap().value);
    assert_eq!(hand.stored("a").await, after);
    assert_eq!(after.params, json("{\"say\":\"other\"}"));
    assert_eq!(after.updated_ms, NOW + 5);
    let unchanged = (
        after.id,
        after.turn,
        after.position,
        after.state,
        after.created_ms,
    );
    let expected = (before.id, before.turn, before.position, before.state, NOW);
    assert_eq!(unchanged, expected);
}

async fn an_update_of_a_failed_row_leaves_it_failed(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    hand.fail("a").await;
    let row = hand.update_row(update("a")).await.unwrap().value;
    assert_eq!(
        (row.state, row.failure),
        (RowState::Blocked, Some(json("\"no\"")))
    );
}

async fn a_deleted_row_is_cancelled_and_not_listed(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let deleted = hand
        .delete_row(thread(), row_id("a"), NOW + 5)
        .await
        .unwrap();
    assert!(deleted.value);
    assert_eq!(deleted.lane.depth, 1);
    assert_eq!(hand.names().await, ["b"]);
    let row = hand.stored("a").await;
    assert_eq!(
        (row.state, row.ended_ms),
        (RowState::Cancelled, Some(NOW + 5))
    );
    assert_eq!(row.position, None);
}

async fn deleting_a_row_that_is_not_there_says_so(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    assert!(
        hand.delete_row(thread(), row_id("a"), NOW)
            .await
            .unwrap()
            .value
    );
    let lane = hand.lane().await;
    for name in ["a", "never"] {
        let again = hand.delete_row(thread(), row_id(name), NOW).await.unwrap();
        assert!(!again.value);
        assert_eq!(again.lane, lane);
    }
}

async fn a_row_under_way_is_not_deleted_updated_or_retried(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    for state in [RowState::Claimed, RowState::Started] {
        assert!(
            !hand
                .delete_row(thread(), row_id("a"), NOW)
                .await
                .unwrap()
                .value
        );
        refused!(hand.update_row(update("a")), StoreError::RowNotFound(_));
        refused!(
            hand.retry_row(thread(), Some(row_id("a")), NOW),
            StoreError::RowNotFound(_)
        );
        assert_eq!(hand.state("a").await, state);
        assert_eq!(hand.names().await, ["b"]);
        if state == RowState::Claimed {
            hand.accept(claimed.grip, claimed.row.id, accepting(), NOW)
                .await
                .unwrap();
        }
    }
}

async fn a_retried_row_waits_again_in_its_place(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.fail("b").await;
    hand.fail("a").await;
    assert_eq!(hand.names().await, ["a", "b"]);
    let retried = hand
        .retry_row(thread(), Some(row_id("b")), NOW)
        .await
        .unwrap();
    assert_eq!(
        (retried.value.state, retried.value.failure),
        (RowState::Queued, None)
    );
    assert_eq!(hand.names().await, ["a", "b"]);
    let row = row_id("a");
    let failure = json("\"no\"");
    assert_eq!(retried.lane.head, Head::Failed { row, failure });
}

async fn a_retry_without_a_name_is_of_the_head(db: Db) {
    let hand = db.one().await;
    refused!(hand.retry_row(thread(), None, NOW), StoreError::QueueEmpty);
    hand.add(&["a"]).await;
    hand.fail("a").await;
    let retried = hand.retry_row(thread(), None, NOW).await.unwrap();
    assert_eq!(
        (retried.value.id, retried.value.state),
        (row_id("a"), RowState::Queued)
    );
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn only_failed_rows_are_retried(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    refused!(
        hand.retry_row(thread(), Some(row_id("a")), NOW),
        StoreError::RowNotFailed(_)
    );
    refused!(
        hand.retry_row(thread(), None, NOW),
        StoreError::RowNotFailed(_)
    );
}

async fn every_visible_change_counts_in_the_revision(db: Db) {
    let hand = db.one().await;
    let mut last = hand.lane().await.revision;
    let mut grows = |revision: i64, what: &str| {
        assert!(revision > last, "{what}");
        last = revision;
    };
    hand.add(&["a", "b", "c"]).await;
    grows(hand.lane().await.revision, "add");
    grows(
        hand.update_row(update("a")).await.unwrap().lane.revision,
        "update",
    );
    let order = ["b", "a", "c"].map(row_id).to_vec();
    grows(
        hand.reorder(thread(), order, NOW).await.unwrap().revision,
        "reorder",
    );
    let deleted = hand.delete_row(thread(), row_id("b"), NOW).await.unwrap();
    grows(deleted.lane.revision, "delete");
    grows(
        hand.pause(thread(), paused()).await.unwrap().revision,
        "pause",
    );
    grows(hand.resume(thread(), NOW).await.unwrap().revision, "resume");
    let claimed = hand.claim_head().await;
    grows(claimed.lane.revision, "claim");
    let back = hand
        .unclaim(claimed.grip, claimed.row.id, block("a"), NOW)
        .await;
    grows(back.unwrap().lane.revision, "cannot start");
    let retried = hand.retry_row(thread(), None, NOW).await.unwrap();
    grows(retried.lane.revision, "retry");
}

async fn calls_for_a_row_that_is_not_there_are_refused(db: Db) {
    let hand = db.one().await;
    let never = row_id("never");
    assert_eq!(hand.row(thread(), never).await.unwrap(), None);
    let of_turn = hand.row_of_turn(thread(), turn_id("never"));
    assert_eq!(of_turn.await.unwrap(), None);
    refused!(hand.update_row(update("never")), StoreError::RowNotFound(id) if *id == never);
    refused!(
        hand.retry_row(thread(), Some(never), NOW),
        StoreError::RowNotFound(_)
    );
    refused!(hand.claim(this_row("never")), StoreError::RowNotFound(_));
}

async fn any_worker_may_change_the_queue_of_a_lane_that_another_owns(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a", "b"]).await;
    let turn = owner.begin().await;
    other.add(&["c"]).await;
    other.update_row(update("b")).await.unwrap();
    let order = ["c", "b"].map(row_id).to_vec();
    other.reorder(thread(), order, NOW).await.unwrap();
    other.pause(thread(), paused()).await.unwrap();
    other.resume(thread(), NOW).await.unwrap();
    assert!(
        other
            .delete_row(thread(), row_id("c"), NOW)
            .await
            .unwrap()
            .value
    );
    assert_eq!(other.names().await, ["b"]);
    let lane = other.lane().await;
    let owner_id: Option<WorkerId> = Some(owner.worker());
    assert_eq!((lane.owner, lane.fence), (owner_id, turn.grip.fence));
    owner.finish(&turn).await;
    let claimed = owner.claim_head().await;
    assert_eq!(claimed.row.params, json("{\"say\":\"other\"}"));
    let cancel = CannotStart::Cancel;
    owner
        .unclaim(claimed.grip, claimed.row.id, cancel, NOW)
        .await
        .unwrap();
}
