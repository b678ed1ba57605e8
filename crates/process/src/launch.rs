//! From a prepared plan to a running child: the clone, the steps before the exec, the ends of pipes
//! and terminals.
//!
//! Everything is prepared before the clone; between clone and exec only async-signal-safe calls
//! happen, on the child's own stack, in memory shared with the parent, which waits. Which process
//! starts a child (the service or a holder) and what holds its descendants is the business of
//! `contain`.

mod attributes;
mod child;
mod clone;
mod ends;
mod explain;
mod mount;
mod prepare;
mod privileges;
mod slots;
mod syscall;
mod wire;

#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::AtomicI32;

use rustix::process::{WaitId, WaitIdOptions};

use self::child::Job;
use self::clone::Namespaces;

pub(crate) use self::ends::open_ends;
pub(crate) use self::prepare::prepare;
pub(crate) use self::slots::Slots;

/// Everything a child needs, as plain data that can also be sent to the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What was asked for, for errors.
    pub(crate) program: CString,
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

/// Mount and IPC namespaces of the child's own and what is done in them.
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
    /// Something that cannot be opened over the path.
    MaskFile(CString),
    /// An empty directory over the path that can be listed.
    EmptyDirectory(CString),
    /// What is mounted at the path and everything below it become read-only.
    Freeze(CString),
    /// The path and everything below it as they were before the first step.
    Restore(CString),
    /// The first path as it was before the first step, over the second one.
    Instead(CString, CString),
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

/// Whether a Landlock ruleset is in its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ruleset {
    Given,
    None,
}

/// Clones and waits until the child has reached its exec or failed. A failed child was reaped.
///
/// A ruleset is applied if given, which needs restrictions; `cgroup` is the directory the child
/// starts in. The thread that calls this is the one whose end ends the child.
pub(crate) fn launch(
    slots: &mut Slots,
    plan: &Plan,
    ends: &ChildEnds,
    ruleset: Option<BorrowedFd<'_>>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Launched, LaunchError> {
    let in_slot = ruleset.map_or(Ruleset::None, |_| Ruleset::Given);
    let launched = match slots.fill(ends, ruleset) {
        Ok(()) => start(slots, plan, in_slot, cgroup),
        Err(error) => Err(LaunchError {
            stage: Stage::Stdio,
            errno: error.raw_os_error(),
            index: u32::MAX,
        }),
    };
    slots.clear();
    launched
}

/// The launch, with everything in its slot.
fn start(
    slots: &mut Slots,
    plan: &Plan,
    ruleset: Ruleset,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Launched, LaunchError> {
    let argv = pointers(&plan.argv);
    let envp = pointers(&plan.envp);
    let mounts = plan.restrictions.as_ref().and_then(|r| r.mounts.as_ref());
    let ids = mounts.and_then(|mounts| mounts.user_namespace);
    let namespaces = match (mounts, ids) {
        (None, _) => Namespaces::None,
        (Some(_), None) => Namespaces::Mounts,
        (Some(_), Some(_)) => Namespaces::UserAndMounts,
    };
    let map = |id: u32| format!("{id} {id} 1\n").into_bytes();
    let uid_map = ids.map(|(uid, _)| map(uid)).unwrap_or_default();
    let gid_map = ids.map(|(_, gid)| map(gid)).unwrap_or_default();
    let trees = mounts.map_or(0, |mounts| mounts.steps.len());
    let trees: Vec<AtomicI32> = (0..trees).map(|_| AtomicI32::new(-1)).collect();
    let mut job = Job {
        programs: &plan.programs,
        argv: &argv,
        envp: &envp,
        cwd: &plan.cwd,
        terminal: plan.terminal,
        rlimits: &plan.rlimits,
        open_files: slots.open_files(),
        stdio: slots.stdio(),
        ruleset: (ruleset == Ruleset::Given).then(|| slots.ruleset()),
        last_slot: slots.last(),
        restrictions: plan.restrictions.as_ref(),
        uid_map: &uid_map,
        gid_map: &gid_map,
        trees: &trees,
        parent: rustix::process::getpid().as_raw_pid(),
        failure: None,
    };
    let cloned = clone::clone(&mut slots.stack, &mut job, namespaces, cgroup);
    let (pid, pidfd) = cloned.map_err(|errno| LaunchError {
        stage: Stage::Clone,
        errno,
        index: u32::MAX,
    })?;
    match job.failure {
        None => Ok(Launched { pid, pidfd }),
        Some(failure) => {
            reap(pidfd.as_fd());
            Err(failure)
        }
    }
}

/// The addresses of the strings and a null pointer, as the exec wants them.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let strings = strings.iter().map(|string| string.as_ptr());
    strings.chain([ptr::null()]).collect()
}

/// Takes away a child that is exiting. That it is nobody's child any more is as good.
fn reap(pidfd: BorrowedFd<'_>) {
    let _ = rustix::io::retry_on_intr(|| {
        rustix::process::waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED)
    });
}
