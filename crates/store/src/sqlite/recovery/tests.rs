//! Tests of what becomes of a dead worker's lanes, rows and approvals.
//!
//! The other worker is dead unless a test lets it live.

use super::*;
use crate::approval::{ApprovalAsked, ApprovalQuery};
use crate::ids::Fence;
use crate::json::Json;
use crate::queue::{CannotStart, Which};
use crate::recovery::Deciding;
use crate::sqlite::fixture::{
    Fixture, THREAD, Who, accepting, append, claim_of, id, json, new_row, turn, waiting,
};
use crate::sqlite::{claim, owner, queue, turns};
use crate::turn::{Put, StartTurn, WhenBusy};

fn sweep(whose: Whose, fate: FoundFate) -> Recover {
    let decision = Decision {
        muted: false,
        turn_error: Some(json("its worker stopped")),
        row: fate,
    };
    Recover {
        whose,
        deciding: Deciding::new(move |_| decision.clone()),
        limit: 500,
        at_ms: 100,
    }
}

fn recovered(fixture: &Fixture, fate: FoundFate) -> RecoveredLane {
    let wanted = sweep(Whose::Dead, fate);
    let mut sweep = fixture.run(|db| recover(db, &wanted)).unwrap();
    assert_eq!(
        (sweep.recovered.lanes.len(), sweep.recovered.more),
        (1, false)
    );
    sweep.recovered.lanes.remove(0)
}

/// The other worker has accepted row 5, asked for an approval, and died; row 6 waits.
fn left_started() -> (Fixture, Grip) {
    let fixture = Fixture::with_thread();
    fixture.register(Who::Other);
    fixture.add(5);
    fixture.add(6);
    let wanted = claim_of(Which::Head, 20);
    let begin = |db: &Db<'_>| claim::claim_and_accept(db, &wanted, &accepting());
    fixture.by(Who::Other, begin).unwrap();
    let grip = Grip {
        thread: id(THREAD),
        fence: fixture.look().fence,
    };
    let asked = Put {
        asked: vec![ApprovalAsked {
            id: id(1),
            turn: turn(5_000),
            body: json("may I"),
            requested_ms: 1,
            expires_ms: Some(2),
        }],
        ..Put::default()
    };
    fixture
        .by(Who::Other, |db| turns::put(db, grip, &asked))
        .unwrap();
    (fixture, grip)
}

fn turn_of(fixture: &Fixture, number: u128) -> TurnRow {
    let found = fixture.run(|db| find_turn(db, id(THREAD), turn(number)));
    found.unwrap().unwrap()
}

fn open_approvals(fixture: &Fixture) -> usize {
    let open = fixture.run(|db| approvals(db, ApprovalQuery::Open));
    open.unwrap().len()
}

#[test]
fn a_started_row_ends_with_its_turn_interrupted() {
    let (fixture, late) = left_started();
    let lane = recovered(&fixture, FoundFate::Done);
    assert_eq!((lane.row, lane.grip), (Some(id(5)), None));
    assert_eq!((lane.lane.owner, lane.lane.active), (None, None));
    assert_eq!(lane.lane.fence, Fence(late.fence.0 + 1));
    let ended = turn_of(&fixture, 5_000);
    assert_eq!(ended.status, TurnStatus::Interrupted);
    assert_eq!(ended.error, Some(json("its worker stopped")));
    assert_eq!(ended.completed_ms, Some(20), "not when it was found");
    assert_eq!(fixture.row(5).state, RowState::Done);
    assert_eq!(open_approvals(&fixture), 0);
    assert_eq!(fixture.ready_ms(), Some(0));
    assert_eq!(fixture.count("SELECT * FROM worker"), 0);
    let end = fixture.by(Who::Other, |db| turns::put(db, late, &Put::default()));
    assert!(matches!(end, Err(StoreError::Fenced)));
}

#[test]
fn a_started_row_comes_back_failed_or_waiting_with_its_last_turn() {
    let (fixture, _) = left_started();
    let before = fixture.look().revision;
    let block = FoundFate::Block {
        failure: json("worker stopped"),
        turn: turn(5_001),
    };
    let lane = recovered(&fixture, block).lane;
    assert_eq!((lane.depth, lane.revision), (2, before + 1));
    let row = fixture.row(5);
    assert_eq!(
        (row.state, row.failure),
        (RowState::Blocked, Some(json("worker stopped")))
    );
    assert_eq!((row.turn, row.last_turn), (turn(5_001), Some(turn(5_000))));
    assert_eq!(fixture.order(), [5, 6]);

    let (fixture, _) = left_started();
    let back = FoundFate::Back {
        turn: turn(5_001),
        loss: Loss::Retry,
    };
    recovered(&fixture, back);
    let row = fixture.row(5);
    assert_eq!(
        (row.state, row.losses, row.last_turn),
        (RowState::Queued, 0, Some(turn(5_000)))
    );
    assert_eq!(fixture.begin(110).turn.attempt, 2);
}

