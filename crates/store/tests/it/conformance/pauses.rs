//! Pauses and waits: what stops claims, what ends that, what goes on meanwhile.

use turnlane_store::lane::{LoginStamp, Paused, Waiting};
use turnlane_store::queue::{Back, Claim, Fate};
use turnlane_store::turn::{Complete, PauseChange, PauseWhen, WaitingChange};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    a_paused_lane_is_not_claimed_and_a_resumed_one_is,
    the_first_pause_stays,
    a_resume_of_what_goes_on_changes_nothing,
    a_pause_lets_the_running_turn_end,
    adds_and_direct_turns_do_not_end_a_pause,
    a_lane_that_waits_is_claimed_when_the_wait_is_over,
    a_wait_without_a_time_ends_by_a_resume,
    a_resume_makes_the_row_that_was_put_back_due,
    a_resume_keeps_the_time_that_a_client_chose,
    a_start_of_the_head_ends_pause_and_wait,
    a_start_of_one_row_ends_pause_and_wait,
    a_turn_may_end_with_a_pause,
    a_pause_at_the_end_of_a_turn_does_not_replace_one,
    a_pause_for_rows_that_wait_does_not_begin_on_an_empty_queue,
    a_turn_may_end_a_pause_for_one_reason,
    a_direct_turn_runs_while_the_lane_waits_and_may_end_the_wait,
    a_wait_for_a_login_ends_when_that_login_changes,
    a_pause_may_take_the_place_of_one_with_a_named_reason,
];

