//! From a claim to a turn, and every way in which a claimed row does not become one.

use turnlane_store::StoreError;
use turnlane_store::lane::LaneView;
use turnlane_store::queue::{Accepting, CannotStart, RowState, Verdict};
use turnlane_store::turn::{Accept, Accepted, Refused, TurnStatus};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    an_accepted_row_is_a_turn_with_its_message,
    claim_and_accept_is_claim_then_accept,
    turns_and_items_are_numbered_from_one,
    an_accepted_turn_changes_the_settings_it_names,
    the_first_preview_stays,
    a_turn_without_a_message_has_no_item,
    a_row_is_accepted_once,
    a_row_that_cannot_start_is_shown_as_failed,
    a_row_that_cannot_start_may_leave_a_failed_turn,
    a_row_may_go_back_as_if_nothing_had_happened,
    a_row_may_go_back_and_make_the_lane_wait,
    a_row_may_be_given_up,
    a_row_may_be_cancelled,
    the_verdict_of_an_acceptance_is_carried_out_like_an_unclaim,
    only_a_claimed_row_is_unclaimed,
    only_the_row_under_way_is_sent,
    a_row_that_was_sent_says_so,
];

async fn an_accepted_row_is_a_turn_with_its_message(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let claimed = hand.claim_head().await;
    let at_ms = NOW + 7;
    let accepted = hand
        .accept(claimed.grip, claimed.row.id, accepting(), at_ms)
        .await
        .unwrap();
    let turn = begun(accepted);
    assert_eq!(turn.grip, claimed.grip);
    assert_eq!((turn.row.state, turn.row.attempts), (RowState::Started, 1));
    assert_eq!(turn.row, hand.stored("a").await);
    assert_eq!(turn.turn.row, Some(row_id("a")));
    assert_eq!((turn.turn.id, turn.turn.attempt), (turn_id("a"), 1));
    assert_eq!(
        (turn.turn.status, turn.turn.muted),
        (TurnStatus::InProgress, false)
    );
    assert_eq!(
        (turn.turn.started_ms, turn.turn.completed_ms),
        (at_ms, None)
    );
    assert_eq!(turn.turn.source, "queue");
    let read = hand.turn(thread(), turn_id("a")).await.unwrap();
    assert_eq!(read, Some(turn.turn.clone()));
    let item = turn.item.unwrap();
    assert_eq!(
        (item.id.as_str(), item.kind.as_str()),
        ("item-a", "userMessage")
    );
    assert_eq!((item.started_ms, item.completed_ms), (at_ms, at_ms));
    assert_eq!(hand.all_items().await, [item]);
    assert_eq!(turn.thread, hand.thread(thread()).await.unwrap().unwrap());
    assert_eq!(
        (turn.thread.updated_ms, turn.thread.recency_ms),
        (at_ms, at_ms)
    );
    assert_eq!(turn.lane, hand.lane().await);
}

async fn claim_and_accept_is_claim_then_accept(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    hand.add(&["a"]).await;
    let mut there = append(row("a"));
    there.thread = thread_id("u");
    hand.append(there).await.unwrap();
    let claimed = hand.claim_head().await;
    let two_steps = hand
        .accept(claimed.grip, claimed.row.id, accepting(), NOW)
        .await
        .unwrap();
    let mut claim = head();
    claim.thread = thread_id("u");
    let one_step = ours(hand.claim_and_accept(claim, accepting()).await.unwrap());
    let (mut one_step, two_steps) = (begun(one_step), begun(two_steps));
    assert_eq!(one_step.grip.fence, two_steps.grip.fence);
    one_step.grip.thread = thread();
    one_step.thread.id = thread();
    one_step.lane.thread = thread();
    assert_eq!(one_step, two_steps);
}

async fn turns_and_items_are_numbered_from_one(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let first = hand.begin().await;
    assert_eq!((first.turn.ord, first.item.as_ref().unwrap().ord), (1, 1));
    assert_eq!((first.next_item_ord, first.next_entry_ord), (2, 1));
    hand.finish(&first).await;
    let second = hand.begin().await;
    assert_eq!((second.turn.ord, second.item.as_ref().unwrap().ord), (2, 2));
    assert_eq!(second.item.unwrap().turn_ord, 2);
    assert_eq!((second.next_item_ord, second.next_entry_ord), (3, 1));
}