#[test]
fn a_claimed_row_comes_back_as_a_loss() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture
        .by(Who::Other, |db| {
            claim::claim(db, &claim_of(Which::Head, 20))
        })
        .unwrap();
    let back = FoundFate::Back {
        turn: turn(5_001),
        loss: Loss::Counted,
    };
    recovered(&fixture, back);
    let row = fixture.row(5);
    assert_eq!((row.losses, row.attempts, row.last_turn), (1, 1, None));
    assert_eq!((row.turn, row.position), (turn(5_001), Some(1_024)));
}

#[test]
fn a_turn_ends_with_its_last_item_and_not_when_it_is_found() {
    let (fixture, _) = left_started();
    let later = "UPDATE item SET completed_ms = 57";
    assert_eq!(fixture.connection.execute(later, []).unwrap(), 1);
    recovered(&fixture, FoundFate::Done);
    let ended = turn_of(&fixture, 5_000);
    assert_eq!((ended.started_ms, ended.completed_ms), (20, Some(57)));
    assert_eq!(fixture.row(5).ended_ms, Some(100));
}

#[test]
fn a_turn_that_has_its_end_keeps_it() {
    let (fixture, _) = left_started();
    let ended = "UPDATE turn SET status = 'completed', completed_ms = 25";
    fixture.connection.execute(ended, []).unwrap();
    recovered(&fixture, FoundFate::Done);
    let kept = turn_of(&fixture, 5_000);
    assert_eq!(
        (kept.status, kept.completed_ms),
        (TurnStatus::Completed, Some(25))
    );
}

#[test]
fn a_row_that_needs_asking_is_ours_until_it_is_decided() {
    let (fixture, _) = left_started();
    let lane = recovered(&fixture, FoundFate::Ask);
    let grip = lane.grip.unwrap();
    assert_eq!(
        (lane.lane.owner, lane.lane.fence),
        (Some(Who::Me.id()), grip.fence)
    );
    assert_eq!(fixture.row(5).state, RowState::Reconcile);
    assert_eq!(fixture.count("SELECT * FROM worker"), 0);
    let decision = Decision {
        muted: false,
        turn_error: Some(json("unknown")),
        row: FoundFate::Ask,
    };
    let wrong = fixture.run(|db| decide(db, grip, id(6), &decision, 110));
    assert!(matches!(wrong, Err(StoreError::RowNotFound(_))));
    let late = fixture.by(Who::Other, |db| decide(db, grip, id(5), &decision, 110));
    assert!(matches!(late, Err(StoreError::Fenced)));
    let decision = Decision {
        muted: false,
        row: FoundFate::Done,
        ..decision
    };
    let lane = fixture
        .run(|db| decide(db, grip, id(5), &decision, 120))
        .unwrap();
    assert_eq!((lane.active, lane.owner), (None, Some(Who::Me.id())));
    assert_eq!(fixture.row(5).state, RowState::Done);
    assert_eq!(open_approvals(&fixture), 0);
    let again = fixture.run(|db| decide(db, grip, id(5), &decision, 130));
    assert!(matches!(again, Err(StoreError::RowNotFound(_))));
}

#[test]
fn a_row_being_decided_is_decided_anew_when_that_worker_dies_too() {
    let (fixture, _) = left_started();
    let ask = sweep(Whose::Of(Who::Other.id()), FoundFate::Ask);
    fixture.by(Who::Other, |db| recover(db, &ask)).unwrap();
    assert_eq!(fixture.row(5).state, RowState::Reconcile);
    assert_eq!(turn_of(&fixture, 5_000).status, TurnStatus::InProgress);
    let seen = Recover {
        deciding: Deciding::new(|found| {
            assert_eq!(found.row.state, RowState::Reconcile);
            assert_eq!(found.engine, "native");
            assert!(found.turn.is_some());
            Decision {
                muted: false,
                turn_error: Some(Json::new("{}")),
                row: FoundFate::Cancel,
            }
        }),
        ..sweep(Whose::Dead, FoundFate::Done)
    };
    fixture.run(|db| recover(db, &seen)).unwrap();
    assert_eq!(fixture.row(5).state, RowState::Cancelled);
}

#[test]
fn nothing_is_written_when_nobody_is_dead() {
    let fixture = Fixture::with_thread();
    fixture.register(Who::Me);
    fixture.register(Who::Other);
    fixture.add(5);
    fixture.begin(20);
    let _lives = fixture.other_lives();
    let before = fixture.connection.total_changes();
    let wanted = sweep(Whose::Dead, FoundFate::Done);
    let end = fixture.run(|db| recover(db, &wanted)).unwrap();
    assert_eq!(end.recovered, Recovered::default());
    assert!(end.gone.is_empty());
    assert_eq!(fixture.connection.total_changes(), before);
}

