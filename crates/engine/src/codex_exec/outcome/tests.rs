//! Each row of the table of outcomes.

use std::ffi::OsStr;

use serde_json::{Value, json};
use turnlane_process::{Reason, Rusage};

use super::super::lines::RawLine;
use super::*;

const THREAD: &str = "01a1e099-a4bd-7e00-8ac9-0161f278d518";

/// A process that ended by itself with a code after these lines.
struct Ending {
    lines: Vec<Value>,
    code: i32,
    signal: Option<i32>,
    cause: Option<EndCause>,
    stderr: &'static str,
}

impl Ending {
    fn new(code: i32, lines: &[Value]) -> Self {
        Self {
            lines: lines.to_vec(),
            code,
            signal: None,
            cause: None,
            stderr: "",
        }
    }

    fn by(mut self, cause: EndCause) -> Self {
        self.cause = Some(cause);
        self
    }

    fn saying(mut self, stderr: &'static str) -> Self {
        self.stderr = stderr;
        self
    }

    fn decide(&self) -> TurnOutcome {
        let mut transcript = Transcript::new("t".to_owned(), "/".to_owned(), None);
        for line in &self.lines {
            let line = line.to_string();
            transcript.read_line(RawLine::Whole(line.as_bytes()), 0, &mut Vec::new());
        }
        decide(&ProcessEnd {
            transcript: &transcript,
            cause: self.cause,
            status: Some(ExitStatus {
                code: self.code,
                signal: self.signal,
                reason: Reason::Exited,
                rusage: Rusage::default(),
            }),
            has_output: !self.lines.is_empty(),
            stderr: self.stderr,
            zone: &ChildZone::of_variable(Some(OsStr::new("UTC"))),
            now_ms: 0,
        })
    }
}

fn thread() -> Value {
    json!({"type": "thread.started", "thread_id": THREAD})
}

fn turn() -> Value {
    json!({"type": "turn.started"})
}

fn kind(outcome: &TurnOutcome) -> Option<ErrorKind> {
    outcome.error.as_ref().and_then(|error| error.kind.clone())
}

#[track_caller]
fn assert_failed(
    ending: &Ending,
    expected: ErrorKind,
    accepted: Accepted,
    begun: bool,
    known: bool,
) {
    let outcome = ending.decide();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(kind(&outcome), Some(expected));
    assert_eq!(outcome.accepted, accepted);
    assert_eq!((outcome.begun, outcome.outcome_known), (begun, known));
    let stated = outcome.error.and_then(|error| error.outcome_known);
    assert_eq!(stated, (!known).then_some(false));
}

