//! Ending everybody below a process that adopts their orphans.
//!
//! First everybody is stopped, walk after walk, until a walk finds nobody new: whoever has a signal
//! pending cannot complete a fork, so a loop that forks faster than it can be killed comes to rest.
//! Then everybody is killed. Neither proves that nobody is left; the caller repeats the round until
//! its `waitpid` does.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use super::sys::{Reach, pidfd_signal};
use super::tree::{Order, Root, Visit};

/// Walks of one stop sweep. More are only needed while a fork loop still grows; the next round goes
/// on.
const WALKS_MAX: usize = 64;

/// Members that are killed by the descriptors of the stop sweep; if there are more, by another walk.
const KEPT_MAX: usize = 64;

/// Stops and kills everybody below `root`, apart from those of its children that `enter` skips. How
/// many were found.
pub(super) fn stop_and_kill(root: &Root, enter: impl Fn(i32) -> Visit) -> usize {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<OwnedFd> = Vec::new();
    for _ in 0..WALKS_MAX {
        let before = seen.len();
        root.walk(Order::ParentsFirst, &enter, |member| {
            if !member.zombie && seen.insert(member.pid) {
                member.signal(libc::SIGSTOP);
                if kept.len() < KEPT_MAX {
                    kept.extend(member.dir.try_clone_to_owned());
                }
            }
        });
        if seen.len() == before {
            break;
        }
    }
    if kept.len() == seen.len() {
        for dir in &kept {
            // Fails if it has ended meanwhile, or may not be signalled by us: the caller sees that.
            let _ = pidfd_signal(dir.as_fd(), libc::SIGKILL, Reach::Process);
        }
    } else {
        root.walk(Order::ChildrenFirst, &enter, |member| {
            member.signal(libc::SIGKILL);
        });
    }
    seen.len()
}

/// Everybody below `root` who has not exited, each once.
pub(super) fn living(root: &Root) -> Vec<i32> {
    let mut pids = BTreeSet::new();
    root.walk(
        Order::ParentsFirst,
        |_| Visit::Enter,
        |member| {
            if !member.zombie {
                pids.insert(member.pid);
            }
        },
    );
    pids.into_iter().collect()
}
