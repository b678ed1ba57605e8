//! What becomes of a row, line by line of the contract's tables.
//!
//! The invariant here: one test per line, named after it. The rows differ from the default one only
//! in what the line is about.
//!
//! What the store does with a fate is tested there.

mod exhausted;
mod foreign;

use turnlane_engine::TurnOutcome;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::TurnId;
use turnlane_store::lane::Paused;
use turnlane_store::queue::{
    Back, Fate, OnCannotStart, OnCrash, OnError, OnLimit, OnStop, Policies, Retry, Row, RowState,
};
use turnlane_store::turn::{PauseChange, PauseWhen, TurnStatus, WaitingChange};
use uuid::Uuid;

use super::{CONTEXT_EXHAUSTED, Ended, Recorded, WorkerStop, after_turn};
use crate::lane::rows::{self, DIRECT, FANOUT, SHIM};

const NOW_MS: i64 = 1_700_000_000_000;
/// A number in the middle: retries are neither early nor late, but for a rounding.
const NO_JITTER: u32 = 499;
/// Failures that no lane waits out.
const PLAIN: [ErrorKind; 5] = [
    ErrorKind::Incomplete,
    ErrorKind::BadRequest,
    ErrorKind::Budget,
    ErrorKind::ContextExhausted,
    ErrorKind::Other,
];
/// Failures that pass.
const PASSING: [ErrorKind; 4] = [
    ErrorKind::RateLimited,
    ErrorKind::Overloaded,
    ErrorKind::ServerError,
    ErrorKind::Network,
];

fn id(number: u128) -> TurnId {
    Uuid::from_u128(number).into()
}

fn row() -> Row {
    rows::under_way(RowState::Started)
}

fn from(source: &str) -> Row {
    Row {
        source: source.into(),
        ..row()
    }
}

fn with(policies: Policies) -> Row {
    Row { policies, ..row() }
}

fn ended<'a>(row: &'a Row, outcome: &'a TurnOutcome) -> Ended<'a> {
    Ended {
        row,
        outcome,
        had_effect: false,
        worker_stop: WorkerStop::No,
        next_turn: id(3),
        waits_before: 0,
        jitter: NO_JITTER,
        now_ms: NOW_MS,
    }
}

fn after(row: &Row, outcome: &TurnOutcome) -> Recorded {
    after_turn(ended(row, outcome))
}

fn stopped(row: &Row, worker_stop: WorkerStop) -> Recorded {
    after_turn(Ended {
        worker_stop,
        ..ended(row, &TurnOutcome::interrupted())
    })
}

fn error(kind: ErrorKind) -> TurnError {
    TurnError::new("it said no", CodexErrorInfo::Other, kind)
}

fn failed(kind: ErrorKind) -> TurnOutcome {
    TurnOutcome::failed(error(kind))
}

fn back(not_before_ms: i64, why: Back) -> Fate {
    Fate::Back {
        turn: id(3),
        not_before_ms,
        why,
    }
}

/// The error that a blocked row is shown with.
fn blocked(fate: &Fate) -> TurnError {
    match fate {
        Fate::Block { failure, turn } => {
            assert_eq!(*turn, id(3));
            rows::read(failure).unwrap()
        }
        Fate::Done | Fate::Back { .. } => panic!("not blocked: {fate:?}"),
    }
}

/// Until when the lane waits, and for which time in a row.
fn wait(recorded: &Recorded) -> (String, Option<i64>, u32) {
    match &recorded.waiting {
        WaitingChange::Begin(waiting) => {
            assert_eq!(waiting.since_ms, NOW_MS);
            (waiting.kind.clone(), waiting.until_ms, waiting.nth)
        }
        WaitingChange::Keep | WaitingChange::End => panic!("does not wait: {recorded:?}"),
    }
}

#[test]
fn after_a_completed_turn_the_row_is_done_and_a_wait_ends() {
    let recorded = after(&row(), &TurnOutcome::completed());
    let expected = Recorded {
        status: TurnStatus::Completed,
        error: None,
        muted: false,
        fate: Fate::Done,
        waiting: WaitingChange::End,
        pause: PauseChange::Keep,
    };
    assert_eq!(recorded, expected);
}

