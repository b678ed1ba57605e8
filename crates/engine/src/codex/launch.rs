//! Starting and ending one app-server child.
//!
//! The invariant here: a child that was started is ended with everything it started, at the latest
//! when its [`ChildProcess`] is dropped. The connection is lines of JSON on its standard streams.
//!
//! When to start one, and what to do when it dies, is decided by `supervisor`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use turnlane_exec_server::client::launch::{ChildInput, ChildOutput};
use turnlane_process::{End, Process, Until};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_rpc::Duplex;

use crate::codex_program::{CodexProgram, StderrLog};
use crate::engine::BoxFuture;
use crate::outcome::EngineError;

/// How long a child may take to exit after the end of its standard input.
const EOF_GRACE: Duration = Duration::from_secs(2);

/// Starts app-server children. Tests put a double in its place.
pub(crate) trait Launcher: Send + Sync {
    /// Starts one child.
    fn launch(&self) -> BoxFuture<'_, Result<StartedChild, LaunchError>>;
}

/// A child that runs and has not been spoken to.
pub(crate) struct StartedChild {
    pub(crate) duplex: Duplex,
    pub(crate) process: Arc<dyn ChildProcess>,
}

/// The process behind a connection.
pub(crate) trait ChildProcess: Send + Sync {
    /// Kills it and everything it started. Returns at once.
    fn kill(&self);

    /// Waits for its exit after the end of its standard input; then SIGTERM, then SIGKILL.
    fn end(&self) -> BoxFuture<'_, ()>;
}

/// Why no child could be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The program cannot be found or started.
    #[error("engine 'codex' is not available: {0}")]
    Unavailable(String),
    /// The program has no app-server that we can speak to.
    #[error("engine 'codex' needs Codex 0.151 or newer, found {found}; use 'codex-exec'")]
    TooOld {
        /// The version it says it has.
        found: String,
    },
    /// The program ended, or did not answer, before it was ready.
    #[error("the app-server of Codex did not become ready: {0}")]
    NotReady(String),
    /// The engine is shutting down.
    #[error("engine 'codex' is shutting down")]
    Closed,
}

impl LaunchError {
    /// The error of a turn that could not start for this reason.
    pub(crate) fn to_error(&self) -> EngineError {
        let kind = match self {
            Self::Unavailable(_) | Self::NotReady(_) => ErrorKind::EngineUnavailable,
            Self::TooOld { .. } => ErrorKind::Unsupported,
            Self::Closed => ErrorKind::Stopped,
        };
        EngineError::new(self.to_string(), CodexErrorInfo::Other, kind)
    }
}

/// Starts `PROGRAM app-server`.
pub(super) struct ProgramLauncher {
    program: CodexProgram,
    cwd: PathBuf,
}

impl ProgramLauncher {
    /// Children run in the worker's directory; threads name their own.
    pub(super) fn new(program: CodexProgram) -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Self { program, cwd }
    }
}

impl Launcher for ProgramLauncher {
    fn launch(&self) -> BoxFuture<'_, Result<StartedChild, LaunchError>> {
        Box::pin(async {
            let unavailable = |why: String| LaunchError::Unavailable(why);
            let args = ["app-server".into()];
            let process = self.program.spawn(args, &self.cwd).await;
            let process = process.map_err(|why| unavailable(why.to_string()))?;
            let output = process.output();
            let output = output.map_err(|why| unavailable(why.to_string()))?;
            let mut log = StderrLog::new(self.program.redactor());
            let reader = ChildOutput::new(output, Box::new(move |bytes| log.push(bytes)));
            let writer = ChildInput::new(process.clone());
            Ok(StartedChild {
                duplex: Duplex::lines(reader, writer),
                process: Arc::new(ContainedChild(process)),
            })
        })
    }
}

/// A child of the process service; dropping the last handle kills it.
struct ContainedChild(Process);

impl ChildProcess for ContainedChild {
    fn kill(&self) {
        self.0.end(End::Force);
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // The peer writes no more; what was queued is still written.
            let _ = self.0.close_stdin();
            let exited = self.0.wait(Until::Exited, Some(EOF_GRACE)).await;
            if exited.is_none() {
                self.0.end(End::GRACEFUL);
                self.0.wait(Until::Exited, None).await;
            }
            self.0.end_survivors();
        })
    }
}