async fn a_paused_lane_is_not_claimed_and_a_resumed_one_is(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let lane = hand.pause(thread(), paused()).await.unwrap();
    assert_eq!(lane.paused, Some(paused()));
    assert_eq!(
        not_now(hand.claim(head()).await.unwrap()).paused,
        Some(paused())
    );
    assert_eq!(hand.resume(thread(), NOW).await.unwrap().paused, None);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn the_first_pause_stays(db: Db) {
    let hand = db.one().await;
    let lane = hand.pause(thread(), paused()).await.unwrap();
    let other = Paused {
        reason: "interrupt".to_owned(),
        since_ms: NOW + 5,
        ..paused()
    };
    assert_eq!(hand.pause(thread(), other).await.unwrap(), lane);
}

async fn a_resume_of_what_goes_on_changes_nothing(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let lane = hand.lane().await;
    assert_eq!(hand.resume(thread(), NOW).await.unwrap(), lane);
}

async fn a_pause_lets_the_running_turn_end(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    hand.pause(thread(), paused()).await.unwrap();
    hand.finish(&turn).await;
    not_now(hand.claim(head()).await.unwrap());
    assert_eq!(hand.names().await, ["b"]);
}

async fn adds_and_direct_turns_do_not_end_a_pause(db: Db) {
    let hand = db.one().await;
    hand.pause(thread(), paused()).await.unwrap();
    hand.add(&["a"]).await;
    let turn = hand.direct("b").await;
    hand.finish(&turn).await;
    assert_eq!(hand.lane().await.paused, Some(paused()));
    not_now(hand.claim(head()).await.unwrap());
}

/// Runs the row `a` into a limit: it is back at the head and the lane waits.
async fn limited(hand: &Hand, until_ms: Option<i64>) {
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let fate = Fate::Back {
        turn: turn_id("a2"),
        not_before_ms: until_ms.unwrap_or(0),
        why: Back::Limit,
    };
    let end = Complete {
        end: failed(),
        waiting: WaitingChange::Begin(waiting(until_ms)),
        ..complete(&turn, fate)
    };
    let row = hand.complete(end).await.unwrap();
    assert_eq!(row.lane.waiting, Some(waiting(until_ms)));
    assert_eq!((row.value.put_backs, row.value.attempts), (1, 1));
}

async fn a_lane_that_waits_is_claimed_when_the_wait_is_over(db: Db) {
    let hand = db.one().await;
    limited(&hand, Some(NOW + 50)).await;
    for at_ms in [NOW, NOW + 49] {
        let mut early = head();
        early.at_ms = at_ms;
        not_now(hand.claim(early).await.unwrap());
    }
    let mut due = head();
    due.at_ms = NOW + 50;
    let claimed = ours(hand.claim(due).await.unwrap());
    assert_eq!((claimed.row.id, claimed.row.attempts), (row_id("a"), 2));
    assert_eq!(claimed.lane.waiting, None);
}

async fn a_wait_without_a_time_ends_by_a_resume(db: Db) {
    let hand = db.one().await;
    limited(&hand, None).await;
    let mut late = head();
    late.at_ms = i64::MAX;
    not_now(hand.claim(late).await.unwrap());
    assert_eq!(hand.resume(thread(), NOW).await.unwrap().waiting, None);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_wait_for_a_login_ends_when_that_login_changes(db: Db) {
    let hand = db.one().await;
    let login = |file: &str, stamp: &str| LoginStamp {
        file: file.to_owned(),
        stamp: stamp.to_owned(),
    };
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let refused = Waiting {
        login: Some(login("auth.json", "old")),
        ..waiting(None)
    };
    let fate = Fate::Back {
        turn: turn_id("a2"),
        not_before_ms: 0,
        why: Back::Limit,
    };
    let end = Complete {
        end: failed(),
        waiting: WaitingChange::Begin(refused.clone()),
        ..complete(&turn, fate)
    };
    hand.complete(end).await.unwrap();
    hand.pause(thread(), paused()).await.unwrap();
    for other in [login("auth.json", "old"), login("other.json", "new")] {
        assert_eq!(hand.end_login_waits(other, 9).await.unwrap(), []);
    }
    assert_eq!(hand.lane().await.waiting, Some(refused));

    let changed = login("auth.json", "new");
    assert_eq!(
        hand.end_login_waits(changed.clone(), 9).await.unwrap(),
        [thread()]
    );
    let lane = hand.lane().await;
    assert_eq!((lane.waiting, lane.paused), (None, Some(paused())));
    assert_eq!(hand.end_login_waits(changed, 9).await.unwrap(), []);
    hand.resume(thread(), NOW).await.unwrap();
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_resume_makes_the_row_that_was_put_back_due(db: Db) {
    let hand = db.one().await;
    limited(&hand, Some(NOW + 50)).await;
    assert_eq!(hand.stored("a").await.not_before_ms, NOW + 50);
    hand.resume(thread(), NOW).await.unwrap();
    assert_eq!(hand.stored("a").await.not_before_ms, 0);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}

async fn a_resume_keeps_the_time_that_a_client_chose(db: Db) {
    let hand = db.one().await;
    let mut later = row("a");
    later.not_before_ms = NOW + 50;
    hand.append(append(later)).await.unwrap();
    hand.pause(thread(), paused()).await.unwrap();
    hand.resume(thread(), NOW).await.unwrap();
    assert_eq!(hand.stored("a").await.not_before_ms, NOW + 50);
    not_now(hand.claim(head()).await.unwrap());
}

async fn a_start_of_the_head_ends_pause_and_wait(db: Db) {
    ends_pause_and_wait(db, head_now()).await;
}

async fn a_start_of_one_row_ends_pause_and_wait(db: Db) {
    ends_pause_and_wait(db, this_row("a")).await;
}

async fn ends_pause_and_wait(db: Db, claim: Claim) {
    let hand = db.one().await;
    limited(&hand, Some(NOW + 50)).await;
    hand.pause(thread(), paused()).await.unwrap();
    let claimed = ours(hand.claim(claim).await.unwrap());
    assert_eq!(claimed.row.id, row_id("a"));
    assert_eq!((claimed.lane.paused, claimed.lane.waiting), (None, None));
}

fn begin(paused: Paused, when: PauseWhen) -> PauseChange {
    PauseChange::Begin { paused, when }
}

async fn a_pause_for_rows_that_wait_does_not_begin_on_an_empty_queue(db: Db) {
    let hand = db.one().await;
    for (when, begun) in [
        (PauseWhen::RowsWait, None),
        (PauseWhen::Always, Some(paused())),
    ] {
        let turn = hand.direct(&format!("{when:?}")).await;
        let end = Complete {
            pause: begin(paused(), when),
            ..complete(&turn, Fate::Done)
        };
        assert_eq!(hand.complete(end).await.unwrap().lane.paused, begun);
    }
}

async fn a_turn_may_end_a_pause_for_one_reason(db: Db) {
    let hand = db.one().await;
    hand.pause(thread(), paused()).await.unwrap();
    let other = format!("not {}", paused().reason);
    for (reason, left) in [(other, Some(paused())), (paused().reason, None)] {
        let turn = hand.direct(&reason).await;
        let end = Complete {
            pause: PauseChange::End { reason },
            ..complete(&turn, Fate::Done)
        };
        assert_eq!(hand.complete(end).await.unwrap().lane.paused, left);
    }
}

async fn a_turn_may_end_with_a_pause(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let end = Complete {
        pause: begin(paused(), PauseWhen::RowsWait),
        ..complete(&turn, Fate::Done)
    };
    assert_eq!(
        hand.complete(end).await.unwrap().lane.paused,
        Some(paused())
    );
    not_now(hand.claim(head()).await.unwrap());
}

async fn a_pause_at_the_end_of_a_turn_does_not_replace_one(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    hand.pause(thread(), paused()).await.unwrap();
    let other = Paused {
        reason: "interrupt".to_owned(),
        ..paused()
    };
    let end = Complete {
        pause: begin(other, PauseWhen::Always),
        ..complete(&turn, Fate::Done)
    };
    assert_eq!(
        hand.complete(end).await.unwrap().lane.paused,
        Some(paused())
    );
}

async fn a_pause_may_take_the_place_of_one_with_a_named_reason(db: Db) {
    let hand = db.one().await;
    hand.pause(thread(), paused()).await.unwrap();
    let other = Paused {
        reason: "exhausted".to_owned(),
        ..paused()
    };
    // The reason of `paused` is "user".
    for (reason, left) in [("shim", paused()), ("user", other.clone())] {
        let turn = hand.direct(reason).await;
        let end = Complete {
            pause: begin(other.clone(), PauseWhen::InPlaceOf(reason)),
            ..complete(&turn, Fate::Done)
        };
        assert_eq!(hand.complete(end).await.unwrap().lane.paused, Some(left));
    }
}

async fn a_direct_turn_runs_while_the_lane_waits_and_may_end_the_wait(db: Db) {
    let hand = db.one().await;
    limited(&hand, None).await;
    let turn = hand.direct("c").await;
    assert_eq!(turn.lane.waiting, Some(waiting(None)));
    let end = Complete {
        waiting: WaitingChange::End,
        ..complete(&turn, Fate::Done)
    };
    assert_eq!(hand.complete(end).await.unwrap().lane.waiting, None);
    assert_eq!(hand.claim_head().await.row.id, row_id("a"));
}