#[test]
fn after_a_plain_failure_the_row_is_done_and_the_failure_is_in_history() {
    for kind in PLAIN {
        let recorded = after(&row(), &failed(kind.clone()));
        let expected = Recorded {
            status: TurnStatus::Failed,
            error: Some(error(kind)),
            muted: false,
            fate: Fate::Done,
            waiting: WaitingChange::Keep,
            pause: PauseChange::Keep,
        };
        assert_eq!(recorded, expected);
    }
}

#[test]
fn a_failure_without_a_word_is_recorded_as_unknown() {
    let outcome = TurnOutcome {
        error: None,
        ..failed(ErrorKind::Other)
    };
    let recorded = after(&row(), &outcome);
    assert_eq!(recorded.error.unwrap().kind, Some(ErrorKind::Unknown));
    let lost = TurnOutcome {
        outcome_known: false,
        ..outcome
    };
    let recorded = after(&row(), &lost);
    assert_eq!(recorded.error.unwrap().outcome_known, Some(false));
}

#[test]
fn a_failure_with_an_unknown_outcome_goes_by_on_crash_and_not_by_on_error() {
    let outcome = TurnOutcome {
        outcome_known: false,
        ..failed(ErrorKind::EngineCrashed)
    };
    let by = |on_crash| {
        let policies = Policies {
            on_crash,
            on_error: OnError::Continue,
            ..Policies::default()
        };
        after(&with(policies), &outcome)
    };
    let held = by(OnCrash::Block);
    assert_eq!(held.status, TurnStatus::Failed);
    assert_eq!(blocked(&held.fate).outcome_known, Some(false));
    assert_eq!(by(OnCrash::Continue).fate, Fate::Done);
    assert_eq!(by(OnCrash::Retry).fate, back(0, Back::Retry));
}

#[test]
fn on_error_block_holds_the_lane_with_the_failure() {
    let row = with(Policies {
        on_error: OnError::Block,
        ..Policies::default()
    });
    let recorded = after(&row, &failed(ErrorKind::Budget));
    assert_eq!(blocked(&recorded.fate), error(ErrorKind::Budget));
    assert!(!recorded.muted);
    assert_eq!(recorded.waiting, WaitingChange::Keep);
}

fn retrying(attempts: u32, losses: u32, put_backs: u32) -> Row {
    Row {
        attempts,
        losses,
        put_backs,
        ..with(Policies {
            on_error: OnError::Block,
            retry: Retry {
                max_attempts: 10,
                base_ms: 1_000,
                cap_ms: 300_000,
            },
            ..Policies::default()
        })
    }
}

fn pause_ms(row: &Row, jitter: u32) -> i64 {
    let outcome = failed(ErrorKind::Incomplete);
    let recorded = after_turn(Ended {
        jitter,
        ..ended(row, &outcome)
    });
    assert!(!recorded.muted, "a try that failed is part of the history");
    match recorded.fate {
        Fate::Back {
            turn,
            not_before_ms,
            why: Back::Retry,
        } if turn == id(3) => not_before_ms - NOW_MS,
        fate => panic!("not tried again: {fate:?}"),
    }
}

#[test]
fn the_pause_before_a_retry_doubles_up_to_its_cap_and_is_spread_by_a_fifth_either_way() {
    let pauses = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|seconds| seconds * 1_000);
    for (tries, pause) in (1..).zip(pauses) {
        let row = retrying(tries, 0, 0);
        let fifth = pause / 5;
        assert_eq!(pause_ms(&row, 0), pause - fifth);
        assert_eq!(pause_ms(&row, 999), pause + fifth);
        assert!((pause_ms(&row, NO_JITTER) - pause).abs() <= pause / 1_000 + 1);
        for jitter in 0..1_000 {
            assert!((pause_ms(&row, jitter) - pause).abs() <= fifth);
        }
    }
    let mut capped = retrying(9, 0, 0);
    capped.policies.retry.cap_ms = 10_000;
    assert_eq!(pause_ms(&capped, 0), 8_000);
    assert_eq!(pause_ms(&capped, 999), 12_000);
}

#[test]
fn losses_and_put_backs_use_up_no_retry_and_after_the_last_the_policy_decides() {
    assert_eq!(pause_ms(&retrying(6, 3, 2), 999), 1_200);
    let used_up = after(&retrying(10, 0, 0), &failed(ErrorKind::Incomplete));
    blocked(&used_up.fate);
    let not_yet = after(&retrying(10, 1, 0), &failed(ErrorKind::Incomplete));
    assert!(matches!(not_yet.fate, Fate::Back { .. }));
}

