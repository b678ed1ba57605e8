//! From a prepared plan to a running child: the clone, the steps before the exec, the ends of pipes
//! and terminals.
//!
//! Everything is prepared before the clone; between clone and exec only async-signal-safe calls
//! happen, on the child's own stack, in memory shared with the parent, which waits. Which process
//! starts a child (the service or a holder) and what holds its descendants is the business of
//! `contain`.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::error::SpawnError;
use crate::spec::{Delivery, Io, Spec};

/// Everything a child needs, as plain data that can also be sent to the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Files to execute, in the order to be tried.
    pub(crate) programs: Vec<CString>,
    /// Arguments as the program sees them, its name first.
    pub(crate) argv: Vec<CString>,
    /// `NAME=value`, complete.
    pub(crate) envp: Vec<CString>,
    /// Entered by the child after its mounts are made.
    pub(crate) cwd: CString,
    /// Whether standard input becomes the controlling terminal.
    pub(crate) terminal: Terminal,
    /// Resource, soft, hard; applied with `prlimit`.
    pub(crate) rlimits: Vec<(u32, u64, u64)>,
    /// What the child gives up before the exec.
    pub(crate) restrictions: Option<Restrictions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    None,
    Controlling,
}

/// What the child gives up, in this order: mounts, capabilities, new privileges, the Landlock
/// ruleset (whose descriptor travels beside the plan), system calls. Made by `sandbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restrictions {
    pub(crate) mounts: Option<Mounts>,
    /// Capabilities to keep, as a mask; all others are dropped from every set.
    pub(crate) capabilities_kept: u64,
    /// A seccomp program, one `sock_filter` per entry in its memory layout.
    pub(crate) filter: Vec<[u8; 8]>,
}

/// A mount namespace of the child's own and what is done in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounts {
    /// Also a user namespace, in which these stay our ids.
    pub(crate) user_namespace: Option<(u32, u32)>,
    /// In this order, after everything was made private.
    pub(crate) steps: Vec<MountStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MountStep {
    /// The path on itself, so that it cannot be renamed away.
    BindSelf(CString),
    /// The path on itself, read-only with everything below it.
    ReadOnly(CString),
    /// An empty directory over the path.
    MaskDirectory(CString),
    /// `/dev/null` over the path.
    MaskFile(CString),
}

/// The child's ends of its streams.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Our ends: non-blocking, closed on exec.
#[derive(Debug)]
pub(crate) struct OurEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// The terminal's master, read and written.
    pub(crate) terminal: Option<OwnedFd>,
    /// The path of the terminal's other side.
    pub(crate) pts: Option<PathBuf>,
}

/// A child that has reached its exec.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// Where a child failed before its exec, and the system's error. Plain data: a holder sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchError {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
    /// Which entry of the list the stage works through (rlimit, mount step, program).
    pub(crate) index: u32,
}

/// The steps of a child, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Stage {
    Clone = 0,
    Session = 1,
    Limit = 2,
    Stdio = 3,
    Namespace = 4,
    Mount = 5,
    Cwd = 6,
    Capabilities = 7,
    Landlock = 8,
    Seccomp = 9,
    Exec = 10,
}

/// The reserved low descriptors a spawn uses; one spawn at a time.
#[derive(Debug)]
pub(crate) struct Slots {}

impl Slots {
    pub(crate) fn reserve() -> std::io::Result<Self> {
        todo!()
    }
}

/// Checks a spec and turns it into a plan; `envp` is the finished environment.
pub(crate) fn prepare(
    spec: &Spec,
    envp: Vec<(std::ffi::OsString, std::ffi::OsString)>,
) -> Result<Plan, SpawnError> {
    let _ = (spec, envp);
    todo!()
}

/// Pipes, a terminal or `/dev/null`.
pub(crate) fn open_ends(io: Io, delivery: Delivery) -> Result<(ChildEnds, OurEnds), SpawnError> {
    let _ = (io, delivery);
    todo!()
}

/// Clones and waits until the child has reached its exec or failed. A failed child was reaped.
pub(crate) fn launch(
    slots: &mut Slots,
    plan: &Plan,
    ends: &ChildEnds,
    ruleset: Option<BorrowedFd<'_>>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Launched, LaunchError> {
    let _ = (slots, plan, ends, ruleset, cgroup);
    todo!()
}

impl LaunchError {
    /// The error a caller sees.
    pub(crate) fn explain(self, plan: &Plan) -> SpawnError {
        let _ = plan;
        todo!()
    }
}

impl Plan {
    /// As bytes for the keeper.
    pub(crate) fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// From bytes of [`Plan::encode`]; `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let _ = bytes;
        todo!()
    }
}
