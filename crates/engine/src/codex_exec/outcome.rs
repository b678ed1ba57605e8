//! The outcome of a turn, from how its process ended and from what it wrote before.
//!
//! The invariant: the terminal line decides if there is one. Without it, the outcome says only what is
//! known: a process that ended in the middle of a turn leaves open what the turn has done.

use turnlane_process::ExitStatus;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::texts::{self, reset::ChildZone};
use super::transcript::{TerminalLine, Transcript};
use crate::codex_program::says_unwritten;
use crate::outcome::{Accepted, EngineError, OutcomeStatus, TurnOutcome};

/// Lines of standard error that say nothing about a failure.
const NOISE: [&str; 2] = ["WARNING: proceeding", "Reading "];
/// Characters of standard error that become a reason.
const REASON_CHARS_MAX: usize = 2000;

/// Why this engine ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// The turn was cancelled.
    Cancelled,
    /// The first event did not come in time.
    FirstEventLimit,
    /// Codex opened another thread than it was asked to resume.
    ResumeMismatch,
    /// Codex named its thread by something that is no UUID.
    BadThreadId,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct ProcessEnd<'a> {
    pub(super) transcript: &'a Transcript,
    /// Why this engine ended it; none if it ended by itself.
    pub(super) cause: Option<EndCause>,
    /// None if the service lost it.
    pub(super) status: Option<ExitStatus>,
    /// True if it wrote anything to standard output.
    pub(super) has_output: bool,
    pub(super) stderr: &'a str,
    pub(super) zone: &'a ChildZone,
    pub(super) now_ms: i64,
}

/// The outcome of the turn, without its usage.
pub(super) fn decide(end: &ProcessEnd<'_>) -> TurnOutcome {
    let mut outcome = decide_status(end);
    outcome
        .last_agent_message
        .clone_from(&end.transcript.last_message);
    if let Some(error) = &mut outcome.error
        && !outcome.outcome_known
    {
        error.outcome_known = Some(false);
    }
    outcome
}

fn decide_status(end: &ProcessEnd<'_>) -> TurnOutcome {
    match (&end.transcript.terminal, end.cause) {
        (Some(TerminalLine::Completed { .. }), _) => TurnOutcome::completed(),
        (
            Some(TerminalLine::Failed {
                kind: Some(ErrorKind::Interrupted),
                ..
            }),
            Some(_),
        ) => TurnOutcome::interrupted(),
        (
            Some(TerminalLine::Failed {
                message,
                kind,
                retry_at,
            }),
            _,
        ) => {
            let kind = kind.clone();
            let error = texts::to_error(message, kind, *retry_at, end.zone, end.now_ms);
            TurnOutcome::failed(error)
        }
        (None, Some(cause)) => ended_by_us(end, cause),
        (None, None) => ended_by_itself(end),
    }
}

fn ended_by_us(end: &ProcessEnd<'_>, cause: EndCause) -> TurnOutcome {
    let taken = if end.transcript.has_turn_started {
        Accepted::Yes
    } else {
        Accepted::Unknown
    };
    match cause {
        EndCause::Cancelled => TurnOutcome {
            accepted: taken,
            // A process that was killed may not have written down what it did.
            outcome_known: end.status.is_some_and(|status| status.signal.is_none()),
            ..TurnOutcome::interrupted()
        },
        EndCause::FirstEventLimit if !end.has_output => refused(failure(
            "Codex wrote nothing within its time limit",
            ErrorKind::Timeout,
        )),
        EndCause::FirstEventLimit => TurnOutcome {
            accepted: taken,
            ..TurnOutcome::failed(failure(
                "Codex told no event within its time limit",
                ErrorKind::Timeout,
            ))
        },
        EndCause::ResumeMismatch => TurnOutcome {
            accepted: taken,
            ..TurnOutcome::failed(failure(
                "Codex opened another thread than the one it was asked to resume",
                ErrorKind::ResumeMismatch,
            ))
        },
        EndCause::BadThreadId => TurnOutcome {
            accepted: taken,
            ..TurnOutcome::failed(failure(
                "Codex named its thread by a text that is not a UUID",
                ErrorKind::Protocol,
            ))
        },
    }
}

