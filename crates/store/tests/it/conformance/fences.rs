//! Writes with a grip that is out of date: each is refused, and nothing has changed.
//!
//! The lane is taken from a live worker, as by somebody who wrongly thinks that it is dead; then
//! everything that the old owner can still write comes late.

use turnlane_store::queue::{Back, CannotStart, Fate};
use turnlane_store::recovery::{Decision, FoundFate, Loss, Whose};
use turnlane_store::turn::Level;
use turnlane_store::{Fence, Grip, RowId};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    an_older_grip_of_our_own_is_out_of_date,
    a_grip_from_before_a_release_is_out_of_date,
];
on_many_workers![
    late_writes_of_a_turn_that_was_taken_over_change_nothing,
    late_writes_of_a_claim_that_was_taken_over_change_nothing,
    late_writes_change_nothing_while_the_new_owner_runs_the_same_row,
    late_writes_change_nothing_while_an_engine_is_asked,
    a_late_decision_changes_nothing,
    another_workers_grip_is_no_grip,
    the_fence_only_grows,
];

/// Everything that can be read of the one thread.
async fn everything(hand: &Hand, names: &[&str]) -> String {
    let mut rows = Vec::new();
    for name in names {
        rows.push(hand.stored(name).await);
    }
    let page = hand.queue(whole_queue()).await.unwrap();
    let row = hand.thread(thread()).await.unwrap();
    let history = hand.history(thread()).await.unwrap();
    let (turns, items) = (hand.all_turns().await, hand.all_items().await);
    format!("{rows:?} {page:?} {row:?} {history:?} {turns:?} {items:?}")
}

/// Tries every write that needs a grip.
async fn try_everything(hand: &Hand, grip: Grip, row: RowId, turn_ord: i64) {
    let late = turnlane_store::turn::ItemRow {
        ord: 99,
        turn_ord,
        id: "late".to_owned(),
        kind: "userMessage".to_owned(),
        body: json("{}"),
        started_ms: NOW,
        completed_ms: NOW,
    };
    let end = turnlane_store::turn::Complete {
        grip,
        row,
        turn_ord,
        end: failed(),
        put: items(vec![late.clone()]),
        fate: back("late", Back::Retry),
        waiting: turnlane_store::turn::WaitingChange::End,
        pause: turnlane_store::turn::PauseChange::Begin {
            paused: paused(),
            when: turnlane_store::turn::PauseWhen::Always,
        },
        keep: turnlane_store::turn::Keep::UnlessIdle,
        at_ms: NOW,
    };
    let decision = Decision {
        muted: false,
        turn_error: Some(json("\"late\"")),
        row: FoundFate::Done,
    };
    let put = items(vec![late.clone()]);
    let results = [
        ("put", hand.put(grip, put.clone(), Level::Durable).await),
        ("visible put", hand.put(grip, put, Level::Visible).await),
        ("add_steer", hand.add_steer(grip, late).await),
        ("complete", hand.complete(end).await.map(drop)),
        (
            "accept",
            hand.accept(grip, row, accepting(), NOW).await.map(drop),
        ),
        (
            "unclaim",
            hand.unclaim(grip, row, CannotStart::Cancel, NOW)
                .await
                .map(drop),
        ),
        ("mark_sent", hand.mark_sent(grip, row, NOW).await),
        ("release", hand.release(grip).await),
        (
            "decide",
            hand.decide(grip, row, decision, NOW).await.map(drop),
        ),
    ];
    for (what, result) in results {
        assert!(is_fenced(&result), "{what}: {result:?}");
    }
}

async fn late_writes_of_a_turn_that_was_taken_over_change_nothing(db: Db) {
    let (old, new) = db.two().await;
    old.add(&["a", "b"]).await;
    let turn = old.begin().await;
    let whose = Whose::Of(old.worker());
    let again = FoundFate::Back {
        turn: turn_id("a2"),
        loss: Loss::Retry,
    };
    new.recover(recover(whose, again)).await.unwrap();
    let before = everything(&new, &["a", "b"]).await;
    try_everything(&old, turn.grip, turn.row.id, turn.turn.ord).await;
    assert_eq!(everything(&new, &["a", "b"]).await, before);
    assert_eq!(new.begin().await.turn.id, turn_id("a2"));
}

async fn late_writes_of_a_claim_that_was_taken_over_change_nothing(db: Db) {
    let (old, new) = db.two().await;
    old.add(&["a", "b"]).await;
    let claimed = old.claim_head().await;
    let whose = Whose::Of(old.worker());
    let again = FoundFate::Back {
        turn: turn_id("a2"),
        loss: Loss::Counted,
    };
    new.recover(recover(whose, again)).await.unwrap();
    let before = everything(&new, &["a", "b"]).await;
    try_everything(&old, claimed.grip, claimed.row.id, 1).await;
    assert_eq!(everything(&new, &["a", "b"]).await, before);
}