async fn an_accepted_turn_changes_the_settings_it_names(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let changing = Accepting::new(|acceptance| {
        assert_eq!(acceptance.thread.id, thread());
        Verdict::Accept(Box::new(Accept {
            settings: Some(json("{\"model\":\"n\"}")),
            cwd: Some("/other".to_owned()),
            ..said("a")
        }))
    });
    let turn = begun(ours(hand.claim_and_accept(head(), changing).await.unwrap()));
    assert_eq!(turn.thread.settings, json("{\"model\":\"n\"}"));
    assert_eq!(turn.thread.cwd, "/other");
    hand.finish(&turn).await;
    let next = hand.begin().await;
    assert_eq!(
        (next.thread.settings, next.thread.cwd),
        (turn.thread.settings, turn.thread.cwd)
    );
}

async fn the_first_preview_stays(db: Db) {
    let hand = db.one().await;
    hand.run("a").await;
    hand.run("b").await;
    assert_eq!(hand.thread(thread()).await.unwrap().unwrap().preview, "a");
}

async fn a_turn_without_a_message_has_no_item(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let silent = Accepting::new(|_| {
        Verdict::Accept(Box::new(Accept {
            item: None,
            ..said("")
        }))
    });
    let turn = begun(ours(hand.claim_and_accept(head(), silent).await.unwrap()));
    assert_eq!((turn.item, turn.next_item_ord), (None, 1));
    assert!(hand.all_items().await.is_empty());
}

async fn a_row_is_accepted_once(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    let accept = || hand.accept(claimed.grip, claimed.row.id, accepting(), NOW);
    begun(accept().await.unwrap());
    assert!(accept().await.is_err());
    // Nor is a row accepted that was not claimed.
    assert!(
        hand.accept(claimed.grip, row_id("b"), accepting(), NOW)
            .await
            .is_err()
    );
    assert_eq!(hand.all_turns().await.len(), 1);
    assert_eq!(hand.state("b").await, RowState::Queued);
}

/// Claims the row `a` in front of `b` and unclaims it.
async fn unclaimed(hand: &Hand, how: CannotStart) -> Refused {
    hand.add(&["a", "b"]).await;
    let claimed = hand.claim_head().await;
    let refused = hand
        .unclaim(claimed.grip, claimed.row.id, how, NOW + 3)
        .await
        .unwrap();
    assert_eq!(refused.lane, hand.lane().await);
    assert_eq!(refused.row, hand.stored("a").await);
    assert_eq!(refused.lane.active, None);
    refused
}

async fn a_row_that_cannot_start_is_shown_as_failed(db: Db) {
    let hand = db.one().await;
    let refused = unclaimed(&hand, block("a")).await;
    assert_eq!(refused.row.state, RowState::Blocked);
    assert_eq!(refused.row.failure, Some(json("\"no\"")));
    assert_eq!(
        (refused.row.turn, refused.row.last_turn),
        (turn_id("a+"), None)
    );
    assert_eq!((refused.turn, refused.lane.depth), (None, 2));
    assert_eq!(hand.names().await, ["a", "b"]);
    assert!(hand.all_turns().await.is_empty());
}

async fn a_row_that_cannot_start_may_leave_a_failed_turn(db: Db) {
    let hand = db.one().await;
    let refused = unclaimed(&hand, fail()).await;
    assert_eq!(
        (refused.row.state, refused.row.ended_ms),
        (RowState::Done, Some(NOW + 3))
    );
    let turn = refused.turn.unwrap();
    assert_eq!((turn.id, turn.ord, turn.attempt), (turn_id("a"), 1, 1));
    assert_eq!((turn.status, turn.muted), (TurnStatus::Failed, true));
    assert_eq!(
        (turn.error.clone(), turn.usage.clone()),
        (failed().error, failed().usage)
    );
    assert_eq!(turn.completed_ms, Some(NOW + 3));
    assert_eq!(hand.all_turns().await, [turn]);
    assert_eq!(hand.all_items().await[0].id, "item-failed");
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn a_row_may_go_back_as_if_nothing_had_happened(db: Db) {
    let hand = db.one().await;
    let how = CannotStart::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        waiting: None,
    };
    let refused = unclaimed(&hand, how).await;
    assert_eq!(
        (refused.row.state, refused.row.turn),
        (RowState::Queued, turn_id("a2"))
    );
    assert_eq!((refused.row.last_turn, refused.row.losses), (None, 0));
    assert_eq!(refused.lane.waiting, None);
    assert_eq!(hand.names().await, ["a", "b"]);
    let turn = hand.begin().await;
    assert_eq!((turn.row.id, turn.turn.attempt), (row_id("a"), 2));
}