fn ended_by_itself(end: &ProcessEnd<'_>) -> TurnOutcome {
    let code = end.status.map(|status| status.code);
    let transcript = end.transcript;
    let how = how_it_ended(end);
    if transcript.has_turn_started || transcript.has_thread_started {
        let accepted = if transcript.has_turn_started {
            Accepted::Yes
        } else {
            Accepted::Unknown
        };
        return crashed(&how, accepted);
    }
    match code {
        Some(1 | 2) if !end.has_output => refused(refusal(end)),
        Some(0) => TurnOutcome {
            accepted: Accepted::Unknown,
            ..TurnOutcome::failed(failure(
                "Codex ended with code 0 and told no end of the turn",
                ErrorKind::Protocol,
            ))
        },
        _ => crashed(&how, Accepted::Unknown),
    }
}

/// `Codex ended with code 101 in the middle of the turn: reason`.
fn how_it_ended(end: &ProcessEnd<'_>) -> String {
    let how = match end.status {
        Some(ExitStatus {
            signal: Some(signal),
            ..
        }) => format!("Codex was ended by signal {signal}"),
        Some(status) => format!("Codex ended with code {}", status.code),
        None => "Codex ended".to_owned(),
    };
    let stated = end.transcript.last_error.clone();
    match stated.or_else(|| reason(end.stderr)) {
        Some(reason) => format!("{how} in the middle of the turn: {reason}"),
        None => format!("{how} in the middle of the turn"),
    }
}

fn crashed(message: &str, accepted: Accepted) -> TurnOutcome {
    TurnOutcome {
        accepted,
        outcome_known: false,
        ..TurnOutcome::failed(failure(message, ErrorKind::EngineCrashed))
    }
}

/// A turn that Codex has not taken.
pub(super) fn refused(error: EngineError) -> TurnOutcome {
    TurnOutcome {
        accepted: Accepted::No,
        ..TurnOutcome::cannot_start(error)
    }
}

/// The error of a process that ended with code 1 or 2 and told no event.
fn refusal(end: &ProcessEnd<'_>) -> EngineError {
    let reason = reason(end.stderr);
    let text = reason
        .as_deref()
        .unwrap_or("Codex refused the turn and gave no reason");
    // Looked for in all of standard error: a log line may name the cause and the last line not.
    let kind = if end.stderr.contains("already has an active writer") {
        ErrorKind::Busy
    } else if says_unwritten(end.stderr) {
        ErrorKind::ThreadNotFound
    } else {
        let error = texts::to_error(text, None, None, end.zone, end.now_ms);
        if error.kind != Some(ErrorKind::Other) {
            return error;
        }
        ErrorKind::EngineRefused
    };
    failure(text, kind)
}

fn failure(message: &str, kind: ErrorKind) -> EngineError {
    EngineError::new(message, CodexErrorInfo::Other, kind)
}

/// The reason in standard error: the last line that begins with `Error:`, else the last lines.
fn reason(stderr: &str) -> Option<String> {
    let is_noise = |line: &str| {
        line.starts_with(NOISE[0]) || (line.starts_with(NOISE[1]) && line.contains("from stdin"))
    };
    let lines = stderr.lines().map(str::trim_end);
    let lines: Vec<_> = lines
        .filter(|line| !line.is_empty() && !is_noise(line))
        .collect();
    let stated = lines
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("Error:"));
    if let Some(stated) = stated {
        return Some(stated.trim().chars().take(REASON_CHARS_MAX).collect());
    }
    let text = lines.join("\n");
    let skipped = text.chars().count().saturating_sub(REASON_CHARS_MAX);
    let tail: String = text.chars().skip(skipped).collect();
    (!tail.is_empty()).then_some(tail)
}

/// Returns true if the turn was refused because another process writes to its thread.
pub(super) fn is_busy(outcome: &TurnOutcome) -> bool {
    let kind = outcome.error.as_ref().and_then(|error| error.kind.as_ref());
    outcome.status == OutcomeStatus::Failed && kind == Some(&ErrorKind::Busy)
}

/// Returns true if Codex refused the turn because it has no such thread.
pub(super) fn is_thread_missing(outcome: &TurnOutcome) -> bool {
    let kind = outcome.error.as_ref().and_then(|error| error.kind.as_ref());
    outcome.accepted == Accepted::No && kind == Some(&ErrorKind::ThreadNotFound)
}

#[cfg(test)]
mod tests;
