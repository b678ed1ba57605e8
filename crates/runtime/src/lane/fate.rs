//! What becomes of a row when its turn has ended, and of the lane behind it.
//!
//! The invariant here: a pure function of the row, the outcome and the time. A row comes back only
//! if nothing it did could be done twice, if its policy says so, or if it goes on where a graceful
//! stop cut it; rows whose turn id somebody
//! waits for never come back.
//!
//! What a dead worker left is decided in [`super::recovery`].

use turnlane_engine::limits::{wait_for, waits};
use turnlane_engine::{Accepted, OutcomeStatus, TurnOutcome};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::TurnId;
use turnlane_store::lane::{Paused, Waiting};
use turnlane_store::queue::{
    Back, Fate, OnCannotStart, OnCrash, OnError, OnLimit, OnStop, Retry, Row,
};
use turnlane_store::turn::{PauseChange, PauseWhen, TurnStatus, WaitingChange};

use super::rows::{self, DIRECT, FANOUT, SHIM, comes_back};

/// So many put-backs by a passing trouble are too many.
const PUT_BACKS_MAX: u32 = 20;
/// The text of a row whose worker stopped under its turn.
pub(crate) const WORKER_STOPPED: &str = "queued turn was interrupted because its worker stopped";
/// The word of the error kind that a refused login has.
pub(crate) const AUTH: &str = "auth";
/// The reason of a pause that an interrupt leaves.
pub(crate) const INTERRUPT: &str = "interrupt";
/// The reason of a pause that a direct turn leaves whose approval nobody answered.
const APPROVAL_TIMEOUT: &str = "approvalTimeout";
/// The reason of a pause that a turn of a shim leaves whose thread has no room in its context any more.
const CONTEXT_EXHAUSTED: &str = "context_exhausted";
/// The reason of the pause that a shim leaves when it ends.
const SHIM_PAUSE: &str = "shim";
/// The text of a turn whose worker stopped under it.
pub(crate) const SERVER_STOPPED: &str = "server stopped";

/// A turn that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// Its row.
    pub row: &'a Row,
    /// How it ended.
    pub outcome: &'a TurnOutcome,
    /// Whether it may have changed something outside of the thread.
    pub had_effect: bool,
    /// Whether it was stopped because the worker stops.
    pub worker_stop: WorkerStop,
    /// The turn that the row becomes if it comes back.
    pub next_turn: TurnId,
    /// How many waits in a row the lane has had.
    pub waits_before: u32,
    /// A number from 0 to 999 that spreads retries.
    pub jitter: u32,
    /// Now.
    pub now_ms: i64,
}

/// Whether the stop of its worker ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerStop {
    /// It did not.
    No,
    /// A graceful stop did, and the engine can go on from the history.
    Graceful,
    /// A graceful stop did, and the engine cannot go on from the history.
    GracefulWithoutHistory,
    /// A second signal did: the rules of a crash count.
    Forced,
    /// The worker or the engine's program stopped or died under a turn of a foreign engine.
    Foreign(HandOver),
}

/// Whether a foreign engine may have seen a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// It cannot have.
    NotSent,
    /// It may have: the mark is on disk.
    Sent,
}

/// What is recorded of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    /// How the turn ended.
    pub status: TurnStatus,
    /// Why it failed or was cut off.
    pub error: Option<TurnError>,
    /// Readable, but not part of what the model is sent.
    pub muted: bool,
    /// What becomes of the row.
    pub fate: Fate,
    /// What the lane waits for.
    pub waiting: WaitingChange,
    /// What becomes of the lane's pause.
    pub pause: PauseChange,
}

/// Decides about a turn that has ended.
pub(crate) fn after_turn(ended: Ended<'_>) -> Recorded {
    let error = ended.outcome.error.clone();
    match ended.outcome.status {
        OutcomeStatus::Completed => Recorded {
            status: TurnStatus::Completed,
            error,
            muted: false,
            fate: Fate::Done,
            waiting: WaitingChange::End,
            pause: if ended.row.source == DIRECT {
                // A person who goes on by hand has no other way to end it in Codex's clients.
                PauseChange::End {
                    reason: INTERRUPT.to_owned(),
                }
            } else {
                PauseChange::Keep
            },
        },
        OutcomeStatus::Interrupted => interrupted(ended, error),
        OutcomeStatus::Failed => {
            let mut error = error.unwrap_or_else(|| unnamed(ended.outcome));
            if !ended.outcome.outcome_known {
                error.outcome_known = Some(false);
            }
            failed(ended, error)
        }
    }
}

