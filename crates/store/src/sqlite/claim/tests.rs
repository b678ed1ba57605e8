//! Tests of claims, acceptance and rows that cannot be started.
//!
//! The lanes' promises are checked by the fixture after every step.

use super::*;
use crate::ids::Fence;
use crate::lane::{LaneView, Paused};
use crate::queue::Fate;
use crate::sqlite::fixture::{
    Fixture, THREAD, Who, accept as acceptable, accepting, append, claim_of, complete, ended, id,
    json, no_grip, refusing, turn, waiting,
};
use crate::sqlite::{owner, queue, threads, turns};
use crate::thread::ThreadChange;
use crate::turn::{EndedTurn, TurnStatus, WaitingChange};

fn try_claim(fixture: &Fixture, which: Which, at_ms: i64) -> Claimed<ClaimedRow> {
    fixture
        .run(|db| claim(db, &claim_of(which, at_ms)))
        .unwrap()
}

fn claimed(fixture: &Fixture, which: Which, at_ms: i64) -> ClaimedRow {
    match try_claim(fixture, which, at_ms) {
        Claimed::Ours(claimed) => claimed,
        Claimed::NotNow(lane) => unreachable!("held: {lane:?}"),
    }
}

fn not_now(fixture: &Fixture, which: Which, at_ms: i64) -> LaneView {
    match try_claim(fixture, which, at_ms) {
        Claimed::Ours(claimed) => unreachable!("claimed: {claimed:?}"),
        Claimed::NotNow(lane) => lane,
    }
}

fn refused(fixture: &Fixture, how: &CannotStart, at_ms: i64) -> Refused {
    let wanted = claim_of(Which::Head, at_ms);
    let end = fixture.run(|db| claim_and_accept(db, &wanted, &refusing(how.clone())));
    match end.unwrap() {
        Claimed::Ours(Accepted::CannotStart(refused)) => *refused,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_claim_takes_the_head_out_of_view_and_moves_the_fence_once() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture.add(6);
    let before = fixture.look();
    let ours = claimed(&fixture, Which::Head, 20);
    assert_eq!(ours.row.state, RowState::Claimed);
    assert_eq!((ours.row.position, ours.row.attempts), (None, 1));
    assert_eq!(ours.grip.fence, Fence(before.fence.0 + 1));
    assert_eq!(ours.lane.owner, Some(Who::Me.id()));
    assert_eq!(ours.lane.active.unwrap().turn, turn(5_000));
    assert_eq!(
        (ours.lane.depth, ours.lane.revision),
        (1, before.revision + 1)
    );
    assert_eq!(fixture.ready_ms(), None);
    assert_eq!(fixture.row(5), ours.row);
    assert_eq!(not_now(&fixture, Which::Head, 20), ours.lane);
    assert_eq!(not_now(&fixture, Which::HeadNow, 20), ours.lane);
    assert_eq!(not_now(&fixture, Which::Row(id(6)), 20), ours.lane);
}

#[test]
fn a_claim_says_when_the_lane_is_worth_another() {
    let fixture = Fixture::with_thread();
    let mut later = append(5);
    later.row.not_before_ms = 900;
    fixture.append(&later).unwrap();
    not_now(&fixture, Which::Head, 899);
    assert_eq!(fixture.ready_ms(), Some(900));
    claimed(&fixture, Which::Head, 900);

    let fixture = Fixture::with_thread();
    fixture.add_blocked(5, 20);
    assert_eq!(fixture.ready_ms(), Some(0));
    let lane = not_now(&fixture, Which::Head, 30);
    assert!(matches!(lane.head, Head::Failed { row, .. } if row == id(5)));
    assert_eq!(fixture.ready_ms(), None);
}

#[test]
fn a_wait_holds_the_lane_until_it_is_over() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    let mut end = complete(&begun, Fate::Done, 30);
    end.waiting = WaitingChange::Begin(waiting(Some(900)));
    fixture.run(|db| turns::complete(db, &end)).unwrap();
    assert_eq!(fixture.ready_ms(), None);
    fixture.add(6);
    assert_eq!(fixture.ready_ms(), Some(0));
    not_now(&fixture, Which::Head, 899);
    assert_eq!(fixture.ready_ms(), Some(900));
    let ours = claimed(&fixture, Which::Head, 900);
    assert_eq!(ours.lane.waiting, None);
}