#[test]
fn idle_lanes_of_the_dead_become_nobodys_and_keep_their_waits() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture
        .by(Who::Other, |db| owner::take(db, id(THREAD)))
        .unwrap();
    let wait = "UPDATE lane SET waiting = ?1";
    fixture
        .connection
        .execute(wait, [waiting(Some(900))])
        .unwrap();
    let lane = recovered(&fixture, FoundFate::Done);
    assert_eq!(
        (lane.row, lane.lane.owner, lane.lane.fence),
        (None, None, Fence(2))
    );
    assert_eq!(fixture.ready_ms(), Some(900));
    assert_eq!(fixture.row(5).state, RowState::Queued);
}

#[test]
fn a_live_worker_loses_its_lanes_only_when_it_is_named() {
    let (fixture, _) = left_started();
    let _lives = fixture.other_lives();
    let dead = sweep(Whose::Dead, FoundFate::Done);
    assert_eq!(
        fixture
            .run(|db| recover(db, &dead))
            .unwrap()
            .recovered
            .lanes,
        []
    );
    let named = sweep(Whose::Of(Who::Other.id()), FoundFate::Done);
    let end = fixture.run(|db| recover(db, &named)).unwrap();
    assert_eq!(end.recovered.lanes.len(), 1);
    assert_eq!(
        (end.gone.len(), fixture.count("SELECT * FROM worker")),
        (0, 1)
    );
}

#[test]
fn waiting_rows_bound_to_the_dead_are_cancelled() {
    let fixture = Fixture::with_thread();
    let mut bound = append(5);
    bound.row.bound = Some(Who::Other.id());
    bound.row.key = Some("k".to_owned());
    fixture.append(&bound).unwrap();
    fixture.add(6);
    let before = fixture.look().revision;
    let wanted = sweep(Whose::Dead, FoundFate::Done);
    let end = fixture.run(|db| recover(db, &wanted)).unwrap();
    assert_eq!(end.gone, [Who::Other.id()]);
    let lane = fixture.look();
    assert_eq!(
        (lane.depth, lane.revision, lane.owner),
        (1, before + 1, None)
    );
    assert_eq!(fixture.row(5).state, RowState::Cancelled);
    let again = fixture.run(|db| recover(db, &wanted)).unwrap();
    assert!(again.gone.is_empty());
}

#[test]
fn lanes_are_taken_over_a_few_at_a_time() {
    let fixture = Fixture::new();
    fixture.register(Who::Other);
    for thread in 1..=5_u128 {
        fixture.create(thread);
        let direct = StartTurn {
            thread: id(thread),
            row: new_row(thread),
            accepting: accepting(),
            when_busy: WhenBusy::Refuse,
            key_window_ms: 0,
            at_ms: 10,
        };
        fixture
            .by(Who::Other, |db| {
                crate::sqlite::start::start_turn(db, &direct)
            })
            .unwrap();
    }
    let few = Recover {
        limit: 2,
        ..sweep(Whose::Dead, FoundFate::Done)
    };
    for (lanes, more, workers) in [(2, true, 1), (2, true, 1), (1, false, 0), (0, false, 0)] {
        let end = fixture.run(|db| recover(db, &few)).unwrap();
        assert_eq!(
            (end.recovered.lanes.len(), end.recovered.more),
            (lanes, more)
        );
        assert_eq!(fixture.count("SELECT * FROM worker"), workers);
    }
}

#[test]
fn whoever_leaves_gives_up_what_is_idle() {
    let fixture = Fixture::with_thread();
    fixture.register(Who::Me);
    fixture.create(2);
    fixture.add(5);
    let ours = fixture.run(|db| claim::claim(db, &claim_of(Which::Head, 20)));
    assert!(ours.is_ok());
    let mut bound = append(6);
    bound.row.bound = Some(Who::Me.id());
    fixture.append(&bound).unwrap();
    fixture.run(|db| owner::take(db, id(2))).unwrap();
    fixture.run(leave).unwrap();
    let row = fixture.row(6);
    assert_eq!((row.state, row.ended_ms), (RowState::Cancelled, Some(10)));
    let idle = fixture.run(|db| Lane::find(db, id(2))).unwrap();
    assert_eq!((idle.owner, idle.fence), (None, Fence(2)));
    assert_eq!(fixture.look().owner, Some(Who::Me.id()));
    assert_eq!(fixture.count("SELECT * FROM worker"), 0);
}

#[test]
fn the_next_worker_finds_what_was_put_back_before_the_death() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let theirs = fixture.by(Who::Other, |db| {
        claim::claim(db, &claim_of(Which::Head, 20))
    });
    let crate::queue::Claimed::Ours(theirs) = theirs.unwrap() else {
        unreachable!("the lane is idle")
    };
    let back = CannotStart::Back {
        turn: turn(5_001),
        not_before_ms: 0,
        waiting: None,
    };
    fixture
        .by(Who::Other, |db| {
            claim::unclaim(db, theirs.grip, id(5), &back, 30)
        })
        .unwrap();
    recovered(&fixture, FoundFate::Done);
    assert_eq!(fixture.begin(40).turn.id, turn(5_001));
    fixture.run(|db| queue::resume(db, id(THREAD))).unwrap();
}