async fn a_row_may_go_back_and_make_the_lane_wait(db: Db) {
    let hand = db.one().await;
    let how = CannotStart::Back {
        turn: turn_id("a2"),
        not_before_ms: NOW + 9,
        waiting: Some(waiting(Some(NOW + 9))),
    };
    let refused = unclaimed(&hand, how).await;
    assert_eq!(refused.lane.waiting, Some(waiting(Some(NOW + 9))));
    assert_eq!(refused.row.not_before_ms, NOW + 9);
    not_now(hand.claim(head()).await.unwrap());
}

async fn a_row_may_be_given_up(db: Db) {
    let hand = db.one().await;
    let failure = json("\"gone\"");
    let refused = unclaimed(
        &hand,
        CannotStart::Dead {
            failure: failure.clone(),
        },
    )
    .await;
    assert_eq!(
        (refused.row.state, refused.row.failure),
        (RowState::Dead, Some(failure))
    );
    assert_eq!(refused.row.ended_ms, Some(NOW + 3));
    assert_eq!((refused.turn, refused.lane.depth), (None, 1));
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn a_row_may_be_cancelled(db: Db) {
    let hand = db.one().await;
    let refused = unclaimed(&hand, CannotStart::Cancel).await;
    assert_eq!(
        (refused.row.state, refused.row.ended_ms),
        (RowState::Cancelled, Some(NOW + 3))
    );
    assert_eq!((refused.turn, refused.lane.depth), (None, 1));
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn the_verdict_of_an_acceptance_is_carried_out_like_an_unclaim(db: Db) {
    let hand = db.open("one").await;
    let back = CannotStart::Back {
        turn: turn_id("a2"),
        not_before_ms: 5,
        waiting: Some(waiting(None)),
    };
    let failure = json("\"gone\"");
    let all = [
        block("a"),
        fail(),
        back,
        CannotStart::Dead { failure },
        CannotStart::Cancel,
    ];
    for how in all {
        let mut pictures: Vec<(Refused, Vec<String>)> = Vec::new();
        for way in 0..3 {
            hand.create_thread(new_thread("t")).await.unwrap();
            hand.add(&["a", "b"]).await;
            let refused = match way {
                0 => ours(
                    hand.claim_and_accept(head(), refusing(how.clone()))
                        .await
                        .unwrap(),
                ),
                1 => {
                    let claimed = hand.claim_head().await;
                    let verdict = refusing(how.clone());
                    hand.accept(claimed.grip, claimed.row.id, verdict, NOW)
                        .await
                        .unwrap()
                }
                _ => {
                    let claimed = hand.claim_head().await;
                    let refused = hand.unclaim(claimed.grip, claimed.row.id, how.clone(), NOW);
                    Accepted::CannotStart(Box::new(refused.await.unwrap()))
                }
            };
            let Accepted::CannotStart(refused) = refused else {
                panic!("begun");
            };
            assert_eq!(refused.row, hand.stored("a").await);
            pictures.push((without_revision(*refused), hand.names().await));
            hand.delete_thread(thread()).await.unwrap();
        }
        assert_eq!(pictures[0], pictures[1]);
        assert_eq!(pictures[1], pictures[2]);
    }
}

/// One transaction counts once, two count twice.
fn without_revision(refused: Refused) -> Refused {
    let lane = LaneView {
        revision: 0,
        ..refused.lane
    };
    Refused { lane, ..refused }
}

async fn only_a_claimed_row_is_unclaimed(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    for name in ["a", "b", "never"] {
        let unclaim = hand.unclaim(turn.grip, row_id(name), CannotStart::Cancel, NOW);
        refused!(unclaim, StoreError::RowNotFound(_));
    }
    assert_eq!(hand.state("a").await, RowState::Started);
    assert_eq!(hand.names().await, ["b"]);
}

async fn only_the_row_under_way_is_sent(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    for name in ["b", "never"] {
        refused!(
            hand.mark_sent(turn.grip, row_id(name), NOW),
            StoreError::RowNotFound(_)
        );
    }
    hand.finish(&turn).await;
    refused!(
        hand.mark_sent(turn.grip, row_id("a"), NOW),
        StoreError::RowNotFound(_)
    );
    assert!(!hand.stored("a").await.sent && !hand.stored("b").await.sent);
}

async fn a_row_that_was_sent_says_so(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let claimed = hand.claim_head().await;
    assert!(!claimed.row.sent);
    hand.mark_sent(claimed.grip, claimed.row.id, NOW)
        .await
        .unwrap();
    assert!(hand.stored("a").await.sent);
    let turn = hand
        .accept(claimed.grip, claimed.row.id, accepting(), NOW)
        .await
        .unwrap();
    assert!(begun(turn).row.sent);
}
