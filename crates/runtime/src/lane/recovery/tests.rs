//! What a dead worker left, line by line of the contract's table.
//!
//! The invariant here: one test per line, for engines whose history is ours, for foreign engines that
//! this worker can ask, and for those that only others can.
//!
//! Which workers are dead, and that a decision is recorded whole, is tested in the store.

use std::sync::Arc;

use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest, UsageKind,
};
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_store::queue::{OnCrash, Policies, Row, RowState};
use turnlane_store::recovery::{Decision, Found, FoundFate, Loss};
use turnlane_store::turn::{TurnRow, TurnStatus};
use turnlane_store::{Json, TurnId};
use uuid::Uuid;

use super::{EngineDoubt, Histories, after_asking, deciding};
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
    let histories = Histories::of([].into_iter(), 32);
    decided_by(histories, "native", row, turn)
}

fn decided_by(histories: Histories, engine: &str, row: &Row, turn: Option<&TurnRow>) -> Decision {
    deciding(Arc::new(histories), LOSSES_MAX, NOW_MS).decide(Found {
        thread: Uuid::from_u128(9).into(),
        engine,
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
        other => panic!("not blocked: {other:?}"),
    }
}

/// How a row that is back is counted; its next turn is a new one.
fn back(fate: &FoundFate) -> Loss {
    match fate {
        FoundFate::Back { turn, loss } => {
            assert_ne!(*turn, reserved());
            *loss
        }
        other => panic!("not back: {other:?}"),
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
            muted: false,
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

/// An engine that is known by its name and runs nothing.
struct Named(&'static str);

impl Engine for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: false,
            steer: false,
            deltas: false,
            resume: true,
            fork: false,
            compact: false,
            revert: false,
            foreign: true,
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        _request: TurnRequest,
        _events: Sink,
        _control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        Box::pin(std::future::pending())
    }
}

fn with_codex(max_running: usize) -> Histories {
    let engine: Arc<dyn Engine> = Arc::new(Named("codex"));
    Histories::of([&engine].into_iter(), max_running)
}

const BOOT: &str = "this boot";

fn handed_over(on_crash: OnCrash) -> Row {
    Row {
        sent: true,
        sent_boot: Some(BOOT.to_owned()),
        ..started(on_crash)
    }
}

fn outcome_known(decision: &Decision) -> Option<bool> {
    let error: TurnError = rows::read(decision.turn_error.as_ref().unwrap()).unwrap();
    assert_eq!(error.message, "server stopped");
    error.outcome_known
}

#[test]
fn a_turn_that_was_handed_to_a_foreign_engine_is_asked_about() {
    let turn = turn(TurnStatus::InProgress);
    for state in [RowState::Started, RowState::Reconcile] {
        let row = Row {
            state,
            ..handed_over(OnCrash::Retry)
        };
        let decision = decided_by(with_codex(32), "codex", &row, Some(&turn));
        assert_eq!((decision.row, decision.turn_error), (FoundFate::Ask, None));
    }
}

#[test]
fn a_turn_that_no_foreign_engine_saw_is_muted_and_its_row_waits_again() {
    let turn = turn(TurnStatus::InProgress);
    let row = started(OnCrash::Block);
    let decision = decided_by(with_codex(32), "codex", &row, Some(&turn));
    assert!(decision.muted);
    assert_eq!(outcome_known(&decision), None);
    assert_eq!(back(&decision.row), Loss::Counted);
    let third = Row { losses: 2, ..row };
    let decision = decided_by(with_codex(32), "codex", &third, Some(&turn));
    let poison = "queued turn was claimed 3 times and its worker died each time";
    assert_eq!(blocked(&decision.row), poison);
    let direct = Row {
        source: DIRECT.into(),
        ..started(OnCrash::Block)
    };
    let decision = decided_by(with_codex(32), "codex", &direct, Some(&turn));
    assert_eq!((decision.muted, decision.row), (false, FoundFate::Done));
}

#[test]
fn a_desk_and_a_worker_without_the_engine_leave_its_turns_alone() {
    let turn = turn(TurnStatus::InProgress);
    for row in [handed_over(OnCrash::Block), started(OnCrash::Block)] {
        for histories in [with_codex(0), Histories::of([].into_iter(), 32)] {
            let decision = decided_by(histories, "codex", &row, Some(&turn));
            assert_eq!(
                (decision.row, decision.turn_error),
                (FoundFate::Leave, None)
            );
        }
    }
}

#[test]
fn what_needs_no_engine_is_decided_without_it() {
    let nobody = || Histories::of([].into_iter(), 32);
    let ended = turn(TurnStatus::Completed);
    let row = handed_over(OnCrash::Block);
    let decision = decided_by(nobody(), "codex", &row, Some(&ended));
    assert_eq!(decision.row, FoundFate::Done);
    let decision = decided_by(nobody(), "codex", &claimed(), None);
    assert_eq!(back(&decision.row), Loss::Counted);
    // A worker without the native engine still knows where its history is.
    let running = turn(TurnStatus::InProgress);
    let row = started(OnCrash::Block);
    blocked(&decided_by(nobody(), "native", &row, Some(&running)).row);
}

#[test]
fn a_person_who_frees_a_lane_has_its_turn_decided_without_the_engine() {
    let turn = turn(TurnStatus::InProgress);
    let freed = |row: &Row| decided_by(Histories::without_engines(), "codex", row, Some(&turn));
    let decision = freed(&handed_over(OnCrash::Block));
    assert_eq!(outcome_known(&decision), Some(false));
    let text = "queued turn dispatch was interrupted while app-server restarted";
    assert_eq!(blocked(&decision.row), text);
    let decision = freed(&started(OnCrash::Block));
    assert!(decision.muted);
    assert_eq!(back(&decision.row), Loss::Counted);
}

#[test]
fn a_turn_that_its_engine_never_got_is_as_if_it_had_not_begun() {
    let row = handed_over(OnCrash::Block);
    let decision = after_asking(&row, EngineDoubt::Absent, BOOT, LOSSES_MAX, NOW_MS);
    assert!(decision.muted);
    assert_eq!(back(&decision.row), Loss::Counted);
    let direct = Row {
        source: DIRECT.into(),
        ..row
    };
    let decision = after_asking(&direct, EngineDoubt::Absent, BOOT, LOSSES_MAX, NOW_MS);
    assert_eq!((decision.muted, decision.row), (false, FoundFate::Done));
}

#[test]
fn a_row_that_lost_its_last_worker_before_its_engine_holds_the_lane_unless_it_is_passed_over() {
    let lost = |on_crash| {
        let row = Row {
            losses: LOSSES_MAX - 1,
            ..handed_over(on_crash)
        };
        after_asking(&row, EngineDoubt::Absent, BOOT, LOSSES_MAX, NOW_MS)
    };
    let text = "queued turn was claimed 3 times and its worker died each time";
    for on_crash in [OnCrash::Block, OnCrash::Retry] {
        assert_eq!(blocked(&lost(on_crash).row), text);
    }
    let passed_over = lost(OnCrash::Continue);
    assert_eq!(
        (passed_over.muted, &passed_over.row),
        (false, &FoundFate::Done)
    );
    assert!(passed_over.turn_error.unwrap().as_str().contains(text));
}

#[test]
fn a_turn_that_is_absent_after_another_boot_or_unknown_goes_by_on_crash() {
    let cases = [
        (EngineDoubt::Absent, "another boot"),
        (EngineDoubt::Absent, ""),
        (EngineDoubt::Unknown, BOOT),
    ];
    for (doubt, boot) in cases {
        let by = |on_crash| {
            let row = handed_over(on_crash);
            let decision = after_asking(&row, doubt, boot, LOSSES_MAX, NOW_MS);
            assert!(!decision.muted);
            assert_eq!(outcome_known(&decision), Some(false));
            decision.row
        };
        let text = "queued turn dispatch was interrupted while app-server restarted";
        assert_eq!(blocked(&by(OnCrash::Block)), text);
        assert_eq!(by(OnCrash::Continue), FoundFate::Done);
        assert_eq!(back(&by(OnCrash::Retry)), Loss::Retry);
    }
}
