//! What happened to a row that a dead worker left behind.
//!
//! The invariant here: nothing is guessed. What had no effect waits again, what has ended is done,
//! and what may have been half done is shown as such and runs again only if its policy says so.
//!
//! Which workers are dead is found by the store, which also records the decision in the same
//! transaction.

use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::queue::{OnCrash, Row, RowState};
use turnlane_store::recovery::{Deciding, Decision, Found, FoundFate, Loss};
use turnlane_store::turn::TurnStatus;

use super::fate::{SERVER_STOPPED, worker_stopped};
use super::rows::{self, FANOUT, comes_back};
use crate::ids;

/// The text of a row that a foreign engine may or may not have taken.
const DISPATCH_INTERRUPTED: &str =
    "queued turn dispatch was interrupted while app-server restarted";

/// The function for the store: decides at `now_ms`, and holds a row that lost its worker
/// `losses_max` times before anything happened.
pub(crate) fn deciding(losses_max: u32, now_ms: i64) -> Deciding {
    Deciding::new(move |found| decide(found, losses_max, now_ms))
}

fn decide(found: Found<'_>, losses_max: u32, now_ms: i64) -> Decision {
    let accepted = found.row.state == RowState::Started || found.turn.is_some();
    if accepted {
        return after_accept(found, now_ms);
    }
    let row = if found.row.sent {
        // A foreign engine may have it, and this worker has none to ask.
        by_crash_policy(found.row, &dispatch_interrupted(), now_ms)
    } else {
        before_hand_over(found.row, losses_max, now_ms)
    };
    Decision {
        turn_error: None,
        row,
    }
}

/// Claimed and never handed to an engine: nothing has happened.
fn before_hand_over(row: &Row, losses_max: u32, now_ms: i64) -> FoundFate {
    if row.source == FANOUT || row.bound.is_some() {
        return FoundFate::Cancel;
    }
    if row.losses + 1 < losses_max {
        // No turn was recorded; a caller who waits for the reserved id still gets it.
        let turn = if comes_back(row) {
            ids::new_turn(now_ms)
        } else {
            row.turn
        };
        return FoundFate::Back {
            turn,
            loss: Loss::Counted,
        };
    }
    if !comes_back(row) {
        // Its caller waits for a turn that would kill a fourth worker.
        return FoundFate::Cancel;
    }
    let text = format!("queued turn was claimed {losses_max} times and its worker died each time");
    FoundFate::Block {
        failure: rows::write(&error(&text)),
        turn: ids::new_turn(now_ms),
    }
}

fn after_accept(found: Found<'_>, now_ms: i64) -> Decision {
    let in_progress = |status: TurnStatus| status == TurnStatus::InProgress;
    if !found.turn.is_some_and(|turn| in_progress(turn.status)) {
        return Decision {
            turn_error: None,
            row: FoundFate::Done,
        };
    }
    Decision {
        turn_error: Some(rows::write(&error(SERVER_STOPPED))),
        row: by_crash_policy(found.row, &worker_stopped(), now_ms),
    }
}

fn by_crash_policy(row: &Row, failure: &TurnError, now_ms: i64) -> FoundFate {
    if !comes_back(row) {
        return FoundFate::Done;
    }
    match row.policies.on_crash {
        OnCrash::Continue => FoundFate::Done,
        OnCrash::Block => FoundFate::Block {
            failure: rows::write(failure),
            turn: ids::new_turn(now_ms),
        },
        OnCrash::Retry => FoundFate::Back {
            turn: ids::new_turn(now_ms),
            loss: Loss::Retry,
        },
    }
}

fn dispatch_interrupted() -> TurnError {
    error(DISPATCH_INTERRUPTED)
}

fn error(text: &str) -> TurnError {
    TurnError::new(text, CodexErrorInfo::Other, ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