fn unnamed(outcome: &TurnOutcome) -> TurnError {
    let lost = TurnOutcome::lost().error;
    let mut error = lost.unwrap_or_else(|| {
        TurnError::new("the turn failed", CodexErrorInfo::Other, ErrorKind::Unknown)
    });
    error.outcome_known = (!outcome.outcome_known).then_some(false);
    error
}

fn interrupted(ended: Ended<'_>, error: Option<TurnError>) -> Recorded {
    let recorded = |error, fate, muted| Recorded {
        status: TurnStatus::Interrupted,
        error,
        muted,
        fate,
        waiting: WaitingChange::Keep,
        pause: PauseChange::Keep,
    };
    let kind = match ended.worker_stop {
        WorkerStop::No => return recorded(error, Fate::Done, false),
        WorkerStop::Graceful | WorkerStop::GracefulWithoutHistory => ErrorKind::Stopped,
        WorkerStop::Forced => ErrorKind::Interrupted,
        WorkerStop::Foreign(hand_over) => {
            let (error, fate, muted) = cut_off(ended, hand_over, error);
            return recorded(Some(error), fate, muted);
        }
    };
    let stopped = TurnError::new(SERVER_STOPPED, CodexErrorInfo::Other, kind);
    let back = |why| Fate::Back {
        turn: ended.next_turn,
        not_before_ms: 0,
        why,
    };
    let (fate, muted) = if !comes_back(ended.row) {
        (Fate::Done, false)
    } else if ended.worker_stop == WorkerStop::Graceful {
        match ended.row.policies.on_stop {
            OnStop::Continue => (back(Back::Continue), false),
            OnStop::Block => (block(ended, &worker_stopped()), false),
            OnStop::Retry => (back(Back::Anew), true),
        }
    } else {
        let fate = match ended.row.policies.on_crash {
            OnCrash::Continue => Fate::Done,
            OnCrash::Block => block(ended, &worker_stopped()),
            OnCrash::Retry => back(Back::Retry),
        };
        (fate, false)
    };
    recorded(Some(error.unwrap_or(stopped)), fate, muted)
}

/// A turn of a foreign engine was cut off: by the table of recovery, with what the engine knows.
fn cut_off(
    ended: Ended<'_>,
    hand_over: HandOver,
    error: Option<TurnError>,
) -> (TurnError, Fate, bool) {
    let accepted = ended.outcome.accepted;
    let never_taken = hand_over == HandOver::NotSent || accepted == Accepted::No;
    let mut error = error.unwrap_or_else(|| {
        TurnError::new(
            SERVER_STOPPED,
            CodexErrorInfo::Other,
            ErrorKind::Interrupted,
        )
    });
    let known = ended.outcome.outcome_known && accepted != Accepted::Unknown;
    if !never_taken && !known {
        error.outcome_known = Some(false);
    }
    let back = |why| Fate::Back {
        turn: ended.next_turn,
        not_before_ms: 0,
        why,
    };
    if !comes_back(ended.row) {
        return (error, Fate::Done, false);
    }
    if never_taken {
        return (error, back(Back::Anew), true);
    }
    let fate = match ended.row.policies.on_crash {
        OnCrash::Continue => Fate::Done,
        OnCrash::Block => block(ended, &worker_stopped()),
        OnCrash::Retry => back(Back::Retry),
    };
    (error, fate, false)
}

/// Why a row is shown as failed whose worker stopped or died under its turn.
pub(crate) fn worker_stopped() -> TurnError {
    TurnError::new(
        WORKER_STOPPED,
        CodexErrorInfo::Other,
        ErrorKind::Interrupted,
    )
}

