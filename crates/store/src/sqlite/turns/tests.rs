//! Tests of a turn from its beginning to its end.
//!
//! The lanes' promises are checked by the fixture after every step.

use super::*;
use crate::approval::{ApprovalAsked, ApprovalQuery, ApprovalResolved};
use crate::lane::Paused;
use crate::queue::Which;
use crate::sqlite::approvals::approvals;
use crate::sqlite::fixture::{Fixture, Who, complete as completing, id, json, turn, waiting};
use crate::turn::EntryRow;

fn item(ord: i64, turn_ord: i64) -> ItemRow {
    ItemRow {
        ord,
        turn_ord,
        id: format!("item-{ord}"),
        kind: "agentMessage".to_owned(),
        body: json("body"),
        started_ms: 1,
        completed_ms: 2,
    }
}

fn entry(ord: i64, begun: &AcceptedTurn) -> EntryRow {
    EntryRow {
        ord,
        turn_ord: begun.turn.ord,
        turn: begun.turn.id,
        kind: "output".to_owned(),
        provider: None,
        model: None,
        item_id: None,
        call_ids: None,
        items: json("items"),
    }
}

fn asked(number: u128, begun: &AcceptedTurn) -> ApprovalAsked {
    ApprovalAsked {
        id: id(number),
        turn: begun.turn.id,
        body: json("may I"),
        requested_ms: 5,
        expires_ms: Some(500),
    }
}

fn begun() -> (Fixture, AcceptedTurn) {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    (fixture, begun)
}

#[test]
fn turns_and_items_are_numbered_on() {
    let (fixture, first) = begun();
    let put_one = Put {
        items: vec![item(first.next_item_ord, 1)],
        entries: vec![entry(first.next_entry_ord, &first)],
        ..Put::default()
    };
    fixture.run(|db| put(db, first.grip, &put_one)).unwrap();
    fixture.end(&first, Fate::Done, 30);
    fixture.add(6);
    let second = fixture.begin(40);
    assert_eq!(second.turn.ord, 2);
    assert_eq!(second.item.unwrap().ord, 3);
    assert_eq!((second.next_item_ord, second.next_entry_ord), (4, 2));
    assert_eq!(second.thread.preview, "hello");
}

#[test]
fn a_number_that_is_taken_is_an_error_and_writes_nothing() {
    let (fixture, begun) = begun();
    let twice = Put {
        items: vec![item(2, 1), item(2, 1)],
        ..Put::default()
    };
    let refused = fixture.run(|db| put(db, begun.grip, &twice));
    assert!(matches!(refused, Err(StoreError::Failed { .. })));
    assert_eq!(fixture.count("SELECT * FROM item"), 1);
    fixture
        .run(|db| add_steer(db, begun.grip, &item(2, 1)))
        .unwrap();
    let refused = fixture.run(|db| add_steer(db, begun.grip, &item(2, 1)));
    assert!(matches!(refused, Err(StoreError::Failed { .. })));
}

#[test]
fn what_a_turn_produces_is_written_under_its_fence_only() {
    let (fixture, begun) = begun();
    let produced = Put {
        thread_usage: Some(json("used")),
        engine_state: Some(json("state")),
        ..Put::default()
    };
    fixture.run(|db| put(db, begun.grip, &produced)).unwrap();
    let thread = fixture.run(|db| find_thread(db, id(1))).unwrap();
    assert_eq!(
        (thread.usage, thread.engine_state),
        (Some(json("used")), Some(json("state")))
    );
    let late = fixture.by(Who::Other, |db| put(db, begun.grip, &produced));
    assert!(matches!(late, Err(StoreError::Fenced)));
    fixture
        .connection
        .execute("UPDATE lane SET fence = fence + 1", [])
        .unwrap();
    let ends = [
        fixture.run(|db| put(db, begun.grip, &produced)),
        fixture.run(|db| add_steer(db, begun.grip, &item(9, 1))),
        fixture
            .run(|db| complete(db, &completing(&begun, Fate::Done, 30)))
            .map(|_| ()),
    ];
    for end in ends {
        assert!(matches!(end, Err(StoreError::Fenced)), "{end:?}");
    }
    assert_eq!(fixture.row(5).state, RowState::Started);
}