#[test]
fn the_terminal_line_decides_whatever_the_exit_is() {
    let completed = json!({"type": "turn.completed", "usage": {}});
    let message = json!({"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "a"}});
    for code in [0, 1, 137] {
        for cause in [None, Some(EndCause::Cancelled)] {
            let mut ending = Ending::new(
                code,
                &[thread(), turn(), message.clone(), completed.clone()],
            );
            ending.cause = cause;
            let outcome = ending.decide();
            assert_eq!(outcome.status, OutcomeStatus::Completed);
            assert_eq!(outcome.last_agent_message.as_deref(), Some("a"));
        }
    }
    let failed = json!({"type": "turn.failed", "error": {"message": "Quota exceeded."}});
    let ending = Ending::new(1, &[thread(), turn(), failed]);
    assert_failed(&ending, ErrorKind::Quota, Accepted::Yes, true, true);
}

#[test]
fn a_cancelled_turn_is_interrupted() {
    let interrupted = |lines: &[Value]| {
        let outcome = Ending::new(1, lines).by(EndCause::Cancelled).decide();
        assert_eq!(outcome.status, OutcomeStatus::Interrupted);
        outcome.accepted
    };
    assert_eq!(interrupted(&[thread(), turn()]), Accepted::Yes);
    assert_eq!(interrupted(&[thread()]), Accepted::Unknown);
    assert_eq!(interrupted(&[]), Accepted::Unknown);
    let said = json!({"type": "turn.failed", "error": {"message": "m", "kind": "interrupted"}});
    assert_eq!(interrupted(&[thread(), turn(), said]), Accepted::Yes);
    // A child that ended by itself wrote its history to the end; a killed one may not have.
    let mut ending = Ending::new(1, &[thread(), turn()]).by(EndCause::Cancelled);
    assert!(ending.decide().outcome_known);
    ending.signal = Some(9);
    assert!(!ending.decide().outcome_known);
}

#[test]
fn a_process_that_ended_in_the_middle_has_crashed() {
    for code in [0, 1, 101, 137] {
        let ending = Ending::new(code, &[thread(), turn()]);
        assert_failed(
            &ending,
            ErrorKind::EngineCrashed,
            Accepted::Yes,
            true,
            false,
        );
        let ending = Ending::new(code, &[thread()]);
        assert_failed(
            &ending,
            ErrorKind::EngineCrashed,
            Accepted::Unknown,
            true,
            false,
        );
    }
    let mut killed = Ending::new(137, &[]);
    killed.signal = Some(9);
    assert_failed(
        &killed,
        ErrorKind::EngineCrashed,
        Accepted::Unknown,
        true,
        false,
    );
    let text = killed
        .saying("Error: broken\n")
        .decide()
        .error
        .unwrap()
        .message;
    assert_eq!(
        text,
        "Codex was ended by signal 9 in the middle of the turn: broken"
    );
}

#[test]
fn exit_zero_without_a_word_breaks_the_protocol() {
    let ending = Ending::new(0, &[]);
    assert_failed(&ending, ErrorKind::Protocol, Accepted::Unknown, true, true);
}

#[test]
fn a_refusal_is_read_from_standard_error() {
    let noise =
        "WARNING: proceeding, even though we could not\nReading additional input from stdin...\n";
    assert_eq!(reason(noise), None);
    let refused = |stderr| Ending::new(1, &[]).saying(stderr);
    for (stderr, expected, text) in [
        (
            "2026 ERROR x: already has an active writer\nError: thread/resume failed: thread T already \
             has an active writer (code -32600)\n",
            ErrorKind::Busy,
            "thread/resume failed: thread T already has an active writer (code -32600)",
        ),
        (
            "Error: thread/resume: no rollout found for thread id T (code -32600)\n   0: backtrace\n",
            ErrorKind::ThreadNotFound,
            "thread/resume: no rollout found for thread id T (code -32600)",
        ),
        (
            "Error: thread/resume failed: rollout at /c/x.jsonl is empty (code -32603)\n\nStack\n",
            ErrorKind::ThreadNotFound,
            "thread/resume failed: rollout at /c/x.jsonl is empty (code -32603)",
        ),
        (
            "WARNING: proceeding\nError: Model provider `nope` not found\n",
            ErrorKind::EngineRefused,
            "Model provider `nope` not found",
        ),
        (
            "Reading prompt from stdin...\nerror: bad flag\n\nUsage: x\n",
            ErrorKind::EngineRefused,
            "error: bad flag\nUsage: x",
        ),
        (
            "Error: unexpected status 401 Unauthorized",
            ErrorKind::Auth,
            "unexpected status 401 Unauthorized",
        ),
        (
            "",
            ErrorKind::EngineRefused,
            "Codex refused the turn and gave no reason",
        ),
    ] {
        let ending = refused(stderr);
        assert_failed(&ending, expected, Accepted::No, false, true);
        assert_eq!(ending.decide().error.unwrap().message, text);
        assert_eq!(is_busy(&ending.decide()), stderr.contains("active writer"));
    }
    let usage = Ending::new(2, &[]).saying("error: x");
    assert_failed(&usage, ErrorKind::EngineRefused, Accepted::No, false, true);
}

#[test]
fn limits_and_wrong_threads_have_their_kinds() {
    let silent = Ending::new(1, &[]).by(EndCause::FirstEventLimit);
    assert_failed(&silent, ErrorKind::Timeout, Accepted::No, false, true);
    let garbage = Ending::new(1, &[json!(7)]).by(EndCause::FirstEventLimit);
    assert_failed(&garbage, ErrorKind::Timeout, Accepted::Unknown, true, true);
    let other = Ending::new(137, &[thread()]).by(EndCause::ResumeMismatch);
    assert_failed(
        &other,
        ErrorKind::ResumeMismatch,
        Accepted::Unknown,
        true,
        true,
    );
    let unnamed = Ending::new(137, &[thread()]).by(EndCause::BadThreadId);
    assert_failed(&unnamed, ErrorKind::Protocol, Accepted::Unknown, true, true);
}
