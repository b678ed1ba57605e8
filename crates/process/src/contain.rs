//! What holds the descendants of a process together, and the thread that starts processes.
//!
//! Three kinds, best first: a cgroup of its own, a holder under the keeper that adopts every orphan
//! of the process, the process group. The kind is chosen once, at the start of the service, by
//! trying. Whoever holds a [`Running`] can end everything at once without waiting for anyone.

mod keeper;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::task::{Context, Poll};

use crate::error::{SpawnError, StartError};
use crate::launch::{ChildEnds, Plan};
use crate::options::Options;
use crate::report::ContainmentKind;
use crate::spec::{Containment, Signal, Target};
use crate::status::Rusage;

pub use keeper::keeper_hook;

/// One child to start.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) plan: Plan,
    pub(crate) ends: ChildEnds,
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) containment: Containment,
    pub(crate) memory_max: Option<u64>,
    pub(crate) pids_max: Option<u64>,
}

/// What was found at the start, for the report.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: ContainmentKind,
    pub(crate) absent: Vec<(ContainmentKind, String)>,
    pub(crate) cgroup_root: Option<PathBuf>,
    pub(crate) controllers: Vec<String>,
}

/// The spawning thread, the keeper and the cgroups of one service.
#[derive(Debug)]
pub(crate) struct Spawner {}

impl Spawner {
    /// Probes, starts thread and keeper.
    pub(crate) fn start(options: &mut Options) -> Result<(Self, Found), StartError> {
        let _ = options;
        todo!()
    }

    /// Starts a child on the spawning thread. Cancelled, it leaves nothing behind: a child that was
    /// started for nobody is ended.
    pub(crate) async fn spawn(&self, request: Request) -> Result<Running, SpawnError> {
        let _ = request;
        todo!()
    }

    /// Ends whatever is left, lets the keeper go and joins the thread. May block briefly.
    pub(crate) fn stop(&self) {
        todo!()
    }
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

/// A started leader with all its descendants. Polled by the driver; ended and signalled by anybody,
/// through a shared reference, without waiting. Dropping it force-ends what is left and gives cgroup,
/// holder and descriptors back.
#[derive(Debug)]
pub(crate) struct Running {}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        todo!()
    }

    pub(crate) fn kind(&self) -> ContainmentKind {
        todo!()
    }

    /// The leader's end, once; reaps it.
    pub(crate) fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        let _ = cx;
        todo!()
    }

    /// Resolves when no member is left. Only meaningful after the exit was polled ready.
    pub(crate) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        todo!()
    }

    /// SIGKILL to every member, at once.
    pub(crate) fn kill(&self) {
        todo!()
    }

    /// Whether anybody got it. `Target::Group` means the leader's own group here; a terminal's
    /// foreground group is found by the driver.
    pub(crate) fn signal(&self, signal: Signal, target: Target) -> bool {
        let _ = (signal, target);
        todo!()
    }

    /// Pids that are members now, the leader included while it is not reaped.
    pub(crate) fn members(&self) -> Vec<i32> {
        todo!()
    }
}
