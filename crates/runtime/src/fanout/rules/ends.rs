//! What the end of an attempt means for its item, and for its job.
//!
//! The invariant here: nothing but what is stored decides, with two exceptions: a worker that has
//! refused too many results knows that the attempt ended by its schema, and one that has stopped a
//! silent engine knows that the attempt ended by its silence.

use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::Json;
use turnlane_store::fanout::{
    AttemptOutcome, ItemError, ItemState, ItemUsage, ReturnUses, SettleTo, Settlement,
    UnsettledItem,
};
use turnlane_store::turn::TurnStatus;

use crate::fanout::jobs::spec::{JobLimits, JobOptions, OnCrash};
use crate::fanout::schema::SchemaProblem;
use crate::lane::fate::SERVER_STOPPED;
use crate::lane::rows;

/// The message of an attempt that ended without a report.
pub(crate) const REPORT_MISSING: &str = "worker finished without calling report_agent_job_result";

/// The kind of an attempt that was stopped since its engine was silent.
pub(crate) const IDLE_TIMEOUT: &str = "idle_timeout";

/// Losses that fail an item.
const LOSSES_MAX: u32 = 3;
/// Returns by a rate limit, after which it counts as an overloaded provider.
const LIMIT_RETURNS_MAX: u32 = 20;
/// The wait after a rate limit whose end the provider does not name.
const LIMIT_WAIT_MS: i64 = 5_000;
const BACKOFF_MIN_MS: i64 = 250;
const BACKOFF_FIRST_MS: i64 = 2_000;
const BACKOFF_MAX_MS: i64 = 300_000;

/// The result that a turn left in its final message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Harvest {
    /// The channel takes no result from messages, or there is no message.
    Nothing,
    /// A result that fits.
    Result {
        /// The result.
        result: Json,
        /// The digest of its canonical form.
        digest: [u8; 32],
    },
    /// A message that is not one JSON object, and why.
    Unusable(String),
    /// An object that does not fit the schema.
    Unfitting(Vec<SchemaProblem>),
}

/// An attempt that has ended, with everything that decides about it.
pub(crate) struct EndedAttempt<'a> {
    /// What the store found.
    pub found: &'a UnsettledItem,
    pub limits: &'a JobLimits,
    pub options: &'a JobOptions,
    /// The result in the final message.
    pub harvest: Harvest,
    /// The error with which this worker ended the attempt, if it did.
    pub verdict: Option<ItemError>,
    /// The usage of all turns of the attempt.
    pub usage: ItemUsage,
    /// A number from 0 to 999 that spreads retries.
    pub jitter: u32,
    /// True if the provider forbade the request of another attempt, and has answered none since.
    pub after_forbidden: bool,
    pub now_ms: i64,
}

/// What follows for the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The attempt is closed.
    Settle(Settlement),
    /// Another turn in the same thread asks for the result; if that cannot begin, this counts.
    Repair {
        cause: RepairCause,
        otherwise: Settlement,
    },
}

/// The cause of a repair turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairCause {
    /// There was no report and no message.
    Missing,
    /// The message was not one JSON object.
    Unusable(String),
    /// The object did not fit the schema.
    Unfitting(Vec<SchemaProblem>),
}

/// A pause of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub reason: &'static str,
    pub message: String,
    pub resume_ms: Option<i64>,
}

/// What the attempt shows of the job's access to its provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    #[default]
    Unknown,
    /// The provider answered.
    Granted,
    /// The provider forbade a request. One such refusal may be about the prompt; two are about the
    /// account.
    Forbidden,
}

/// What follows for the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Consequence {
    pub pause: Option<Pause>,
    /// True if the limit of running items is halved.
    pub halves: bool,
    /// The time until which the provider is left alone.
    pub hold_until_ms: Option<i64>,
    pub access: Access,
}

