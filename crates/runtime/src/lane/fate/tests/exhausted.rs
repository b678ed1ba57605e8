//! A thread without room for more: what becomes of its lane.

use super::super::SHIM_PAUSE;
use super::*;

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