#[test]
fn a_turn_that_a_client_interrupted_is_done_whatever_its_policies_say() {
    let row = with(Policies {
        on_crash: OnCrash::Retry,
        on_error: OnError::Block,
        ..Policies::default()
    });
    let recorded = after(&row, &TurnOutcome::interrupted());
    let expected = Recorded {
        status: TurnStatus::Interrupted,
        error: None,
        muted: false,
        fate: Fate::Done,
        waiting: WaitingChange::Keep,
        pause: PauseChange::Keep,
    };
    assert_eq!(recorded, expected);
}

#[test]
fn a_turn_that_a_graceful_stop_cut_goes_by_on_stop() {
    let by = |on_stop| {
        let row = with(Policies {
            on_stop,
            on_crash: OnCrash::Continue,
            ..Policies::default()
        });
        let recorded = stopped(&row, WorkerStop::Graceful);
        assert_eq!(recorded.status, TurnStatus::Interrupted);
        assert_eq!(recorded.pause, PauseChange::Keep);
        let error = recorded.error.unwrap();
        assert_eq!(error.message, "server stopped");
        assert_eq!(error.kind, Some(ErrorKind::Stopped));
        (recorded.fate, recorded.muted)
    };
    assert_eq!(by(OnStop::Continue), (back(0, Back::Continue), false));
    assert_eq!(by(OnStop::Retry), (back(0, Back::Anew), true));
    let (fate, muted) = by(OnStop::Block);
    let text = "queued turn was interrupted because its worker stopped";
    assert_eq!((blocked(&fate).message.as_str(), muted), (text, false));
    // Somebody waits for this very turn.
    let recorded = stopped(&from(DIRECT), WorkerStop::Graceful);
    assert_eq!((recorded.fate, recorded.muted), (Fate::Done, false));
    assert_eq!(recorded.error.unwrap().kind, Some(ErrorKind::Stopped));
}

#[test]
fn a_graceful_stop_uses_up_no_retry() {
    let row = Row {
        stops: 3,
        ..retrying(12, 0, 0)
    };
    let recorded = after(&row, &failed(ErrorKind::Other));
    assert!(matches!(
        recorded.fate,
        Fate::Back {
            why: Back::Retry,
            ..
        }
    ));
}

#[test]
fn an_unanswered_approval_holds_the_row_and_pauses_after_a_direct_turn() {
    // Whatever the row says about failures and tries.
    let row = Row {
        policies: Policies {
            on_error: OnError::Continue,
            ..retrying(1, 0, 0).policies
        },
        ..row()
    };
    let recorded = after(&row, &failed(ErrorKind::ApprovalTimeout));
    assert_eq!(recorded.status, TurnStatus::Failed);
    assert_eq!((recorded.muted, recorded.pause), (false, PauseChange::Keep));
    let shown = blocked(&recorded.fate);
    assert_eq!(shown.kind, Some(ErrorKind::ApprovalTimeout));

    let recorded = after(&from(DIRECT), &failed(ErrorKind::ApprovalTimeout));
    assert_eq!(recorded.fate, Fate::Done);
    let PauseChange::Begin { paused, when } = recorded.pause else {
        panic!("no pause: {recorded:?}");
    };
    assert_eq!(
        (paused.reason.as_str(), when),
        ("approvalTimeout", PauseWhen::Always)
    );
    let recorded = after(&from(FANOUT), &failed(ErrorKind::ApprovalTimeout));
    assert_eq!(
        (recorded.fate, recorded.pause),
        (Fate::Done, PauseChange::Keep)
    );
}

#[test]
fn a_completed_direct_turn_ends_the_pause_of_an_interrupt() {
    let recorded = after(&from(DIRECT), &TurnOutcome::completed());
    let reason = "interrupt".to_owned();
    assert_eq!(recorded.pause, PauseChange::End { reason });
}

#[test]
fn a_turn_goes_by_on_crash_after_a_second_signal_or_without_a_history_of_its_engine() {
    for stop in [WorkerStop::Forced, WorkerStop::GracefulWithoutHistory] {
        goes_by_on_crash(stop);
    }
}

