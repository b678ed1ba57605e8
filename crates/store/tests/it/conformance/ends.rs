//! The end of a turn and what becomes of its row and lane.

use turnlane_store::StoreError;
use turnlane_store::queue::{Back, Fate, NewRow, RowState, Update};
use turnlane_store::turn::{Complete, Keep, Put, TurnEnd, TurnStatus};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    an_ended_turn_frees_its_lane,
    an_end_is_recorded_whole,
    what_was_not_written_yet_is_written_with_the_end,
    an_end_that_cannot_be_written_changes_nothing,
    a_row_comes_back_to_the_head_as_a_new_turn,
    a_row_that_comes_back_waits_until_it_is_due,
    a_row_put_back_by_a_limit_is_counted,
    a_row_that_a_stop_cut_continues_until_it_is_changed,
    a_row_that_a_stop_cut_may_run_anew,
    a_row_that_continues_is_an_ordinary_one_after_a_turn_that_counts,
    a_failed_row_holds_the_lane_with_its_reason,
    every_try_is_a_turn_of_its_own,
    a_row_that_comes_back_stands_before_one_that_came_back_earlier,
    a_lane_without_work_can_become_nobodys_with_the_end,
    a_lane_with_work_stays_ours,
    a_turn_ends_once,
    only_a_started_row_ends,
    a_turn_can_begin_right_after_the_last_one,
];

async fn an_ended_turn_frees_its_lane(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let done = hand.finish(&turn).await;
    assert_eq!(done.value, hand.stored("a").await);
    assert_eq!(
        (done.value.state, done.value.ended_ms),
        (RowState::Done, Some(NOW))
    );
    assert_eq!(done.lane, hand.lane().await);
    assert_eq!(
        (done.lane.active, done.lane.owner),
        (None, Some(hand.worker()))
    );
    assert_eq!(done.lane.fence, turn.grip.fence);
    assert_eq!(hand.claim_head().await.row.id, row_id("b"));
}

async fn an_end_is_recorded_whole(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let end = Complete {
        end: failed(),
        at_ms: NOW + 9,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    let stored = hand.turn(thread(), turn_id("a")).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.muted), (TurnStatus::Failed, true));
    assert_eq!(
        (stored.error, stored.usage),
        (failed().error, failed().usage)
    );
    assert_eq!(
        (stored.started_ms, stored.completed_ms),
        (NOW, Some(NOW + 9))
    );
    let row = hand.thread(thread()).await.unwrap().unwrap();
    assert_eq!((row.updated_ms, row.recency_ms), (NOW + 9, NOW + 9));
}

