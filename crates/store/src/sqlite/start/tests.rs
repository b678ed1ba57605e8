//! Tests of turns that are asked for directly.
//!
//! The lanes' promises are checked by the fixture after every step.

use super::*;
use crate::lane::Paused;
use crate::queue::{Accepting, Fate};
use crate::sqlite::fixture::{
    Fixture, THREAD, WINDOW_MS, Who, accept, accepting, ended, id, json, new_row, refusing, turn,
};
use crate::sqlite::{owner, queue};
use crate::turn::{AcceptedTurn, EndedTurn, TurnStatus};

fn starting(row: u128, when_busy: WhenBusy, accepting: Accepting) -> StartTurn {
    let mut new = new_row(row);
    new.source = "direct".to_owned();
    StartTurn {
        thread: id(THREAD),
        row: new,
        accepting,
        when_busy,
        key_window_ms: WINDOW_MS,
        at_ms: 20,
    }
}

fn start(fixture: &Fixture, row: u128, when_busy: WhenBusy) -> Result<Started, StoreError> {
    let start = starting(row, when_busy, accepting());
    fixture.run(|db| start_turn(db, &start))
}

fn begun(started: Result<Started, StoreError>) -> AcceptedTurn {
    match started.unwrap() {
        Started::Begun(begun) => *begun,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_direct_turn_is_a_row_born_started_that_no_list_shows() {
    let fixture = Fixture::with_thread();
    let begun = begun(start(&fixture, 5, WhenBusy::Refuse));
    assert_eq!(
        (begun.row.state, begun.row.position),
        (RowState::Started, None)
    );
    assert_eq!(
        (begun.row.attempts, begun.turn.source.as_str()),
        (1, "direct")
    );
    assert_eq!(
        (begun.lane.fence.0, begun.lane.owner),
        (1, Some(Who::Me.id()))
    );
    assert_eq!((begun.lane.depth, begun.lane.revision), (0, 0));
    assert_eq!(begun.lane.active.unwrap().turn, begun.turn.id);
    assert_eq!(fixture.row(5), begun.row);
    fixture.end(&begun, Fate::Done, 30);
}

#[test]
fn a_second_direct_turn_is_refused_or_queued() {
    let fixture = Fixture::with_thread();
    let first = begun(start(&fixture, 5, WhenBusy::Refuse));
    let busy = start(&fixture, 6, WhenBusy::Refuse).unwrap();
    assert!(matches!(busy, Started::Busy(lane) if lane.active.unwrap().row == id(5)));
    let queued = start(&fixture, 7, WhenBusy::Queue).unwrap();
    let Started::Queued(queued) = queued else {
        unreachable!("{queued:?}")
    };
    assert_eq!(
        (queued.value.state, queued.lane.depth),
        (RowState::Queued, 1)
    );
    fixture.end(&first, Fate::Done, 30);
    // Also on an idle lane it waits behind the others, unless it passes them by.
    let queued = start(&fixture, 8, WhenBusy::Queue).unwrap();
    assert!(matches!(queued, Started::Queued(_)));
    begun(start(&fixture, 9, WhenBusy::Refuse));
    assert_eq!(fixture.order(), [7, 8]);
    fixture
        .connection
        .execute("UPDATE lane SET max_depth = 2", [])
        .unwrap();
    let full = start(&fixture, 10, WhenBusy::Queue);
    assert!(matches!(full, Err(StoreError::QueueFull { max_depth: 2 })));
}

#[test]
fn a_failed_head_and_a_pause_do_not_stop_a_direct_turn() {
    let fixture = Fixture::with_thread();
    fixture.add_blocked(5, 10);
    let paused = Paused {
        reason: "user".to_owned(),
        by: None,
        since_ms: 0,
    };
    fixture
        .run(|db| queue::pause(db, id(THREAD), &paused))
        .unwrap();
    let begun = begun(start(&fixture, 6, WhenBusy::Refuse));
    assert_eq!(begun.lane.paused, Some(paused));
    fixture.end(&begun, Fate::Done, 30);
    assert_eq!(fixture.order(), [5]);
}

#[test]
fn a_repeated_key_finds_the_first_turn() {
    let fixture = Fixture::with_thread();
    let mut first = starting(5, WhenBusy::Refuse, accepting());
    first.row.key = Some("k".to_owned());
    begun(fixture.run(|db| start_turn(db, &first)));
    let mut again = starting(6, WhenBusy::Refuse, accepting());
    again.row.key = Some("k".to_owned());
    let found = fixture.run(|db| start_turn(db, &again)).unwrap();
    let Started::Repeated(found) = found else {
        unreachable!("{found:?}")
    };
    assert_eq!(found.row.id, id(5));
    assert_eq!(found.turn.unwrap().status, TurnStatus::InProgress);
    again.row.content_hash = [9; 32];
    let taken = fixture.run(|db| start_turn(db, &again));
    assert!(matches!(taken, Err(StoreError::KeyTaken { .. })));
}

#[test]
fn a_live_owner_keeps_its_lane_and_a_dead_idle_one_does_not() {
    let fixture = Fixture::with_thread();
    let lives = fixture.other_lives();
    fixture
        .by(Who::Other, |db| owner::take(db, id(THREAD)))
        .unwrap();
    let elsewhere = start(&fixture, 5, WhenBusy::Refuse);
    assert!(
        matches!(elsewhere, Err(StoreError::OwnedElsewhere { worker, .. })
        if worker == Who::Other.id())
    );
    let queued = start(&fixture, 5, WhenBusy::Queue).unwrap();
    assert!(matches!(queued, Started::Queued(_)));
    drop(lives);
    let begun = begun(start(&fixture, 6, WhenBusy::Refuse));
    assert_eq!(
        (begun.lane.owner, begun.grip.fence.0),
        (Some(Who::Me.id()), 2)
    );
}

#[test]
fn a_dead_owner_with_a_row_under_way_must_be_recovered_first() {
    let fixture = Fixture::with_thread();
    let theirs = starting(5, WhenBusy::Refuse, accepting());
    fixture
        .by(Who::Other, |db| start_turn(db, &theirs))
        .unwrap();
    let elsewhere = start(&fixture, 6, WhenBusy::Refuse);
    assert!(matches!(elsewhere, Err(StoreError::OwnedElsewhere { .. })));
    let queued = start(&fixture, 6, WhenBusy::Queue).unwrap();
    assert!(matches!(queued, Started::Queued(_)));
}

#[test]
fn a_direct_turn_that_cannot_start_leaves_at_most_its_failed_turn() {
    let fixture = Fixture::with_thread();
    let before = fixture.look();
    let hows = [
        CannotStart::Block {
            failure: json("no"),
            turn: turn(1),
        },
        CannotStart::Dead {
            failure: json("no"),
        },
        CannotStart::Back {
            turn: turn(1),
            not_before_ms: 0,
            waiting: None,
        },
        CannotStart::Cancel,
    ];
    for how in hows {
        let start = starting(5, WhenBusy::Refuse, refusing(how));
        let end = fixture.run(|db| start_turn(db, &start)).unwrap();
        let Started::CannotStart(refused) = end else {
            unreachable!("{end:?}")
        };
        assert_eq!((refused.row.state, refused.turn), (RowState::Dead, None));
    }
    assert_eq!(fixture.count("SELECT * FROM queued_turn"), 0);
    let fail = CannotStart::Fail(Box::new(EndedTurn {
        accept: accept("said"),
        end: ended(TurnStatus::Failed),
    }));
    let start = starting(5, WhenBusy::Refuse, refusing(fail));
    let end = fixture.run(|db| start_turn(db, &start)).unwrap();
    let Started::CannotStart(refused) = end else {
        unreachable!("{end:?}")
    };
    assert_eq!(refused.turn.unwrap().status, TurnStatus::Failed);
    assert_eq!(fixture.row(5), refused.row);
    assert_eq!(
        (refused.row.state, refused.row.attempts),
        (RowState::Done, 1)
    );
    assert_eq!(fixture.look(), before);
}

#[test]
fn a_missing_or_archived_thread_starts_nothing() {
    let fixture = Fixture::new();
    let missing = start(&fixture, 5, WhenBusy::Queue);
    assert!(matches!(missing, Err(StoreError::ThreadNotFound(_))));
    fixture.create(THREAD);
    fixture
        .connection
        .execute("UPDATE thread SET archived = 1", [])
        .unwrap();
    let archived = start(&fixture, 5, WhenBusy::Queue);
    assert!(matches!(archived, Err(StoreError::Archived(_))));
}