fn failed(ended: Ended<'_>, error: TurnError) -> Recorded {
    let policies = ended.row.policies;
    let kind = error.kind.clone().unwrap_or(ErrorKind::Other);
    let waits_it_out = waits(&kind).is_some() && policies.on_limit == OnLimit::Wait;
    if waits_it_out && ended.row.source != FANOUT {
        return limited(ended, error, &kind);
    }
    let unanswered = kind == ErrorKind::ApprovalTimeout;
    let (fate, muted) = if !comes_back(ended.row) {
        (Fate::Done, !ended.outcome.begun)
    } else if unanswered {
        // Another try would ask the same question, and what follows relies on the answer.
        (block(ended, &error), false)
    } else if !ended.outcome.begun {
        (cannot_start(ended, &error), true)
    } else if !ended.outcome.outcome_known {
        // The engine's program died under the turn. A retry for errors could do everything twice.
        let fate = match policies.on_crash {
            OnCrash::Continue => Fate::Done,
            OnCrash::Block => block(ended, &error),
            OnCrash::Retry => Fate::Back {
                turn: ended.next_turn,
                not_before_ms: 0,
                why: Back::Retry,
            },
        };
        (fate, false)
    } else if tries(ended.row) < policies.retry.max_attempts {
        let not_before_ms =
            ended.now_ms + backoff_ms(policies.retry, tries(ended.row), ended.jitter);
        let fate = Fate::Back {
            turn: ended.next_turn,
            not_before_ms,
            why: Back::Retry,
        };
        (fate, false)
    } else {
        match policies.on_error {
            OnError::Continue => (Fate::Done, false),
            OnError::Block => (block(ended, &error), false),
        }
    };
    Recorded {
        status: TurnStatus::Failed,
        error: Some(error),
        muted,
        fate,
        waiting: WaitingChange::Keep,
        pause: match (kind, ended.row.source.as_str()) {
            (ErrorKind::ApprovalTimeout, DIRECT) => pause(APPROVAL_TIMEOUT, ended.now_ms),
            // Further messages would fail in the same thread. The orchestrator replaces it, and what
            // waits moves to its successor.
            (ErrorKind::ContextExhausted, SHIM) => PauseChange::Begin {
                paused: paused(CONTEXT_EXHAUSTED, ended.now_ms),
                // A shim that ends has paused the lane; the next one ends that pause and not this one.
                when: PauseWhen::InPlaceOf(SHIM_PAUSE),
            },
            _ => PauseChange::Keep,
        },
    }
}

fn pause(reason: &str, since_ms: i64) -> PauseChange {
    PauseChange::Begin {
        paused: paused(reason, since_ms),
        when: PauseWhen::Always,
    }
}

fn paused(reason: &str, since_ms: i64) -> Paused {
    Paused {
        reason: reason.to_owned(),
        by: None,
        since_ms,
    }
}

fn cannot_start(ended: Ended<'_>, error: &TurnError) -> Fate {
    match ended.row.policies.on_cannot_start {
        OnCannotStart::Continue => Fate::Done,
        OnCannotStart::Block => {
            let mut shown = error.clone();
            shown.message = format!("queued turn could not start: {}", error.message);
            block(ended, &shown)
        }
    }
}

fn block(ended: Ended<'_>, error: &TurnError) -> Fate {
    Fate::Block {
        failure: rows::write(error),
        turn: ended.next_turn,
    }
}

/// The provider has no capacity or allowance: the lane waits, and the row is put back if nothing it
/// did could be done twice.
fn limited(ended: Ended<'_>, mut error: TurnError, kind: &ErrorKind) -> Recorded {
    let nth = ended.waits_before.max(ended.row.put_backs) + 1;
    let named_ms = error.retry_at.map(|seconds| seconds.saturating_mul(1_000));
    let backoff_ms = || {
        let wait = wait_for(kind, nth)?;
        Some(ended.now_ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
    };
    let until_ms = named_ms.filter(|at| *at > ended.now_ms).or_else(backoff_ms);
    if error.retry_at.is_none() {
        error.retry_at = until_ms.map(|at| at.div_euclid(1_000));
        error.retry_estimated = until_ms.map(|_| true);
    }
    let put_back = comes_back(ended.row) && !ended.had_effect;
    let passing = matches!(
        kind,
        ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::ServerError
            | ErrorKind::Network
    );
    let fate = if !put_back {
        Fate::Done
    } else if passing && ended.row.put_backs + 1 >= PUT_BACKS_MAX {
        block(ended, &error)
    } else {
        Fate::Back {
            turn: ended.next_turn,
            not_before_ms: until_ms.unwrap_or(0),
            why: Back::Limit,
        }
    };
    let waiting = Waiting {
        kind: word(kind),
        message: error.message.clone(),
        since_ms: ended.now_ms,
        until_ms,
        nth,
        login: None,
    };
    Recorded {
        status: TurnStatus::Failed,
        error: Some(error),
        muted: put_back,
        fate,
        waiting: WaitingChange::Begin(waiting),
        pause: PauseChange::Keep,
    }
}

/// The wire's word for a kind.
fn word(kind: &ErrorKind) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "other".to_owned(),
    }
}

/// How many tries a row has used up.
fn tries(row: &Row) -> u32 {
    row.attempts
        .saturating_sub(row.losses)
        .saturating_sub(row.put_backs)
        .saturating_sub(row.stops)
}

/// The pause before the next try, doubling, spread by a fifth either way.
fn backoff_ms(retry: Retry, tries: u32, jitter: u32) -> i64 {
    let doubled = retry
        .base_ms
        .saturating_mul(1_i64 << tries.saturating_sub(1).min(40));
    let pause = doubled.clamp(0, retry.cap_ms.max(0));
    let spread = i64::from(jitter.min(999)) * 2 - 999;
    pause + pause / 5 * spread / 999
}

#[cfg(test)]
mod tests;
