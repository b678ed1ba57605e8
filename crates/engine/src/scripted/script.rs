//! A script in memory: which turn plays which steps.
//!
//! The invariant here: a [`Script`] can be played. Whatever could be wrong with it was found when it
//! was read, so a turn never fails because of a slip of the pen.
//!
//! Reading is in the neighbour `read`, playing in `play`.

use std::path::Path;
use std::time::Duration;

use turnlane_protocol::item::{FileUpdate, MessagePhase};
use turnlane_protocol::notification::PlanStep;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_protocol::usage::TokenCounts;

use super::read;
use crate::error::Error;

/// The text of the built-in demo; its pauses are all written as `delta_ms: 120` or shorter.
pub const DEMO: &str = include_str!("demo.yaml");

/// What the `scripted` engine plays.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(super) turns: Vec<Rule>,
    pub(super) fallback: Vec<Step>,
}

/// Whether a script may end the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbortSteps {
    /// `end: abort` is refused when the script is read.
    #[default]
    Refused,
    /// `end: abort` aborts the process; for crash tests.
    Allowed,
}

impl Script {
    /// The script in a file, YAML or JSON.
    pub fn load(path: &Path, aborts: AbortSteps) -> Result<Self, Error> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text, aborts),
            Err(source) => Err(Error::Unreadable { file, source }),
        }
    }

    /// The script in a text, YAML or JSON; `file` is what errors call it.
    pub fn parse(file: &str, text: &str, aborts: AbortSteps) -> Result<Self, Error> {
        read::script(file, text, aborts)
    }

    /// The built-in demo.
    pub fn demo() -> Result<Self, Error> {
        Self::parse("demo.yaml", DEMO, AbortSteps::Refused)
    }
}

/// Which turns play which steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    /// The input has to hold this.
    pub(super) part: Option<String>,
    /// It has to be this turn of its thread, from 1.
    pub(super) at: Option<u64>,
    /// How often it may be played while the engine lives.
    pub(super) times: Option<u32>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Reasoning(Say),
    Say(Say),
    Exec(Exec),
    Patch(Patch),
    Call(RuntimeCall),
    Approve(Approve),
    Plan(Vec<PlanStep>),
    Usage(TokenCounts),
    Await(Await),
    Error(Failure),
    End(End),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Say {
    pub(super) text: String,
    /// Characters per delta; 0: the text comes whole.
    pub(super) chunk: usize,
    /// Before each delta.
    pub(super) pause: Duration,
    pub(super) phase: Option<MessagePhase>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exec {
    pub(super) cmd: String,
    pub(super) output: String,
    pub(super) exit: i32,
    pub(super) time: Duration,
    pub(super) effect: Effect,
}

/// A call of a tool that the runtime offers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuntimeCall {
    pub(super) name: String,
    /// JSON text, with `{line:PREFIX}` for the rest of a line of the input.
    pub(super) arguments: String,
}

/// Whether something really happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is only told.
    Told,
    /// By the tools of the native engine.
    Real,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Patch {
    pub(super) input: String,
    /// Paths as the patch names them.
    pub(super) changes: Vec<FileUpdate>,
    pub(super) time: Duration,
    pub(super) effect: Effect,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Approve {
    pub(super) tool: Tool,
    pub(super) reason: Option<String>,
    pub(super) accepted: Vec<Step>,
    pub(super) declined: Vec<Step>,
}

/// What may need somebody's consent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tool {
    Exec(Exec),
    Patch(Patch),
}

impl Tool {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::Exec(exec) => exec.effect,
            Self::Patch(patch) => patch.effect,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Await {
    pub(super) what: Awaited,
    /// Goes on after this long in any case.
    pub(super) at_most: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Awaited {
    Steer,
    Gate(String),
    /// Only the time.
    Time,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) info: CodexErrorInfo,
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    /// The turn goes on after it.
    pub(super) will_retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Interrupted,
    Failed,
    Hang,
    Abort,
}