async fn what_was_not_written_yet_is_written_with_the_end(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let put = Put {
        items: vec![item(&turn, 0, "agentMessage")],
        entries: vec![entry(&turn, 0, "output")],
        thread_usage: Some(json("1")),
        ..Put::default()
    };
    let end = Complete {
        put: put.clone(),
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    assert_eq!(hand.all_items().await[1..], put.items);
    assert_eq!(hand.history(thread()).await.unwrap().entries, put.entries);
    assert_eq!(
        hand.thread(thread()).await.unwrap().unwrap().usage,
        Some(json("1"))
    );
}

async fn an_end_that_cannot_be_written_changes_nothing(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let mut twice = item(&turn, 0, "command");
    twice.ord = turn.item.as_ref().unwrap().ord;
    let end = Complete {
        put: items(vec![item(&turn, 0, "command"), twice]),
        ..complete(&turn, Fate::Done)
    };
    refused!(hand.complete(end), StoreError::Failed { .. });
    assert_eq!(hand.state("a").await, RowState::Started);
    assert_eq!(hand.all_turns().await, std::slice::from_ref(&turn.turn));
    assert_eq!(hand.all_items().await.len(), 1);
    hand.finish(&turn).await;
}

async fn a_row_comes_back_to_the_head_as_a_new_turn(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    hand.add(&["c"]).await;
    let end = complete(&turn, back("a2", Back::Retry));
    let row = hand.complete(end).await.unwrap();
    assert_eq!(row.value, hand.stored("a").await);
    assert_eq!(
        (row.value.state, row.value.turn),
        (RowState::Queued, turn_id("a2"))
    );
    assert_eq!(
        (row.value.last_turn, row.value.ended_ms),
        (Some(turn_id("a")), None)
    );
    assert_eq!((row.value.attempts, row.value.put_backs), (1, 0));
    assert_eq!(row.lane.depth, 3);
    assert_eq!(hand.names().await, ["a", "b", "c"]);
    assert_eq!(hand.begin().await.turn.id, turn_id("a2"));
}

async fn a_row_that_comes_back_waits_until_it_is_due(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let fate = Fate::Back {
        turn: turn_id("a2"),
        not_before_ms: NOW + 20,
        why: Back::Retry,
    };
    hand.complete(complete(&turn, fate)).await.unwrap();
    not_now(hand.claim(head()).await.unwrap());
    let mut due = head();
    due.at_ms = NOW + 20;
    assert_eq!(ours(hand.claim(due).await.unwrap()).row.id, row_id("a"));
}

async fn a_row_put_back_by_a_limit_is_counted(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    for (nth, next) in (1..).zip(["a2", "a3"]) {
        let turn = hand.begin().await;
        let end = complete(&turn, back(next, Back::Limit));
        let row = hand.complete(end).await.unwrap().value;
        assert_eq!((row.put_backs, row.attempts, row.losses), (nth, nth, 0));
    }
}

async fn a_row_that_a_stop_cut_continues_until_it_is_changed(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    assert!(!turn.row.continues);
    let end = complete(&turn, back("a2", Back::Continue));
    let row = hand.complete(end).await.unwrap().value;
    assert_eq!((row.continues, row.stops, row.losses), (true, 1, 0));
    assert_eq!(hand.names().await, ["a", "b"]);

    // A limit mutes the turn that went on, so that the next one goes on from the same place.
    let turn = hand.begin().await;
    assert!(turn.row.continues);
    let end = complete(&turn, back("a3", Back::Limit));
    assert!(hand.complete(end).await.unwrap().value.continues);

    let change = Update {
        thread: thread(),
        row: row_id("a"),
        params: json("{}").into(),
        at_ms: NOW,
    };
    let changed = hand.update_row(change).await.unwrap().value;
    assert!(!changed.continues);
    assert!(!hand.begin().await.row.continues);
}

async fn a_row_that_a_stop_cut_may_run_anew(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    let end = complete(&turn, back("a2", Back::Anew));
    let row = hand.complete(end).await.unwrap().value;
    assert_eq!((row.continues, row.stops), (false, 1));
}

async fn a_row_that_continues_is_an_ordinary_one_after_a_turn_that_counts(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let muted = |muted| TurnEnd { muted, ..failed() };
    for (end, continues) in [(muted(true), true), (muted(false), false)] {
        let turn = hand.begin().await;
        let cut = complete(&turn, back(&format!("{continues}1"), Back::Continue));
        hand.complete(cut).await.unwrap();
        let turn = hand.begin().await;
        let block = Fate::Block {
            failure: json("\"no\""),
            turn: turn_id(&format!("{continues}2")),
        };
        let end = Complete {
            end,
            ..complete(&turn, block)
        };
        assert_eq!(hand.complete(end).await.unwrap().value.continues, continues);
        hand.retry_row(thread(), None, NOW).await.unwrap();
    }
}

async fn a_failed_row_holds_the_lane_with_its_reason(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let fate = Fate::Block {
        failure: json("\"why\""),
        turn: turn_id("a2"),
    };
    let row = hand.complete(complete(&turn, fate)).await.unwrap().value;
    assert_eq!(
        (row.state, row.failure),
        (RowState::Blocked, Some(json("\"why\"")))
    );
    assert_eq!(
        (row.turn, row.last_turn),
        (turn_id("a2"), Some(turn_id("a")))
    );
    assert_eq!(hand.names().await, ["a", "b"]);
    not_now(hand.claim(head()).await.unwrap());
}

async fn every_try_is_a_turn_of_its_own(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let first = hand.begin().await;
    let again = complete(&first, back("a2", Back::Retry));
    hand.complete(again).await.unwrap();
    let second = hand.begin().await;
    hand.finish(&second).await;
    let turns = hand.all_turns().await;
    let told: Vec<_> = turns
        .iter()
        .map(|turn| (turn.ord, turn.id, turn.attempt))
        .collect();
    assert_eq!(told, [(1, turn_id("a"), 1), (2, turn_id("a2"), 2)]);
    assert!(turns.iter().all(|turn| turn.row == Some(row_id("a"))));
    assert_eq!(hand.stored("a").await.turn, turn_id("a2"));
    // The row is found by the turn it is; what it was stands in the turn.
    let of_turn = |name| hand.row_of_turn(thread(), turn_id(name));
    assert_eq!(of_turn("a2").await.unwrap().unwrap().id, row_id("a"));
    assert_eq!(of_turn("a").await.unwrap(), None);
}

async fn a_row_that_comes_back_stands_before_one_that_came_back_earlier(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    for (name, next) in [("b", "b2"), ("c", "c2"), ("c", "c3")] {
        let claim = hand.claim_and_accept(this_row(name), accepting());
        let turn = begun(ours(claim.await.unwrap()));
        hand.complete(complete(&turn, back(next, Back::Retry)))
            .await
            .unwrap();
    }
    assert_eq!(hand.names().await, ["c", "b", "a"]);
}

async fn a_lane_without_work_can_become_nobodys_with_the_end(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let end = Complete {
        keep: Keep::UnlessIdle,
        ..complete(&turn, Fate::Done)
    };
    let lane = hand.complete(end).await.unwrap().lane;
    assert_eq!((lane.owner, lane.fence.0), (None, turn.grip.fence.0 + 1));
}

async fn a_lane_with_work_stays_ours(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "later"]).await;
    let turn = hand.begin().await;
    let end = Complete {
        keep: Keep::UnlessIdle,
        ..complete(&turn, Fate::Done)
    };
    let lane = hand.complete(end).await.unwrap().lane;
    assert_eq!(
        (lane.owner, lane.fence),
        (Some(hand.worker()), turn.grip.fence)
    );
}

