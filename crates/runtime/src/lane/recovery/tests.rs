//! What a dead worker left, line by line of the contract's table.
//!
//! The invariant here: one test per line that applies to engines without a history of their own,
//! and to foreign ones that cannot be asked.
//!
//! Which workers are dead, and that a decision is recorded whole, is tested in the store.

use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_store::queue::{OnCrash, Policies, Row, RowState};
use turnlane_store::recovery::{Decision, Found, FoundFate, Loss};
use turnlane_store::turn::{TurnRow, TurnStatus};
use turnlane_store::{Json, TurnId};
use uuid::Uuid;

use super::deciding;
use crate::lane::rows::{self, DIRECT, FANOUT};

const LOSSES_MAX: u32 = 3;
const NOW_MS: i64 = 1_700_000_000_000;

fn reserved() -> TurnId {
    Uuid::from_u128(2).into()
}

fn row(source: &str, state: RowState) -> Row {
    Row {
        source: source.into(),
        ..rows::under_way(state)
    }
}

fn claimed() -> Row {
    row("queue", RowState::Claimed)
}

fn started(on_crash: OnCrash) -> Row {
    Row {
        policies: Policies {
            on_crash,
            ..Policies::default()
        },
        ..row("queue", RowState::Started)
    }
}

fn turn(status: TurnStatus) -> TurnRow {
    TurnRow {
        ord: 1,
        id: reserved(),
        row: Some(Uuid::from_u128(1).into()),
        attempt: 1,
        source: "queue".into(),
        status,
        muted: false,
        error: None,
        usage: None,
        started_ms: 0,
        completed_ms: None,
    }
}

fn decided(row: &Row, turn: Option<&TurnRow>) -> Decision {
    deciding(LOSSES_MAX, NOW_MS).decide(Found {
        thread: Uuid::from_u128(9).into(),
        engine: "native",
        row,
        turn,
    })
}

fn fate(row: &Row, turn: Option<&TurnRow>) -> FoundFate {
    decided(row, turn).row
}

fn text(json: &Json) -> String {
    let error: TurnError = rows::read(json).unwrap();
    assert_eq!(error.kind, Some(ErrorKind::Interrupted));
    error.message
}

/// The text of a blocked row; its next turn is a new one.
fn blocked(fate: &FoundFate) -> String {
    match fate {
        FoundFate::Block { failure, turn } => {
            assert_ne!(*turn, reserved());
            text(failure)
        }
        FoundFate::Done | FoundFate::Back { .. } | FoundFate::Cancel | FoundFate::Ask => {
            panic!("not blocked: {fate:?}")
        }
    }
}

/// How a row that is back is counted; its next turn is a new one.
fn back(fate: &FoundFate) -> Loss {
    match fate {
        FoundFate::Back { turn, loss } => {
            assert_ne!(*turn, reserved());
            *loss
        }
        FoundFate::Done | FoundFate::Block { .. } | FoundFate::Cancel | FoundFate::Ask => {
            panic!("not back: {fate:?}")
        }
    }
}

#[test]
fn a_claimed_row_that_no_engine_saw_waits_again_and_counts_a_loss() {
    for losses in 0..LOSSES_MAX - 1 {
        let row = Row {
            losses,
            ..claimed()
        };
        let decision = decided(&row, None);
        assert_eq!(decision.turn_error, None);
        assert_eq!(back(&decision.row), Loss::Counted);
    }
}

#[test]
fn the_third_loss_blocks_the_row() {
    let row = Row {
        losses: 2,
        ..claimed()
    };
    let poison = "queued turn was claimed 3 times and its worker died each time";
    assert_eq!(blocked(&fate(&row, None)), poison);
}

#[test]
fn a_row_that_was_being_decided_when_its_decider_died_is_decided_again() {
    let row = row("queue", RowState::Reconcile);
    assert_eq!(back(&fate(&row, None)), Loss::Counted);
    let turn = turn(TurnStatus::InProgress);
    blocked(&fate(&row, Some(&turn)));
}

#[test]
fn a_claimed_row_of_a_direct_turn_keeps_the_turn_that_its_caller_waits_for() {
    let row = row(DIRECT, RowState::Claimed);
    let expected = FoundFate::Back {
        turn: reserved(),
        loss: Loss::Counted,
    };
    assert_eq!(fate(&row, None), expected);
    let third = Row { losses: 2, ..row };
    assert_eq!(fate(&third, None), FoundFate::Cancel);
}

#[test]
fn claimed_rows_of_a_fanout_and_of_a_connection_are_cancelled() {
    let fanout = row(FANOUT, RowState::Claimed);
    assert_eq!(fate(&fanout, None), FoundFate::Cancel);
    let bound = Row {
        bound: Some(Uuid::from_u128(5).into()),
        ..row(DIRECT, RowState::Claimed)
    };
    assert_eq!(fate(&bound, None), FoundFate::Cancel);
}

#[test]
fn a_started_row_whose_turn_has_ended_is_done() {
    for status in [
        TurnStatus::Completed,
        TurnStatus::Failed,
        TurnStatus::Interrupted,
    ] {
        let turn = turn(status);
        let expected = Decision {
            turn_error: None,
            row: FoundFate::Done,
        };
        assert_eq!(decided(&started(OnCrash::Retry), Some(&turn)), expected);
    }
}

#[test]
fn a_turn_without_an_end_is_interrupted_and_its_row_goes_by_on_crash() {
    let turn = turn(TurnStatus::InProgress);
    let by = |on_crash| {
        let decision = decided(&started(on_crash), Some(&turn));
        assert_eq!(text(&decision.turn_error.unwrap()), "server stopped");
        decision.row
    };
    let stopped = "queued turn was interrupted because its worker stopped";
    assert_eq!(blocked(&by(OnCrash::Block)), stopped);
    assert_eq!(by(OnCrash::Continue), FoundFate::Done);
    assert_eq!(back(&by(OnCrash::Retry)), Loss::Retry);
}

#[test]
fn a_started_row_is_never_simply_queued_again() {
    let turn = turn(TurnStatus::InProgress);
    let row = started(Policies::default().on_crash);
    assert!(!matches!(fate(&row, Some(&turn)), FoundFate::Back { .. }));
}

#[test]
fn direct_and_fanout_rows_are_done_with_their_turn() {
    let turn = turn(TurnStatus::InProgress);
    for source in [DIRECT, FANOUT] {
        for on_crash in [OnCrash::Block, OnCrash::Retry, OnCrash::Continue] {
            let row = Row {
                source: source.into(),
                ..started(on_crash)
            };
            let decision = decided(&row, Some(&turn));
            assert!(decision.turn_error.is_some());
            assert_eq!(decision.row, FoundFate::Done);
        }
    }
}

#[test]
fn a_row_that_a_foreign_engine_may_have_goes_by_on_crash() {
    let by = |on_crash| {
        let row = Row {
            sent: true,
            state: RowState::Claimed,
            ..started(on_crash)
        };
        fate(&row, None)
    };
    let text = "queued turn dispatch was interrupted while app-server restarted";
    assert_eq!(blocked(&by(OnCrash::Block)), text);
    assert_eq!(by(OnCrash::Continue), FoundFate::Done);
    assert_eq!(back(&by(OnCrash::Retry)), Loss::Retry);
}
