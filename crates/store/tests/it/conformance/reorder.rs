//! New orders of the rows that wait, of all and of one.

use turnlane_store::StoreError;
use turnlane_store::queue::{
    Appended, Move, MoveTo, QueueFrom, QueueQuery, Rewriting, RowState, Update,
};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    a_new_order_is_the_order_of_claims,
    an_order_must_name_every_visible_row_once,
    an_order_of_an_empty_queue_is_empty,
    a_row_moves_in_front_of_another,
    a_row_moves_behind_another,
    a_row_moves_to_a_place,
    a_place_beyond_the_end_is_the_end,
    a_row_can_be_moved_between_two_others_as_often_as_one_likes,
    a_row_under_way_is_neither_moved_nor_a_mark_for_others,
    a_row_added_after_a_reorder_stands_at_the_end,
    a_failed_row_that_becomes_the_head_holds_the_lane,
    a_row_is_shown_with_the_number_of_rows_in_front_of_it,
];

fn ids(names: &[&str]) -> Vec<turnlane_store::RowId> {
    names.iter().map(|name| row_id(name)).collect()
}

fn move_to(name: &str, to: MoveTo) -> Move {
    Move {
        thread: thread(),
        row: row_id(name),
        to,
        at_ms: NOW,
    }
}

async fn a_new_order_is_the_order_of_claims(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    let lane = hand
        .reorder(thread(), ids(&["c", "a", "b"]), NOW)
        .await
        .unwrap();
    assert_eq!(lane.depth, 3);
    assert_eq!(hand.names().await, ["c", "a", "b"]);
    for name in ["c", "a", "b"] {
        let turn = hand.begin().await;
        assert_eq!(turn.row.id, row_id(name));
        hand.finish(&turn).await;
    }
}

async fn an_order_must_name_every_visible_row_once(db: Db) {
    let hand = db.one().await;
    hand.add(&["hidden", "a", "b"]).await;
    hand.claim_head().await;
    let lane = hand.lane().await;
    let wrong: [&[&str]; 6] = [
        &[],
        &["a"],
        &["a", "a"],
        &["a", "b", "b"],
        &["a", "never"],
        &["hidden", "a", "b"],
    ];
    for order in wrong {
        refused!(
            hand.reorder(thread(), ids(order), NOW),
            StoreError::NotAPermutation
        );
    }
    assert_eq!(hand.names().await, ["a", "b"]);
    assert_eq!(hand.lane().await, lane);
}

async fn an_order_of_an_empty_queue_is_empty(db: Db) {
    let hand = db.one().await;
    assert_eq!(
        hand.reorder(thread(), Vec::new(), NOW).await.unwrap().depth,
        0
    );
}

async fn a_row_moves_in_front_of_another(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    let to = MoveTo::Before(row_id("a"));
    let moved = hand.move_row(move_to("c", to)).await.unwrap();
    assert_eq!(moved.value.id, row_id("c"));
    assert_eq!(hand.names().await, ["c", "a", "b"]);
    let to = MoveTo::Before(row_id("b"));
    hand.move_row(move_to("c", to)).await.unwrap();
    assert_eq!(hand.names().await, ["a", "c", "b"]);
}

async fn a_row_moves_behind_another(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    hand.move_row(move_to("a", MoveTo::After(row_id("c"))))
        .await
        .unwrap();
    assert_eq!(hand.names().await, ["b", "c", "a"]);
    hand.move_row(move_to("a", MoveTo::After(row_id("b"))))
        .await
        .unwrap();
    assert_eq!(hand.names().await, ["b", "a", "c"]);
}

async fn a_row_moves_to_a_place(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c", "d"]).await;
    hand.move_row(move_to("c", MoveTo::Index(0))).await.unwrap();
    assert_eq!(hand.names().await, ["c", "a", "b", "d"]);
    hand.move_row(move_to("c", MoveTo::Index(2))).await.unwrap();
    assert_eq!(hand.names().await, ["a", "b", "c", "d"]);
    hand.move_row(move_to("c", MoveTo::Index(2))).await.unwrap();
    assert_eq!(hand.names().await, ["a", "b", "c", "d"]);
}

