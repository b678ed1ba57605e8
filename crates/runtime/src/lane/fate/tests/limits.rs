//! What becomes of a row whose turn met a limit of its provider.

use super::super::SHIM_PAUSE;
use super::*;

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
fn an_exhausted_context_pauses_the_lane_of_a_shim_and_no_other() {
    let outcome = failed(ErrorKind::ContextExhausted);
    let recorded = after(&from(SHIM), &outcome);
    assert_eq!(recorded.fate, Fate::Done);
    let paused = Paused {
        reason: CONTEXT_EXHAUSTED.to_owned(),
        by: None,
        since_ms: NOW_MS,
    };
    let when = PauseWhen::InPlaceOf(SHIM_PAUSE);
    assert_eq!(recorded.pause, PauseChange::Begin { paused, when });
    assert_eq!(after(&row(), &outcome).pause, PauseChange::Keep);
    assert_eq!(after(&from(DIRECT), &outcome).pause, PauseChange::Keep);
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