#[test]
fn completing_ends_turn_row_and_occupation_together() {
    let (fixture, begun) = begun();
    let mut end = completing(&begun, Fate::Done, 30);
    end.put.items = vec![item(2, 1)];
    end.end.muted = true;
    end.end.error = Some(json("error"));
    end.end.status = TurnStatus::Failed;
    let done = fixture.run(|db| complete(db, &end)).unwrap();
    assert_eq!(
        (done.value.state, done.value.ended_ms),
        (RowState::Done, Some(30))
    );
    assert_eq!(fixture.row(5), done.value);
    assert_eq!(
        (done.lane.active, done.lane.owner),
        (None, Some(Who::Me.id()))
    );
    assert_eq!(done.lane.fence, begun.grip.fence);
    let ended = fixture.run(|db| find_turn(db, id(1), turn(5_000)));
    let ended = ended.unwrap().unwrap();
    assert_eq!((ended.status, ended.muted), (TurnStatus::Failed, true));
    assert_eq!(
        (ended.error, ended.usage),
        (Some(json("error")), Some(json("usage")))
    );
    assert_eq!(ended.completed_ms, Some(30));
    assert_eq!(fixture.count("SELECT * FROM item"), 2);
    let thread = fixture.run(|db| find_thread(db, id(1))).unwrap();
    assert_eq!((thread.updated_ms, thread.recency_ms), (30, 30));
    let again = fixture.run(|db| complete(db, &end));
    assert!(matches!(again, Err(StoreError::RowNotFound(_))));
    let steer = fixture.run(|db| add_steer(db, begun.grip, &item(9, 1)));
    assert!(matches!(steer, Err(StoreError::TurnNotFound)));
}

#[test]
fn a_turn_that_is_not_the_running_one_cannot_be_ended() {
    let (fixture, begun) = begun();
    let mut wrong = completing(&begun, Fate::Done, 30);
    wrong.turn_ord = 2;
    let end = fixture.run(|db| complete(db, &wrong));
    assert!(matches!(end, Err(StoreError::TurnNotFound)));
    let mut running = completing(&begun, Fate::Done, 30);
    running.end.status = TurnStatus::InProgress;
    let end = fixture.run(|db| complete(db, &running));
    assert!(matches!(end, Err(StoreError::Failed { .. })));
    assert_eq!(fixture.row(5).state, RowState::Started);
}

#[test]
fn an_idle_lane_is_given_up_only_when_no_row_waits() {
    let (fixture, first) = begun();
    fixture.add(6);
    let mut end = completing(&first, Fate::Done, 30);
    end.keep = Keep::UnlessIdle;
    let lane = fixture.run(|db| complete(db, &end)).unwrap().lane;
    assert_eq!(
        (lane.owner, lane.fence),
        (Some(Who::Me.id()), first.grip.fence)
    );
    let second = fixture.begin(40);
    let mut end = completing(&second, Fate::Done, 50);
    end.keep = Keep::UnlessIdle;
    let lane = fixture.run(|db| complete(db, &end)).unwrap().lane;
    assert_eq!((lane.owner, lane.fence.0), (None, second.grip.fence.0 + 1));
    let late = fixture.run(|db| put(db, second.grip, &Put::default()));
    assert!(matches!(late, Err(StoreError::Fenced)));
}

#[test]
fn a_row_comes_back_to_the_head_under_a_new_turn() {
    let (fixture, first) = begun();
    fixture.add(6);
    let back = Fate::Back {
        turn: turn(5_001),
        not_before_ms: 70,
        why: Back::Limit,
    };
    fixture.end(&first, back, 30);
    let row = fixture.row(5);
    assert_eq!((row.position, row.state), (Some(1_024), RowState::Queued));
    assert_eq!((row.turn, row.last_turn), (turn(5_001), Some(turn(5_000))));
    assert_eq!((row.put_backs, row.attempts, row.not_before_ms), (1, 1, 70));
    assert_eq!(fixture.order(), [5, 6]);
    assert!(fixture.try_begin(Which::Head, 69).is_none());
    let second = fixture.begin(70);
    assert_eq!(
        (second.row.attempts, second.turn.attempt, second.turn.ord),
        (2, 2, 2)
    );
    let block = Fate::Block {
        failure: json("failed"),
        turn: turn(5_002),
    };
    let lane = fixture.end(&second, block, 80);
    assert!(matches!(lane.head, crate::lane::Head::Failed { row, .. } if row == id(5)));
    let row = fixture.row(5);
    assert_eq!((row.last_turn, row.put_backs), (Some(turn(5_001)), 1));
    assert_eq!(fixture.order(), [5, 6]);
}