async fn a_place_beyond_the_end_is_the_end(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    hand.move_row(move_to("a", MoveTo::Index(u32::MAX)))
        .await
        .unwrap();
    assert_eq!(hand.names().await, ["b", "c", "a"]);
}

async fn a_row_can_be_moved_between_two_others_as_often_as_one_likes(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c", "z"]).await;
    for round in 0..40 {
        let (moved, others) = if round % 2 == 0 {
            ("c", ["a", "c", "b", "z"])
        } else {
            ("b", ["a", "b", "c", "z"])
        };
        hand.move_row(move_to(moved, MoveTo::After(row_id("a"))))
            .await
            .unwrap();
        assert_eq!(hand.names().await, others);
    }
}

async fn a_row_under_way_is_neither_moved_nor_a_mark_for_others(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    hand.claim_head().await;
    let (a, b) = (row_id("a"), row_id("b"));
    refused!(hand.move_row(move_to("a", MoveTo::After(b))), StoreError::RowNotFound(id) if *id == a);
    refused!(hand.move_row(move_to("c", MoveTo::Before(a))), StoreError::RowNotFound(id) if *id == a);
    refused!(hand.move_row(move_to("c", MoveTo::After(a))), StoreError::RowNotFound(id) if *id == a);
    assert_eq!(hand.names().await, ["b", "c"]);
    assert_eq!(hand.state("a").await, RowState::Claimed);
}

async fn a_row_added_after_a_reorder_stands_at_the_end(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.reorder(thread(), ids(&["b", "a"]), NOW).await.unwrap();
    hand.add(&["c"]).await;
    hand.move_row(move_to("b", MoveTo::Index(9))).await.unwrap();
    hand.add(&["d"]).await;
    assert_eq!(hand.names().await, ["a", "c", "b", "d"]);
}

async fn a_failed_row_that_becomes_the_head_holds_the_lane(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    hand.fail("a").await;
    hand.move_row(move_to("a", MoveTo::Index(1))).await.unwrap();
    let turn = hand.begin().await;
    assert_eq!(turn.row.id, row_id("b"));
    hand.finish(&turn).await;
    not_now(hand.claim(head()).await.unwrap());
    assert_eq!(hand.state("a").await, RowState::Blocked);
}

async fn a_row_is_shown_with_the_number_of_rows_in_front_of_it(db: Db) {
    let hand = db.one().await;
    for (name, ahead) in [("hidden", 0), ("a", 1), ("b", 2), ("c", 3)] {
        let added = hand.append(append(row(name))).await.unwrap();
        let Appended::New(added) = added.value else {
            panic!("{name} was there");
        };
        assert_eq!(added.ahead, Some(ahead), "{name}");
    }
    hand.claim_head().await;
    let moved = hand.move_row(move_to("c", MoveTo::Index(1))).await.unwrap();
    assert_eq!(moved.value.ahead, Some(1));
    let stays = hand.move_row(move_to("c", MoveTo::Index(1))).await.unwrap();
    assert_eq!(stays.value.ahead, Some(1));
    let update = Update {
        thread: thread(),
        row: row_id("b"),
        params: Rewriting::new(|before| json(&format!("[{}]", before.as_str()))),
        at_ms: NOW,
    };
    let updated = hand.update_row(update).await.unwrap().value;
    assert_eq!(updated.ahead, Some(2));
    assert!(updated.params.as_str().starts_with('['));
    let from_the_second = QueueQuery {
        thread: thread(),
        from: QueueFrom::After(moved.value.position.unwrap()),
        limit: 1,
    };
    let page = hand.queue(from_the_second).await.unwrap();
    assert_eq!(page.rows[0].ahead, Some(2));
    let query = QueueQuery {
        from: QueueFrom::Offset(1),
        ..from_the_second
    };
    let page = hand.queue(query).await.unwrap();
    assert_eq!(page.rows[0].ahead, Some(1));
}