#[test]
fn a_pause_an_archive_and_another_owner_hold_the_lane() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let paused = Paused {
        reason: "user".to_owned(),
        by: None,
        since_ms: 0,
    };
    fixture
        .run(|db| queue::pause(db, id(THREAD), &paused))
        .unwrap();
    not_now(&fixture, Which::Head, 20);
    fixture.run(|db| queue::resume(db, id(THREAD))).unwrap();

    let mut change = ThreadChange::of(id(THREAD), 30);
    change.archived = Some(true);
    fixture.run(|db| threads::change(db, &change)).unwrap();
    assert!(not_now(&fixture, Which::Head, 20).archived);
    for which in [Which::HeadNow, Which::Row(id(5))] {
        let end = fixture.run(|db| claim(db, &claim_of(which, 20)));
        assert!(matches!(end, Err(StoreError::Archived(_))));
    }
    change.archived = Some(false);
    fixture.run(|db| threads::change(db, &change)).unwrap();

    fixture
        .by(Who::Other, |db| owner::take(db, id(THREAD)))
        .unwrap();
    for which in [Which::Head, Which::HeadNow, Which::Row(id(5))] {
        not_now(&fixture, which, 20);
    }
}

#[test]
fn starting_by_hand_passes_by_what_holds_the_lane_and_ends_it() {
    let fixture = Fixture::with_thread();
    let empty = fixture.run(|db| claim(db, &claim_of(Which::HeadNow, 20)));
    assert!(matches!(empty, Err(StoreError::QueueEmpty)));
    fixture.add_blocked(5, 20);
    let mut later = append(6);
    later.row.not_before_ms = 900;
    fixture.append(&later).unwrap();
    let paused = Paused {
        reason: "user".to_owned(),
        by: None,
        since_ms: 0,
    };
    fixture
        .run(|db| queue::pause(db, id(THREAD), &paused))
        .unwrap();
    let ours = claimed(&fixture, Which::Row(id(6)), 30);
    assert_eq!(ours.lane.paused, None);
    let back = CannotStart::Back {
        turn: turn(6_001),
        not_before_ms: 0,
        waiting: Some(waiting(None)),
    };
    fixture
        .run(|db| unclaim(db, ours.grip, id(6), &back, 30))
        .unwrap();
    assert_eq!(fixture.order(), [6, 5]);
    assert_eq!(fixture.ready_ms(), None);
    let ours = claimed(&fixture, Which::Row(id(5)), 40);
    assert_eq!((ours.row.failure, ours.lane.waiting), (None, None));
    let unknown = fixture.run(|db| unclaim(db, ours.grip, id(6), &back, 40));
    assert!(matches!(unknown, Err(StoreError::RowNotFound(_))));
    fixture
        .run(|db| unclaim(db, ours.grip, id(5), &CannotStart::Cancel, 40))
        .unwrap();
    for gone in [5, 77] {
        let end = fixture.run(|db| claim(db, &claim_of(Which::Row(id(gone)), 50)));
        assert!(matches!(end, Err(StoreError::RowNotFound(row)) if row == id(gone)));
    }
}

#[test]
fn a_bound_row_is_claimed_by_its_worker_only() {
    let fixture = Fixture::with_thread();
    let mut bound = append(5);
    bound.row.bound = Some(Who::Other.id());
    fixture.append(&bound).unwrap();
    for which in [Which::Head, Which::HeadNow, Which::Row(id(5))] {
        let lane = not_now(&fixture, which, 20);
        assert!(matches!(lane.head, Head::BoundElsewhere { row, .. } if row == id(5)));
    }
    assert_eq!(fixture.ready_ms(), Some(0));
    let theirs = fixture.by(Who::Other, |db| claim(db, &claim_of(Which::Head, 20)));
    assert!(matches!(theirs, Ok(Claimed::Ours(_))));
}

#[test]
fn accepting_records_turn_and_message_and_what_they_change() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let ours = claimed(&fixture, Which::Head, 20);
    fixture
        .run(|db| mark_sent(db, ours.grip, id(5), 25))
        .unwrap();
    assert!(fixture.row(5).sent);
    let accepting = Accepting::new(|_| {
        let mut accept = acceptable("said");
        accept.settings = Some(json("other"));
        accept.cwd = Some("/elsewhere".to_owned());
        Verdict::Accept(Box::new(accept))
    });
    let end = fixture.run(|db| accept(db, ours.grip, id(5), &accepting, 30));
    let Accepted::Begun(begun) = end.unwrap() else {
        unreachable!("it is accepted")
    };
    assert_eq!(begun.grip, ours.grip);
    assert_eq!(
        (begun.turn.ord, begun.turn.id, begun.turn.attempt),
        (1, turn(5_000), 1)
    );
    assert_eq!(begun.turn.status, TurnStatus::InProgress);
    assert_eq!(
        (
            begun.item.as_ref().unwrap().ord,
            begun.next_item_ord,
            begun.next_entry_ord
        ),
        (1, 2, 1)
    );
    assert_eq!(begun.thread.settings, json("other"));
    assert_eq!(
        (begun.thread.cwd.as_str(), begun.thread.preview.as_str()),
        ("/elsewhere", "hello")
    );
    assert_eq!((begun.thread.updated_ms, begun.thread.recency_ms), (30, 30));
    assert_eq!(fixture.row(5), begun.row);
    let again = fixture.run(|db| accept(db, ours.grip, id(5), &accepting, 40));
    assert!(matches!(again, Err(StoreError::RowNotFound(_))));
}

