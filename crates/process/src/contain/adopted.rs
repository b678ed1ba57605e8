//! Orphans that fell to this process: found, ended, and reaped when they are dead.
//!
//! The service is child-subreaper, so processes that outlive their parents in a containment become
//! its children, and zombies when they end. They have no pidfd here and no task waits for them. The
//! invariant: only a child that is certainly ours is touched, because a host has children of its own.
//! Leaders are children of the spawning thread and are left to their drivers; the kernel gives
//! orphans to another thread, so the lists are short.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::group::Stat;
use super::keeper;
use super::wait::{self, Child, Zombie};

/// Reaps dead children that `is_ours`, except those of the calling thread, which must be the
/// spawning one. How many.
pub(super) fn reap(is_ours: impl Fn(i32) -> bool) -> usize {
    let dead = children().filter(|pid| Stat::of(*pid).is_some_and(Stat::is_dead));
    let ours = dead.filter(|pid| is_ours(*pid));
    // An unreaped child's pid is nobody else's.
    ours.filter(|pid| wait::ended(Child::Pid(*pid), Zombie::Reap).is_some())
        .count()
}

/// Kills children that `is_ours` with all their descendants, and reaps the dead, except those of the
/// calling thread, as above. How many there were; 0 says that one look found none.
pub(super) fn end(is_ours: impl Fn(i32) -> bool) -> usize {
    let ours: BTreeSet<i32> = children().filter(|pid| is_ours(*pid)).collect();
    let killed = keeper::end_orphans(&ours);
    let reaped = reap(|pid| ours.contains(&pid));
    killed + reaped
}

/// Children of all threads but the calling one.
fn children() -> impl Iterator<Item = i32> {
    let own = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let others = tasks
        .filter_map(Result::ok)
        .filter(move |task| task.file_name() != own.as_str());
    others.flat_map(|task| listed(task.path().join("children")))
}

/// Empty also on kernels that do not have the list.
fn listed(path: PathBuf) -> Vec<i32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pids = text.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}