fn goes_by_on_crash(stop: WorkerStop) {
    let kind = match stop {
        WorkerStop::Forced => ErrorKind::Interrupted,
        _ => ErrorKind::Stopped,
    };
    let by = |on_crash| {
        let row = with(Policies {
            on_crash,
            ..Policies::default()
        });
        let recorded = stopped(&row, stop);
        assert_eq!(recorded.status, TurnStatus::Interrupted);
        assert_eq!(recorded.waiting, WaitingChange::Keep);
        assert!(!recorded.muted);
        let error = recorded.error.clone().unwrap();
        assert_eq!(error.message, "server stopped");
        assert_eq!(error.kind, Some(kind.clone()));
        recorded.fate
    };
    let shown = blocked(&by(OnCrash::Block));
    let text = "queued turn was interrupted because its worker stopped";
    assert_eq!(shown.message, text);
    assert_eq!(by(OnCrash::Continue), Fate::Done);
    assert_eq!(by(OnCrash::Retry), back(0, Back::Retry));
}

#[test]
fn a_turn_that_could_not_begin_is_muted_and_holds_the_lane_or_not_by_its_policy() {
    let outcome = TurnOutcome::cannot_start(error(ErrorKind::BadRequest));
    let recorded = after(&row(), &outcome);
    assert!(recorded.muted);
    assert_eq!(recorded.status, TurnStatus::Failed);
    assert_eq!(recorded.error, Some(error(ErrorKind::BadRequest)));
    let shown = blocked(&recorded.fate);
    assert_eq!(shown.message, "queued turn could not start: it said no");

    let on_cannot_start = OnCannotStart::Continue;
    let recorded = after(
        &with(Policies {
            on_cannot_start,
            ..Policies::default()
        }),
        &outcome,
    );
    assert!(recorded.muted);
    assert_eq!(recorded.fate, Fate::Done);
}

#[test]
fn a_turn_that_could_not_begin_is_never_retried() {
    let outcome = TurnOutcome::cannot_start(error(ErrorKind::Sandbox));
    blocked(&after(&retrying(1, 0, 0), &outcome).fate);
}

#[test]
fn a_direct_turn_that_could_not_begin_is_muted_too() {
    let outcome = TurnOutcome::cannot_start(error(ErrorKind::BadRequest));
    let recorded = after(&from(DIRECT), &outcome);
    assert_eq!(recorded.fate, Fate::Done);
    assert!(recorded.muted, "the model was never sent it");
}

#[test]
fn a_missing_key_waits_for_a_person_even_if_the_turn_could_not_begin() {
    for kind in [ErrorKind::Auth, ErrorKind::Plan] {
        for outcome in [
            failed(kind.clone()),
            TurnOutcome::cannot_start(error(kind.clone())),
        ] {
            let recorded = after(&row(), &outcome);
            assert_eq!(recorded.fate, back(0, Back::Limit));
            let (_, until_ms, nth) = wait(&recorded);
            assert_eq!((until_ms, nth), (None, 1));
            assert_eq!(recorded.error.unwrap().retry_at, None);
            assert!(recorded.muted);
        }
    }
}

#[test]
fn a_limit_puts_the_row_back_until_the_reset_that_the_error_names() {
    let mut quota = error(ErrorKind::Quota);
    let reset_ms = NOW_MS + 3_600_000;
    quota.retry_at = Some(reset_ms / 1_000);
    let recorded = after(&row(), &TurnOutcome::failed(quota.clone()));
    assert_eq!(recorded.status, TurnStatus::Failed);
    assert_eq!(recorded.error, Some(quota));
    assert!(recorded.muted);
    assert_eq!(recorded.fate, back(reset_ms, Back::Limit));
    assert_eq!(wait(&recorded), ("quota".into(), Some(reset_ms), 1));
}

#[test]
fn a_limit_without_a_reset_backs_off_from_wait_to_wait() {
    let until = |kind: &ErrorKind, waits_before, put_backs| {
        let row = Row { put_backs, ..row() };
        let outcome = failed(kind.clone());
        let recorded = after_turn(Ended {
            waits_before,
            ..ended(&row, &outcome)
        });
        let (_, until_ms, nth) = wait(&recorded);
        let until_ms = until_ms.unwrap();
        assert_eq!(recorded.fate, back(until_ms, Back::Limit));
        let error = recorded.error.unwrap();
        assert_eq!(error.retry_at, Some(until_ms / 1_000));
        assert_eq!(error.retry_estimated, Some(true));
        ((until_ms - NOW_MS) / 1_000, nth)
    };
    for kind in PASSING {
        assert_eq!(until(&kind, 0, 0), (30, 1));
        assert_eq!(until(&kind, 1, 0), (60, 2));
        assert_eq!(until(&kind, 0, 2), (120, 3));
        assert_eq!(until(&kind, 9, 2), (900, 10));
    }
    assert_eq!(until(&ErrorKind::Quota, 2, 0), (300, 3));
    assert_eq!(until(&ErrorKind::EngineUnavailable, 7, 7), (30, 8));
}