#[test]
fn a_row_that_cannot_start_is_dealt_with_in_the_same_transaction() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture.add(6);
    let block = CannotStart::Block {
        failure: json("no"),
        turn: turn(5_001),
    };
    let end = refused(&fixture, &block, 20);
    assert_eq!(end.row.state, RowState::Blocked);
    assert_eq!(
        (end.row.position, end.row.turn, end.row.last_turn),
        (Some(1_024), turn(5_001), None)
    );
    assert_eq!((end.lane.active, end.lane.depth), (None, 2));
    assert_eq!(fixture.order(), [5, 6]);
    fixture
        .run(|db| queue::retry(db, id(THREAD), None, 30))
        .unwrap();

    let fail = CannotStart::Fail(Box::new(EndedTurn {
        accept: acceptable("said"),
        end: ended(TurnStatus::Failed),
    }));
    let end = refused(&fixture, &fail, 40);
    assert_eq!((end.row.state, end.row.attempts), (RowState::Done, 2));
    let recorded = end.turn.unwrap();
    assert_eq!(
        (recorded.id, recorded.status),
        (turn(5_001), TurnStatus::Failed)
    );
    assert_eq!(recorded.completed_ms, Some(40));

    let back = CannotStart::Back {
        turn: turn(6_001),
        not_before_ms: 900,
        waiting: Some(waiting(Some(900))),
    };
    let end = refused(&fixture, &back, 50);
    assert_eq!(
        (end.row.state, end.row.not_before_ms),
        (RowState::Queued, 900)
    );
    assert_eq!(end.lane.waiting, Some(waiting(Some(900))));
    assert_eq!(fixture.ready_ms(), Some(900));
    let lane = fixture.run(|db| queue::resume(db, id(THREAD))).unwrap();
    assert_eq!(
        lane.head,
        Head::Due {
            row: id(6),
            at_ms: 0
        }
    );

    let end = refused(
        &fixture,
        &CannotStart::Dead {
            failure: json("no"),
        },
        60,
    );
    assert_eq!(
        (end.row.state, end.row.failure),
        (RowState::Dead, Some(json("no")))
    );
    fixture.add(7);
    assert_eq!(
        refused(&fixture, &CannotStart::Cancel, 70).row.state,
        RowState::Cancelled
    );
    assert_eq!(fixture.count("SELECT * FROM turn"), 1);
}

#[test]
fn writes_with_an_old_fence_change_nothing() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let old = claimed(&fixture, Which::Head, 20).grip;
    fixture
        .connection
        .execute("UPDATE lane SET fence = fence + 1", [])
        .unwrap();
    let before = fixture.connection.total_changes();
    let accepting = accepting();
    let ends = [
        fixture
            .run(|db| accept(db, old, id(5), &accepting, 30))
            .map(|_| ()),
        fixture.run(|db| mark_sent(db, old, id(5), 30)),
        fixture
            .run(|db| unclaim(db, old, id(5), &CannotStart::Cancel, 30))
            .map(|_| ()),
        fixture.run(|db| mark_sent(db, no_grip(), id(5), 30)),
        fixture.by(Who::Other, |db| {
            mark_sent(
                db,
                Grip {
                    thread: id(THREAD),
                    fence: fixture.look().fence,
                },
                id(5),
                30,
            )
        }),
    ];
    for end in ends {
        assert!(matches!(end, Err(StoreError::Fenced)), "{end:?}");
    }
    assert_eq!(fixture.connection.total_changes(), before);
}

#[test]
fn a_row_that_comes_back_may_exceed_the_greatest_depth() {
    let fixture = Fixture::with_thread();
    fixture
        .connection
        .execute("UPDATE lane SET max_depth = 1", [])
        .unwrap();
    fixture.add(5);
    let ours = claimed(&fixture, Which::Head, 20);
    fixture.add(6);
    let back = CannotStart::Back {
        turn: turn(5_001),
        not_before_ms: 0,
        waiting: None,
    };
    let end = fixture
        .run(|db| unclaim(db, ours.grip, id(5), &back, 30))
        .unwrap();
    assert_eq!(end.lane.depth, 2);
    assert_eq!(fixture.order(), [5, 6]);
    let full = fixture.append(&append(7));
    assert!(matches!(full, Err(StoreError::QueueFull { .. })));
}

#[test]
fn the_database_itself_refuses_a_second_row_under_way() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture.add(6);
    claimed(&fixture, Which::Head, 20);
    let second = "UPDATE queued_turn SET state = 'claimed', pos = NULL WHERE state = 'queued'";
    assert!(fixture.connection.execute(second, []).is_err());
}
