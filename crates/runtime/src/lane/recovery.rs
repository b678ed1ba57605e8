//! What happened to a row that a dead worker left behind.
//!
//! The invariant here: nothing is guessed. What had no effect waits again, what has ended is done,
//! and what may have been half done is shown as such and runs again only if its policy says so. A turn
//! that was handed to a foreign engine is decided by that engine's history, or by nobody.
//!
//! Which workers are dead is found by the store, which also records the decision in the same
//! transaction. Asking an engine is the business of `lane::reconcile` and of the lane's task.

use std::collections::BTreeSet;
use std::sync::Arc;

use turnlane_engine::Engine;
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

/// The engines of the product whose history is in our store, whether or not a worker has them.
pub(crate) const OWN_ENGINES: [&str; 2] = ["native", "scripted"];

/// The place of an engine's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// In our store: it shows what there is to know.
    Ours,
    /// In another program, which this worker can ask.
    Askable,
    /// In another program, which only other workers can ask.
    OtherWorkers,
    /// In another program, which is not asked: a person has decided to go on without it.
    GivenUp,
}

/// What a worker knows about the histories of engines.
#[derive(Clone, Debug)]
pub(crate) struct Histories {
    ours: BTreeSet<String>,
    askable: BTreeSet<String>,
    /// For every other engine.
    other: History,
}

impl Histories {
    /// The histories that a worker with these engines knows; a desk runs nothing and asks none.
    pub(crate) fn of<'a>(
        engines: impl Iterator<Item = &'a Arc<dyn Engine>>,
        max_running: usize,
    ) -> Self {
        let (foreign, ours): (Vec<_>, Vec<_>) =
            engines.partition(|engine| engine.capabilities().foreign);
        let name = |engine: &Arc<dyn Engine>| engine.name().to_owned();
        let known = OWN_ENGINES.map(str::to_owned);
        Self {
            ours: ours.into_iter().map(name).chain(known).collect(),
            askable: if max_running == 0 {
                BTreeSet::new()
            } else {
                foreign.into_iter().map(name).collect()
            },
            other: History::OtherWorkers,
        }
    }

    /// Only our own; turns of other engines are decided without them, because a person says so.
    pub(crate) fn without_engines() -> Self {
        Self {
            ours: OWN_ENGINES.map(str::to_owned).into(),
            askable: BTreeSet::new(),
            other: History::GivenUp,
        }
    }

    fn history(&self, engine: &str) -> History {
        if self.ours.contains(engine) {
            History::Ours
        } else if self.askable.contains(engine) {
            History::Askable
        } else {
            self.other
        }
    }
}

/// The function for the store: decides at `now_ms`, and holds a row that lost its worker
/// `losses_max` times before anything happened.
pub(crate) fn deciding(histories: Arc<Histories>, losses_max: u32, now_ms: i64) -> Deciding {
    Deciding::new(move |found| decide(found, &histories, losses_max, now_ms))
}

fn decide(found: Found<'_>, histories: &Histories, losses_max: u32, now_ms: i64) -> Decision {
    let accepted = found.row.state == RowState::Started || found.turn.is_some();
    if accepted {
        return after_accept(found, histories.history(found.engine), losses_max, now_ms);
    }
    let row = if found.row.sent {
        // Handed over without a turn, which no engine of ours does: there is nothing to ask about.
        by_crash_policy(found.row, &error(DISPATCH_INTERRUPTED), now_ms)
    } else {
        before_hand_over(found.row, losses_max, now_ms)
    };
    Decision {
        turn_error: None,
        muted: false,
        row,
    }
}

/// Never handed to an engine: nothing has happened.
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
    FoundFate::Block {
        failure: rows::write(&error(&lost_too_often(losses_max))),
        turn: ids::new_turn(now_ms),
    }
}

fn after_accept(found: Found<'_>, history: History, losses_max: u32, now_ms: i64) -> Decision {
    let in_progress = |status: TurnStatus| status == TurnStatus::InProgress;
    if !found.turn.is_some_and(|turn| in_progress(turn.status)) {
        return Decision {
            turn_error: None,
            muted: false,
            row: FoundFate::Done,
        };
    }
    let undecided = |row| Decision {
        turn_error: None,
        muted: false,
        row,
    };
    match history {
        History::Ours => Decision {
            turn_error: Some(rows::write(&error(SERVER_STOPPED))),
            muted: false,
            row: by_crash_policy(found.row, &worker_stopped(), now_ms),
        },
        History::OtherWorkers => undecided(FoundFate::Leave),
        History::Askable if found.row.sent => undecided(FoundFate::Ask),
        History::GivenUp if found.row.sent => unknown(found.row, now_ms),
        History::Askable | History::GivenUp => never_taken(found.row, losses_max, now_ms),
    }
}

/// What an engine says of a turn that it cannot tell the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineDoubt {
    /// Its history lacks the turn.
    Absent,
    /// It cannot tell.
    Unknown,
}

/// Decides about a turn that its engine was asked about, in this boot of the machine.
pub(crate) fn after_asking(
    row: &Row,
    doubt: EngineDoubt,
    boot_id: &str,
    losses_max: u32,
    now_ms: i64,
) -> Decision {
    // Foreign histories are not synced: after another boot the turn may be missing there and have run.
    let same_boot = !boot_id.is_empty() && row.sent_boot.as_deref() == Some(boot_id);
    match doubt {
        EngineDoubt::Absent if same_boot => never_taken(row, losses_max, now_ms),
        EngineDoubt::Absent | EngineDoubt::Unknown => unknown(row, now_ms),
    }
}

/// The turn was accepted by us and never taken by its engine: it is as if it had not begun. A row that
/// has lost too many workers and does not hold its lane after a crash ends with this turn.
fn never_taken(row: &Row, losses_max: u32, now_ms: i64) -> Decision {
    let is_given_up = row.losses + 1 >= losses_max && row.policies.on_crash == OnCrash::Continue;
    if is_given_up {
        return Decision {
            turn_error: Some(rows::write(&error(&lost_too_often(losses_max)))),
            muted: false,
            row: FoundFate::Done,
        };
    }
    let returns = comes_back(row);
    Decision {
        turn_error: Some(rows::write(&error(SERVER_STOPPED))),
        muted: returns,
        row: if returns {
            before_hand_over(row, losses_max, now_ms)
        } else {
            FoundFate::Done
        },
    }
}

fn lost_too_often(losses_max: u32) -> String {
    format!("queued turn was claimed {losses_max} times and its worker died each time")
}

/// Nobody can say what the turn has done.
fn unknown(row: &Row, now_ms: i64) -> Decision {
    let mut turn_error = error(SERVER_STOPPED);
    turn_error.outcome_known = Some(false);
    Decision {
        turn_error: Some(rows::write(&turn_error)),
        muted: false,
        row: by_crash_policy(row, &error(DISPATCH_INTERRUPTED), now_ms),
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

fn error(text: &str) -> TurnError {
    TurnError::new(text, CodexErrorInfo::Other, ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