/// Decides about an attempt that has ended.
pub(crate) fn decide(ended: &EndedAttempt<'_>) -> (Decision, Consequence) {
    let found = ended.found;
    let runs =
        found.item.state == ItemState::Running && found.item.attempt == found.attempt.attempt;
    if !runs {
        let closed = settlement(ended, AttemptOutcome::Reported, None, SettleTo::AsReported);
        return (Decision::Settle(closed), answered());
    }
    let Some(turn) = &found.turn else {
        return plain(lost(ended, "the worker died before the turn was accepted"));
    };
    let error: Option<TurnError> = turn.error.as_ref().and_then(|error| rows::read(error).ok());
    match (turn.status, error) {
        (TurnStatus::InProgress, _) => plain(lost(ended, SERVER_STOPPED)),
        (TurnStatus::Completed, _) => (completed(ended), answered()),
        (TurnStatus::Interrupted, None) => {
            plain(failed(ended, "interrupted", "the turn was interrupted"))
        }
        (TurnStatus::Interrupted, Some(error)) => interrupted(ended, &error),
        (TurnStatus::Failed, None) => {
            plain(retried(ended, item_error("unknown", "the turn failed")))
        }
        (TurnStatus::Failed, Some(error)) => by_kind(ended, &error),
    }
}

fn plain(settlement: Settlement) -> (Decision, Consequence) {
    (Decision::Settle(settlement), Consequence::default())
}

fn answered() -> Consequence {
    Consequence {
        access: Access::Granted,
        ..Consequence::default()
    }
}

fn completed(ended: &EndedAttempt<'_>) -> Decision {
    // A turn that completed was not silent after all.
    let verdict = ended.verdict.as_ref();
    if let Some(error) = verdict.filter(|error| error.kind != IDLE_TIMEOUT) {
        return Decision::Settle(retried(ended, error.clone()));
    }
    let (cause, error) = match &ended.harvest {
        Harvest::Result { result, digest } => {
            let to = SettleTo::Succeeded {
                result: result.clone(),
                digest: *digest,
            };
            return Decision::Settle(settlement(ended, AttemptOutcome::Reported, None, to));
        }
        Harvest::Nothing => (
            RepairCause::Missing,
            item_error("no_report", REPORT_MISSING),
        ),
        Harvest::Unusable(why) => (
            RepairCause::Unusable(why.clone()),
            item_error("schema", why),
        ),
        Harvest::Unfitting(problems) => (
            RepairCause::Unfitting(problems.clone()),
            schema_error(problems),
        ),
    };
    let otherwise = retried(ended, error);
    if ended.found.item.repairs < ended.options.repair_turns {
        return Decision::Repair { cause, otherwise };
    }
    Decision::Settle(otherwise)
}

fn interrupted(ended: &EndedAttempt<'_>, error: &TurnError) -> (Decision, Consequence) {
    let kind = error.kind.clone().unwrap_or(ErrorKind::Other);
    if error.outcome_known == Some(false) {
        return plain(undecidable(ended, &error.message));
    }
    let verdict = ended.verdict.as_ref();
    match kind {
        ErrorKind::Stopped if let Some(idle) = verdict.filter(|it| it.kind == IDLE_TIMEOUT) => {
            plain(retried(ended, idle.clone()))
        }
        // The job or the worker was stopped in order.
        ErrorKind::Stopped => {
            let error = item_error("interrupted", &error.message);
            let to = back(ended, ended.now_ms, ReturnUses::Nothing);
            plain(settlement(
                ended,
                AttemptOutcome::Interrupted,
                Some(error),
                to,
            ))
        }
        ErrorKind::Interrupted if error.message == SERVER_STOPPED => {
            plain(lost(ended, SERVER_STOPPED))
        }
        _ => by_kind(ended, error),
    }
}

