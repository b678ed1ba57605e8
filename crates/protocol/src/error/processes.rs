//! The exact errors of `command/exec*` and `process/*`.
//!
//! The invariant here: each text stands once in the whole workspace and is Codex's own, letter for
//! letter; the two families differ in their words, so [`ProcessFamily`] chooses them. Commands,
//! variables and output never appear.
//!
//! When one of them is due is decided by the server.

use super::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Reason, quoted};

/// Whose words an error uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessFamily {
    /// `command/exec` and what goes with it.
    CommandExec,
    /// `process/*`.
    Process,
}

impl ProcessFamily {
    /// The word before `size` and `is no longer running`.
    fn noun(self) -> &'static str {
        match self {
            Self::CommandExec => "command/exec",
            Self::Process => "process",
        }
    }

    /// The method that starts one.
    fn start(self) -> &'static str {
        match self {
            Self::CommandExec => "command/exec",
            Self::Process => "process/spawn",
        }
    }

    /// The method that writes to one.
    fn write(self) -> &'static str {
        match self {
            Self::CommandExec => "command/exec/write",
            Self::Process => "process/writeStdin",
        }
    }
}

fn refused(reason: Reason, message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_REQUEST, reason, message)
}

fn unfit(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, Reason::InvalidParams, message)
}

/// Refusals about commands and processes that a client runs.
impl ErrorObject {
    /// Nothing to run.
    pub fn empty_command() -> Self {
        refused(Reason::InvalidParams, "command must not be empty")
    }

    /// A terminal or streaming without a name to speak of it.
    pub fn process_id_required() -> Self {
        let message = "command/exec tty or streaming requires a client-supplied processId";
        refused(Reason::InvalidParams, message)
    }

    /// `process/spawn` without a handle.
    pub fn empty_process_handle() -> Self {
        refused(Reason::InvalidParams, "processHandle must not be empty")
    }

    /// A name that is in use on this connection.
    pub fn duplicate_process(family: ProcessFamily, id: &str) -> Self {
        let id = quoted(id);
        let message = match family {
            ProcessFamily::CommandExec => {
                format!("duplicate active command/exec process id: {id:?}")
            }
            ProcessFamily::Process => format!("duplicate active process handle: {id:?}"),
        };
        refused(Reason::DuplicateProcess, message)
    }

    /// A name that this connection has not given to anything that runs.
    pub fn process_not_found(family: ProcessFamily, id: &str) -> Self {
        let id = quoted(id);
        let message = match family {
            ProcessFamily::CommandExec => {
                format!("no active command/exec for process id {id:?}")
            }
            ProcessFamily::Process => format!("no active process for process handle {id:?}"),
        };
        refused(Reason::ProcessNotFound, message)
    }

    /// Something that ended while the request was on its way.
    pub fn process_ended(family: ProcessFamily, id: &str) -> Self {
        let message = format!("{} {:?} is no longer running", family.noun(), quoted(id));
        refused(Reason::ProcessNotFound, message)
    }

    /// A write to something that was started without an open input.
    pub fn stdin_not_streamed(family: ProcessFamily) -> Self {
        let message = format!("stdin streaming is not enabled for this {}", family.noun());
        refused(Reason::StdinClosed, message)
    }

    /// A write after the input was closed.
    pub fn stdin_closed() -> Self {
        refused(Reason::StdinClosed, "stdin is already closed")
    }

    /// A write of nothing that closes nothing.
    pub fn nothing_to_write(family: ProcessFamily) -> Self {
        unfit(format!(
            "{} requires deltaBase64 or closeStdin",
            family.write()
        ))
    }

    /// Bytes that are no base64; the decoder's text names a character and its place.
    pub fn invalid_base64(why: &base64::DecodeError) -> Self {
        unfit(format!("invalid deltaBase64: {why}"))
    }

    /// A terminal without an area.
    pub fn empty_terminal(family: ProcessFamily) -> Self {
        let message = format!(
            "{} size rows and cols must be greater than 0",
            family.noun()
        );
        unfit(message)
    }

    /// A size for something without a terminal.
    pub fn size_without_terminal(family: ProcessFamily) -> Self {
        unfit(format!("{} size requires tty: true", family.start()))
    }

    /// A new size for something without a terminal.
    pub fn not_a_terminal() -> Self {
        let message = "failed to resize PTY: process is not attached to a PTY";
        refused(Reason::InvalidParams, message)
    }

    /// A time below zero.
    pub fn negative_timeout(family: ProcessFamily, timeout_ms: i64) -> Self {
        let start = family.start();
        unfit(format!(
            "{start} timeoutMs must be non-negative, got {timeout_ms}"
        ))
    }

    /// Two members of `command/exec` that exclude each other.
    pub fn both_set(one: &str, other: &str) -> Self {
        unfit(format!("command/exec cannot set both {one} and {other}"))
    }

    /// A program that could not be started; `why` is the operating system's text.
    pub fn spawn_failed(family: ProcessFamily, why: &str) -> Self {
        let what = match family {
            ProcessFamily::CommandExec => "command",
            ProcessFamily::Process => "process",
        };
        let message = format!("failed to spawn {what}: {why}");
        Self::new(INTERNAL_ERROR, Reason::SpawnFailed, message)
    }

    /// `process/spawn` where the operator does not want it.
    pub fn spawn_disabled() -> Self {
        refused(Reason::Disabled, "process/spawn is disabled")
    }
}
