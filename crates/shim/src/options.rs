//! What a shim is started with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use turnlane_process::ProcessService;

/// Tells the time in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The longest id.
const ID_BYTES_MAX: usize = 64;

/// What a shim is started with; the command line says what each of them means.
#[derive(Clone)]
pub struct Options {
    /// The name of the member.
    pub id: String,
    /// The directory to work in, by its real path.
    pub cwd: PathBuf,
    /// What a new thread is made with.
    pub thread: ThreadSettings,
    /// The directory of the file that says what was reported.
    pub state_directory: PathBuf,
    /// Where the readable log goes.
    pub log_path: Option<PathBuf>,
    /// How long a turn may go on after EOF with `drain`, and after a signal.
    pub graceful: Duration,
    /// Whether uncommitted work is preserved at the end.
    pub preserves: bool,
    /// What happens when the orchestrator is gone.
    pub on_disconnect: OnDisconnect,
    /// What happens to a message whose outcome a crash left unknown.
    pub on_unknown: OnUnknown,
    /// What happens to a message that a limit of the provider stopped.
    pub on_block: OnBlock,
    /// How many messages may wait; for a new thread.
    pub max_queue: u32,
    /// How long a binding or lane that is held elsewhere is waited for.
    pub handoff_wait: Duration,
    /// How long one turn may take.
    pub turn_timeout: Option<Duration>,
    /// After which silence a turn is reported.
    pub stall_after: Option<Duration>,
    /// The command that the agent is told to reply with.
    pub reply_command: Option<String>,
    /// Whether a new thread takes the place of the present one.
    pub is_fresh: bool,
    /// The lane is paused after so many failed turns in a row; 0 is never.
    pub hold_after_failures: u32,
    /// Tells the wall-clock time.
    pub clock: Clock,
    /// The version that `Ready` shows.
    pub version: String,
    /// Starts git.
    pub processes: ProcessService,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("id", &self.id)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// What a new thread is made with, and the next turns of one that exists.
#[derive(Clone, Debug, Default)]
pub struct ThreadSettings {
    /// The engine; the server's default when there is none.
    pub engine: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The sandbox, as `thread/start` takes it.
    pub sandbox: Option<Value>,
    /// Keys of the shared configuration.
    pub config: Option<Map<String, Value>>,
}

/// Which server the client is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// A daemon, which goes on without the shim.
    Daemon,
    /// A server in this process, which ends with the shim.
    Embedded,
}

/// What happens when the orchestrator is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The turn is interrupted and the shim ends.
    Stop,
    /// The turn may go on for the graceful timeout.
    Drain,
    /// The lane goes on without the shim.
    Detach,
}

/// What happens to a message whose outcome a crash left unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnknown {
    /// It is reported, and the lane goes on.
    Skip,
    /// It is reported and holds the lane.
    Block,
    /// It runs again.
    Retry,
}

/// What happens to a message that a limit of the provider stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBlock {
    /// The lane waits and goes on by itself.
    Wait,
    /// The message fails.
    Fail,
}

/// Returns true if `id` can name a member: 1 to 64 of letters, digits, `.`, `_` and `-`.
pub fn is_valid_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_allowed)
}

/// The name by which the thread of a member is found: the same id in the same directory.
pub fn binding(id: &str, real_cwd: &Path) -> String {
    format!("shim:{id}@{}", real_cwd.display())
}
