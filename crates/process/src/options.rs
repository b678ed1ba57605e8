//! What the owner of a service decides, once.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::default_limits::DefaultLimits;
use crate::report::ContainmentKind;
use crate::sandbox::{AbsentMounts, LocalSockets};

/// When a service starts what it needs for its processes: the keeper, the spawning thread, the trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// With the service, which fails to start where they fail.
    #[default]
    AtStart,
    /// With the first process, or when somebody asks for the report; for who may never start one.
    /// What fails then fails the spawn. A containment that is asked for is still tried at the start.
    WhenNeeded,
}

/// Options of a service; the defaults are those of the exec-server.
pub struct Options {
    /// The containment to use; the best one there is unless given. One that is asked for and not
    /// there fails the start.
    pub containment: Option<ContainmentKind>,
    /// Where to make cgroups, instead of below the service's own.
    pub cgroup_root: Option<PathBuf>,
    /// The program and arguments that run the keeper. `None`: this program again, if it called
    /// [`crate::keeper_hook`]; without either there is only `group`.
    pub keeper: Option<Vec<OsString>>,
    /// When keeper and spawning thread are started.
    pub begin: Begin,
    /// Descriptors the keeper holds open until everything has ended, e.g. a worker's lock. They are
    /// open from the start of the service on, whenever the keeper is started.
    pub hold: Vec<OwnedFd>,
    /// Output kept of each process: 1/8 head, 7/8 tail.
    pub retained_output_bytes_per_process: usize,
    /// How long that is kept after a process closed.
    pub retain_after_exit: Duration,
    /// How much of it all closed processes may hold together; the oldest go first.
    pub retained_bytes_max: usize,
    /// Processes at once.
    pub processes_max: usize,
    /// Limits of processes that are started under an enforced policy and name none themselves.
    pub default_limits: DefaultLimits,
    /// SIGTERM to SIGKILL when the service stops.
    pub shutdown_grace: Duration,
    /// Paths that no sandboxed process may read, write, lock or list, by any path to them; e.g. the home
    /// of the program that owns the service. One that does not exist hides nothing yet.
    pub hidden: Vec<PathBuf>,
    /// Whether a sandboxed process with network may use sockets of the user's other programs.
    pub local_sockets: LocalSockets,
    /// What happens to policies that need mounts where this machine offers none.
    pub absent_mounts: AbsentMounts,
    /// Where the service keeps a journal of what it makes in other directories, so that the next
    /// service removes what a killed one left, and directories for shared memory. It should be
    /// hidden. Without it a killed service may leave empty mount points behind, and sandboxed
    /// processes have no POSIX shared memory.
    pub state: Option<PathBuf>,
    /// Names of variables children get from the service's own environment, besides the usual ones.
    /// An exact name overrides the patterns of secrets, and the password in a proxy's address stays.
    pub env_pass: Vec<String>,
    /// Names of the variables that providers' keys come from. No child gets them, nor any variable of
    /// the same value, unless `env_pass` has its exact name.
    pub key_variables: Vec<String>,
    /// Milliseconds since 1970.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            containment: None,
            cgroup_root: None,
            keeper: None,
            begin: Begin::default(),
            hold: Vec::new(),
            retained_output_bytes_per_process: 1024 * 1024,
            retain_after_exit: Duration::from_secs(30),
            retained_bytes_max: 256 * 1024 * 1024,
            processes_max: 16_384,
            default_limits: DefaultLimits::default(),
            shutdown_grace: Duration::from_secs(2),
            hidden: Vec::new(),
            local_sockets: LocalSockets::default(),
            absent_mounts: AbsentMounts::default(),
            state: None,
            env_pass: Vec::new(),
            key_variables: Vec::new(),
            now_ms: Arc::new(wall_clock_ms),
        }
    }
}

/// The one place of this crate that looks at the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the default of the clock that is passed in"
)]
fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