/// The table of error kinds.
fn by_kind(ended: &EndedAttempt<'_>, error: &TurnError) -> (Decision, Consequence) {
    let kind = error.kind.clone().unwrap_or(ErrorKind::Other);
    let word = kind_word(&kind);
    let shown = item_error(&word, &error.message);
    let named_ms = error.retry_at.map(|seconds| seconds.saturating_mul(1_000));
    let named_ms = named_ms.filter(|at_ms| *at_ms > ended.now_ms);
    match kind {
        ErrorKind::RateLimited if ended.found.item.limit_returns < LIMIT_RETURNS_MAX => {
            let until_ms = named_ms.unwrap_or(ended.now_ms + LIMIT_WAIT_MS);
            let to = back(ended, until_ms, ReturnUses::Limit);
            let settled = settlement(ended, AttemptOutcome::Failed, Some(shown), to);
            let consequence = Consequence {
                halves: true,
                hold_until_ms: Some(until_ms),
                ..Consequence::default()
            };
            (Decision::Settle(settled), consequence)
        }
        ErrorKind::Auth if is_forbidden(error) && !ended.after_forbidden => {
            let to = SettleTo::Failed;
            let settled = settlement(ended, AttemptOutcome::Failed, Some(shown), to);
            let consequence = Consequence {
                access: Access::Forbidden,
                ..Consequence::default()
            };
            (Decision::Settle(settled), consequence)
        }
        ErrorKind::Quota | ErrorKind::Auth | ErrorKind::Plan | ErrorKind::Budget => {
            let reason = match kind {
                ErrorKind::Quota => "quota",
                ErrorKind::Budget => "budget",
                _ => "auth",
            };
            let is_named = error.retry_estimated != Some(true) && kind == ErrorKind::Quota;
            let pause = Pause {
                reason,
                message: error.message.clone(),
                resume_ms: named_ms.filter(|_| is_named),
            };
            let to = back(ended, ended.now_ms, ReturnUses::Nothing);
            let settled = settlement(ended, AttemptOutcome::Failed, Some(shown), to);
            let consequence = Consequence {
                pause: Some(pause),
                ..Consequence::default()
            };
            (Decision::Settle(settled), consequence)
        }
        ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::ServerError => {
            let consequence = Consequence {
                halves: true,
                ..Consequence::default()
            };
            (Decision::Settle(retried(ended, shown)), consequence)
        }
        ErrorKind::Timeout => {
            let seconds = ended.limits.timeout_ms.div_ceil(1_000);
            let message = format!("worker exceeded max runtime of {seconds}s");
            plain(retried(ended, item_error("timeout", &message)))
        }
        ErrorKind::Network
        | ErrorKind::EngineUnavailable
        | ErrorKind::EngineCrashed
        | ErrorKind::Busy
        | ErrorKind::Incomplete
        | ErrorKind::Unknown
        | ErrorKind::Other => plain(retried(ended, shown)),
        _ => plain(settlement(
            ended,
            AttemptOutcome::Failed,
            Some(shown),
            SettleTo::Failed,
        )),
    }
}

/// Returns true if the provider answered with status 403. A turn that its job stopped has the message
/// of the refusal that paused the job, but not its word.
fn is_forbidden(error: &TurnError) -> bool {
    match &error.codex_error_info {
        Some(CodexErrorInfo::Unauthorized) => error.message.contains("unexpected status 403"),
        Some(
            CodexErrorInfo::HttpConnectionFailed { http_status_code }
            | CodexErrorInfo::ResponseStreamConnectionFailed { http_status_code }
            | CodexErrorInfo::ResponseStreamDisconnected { http_status_code }
            | CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code },
        ) => *http_status_code == Some(403),
        _ => false,
    }
}

