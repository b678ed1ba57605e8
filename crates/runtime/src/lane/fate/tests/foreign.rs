//! Turns of foreign engines that a stop, a crash or the end of the engine's program cut off.

use turnlane_engine::{Accepted, TurnOutcome};

use super::super::HandOver;
use super::*;

fn cut_off(row: &Row, hand_over: HandOver, outcome: &TurnOutcome) -> Recorded {
    after_turn(Ended {
        worker_stop: WorkerStop::Foreign(hand_over),
        ..ended(row, outcome)
    })
}

#[test]
fn a_turn_that_was_never_taken_runs_anew_and_is_muted() {
    let refused = TurnOutcome {
        accepted: Accepted::No,
        ..TurnOutcome::interrupted()
    };
    let cases = [
        (HandOver::NotSent, TurnOutcome::interrupted()),
        (HandOver::Sent, refused),
    ];
    for (hand_over, outcome) in cases {
        let recorded = cut_off(&row(), hand_over, &outcome);
        assert_eq!((recorded.fate, recorded.muted), (back(0, Back::Anew), true));
        assert_eq!(recorded.status, TurnStatus::Interrupted);
        assert_eq!(recorded.error.unwrap().outcome_known, None);
        let direct = cut_off(&from(DIRECT), hand_over, &outcome);
        assert_eq!((direct.fate, direct.muted), (Fate::Done, false));
    }
}

#[test]
fn a_turn_that_may_have_been_taken_goes_by_on_crash() {
    let unknown = TurnOutcome {
        accepted: Accepted::Unknown,
        ..TurnOutcome::interrupted()
    };
    for (outcome, known) in [(TurnOutcome::interrupted(), None), (unknown, Some(false))] {
        let by = |on_crash| {
            let row = with(Policies {
                on_crash,
                ..Policies::default()
            });
            let recorded = cut_off(&row, HandOver::Sent, &outcome);
            assert!(!recorded.muted);
            assert_eq!(recorded.error.unwrap().outcome_known, known);
            recorded.fate
        };
        let text = "queued turn was interrupted because its worker stopped";
        assert_eq!(blocked(&by(OnCrash::Block)).message, text);
        assert_eq!(by(OnCrash::Continue), Fate::Done);
        assert_eq!(by(OnCrash::Retry), back(0, Back::Retry));
    }
}

#[test]
fn an_end_that_the_engine_knows_counts_as_any_other() {
    let recorded = cut_off(&row(), HandOver::Sent, &TurnOutcome::completed());
    assert_eq!(
        (recorded.status, recorded.fate),
        (TurnStatus::Completed, Fate::Done)
    );
    let recorded = cut_off(&row(), HandOver::Sent, &failed(ErrorKind::Other));
    assert_eq!(
        (recorded.status, recorded.fate),
        (TurnStatus::Failed, Fate::Done)
    );
}

#[test]
fn a_failure_of_which_nobody_knows_what_it_did_says_so() {
    let outcome = TurnOutcome {
        outcome_known: false,
        ..failed(ErrorKind::EngineCrashed)
    };
    let error = after(&row(), &outcome).error.unwrap();
    assert_eq!(error.outcome_known, Some(false));
    assert_eq!(error.message, "it said no");
}
