//! Which dialect a connection speaks, and what a request may do before and after that is known.
//!
//! A pure state machine: the name of a method goes in, the method or its refusal comes out. The
//! first successful `initialize` decides. Until then a connection behaves as `exec-server.v0` (or as
//! `process.v1` if the server was told so), except that methods only `process.v1` has are refused in
//! its words.

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::environment::{DISCOVER_V1, INFO, STATUS};
use turnlane_protocol::exec_server::{
    INITIALIZE, INITIALIZED, InitializeParams, PROCESS_V1, SESSION_END, process, v0,
};

use super::options::DialectChoice;
use crate::failure;
use crate::fs::Files;

/// A dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `exec-server.v0`
    V0,
    /// `process.v1`
    ProcessV1,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    V0(V0Method),
    V1(V1Method),
}

/// The methods of `exec-server.v0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V0Method {
    Exec,
    Write,
    Terminate,
}

/// The methods of `process.v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V1Method {
    Start,
    Read,
    Write,
    Signal,
    Terminate,
    CloseStdin,
    Resize,
    Wait,
    Snapshot,
    List,
    SessionEnd,
    EnvironmentInfo,
    EnvironmentStatus,
    Discover,
    /// Any of `fs/*`.
    File,
}

impl V0Method {
    fn find(name: &str) -> Option<Self> {
        Some(match name {
            v0::EXEC => Self::Exec,
            v0::WRITE => Self::Write,
            v0::TERMINATE => Self::Terminate,
            _ => return None,
        })
    }
}

impl V1Method {
    fn find(name: &str) -> Option<Self> {
        Some(match name {
            process::START => Self::Start,
            process::READ => Self::Read,
            process::WRITE => Self::Write,
            process::SIGNAL => Self::Signal,
            process::TERMINATE => Self::Terminate,
            process::CLOSE_STDIN => Self::CloseStdin,
            process::RESIZE => Self::Resize,
            process::WAIT => Self::Wait,
            process::SNAPSHOT => Self::Snapshot,
            process::LIST => Self::List,
            SESSION_END => Self::SessionEnd,
            INFO => Self::EnvironmentInfo,
            STATUS => Self::EnvironmentStatus,
            DISCOVER_V1 => Self::Discover,
            name if Files::knows(name) => Self::File,
            _ => return None,
        })
    }

    /// The word in handshake errors.
    const fn family(self) -> &'static str {
        match self {
            Self::File => "filesystem",
            Self::EnvironmentInfo => "environment info",
            Self::EnvironmentStatus => "environment status",
            Self::Discover => "capability discovery",
            Self::Start
            | Self::Read
            | Self::Write
            | Self::Signal
            | Self::Terminate
            | Self::CloseStdin
            | Self::Resize
            | Self::Wait
            | Self::Snapshot
            | Self::List
            | Self::SessionEnd => "exec",
        }
    }
}

/// How far the handshake of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fresh,
    /// `initialize` was answered.
    Greeted(Dialect),
    /// `initialized` came.
    Ready(Dialect),
}

/// The handshake of one connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    choice: DialectChoice,
    phase: Phase,
}

/// A method that exists, and what stands between it and its execution. `exec-server.v0` decodes the
/// params before it says so, `process.v1` after.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) too_early: Option<ErrorObject>,
}

impl Handshake {
    pub(crate) fn new(choice: DialectChoice) -> Self {
        Self {
            choice,
            phase: Phase::Fresh,
        }
    }

    /// Whose rules hold for messages that are wrong in themselves.
    pub(crate) fn rules(&self) -> Dialect {
        match (self.phase, self.choice) {
            (Phase::Greeted(dialect) | Phase::Ready(dialect), _) => dialect,
            (Phase::Fresh, DialectChoice::Process) => Dialect::ProcessV1,
            (Phase::Fresh, DialectChoice::Auto | DialectChoice::V0) => Dialect::V0,
        }
    }

    /// Which method `name` is here and now.
    pub(crate) fn route(&self, name: &str) -> Result<Route, ErrorObject> {
        if name == INITIALIZE {
            let again = self.phase != Phase::Fresh;
            return Ok(Route {
                method: Method::Initialize,
                too_early: again.then(failure::initialized_twice),
            });
        }
        let fresh = self.phase == Phase::Fresh;
        let speaks_v0 = self.rules() == Dialect::V0;
        if let Some(method) = V0Method::find(name)
            && speaks_v0
        {
            return Ok(Route {
                method: Method::V0(method),
                too_early: self.too_early("exec"),
            });
        }
        if let Some(method) = V1Method::find(name)
            && (fresh || !speaks_v0)
        {
            return Ok(Route {
                method: Method::V1(method),
                too_early: self.too_early(method.family()),
            });
        }
        Err(if speaks_v0 {
            failure::unknown_method_v0(name)
        } else {
            failure::unknown_method_v1(name)
        })
    }

    fn too_early(&self, family: &str) -> Option<ErrorObject> {
        match self.phase {
            Phase::Fresh => Some(failure::before_initialize(family)),
            Phase::Greeted(_) => Some(failure::before_initialized(family)),
            Phase::Ready(_) => None,
        }
    }

    /// The dialect an `initialize` asks for.
    pub(crate) fn chosen(&self, params: &InitializeParams) -> Result<Dialect, ErrorObject> {
        match params.protocol_version.as_deref() {
            Some(v0::VERSION) => return Ok(Dialect::V0),
            Some(PROCESS_V1) => return Ok(Dialect::ProcessV1),
            Some(other) => {
                let message = format!("unsupported protocolVersion {other}");
                return Err(failure::invalid_params(message));
            }
            None => {}
        }
        let speaks_codex = match self.choice {
            DialectChoice::V0 => false,
            DialectChoice::Process => true,
            DialectChoice::Auto => params.resume_session_id.is_some(),
        };
        Ok(if speaks_codex {
            Dialect::ProcessV1
        } else {
            Dialect::V0
        })
    }

    /// An `initialize` succeeded.
    pub(crate) fn greeted(&mut self, dialect: Dialect) {
        self.phase = Phase::Greeted(dialect);
    }

    /// A notification came; the error is why it ends the connection.
    pub(crate) fn notified(&mut self, method: &str) -> Result<(), String> {
        if method != INITIALIZED {
            return Err(format!("unexpected notification method: {method}"));
        }
        match self.phase {
            Phase::Fresh => {
                Err("received `initialized` notification before `initialize`".to_owned())
            }
            Phase::Greeted(dialect) | Phase::Ready(dialect) => {
                self.phase = Phase::Ready(dialect);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