/// The worker died under the attempt.
fn lost(ended: &EndedAttempt<'_>, message: &str) -> Settlement {
    let error = item_error("worker_lost", message);
    let losses = ended.found.item.losses + 1;
    let gives_up = ended.found.has_output && ended.options.on_crash == OnCrash::Fail;
    if losses >= LOSSES_MAX || gives_up {
        let error = match losses {
            LOSSES_MAX.. => item_error(
                "worker_lost",
                &format!("the worker died {losses} times while it ran the item"),
            ),
            _ => error,
        };
        return settlement(ended, AttemptOutcome::Lost, Some(error), SettleTo::Failed);
    }
    let continues = ended.found.has_output && ended.options.on_crash == OnCrash::Continue;
    let to = SettleTo::Pending {
        not_before_ms: ended.now_ms,
        same_thread: continues,
        uses: ReturnUses::Loss,
    };
    settlement(ended, AttemptOutcome::Lost, Some(error), to)
}

/// Nobody can say what the turn has done.
fn undecidable(ended: &EndedAttempt<'_>, message: &str) -> Settlement {
    let error = item_error("worker_lost", &format!("undecidable: {message}"));
    let losses = ended.found.item.losses + 1;
    if ended.options.on_crash != OnCrash::Restart || losses >= LOSSES_MAX {
        return settlement(ended, AttemptOutcome::Lost, Some(error), SettleTo::Failed);
    }
    let to = SettleTo::Pending {
        not_before_ms: ended.now_ms,
        same_thread: false,
        uses: ReturnUses::Loss,
    };
    settlement(ended, AttemptOutcome::Lost, Some(error), to)
}

fn failed(ended: &EndedAttempt<'_>, kind: &str, message: &str) -> Settlement {
    let error = Some(item_error(kind, message));
    settlement(ended, AttemptOutcome::Failed, error, SettleTo::Failed)
}

/// Another attempt in a new thread, if a retry is left.
fn retried(ended: &EndedAttempt<'_>, error: ItemError) -> Settlement {
    let used = ended.found.item.retries_used;
    let to = if used < ended.limits.retries {
        SettleTo::Pending {
            not_before_ms: ended.now_ms + backoff_ms(used + 1, ended.jitter),
            same_thread: false,
            uses: ReturnUses::Retry,
        }
    } else {
        SettleTo::Failed
    };
    settlement(ended, AttemptOutcome::Failed, Some(error), to)
}

/// The item waits, and goes on in its thread if the model had answered.
fn back(ended: &EndedAttempt<'_>, not_before_ms: i64, uses: ReturnUses) -> SettleTo {
    SettleTo::Pending {
        not_before_ms,
        same_thread: ended.found.has_output,
        uses,
    }
}

fn settlement(
    ended: &EndedAttempt<'_>,
    outcome: AttemptOutcome,
    error: Option<ItemError>,
    to: SettleTo,
) -> Settlement {
    Settlement {
        item: ended.found.attempt,
        outcome,
        error,
        usage: ended.usage,
        to,
    }
}

/// The pause before retry `nth`, from 1: uniform between a quarter of a second and a bound that
/// doubles.
pub(super) fn backoff_ms(nth: u32, jitter: u32) -> i64 {
    let doubled = BACKOFF_FIRST_MS.saturating_mul(1_i64 << nth.saturating_sub(1).min(30));
    let longest = doubled.min(BACKOFF_MAX_MS);
    let share = i64::from(jitter.min(999));
    BACKOFF_MIN_MS + (longest - BACKOFF_MIN_MS) * share / 999
}

/// The error of a result that does not fit.
pub(crate) fn schema_error(problems: &[SchemaProblem]) -> ItemError {
    let first = problems.first().map_or_else(String::new, |problem| {
        format!(": {}: {}", problem.path, problem.message)
    });
    item_error(
        "schema",
        &format!("the result does not fit the schema{first}"),
    )
}

fn item_error(kind: &str, message: &str) -> ItemError {
    ItemError {
        kind: kind.to_owned(),
        message: message.to_owned(),
    }
}

/// The wire's word for a kind.
fn kind_word(kind: &ErrorKind) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "other".to_owned(),
    }
}
