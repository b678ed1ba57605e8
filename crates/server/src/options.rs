//! What a server is made with.
//!
//! The invariant here: nothing that a person configures is read by this crate itself; it is given at
//! the start, or asked of [`Defaults`] at each call, so that a changed file counts from then on.
//!
//! Where configuration comes from, and what it means, is the binary's business.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use turnlane_process::ProcessService;
use turnlane_protocol::ids::WorkerId;
use turnlane_protocol::policy::BuiltinProfile;
use turnlane_rpc::listen::PeerFilter;
use turnlane_runtime::fanout::jobs::Owner as JobOwner;
use turnlane_runtime::store::queue::Policies;
use turnlane_runtime::{AfterInterrupt, Clock, Handle, Settings};

use crate::answers::Facts;

/// Options of a server.
#[derive(Clone)]
pub struct Options {
    /// The runtime whose threads are served.
    pub runtime: Handle,
    /// What runs the commands of `command/exec` and `process/*`.
    pub service: ProcessService,
    /// What callers get where they are silent.
    pub defaults: Arc<dyn Defaults>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// `$TURNLANE_HOME`, as clients are told.
    pub home: PathBuf,
    /// The directory that relative paths of stdio clients begin at.
    pub cwd: PathBuf,
    /// The process that answers.
    pub worker_id: WorkerId,
    /// The rule for commands without a sandbox.
    pub process_spawn: ProcessSpawn,
    /// What becomes of a queue after an interrupt whose caller said nothing.
    pub on_interrupt: AfterInterrupt,
    /// The namespaces that are built, as `initialize` answers them.
    pub features: Vec<String>,
    /// The rules for fan-out jobs.
    pub fanout: FanoutOptions,
    /// Refuses peers of every listener that serves this server, before a byte of their connection is
    /// read.
    pub refuse_peer: Option<PeerFilter>,
}

/// The rules for fan-out jobs.
#[derive(Clone, Copy, Debug)]
pub struct FanoutOptions {
    /// The owner of jobs whose caller names none, and of jobs that are resumed here.
    pub owner: JobOwner,
    /// Take paths of the server from websockets too.
    pub server_paths: bool,
}

impl Default for FanoutOptions {
    fn default() -> Self {
        Self {
            owner: JobOwner::Detached,
            server_paths: false,
        }
    }
}

/// The rule for commands without a sandbox: those of `process/spawn`, and of every other method with a
/// policy that confines nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessSpawn {
    /// Every client may, but those of [`PeerKind::OpenWebSocket`].
    #[default]
    Allow,
    /// None may, whatever the policy of a thread or of the configuration says.
    Deny,
}

/// What is known about the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// Standard input and output, or the same process: whoever started us.
    Stdio,
    /// A process of the same user.
    Unix,
    /// A websocket whose client has shown a token.
    WebSocket,
    /// A websocket of a listener that asks for no token.
    OpenWebSocket,
}

impl PeerKind {
    /// Whether the other end is on this machine and ours.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Stdio | Self::Unix)
    }
}

/// What a caller of `thread/start` wants, as far as configuration depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The directory of the thread; the server's own when the caller named none.
    pub cwd: &'a str,
    /// Keys of the shared configuration that the caller gave.
    pub config: Option<&'a Map<String, Value>>,
    /// The provider that the caller named.
    pub provider: Option<&'a str>,
    /// The model that the caller named.
    pub model: Option<&'a str>,
    /// The engine of the thread; none where the caller asks only for rights.
    pub engine: Option<&'a str>,
}

/// What callers get where they are silent; asked at every call.
pub trait Defaults: Send + Sync + 'static {
    /// The settings of a new thread, by configuration and the trust in its directory. An error is
    /// a text for the caller, whose keys do not fit.
    fn settings(&self, wanted: Wanted<'_>) -> Result<Settings, String>;

    /// The permission profile with this name. An error is a text for the caller.
    fn permission_profile(&self, id: &str) -> Result<BuiltinProfile, String> {
        BuiltinProfile::resolve(id, None).map_err(|error| error.to_string())
    }

    /// Loads the rules about commands that hold in this directory; without one, those that hold
    /// everywhere. An error is the text that a turn would fail with. Reads the disk.
    fn check_rules(&self, cwd: Option<&str>) -> Result<(), String> {
        let _ = cwd;
        Ok(())
    }

    /// The engine of a thread whose caller named none.
    fn engine(&self) -> String;

    /// How many turns may wait in a lane whose caller said nothing.
    fn queue_max_depth(&self) -> u32 {
        1_000
    }

    /// What becomes of a queued turn that fails, of which its caller said nothing.
    fn queue_policies(&self) -> Policies {
        Policies::default()
    }

    /// The places where commands may run: this machine and configured exec-servers.
    fn environments(&self) -> Vec<String> {
        vec!["local".to_owned()]
    }

    /// The files of instructions that a turn in this directory is given, the widest first. Reads the
    /// disk.
    fn instruction_sources(&self, cwd: &str) -> Vec<String> {
        let _ = cwd;
        Vec::new()
    }

    /// What is told about configuration, model and account, for this directory.
    fn facts(&self, cwd: Option<&str>) -> Facts;
}