async fn a_turn_ends_once(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    hand.finish(&turn).await;
    let again = Complete {
        end: failed(),
        ..complete(&turn, back("a2", Back::Retry))
    };
    refused!(hand.complete(again), StoreError::RowNotFound(_));
    assert_eq!(hand.all_turns().await[0].status, TurnStatus::Completed);
    assert_eq!(hand.state("a").await, RowState::Done);
}

async fn only_a_started_row_ends(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let other = Complete {
        row: row_id("b"),
        ..complete(&turn, Fate::Done)
    };
    refused!(hand.complete(other), StoreError::RowNotFound(_));
    hand.finish(&turn).await;
    let claimed = hand.claim_head().await;
    let unaccepted = Complete {
        grip: claimed.grip,
        row: claimed.row.id,
        ..complete(&turn, Fate::Done)
    };
    refused!(hand.complete(unaccepted), StoreError::RowNotFound(_));
    assert_eq!(hand.state("b").await, RowState::Claimed);
}

async fn a_turn_can_begin_right_after_the_last_one(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let first = hand.begin().await;
    let end = hand.complete(complete(&first, Fate::Done));
    let next = hand.claim_and_accept(head(), accepting());
    let direct = NewRow {
        source: "direct".to_owned(),
        ..row("c")
    };
    let add = hand.append(append(direct));
    end.await.unwrap();
    assert_eq!(begun(ours(next.await.unwrap())).row.id, row_id("b"));
    add.await.unwrap();
    assert_eq!(hand.names().await, ["c"]);
}