#[test]
fn a_reset_that_has_passed_counts_as_none() {
    let mut quota = error(ErrorKind::Quota);
    quota.retry_at = Some(NOW_MS / 1_000 - 1);
    let recorded = after(&row(), &TurnOutcome::failed(quota));
    let (_, until_ms, _) = wait(&recorded);
    assert_eq!(until_ms, Some(NOW_MS + 60_000));
}

#[test]
fn a_limit_after_an_effect_leaves_the_row_done_and_the_rest_waits() {
    let row = row();
    let outcome = failed(ErrorKind::RateLimited);
    let recorded = after_turn(Ended {
        had_effect: true,
        ..ended(&row, &outcome)
    });
    assert_eq!(recorded.fate, Fate::Done);
    assert!(!recorded.muted, "the model must know what was done");
    assert_eq!(wait(&recorded).1, Some(NOW_MS + 30_000));
}

#[test]
fn on_limit_fail_goes_on_without_a_wait() {
    let row = with(Policies {
        on_limit: OnLimit::Fail,
        ..Policies::default()
    });
    for kind in [ErrorKind::Quota, ErrorKind::Auth, ErrorKind::Network] {
        let recorded = after(&row, &failed(kind));
        assert_eq!(recorded.fate, Fate::Done);
        assert_eq!(recorded.waiting, WaitingChange::Keep);
        assert!(!recorded.muted);
    }
}

#[test]
fn the_twentieth_put_back_by_a_passing_trouble_blocks_the_row() {
    let put_back = |kind: &ErrorKind, put_backs| {
        let row = Row { put_backs, ..row() };
        after(&row, &failed(kind.clone()))
    };
    for kind in PASSING {
        let nineteenth = put_back(&kind, 18);
        assert!(matches!(nineteenth.fate, Fate::Back { .. }));
        let twentieth = put_back(&kind, 19);
        assert_eq!(blocked(&twentieth.fate).kind, Some(kind));
        assert!(twentieth.muted);
        wait(&twentieth);
    }
    for kind in [
        ErrorKind::Quota,
        ErrorKind::Auth,
        ErrorKind::EngineUnavailable,
    ] {
        assert!(matches!(put_back(&kind, 19).fate, Fate::Back { .. }));
    }
}

#[test]
fn direct_and_fanout_rows_never_come_back() {
    let policies = Policies {
        on_crash: OnCrash::Retry,
        on_error: OnError::Block,
        retry: retrying(1, 0, 0).policies.retry,
        ..Policies::default()
    };
    let outcomes = [
        failed(ErrorKind::Incomplete),
        failed(ErrorKind::Network),
        failed(ErrorKind::Auth),
        TurnOutcome::cannot_start(error(ErrorKind::BadRequest)),
        TurnOutcome::interrupted(),
    ];
    for source in [DIRECT, FANOUT] {
        let row = Row {
            policies,
            ..from(source)
        };
        for outcome in &outcomes {
            assert_eq!(after(&row, outcome).fate, Fate::Done, "{source}");
        }
        assert_eq!(
            stopped(&row, WorkerStop::Forced).fate,
            Fate::Done,
            "{source}"
        );
    }
}

#[test]
fn a_direct_turn_makes_its_lane_wait_and_stays_in_what_the_model_is_sent() {
    let recorded = after(&from(DIRECT), &failed(ErrorKind::Overloaded));
    assert_eq!(wait(&recorded).0, "overloaded");
    assert!(!recorded.muted);
}

#[test]
fn a_fanout_row_never_makes_its_lane_wait() {
    for kind in [ErrorKind::Quota, ErrorKind::Auth, ErrorKind::ServerError] {
        let recorded = after(&from(FANOUT), &failed(kind));
        assert_eq!(recorded.waiting, WaitingChange::Keep);
        assert_eq!(recorded.status, TurnStatus::Failed);
    }
}