async fn late_writes_change_nothing_while_the_new_owner_runs_the_same_row(db: Db) {
    let (old, new) = db.two().await;
    old.add(&["a", "b"]).await;
    let lost = old.claim_head().await;
    let whose = Whose::Of(old.worker());
    let again = FoundFate::Back {
        turn: turn_id("a2"),
        loss: Loss::Counted,
    };
    new.recover(recover(whose, again)).await.unwrap();
    let claimed = new.claim_head().await;
    assert_eq!(claimed.row.id, lost.row.id);
    let before = everything(&new, &["a", "b"]).await;
    try_everything(&old, lost.grip, lost.row.id, 1).await;
    assert_eq!(everything(&new, &["a", "b"]).await, before);
    let accepted = new
        .accept(claimed.grip, claimed.row.id, accepting(), NOW)
        .await
        .unwrap();
    let turn = begun(accepted);
    let before = everything(&new, &["a", "b"]).await;
    try_everything(&old, lost.grip, lost.row.id, turn.turn.ord).await;
    assert_eq!(everything(&new, &["a", "b"]).await, before);
    new.complete(complete(&turn, Fate::Done)).await.unwrap();
}

async fn late_writes_change_nothing_while_an_engine_is_asked(db: Db) {
    let (old, new) = db.two().await;
    old.add(&["a"]).await;
    let turn = old.begin().await;
    let whose = Whose::Of(old.worker());
    new.recover(recover(whose, FoundFate::Ask)).await.unwrap();
    let before = everything(&new, &["a"]).await;
    try_everything(&old, turn.grip, turn.row.id, turn.turn.ord).await;
    assert_eq!(everything(&new, &["a"]).await, before);
}

async fn a_late_decision_changes_nothing(db: Db) {
    let (old, new) = db.two().await;
    old.direct("a").await;
    let whose = Whose::Of(old.worker());
    let asked = new.recover(recover(whose, FoundFate::Ask)).await.unwrap();
    let grip = asked.lanes[0].grip.unwrap();
    // The one that asked is taken over in turn.
    let whose = Whose::Of(new.worker());
    old.recover(recover(whose, FoundFate::Done)).await.unwrap();
    let before = everything(&old, &["a"]).await;
    try_everything(&new, grip, row_id("a"), 1).await;
    assert_eq!(everything(&old, &["a"]).await, before);
}

/// The same lane under a fence that it had before.
fn older(grip: Grip) -> Grip {
    Grip {
        fence: Fence(grip.fence.0 - 1),
        ..grip
    }
}

async fn an_older_grip_of_our_own_is_out_of_date(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    let before = everything(&hand, &["a"]).await;
    try_everything(&hand, older(turn.grip), turn.row.id, turn.turn.ord).await;
    assert_eq!(everything(&hand, &["a"]).await, before);
}

async fn a_grip_from_before_a_release_is_out_of_date(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    hand.finish(&turn).await;
    hand.release(turn.grip).await.unwrap();
    hand.take(thread()).await.unwrap();
    try_everything(&hand, turn.grip, turn.row.id, turn.turn.ord).await;
}

async fn another_workers_grip_is_no_grip(db: Db) {
    let (owner, other) = db.two().await;
    let turn = owner.direct("a").await;
    let before = everything(&owner, &["a"]).await;
    try_everything(&other, turn.grip, turn.row.id, turn.turn.ord).await;
    assert_eq!(everything(&owner, &["a"]).await, before);
    owner.finish(&turn).await;
}

async fn the_fence_only_grows(db: Db) {
    let (first, second) = db.two().await;
    let mut fences = vec![first.lane().await.fence];
    first.add(&["a", "b"]).await;
    let turn = first.begin().await;
    fences.push(turn.grip.fence);
    let whose = Whose::Of(first.worker());
    let taken_over = second
        .recover(recover(whose, FoundFate::Done))
        .await
        .unwrap();
    fences.push(taken_over.lanes[0].lane.fence);
    let claimed = second.claim_head().await;
    fences.push(claimed.grip.fence);
    let cancelled = CannotStart::Cancel;
    second
        .unclaim(claimed.grip, claimed.row.id, cancelled, NOW)
        .await
        .unwrap();
    second.release(claimed.grip).await.unwrap();
    fences.push(second.lane().await.fence);
    first.take(thread()).await.unwrap();
    fences.push(first.lane().await.fence);
    let steps: Vec<_> = fences
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert_eq!(steps, [1; 5]);
}
