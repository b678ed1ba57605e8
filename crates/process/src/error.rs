//! What can go wrong, matchable without reading text.
//!
//! A failed spawn left nothing behind: no process, no descriptor, no cgroup, no id.

use std::io;
use std::path::PathBuf;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct SpawnError {
    /// What kind of failure.
    pub kind: SpawnErrorKind,
    /// The file or directory it is about.
    pub path: Option<PathBuf>,
    /// The system's error, if it came from there.
    pub os_error: Option<i32>,
    /// What else there is to say: the missing controller, the refused rule.
    pub detail: Option<String>,
}

impl SpawnError {
    /// An error of this kind with nothing else known.
    pub fn new(kind: SpawnErrorKind) -> Self {
        Self {
            kind,
            path: None,
            os_error: None,
            detail: None,
        }
    }

    /// The same, about `path`.
    #[must_use]
    pub fn at(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// The same, from the system's error number.
    #[must_use]
    pub fn os(mut self, errno: i32) -> Self {
        self.os_error = Some(errno);
        self
    }

    /// The same, with more to say.
    #[must_use]
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    fn text(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let Some(path) = &self.path {
            text.push_str(": ");
            text.push_str(&path.display().to_string());
        }
        if let Some(detail) = &self.detail {
            text.push_str(": ");
            text.push_str(detail);
        }
        if let Some(errno) = self.os_error {
            text.push_str(": ");
            text.push_str(&io::Error::from_raw_os_error(errno).to_string());
        }
        text
    }
}

/// The kinds of failed spawns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpawnErrorKind {
    /// `argv` is empty.
    EmptyArgv,
    /// A NUL byte in arguments, environment or directory.
    NulByte,
    /// No such program.
    ProgramNotFound,
    /// The program may not be executed, or is none.
    NotExecutable,
    /// The directory does not exist.
    CwdNotFound,
    /// The directory may not be entered.
    CwdDenied,
    /// The system or the service has no room for another process.
    TooManyProcesses,
    /// A limit cannot be applied, or descriptors or memory ran out.
    ResourceLimit,
    /// This machine cannot enforce the policy.
    SandboxUnavailable,
    /// The policy cannot be enforced as it was given.
    SandboxRefused,
    /// The containment asked for cannot be given.
    ContainmentUnavailable,
    /// Something else the system said.
    Other,
}

impl SpawnErrorKind {
    /// The name on the wire and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EmptyArgv => "emptyArgv",
            Self::NulByte => "nulByte",
            Self::ProgramNotFound => "programNotFound",
            Self::NotExecutable => "notExecutable",
            Self::CwdNotFound => "cwdNotFound",
            Self::CwdDenied => "cwdDenied",
            Self::TooManyProcesses => "tooManyProcesses",
            Self::ResourceLimit => "resourceLimit",
            Self::SandboxUnavailable => "sandboxUnavailable",
            Self::SandboxRefused => "sandboxRefused",
            Self::ContainmentUnavailable => "containmentUnavailable",
            Self::Other => "other",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::EmptyArgv => "argv must not be empty",
            Self::NulByte => "nul byte found in provided data",
            Self::ProgramNotFound => "program not found",
            Self::NotExecutable => "program cannot be executed",
            Self::CwdNotFound => "working directory not found",
            Self::CwdDenied => "working directory cannot be entered",
            Self::TooManyProcesses => "too many processes",
            Self::ResourceLimit => "resource limit",
            Self::SandboxUnavailable => "sandbox unavailable on this machine",
            Self::SandboxRefused => "sandbox policy refused",
            Self::ContainmentUnavailable => "containment unavailable",
            Self::Other => "process could not be started",
        }
    }
}

/// Why a service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The containment asked for is not there.
    #[error("containment `{wanted}` is not available: {reason}")]
    Containment {
        /// What the options asked for.
        wanted: &'static str,
        /// Why it is not there.
        reason: String,
    },
    /// There is no tokio runtime with I/O and time.
    #[error("the process service must be started inside a tokio runtime")]
    NoRuntime,
    /// The system failed.
    #[error("process service could not start")]
    Io(#[from] io::Error),
}

/// Why bytes did not reach standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It is closed: never open, closed by its owner, or the process ended.
    #[error("stdin is closed")]
    StdinClosed,
    /// Standard input of a terminal cannot be closed; send the byte 0x04 instead.
    #[error("stdin of a terminal cannot be closed")]
    NotAPipe,
}

/// Why a terminal was not resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// Not 1 to 10,000.
    #[error("rows and cols must be 1..10000")]
    BadSize,
    /// It has pipes.
    #[error("the process has no terminal")]
    NotATerminal,
}

/// The lossless stream of a process was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output of this process is already being read")]
pub struct OutputTaken;