#[test]
fn rows_that_come_back_again_and_again_stay_in_front() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    for round in 0..300_u128 {
        if round == 150 {
            fixture.add(6);
        }
        let begun = fixture.begin(20);
        let back = Fate::Back {
            turn: turn(100_000 + round),
            not_before_ms: 0,
            why: Back::Retry,
        };
        fixture.end(&begun, back, 30);
    }
    assert_eq!(fixture.order(), [5, 6]);
    assert_eq!(fixture.row(5).put_backs, 0);
}

#[test]
fn the_end_of_a_turn_may_begin_a_wait_and_a_pause() {
    let (fixture, first) = begun();
    fixture.add(6);
    let paused = Paused {
        reason: "interrupt".to_owned(),
        by: None,
        since_ms: 30,
    };
    let mut end = completing(&first, Fate::Done, 30);
    end.waiting = WaitingChange::Begin(waiting(None));
    end.pause = PauseChange::Begin {
        paused: paused.clone(),
        when: PauseWhen::RowsWait,
    };
    let lane = fixture.run(|db| complete(db, &end)).unwrap().lane;
    assert_eq!(
        (lane.waiting, lane.paused),
        (Some(waiting(None)), Some(paused.clone()))
    );
    assert_eq!(fixture.ready_ms(), None);
    // A direct turn would run now; its end keeps the first pause and may end the wait.
    fixture
        .connection
        .execute("UPDATE lane SET paused = NULL", [])
        .unwrap();
    let second = fixture.try_begin(Which::HeadNow, 40).unwrap();
    fixture
        .connection
        .execute("UPDATE lane SET paused = ?1", [&paused])
        .unwrap();
    let mut end = completing(&second, Fate::Done, 50);
    end.waiting = WaitingChange::End;
    end.pause = PauseChange::Begin {
        paused: Paused {
            reason: "user".to_owned(),
            ..paused.clone()
        },
        when: PauseWhen::Always,
    };
    let lane = fixture.run(|db| complete(db, &end)).unwrap().lane;
    assert_eq!((lane.waiting, lane.paused), (None, Some(paused)));
}

#[test]
fn an_approval_is_decided_once_and_at_the_latest_by_the_end_of_its_turn() {
    let (fixture, begun) = begun();
    let ask = Put {
        asked: vec![asked(1, &begun), asked(2, &begun)],
        ..Put::default()
    };
    fixture.run(|db| put(db, begun.grip, &ask)).unwrap();
    let open = fixture
        .run(|db| approvals(db, ApprovalQuery::Open))
        .unwrap();
    assert_eq!(open.len(), 2);
    let decision = |word: &str| ApprovalResolved {
        id: id(1),
        decision: word.to_owned(),
        decided_by: Some("a client".to_owned()),
        reason: None,
        resolved_ms: 25,
    };
    let decide = Put {
        resolved: vec![decision("accept"), decision("decline")],
        ..Put::default()
    };
    fixture.run(|db| put(db, begun.grip, &decide)).unwrap();
    let open = fixture
        .run(|db| approvals(db, ApprovalQuery::OpenOf(id(1))))
        .unwrap();
    assert_eq!(
        open.iter().map(|open| open.asked.id).collect::<Vec<_>>(),
        [id(2)]
    );
    fixture.end(&begun, Fate::Done, 30);
    let one = |number| {
        let found = fixture.run(|db| approvals(db, ApprovalQuery::One(id(number))));
        found.unwrap().remove(0).resolved.unwrap()
    };
    assert_eq!(one(1), decision("accept"));
    assert_eq!(
        (one(2).decision.as_str(), one(2).resolved_ms),
        ("interrupt", 30)
    );
    let open = fixture
        .run(|db| approvals(db, ApprovalQuery::Open))
        .unwrap();
    assert!(open.is_empty());
}
