//! What is in force: for one process, for the machine, for all processes.
//!
//! Nothing here is promised, only reported: the kinds were found by trying, at the start of the
//! service.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::default_limits::DefaultLimitsReport;
use crate::process::ProcessId;
use crate::sandbox::AbsentMounts;
use crate::spec::Io;
use crate::status::ExitStatus;

/// How descendants are held together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainmentKind {
    /// A cgroup of its own, ended by `cgroup.kill`.
    Cgroup,
    /// A holder that adopts every orphan of the process.
    Reaper,
    /// The process group only.
    Group,
}

impl ContainmentKind {
    /// The word used in configuration, on the wire and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Reaper => "reaper",
            Self::Group => "group",
        }
    }
}

/// How access to files is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsEnforcement {
    /// Landlock alone.
    Landlock,
    /// Landlock in a mount namespace of its own.
    LandlockAndMounts,
    /// Not at all.
    None,
}

/// How access to the network is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEnforcement {
    /// By a filter of system calls.
    Seccomp,
    /// Not at all.
    Open,
}

/// The sandbox one process runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The policy's name: `read-only`, `workspace-write`, `custom`, `danger-full-access`,
    /// `external`.
    pub policy: &'static str,
    /// Files.
    pub fs: FsEnforcement,
    /// The version of Landlock, if it is in use.
    pub landlock_abi: Option<u32>,
    /// Network.
    pub network: NetworkEnforcement,
    /// Whether signals and abstract sockets stay inside as well.
    pub scopes: bool,
}

impl Confined {
    /// Whether anything is enforced at all.
    pub fn is_enforced(&self) -> bool {
        self.fs != FsEnforcement::None || self.network != NetworkEnforcement::Open
    }
}

/// What is known of a process from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The leader.
    pub pid: i32,
    /// How its descendants are held.
    pub containment: ContainmentKind,
    /// What it may touch.
    pub sandbox: Confined,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: i64,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// The leader lives.
    Running,
    /// The leader was reaped; a stream is still open.
    Exited,
    /// Everything was told.
    Closed,
}

/// One line of [`crate::ProcessService::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub id: ProcessId,
    /// Pid, containment, sandbox and start.
    pub info: ProcessInfo,
    /// The program as it was asked for.
    pub argv0: OsString,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Pipes or terminal.
    pub io: Io,
    /// Where it stands.
    pub state: ProcessState,
    /// How the leader ended.
    pub status: Option<ExitStatus>,
    /// Members of the containment besides the leader, once that has exited.
    pub survivors: usize,
    /// Output read and not yet taken.
    pub undelivered_bytes: u64,
    /// Output read in all.
    pub total_bytes: u64,
}

/// What this machine offers, found by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The containment in force.
    pub containment: ContainmentKind,
    /// Each better kind that is absent, and why.
    pub containment_absent: Vec<(ContainmentKind, String)>,
    /// The directory that holds the cgroups of this service.
    pub cgroup_root: Option<PathBuf>,
    /// Controllers that can limit a cgroup.
    pub cgroup_controllers: Vec<String>,
    /// The version of Landlock, or why there is none.
    pub landlock: Result<u32, String>,
    /// Filters of system calls, or why not.
    pub seccomp: Result<(), String>,
    /// Mount namespaces: as root, by a user namespace, or why not.
    pub mounts: Result<MountsBy, String>,
    /// Limits that hold for confined processes that name none themselves, and their mechanisms.
    pub default_limits: DefaultLimitsReport,
}

/// Whoever knows what can be enforced on this machine: a report, or a service that tries it when asked.
pub trait Enforces {
    /// The version of Landlock, or why there is none.
    fn landlock(&self) -> &Result<u32, String>;
    /// Filters of system calls, or why not.
    fn seccomp(&self) -> &Result<(), String>;
    /// Mount namespaces, or why not.
    fn mounts(&self) -> &Result<MountsBy, String>;
    /// Paths that no sandboxed process may see.
    fn hidden(&self) -> &[PathBuf];
    /// What happens to policies that need mounts where there are none.
    fn absent_mounts(&self) -> AbsentMounts {
        AbsentMounts::Refuse
    }
}

impl Enforces for Report {
    fn landlock(&self) -> &Result<u32, String> {
        &self.landlock
    }

    fn seccomp(&self) -> &Result<(), String> {
        &self.seccomp
    }

    fn mounts(&self) -> &Result<MountsBy, String> {
        &self.mounts
    }

    fn hidden(&self) -> &[PathBuf] {
        &[]
    }
}

/// What lets a child have mounts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountsBy {
    /// The service runs as root.
    Root,
    /// A user namespace.
    UserNamespace,
}
