//! What holds the descendants of a process together, and the thread that starts processes.
//!
//! Three kinds, best first: a cgroup of its own, a holder under the keeper that adopts every orphan
//! of the process, the process group. The kind is chosen once, at the start of the service, by
//! trying. Whoever holds a [`Running`] can end everything at once without waiting for anyone.
//!
//! `cgroup` needs a cgroup2 directory to work in. Root has one where the file system is writable,
//! also in a hybrid tree and without any controller. An ordinary user needs a delegated subtree with
//! the service running inside it (systemd: `Delegate=yes`); a directory that is merely writable is
//! refused by the kernel at the clone, which the trial at the start finds out. Limits on memory and
//! processes of a whole containment need the controllers as well, which the kernel hands down only
//! from a cgroup without processes of its own: name one with [`crate::Options::cgroup_root`].
//!
//! What a process reads, writes and when it is ended is decided by its driver, not here.

mod adopted;
mod cgroup;
mod group;
mod keeper;
mod probe;
mod running;
mod spawner;
mod wait;
mod watched;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::launch::{ChildEnds, Plan};
use crate::report::ContainmentKind;
use crate::spec::Containment;
use crate::status::Rusage;

pub use keeper::keeper_hook;
pub(crate) use running::Running;
pub(crate) use spawner::Spawner;

/// One child to start.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) plan: Plan,
    pub(crate) ends: ChildEnds,
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) containment: Containment,
    pub(crate) memory_max: Option<u64>,
    pub(crate) pids_max: Option<u64>,
    /// The use of default limits for what the two above leave open.
    pub(crate) default_limits: Defaults,
}

/// The use of default limits for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defaults {
    Apply,
    Skip,
}

/// What was found at the start, for the report.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: ContainmentKind,
    pub(crate) absent: Vec<(ContainmentKind, String)>,
    pub(crate) cgroup_root: Option<PathBuf>,
    pub(crate) controllers: Vec<String>,
    /// Those of them by which default limits hold.
    pub(crate) default_controllers: Vec<String>,
}

/// How a leader ended, as the kernel told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Code(i32),
    Signal(i32),
    /// The keeper or the holder died with the status.
    Lost,
}

/// The end of a leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) how: How,
    pub(crate) rusage: Rusage,
}
