//! Orphans that fell to this process, reaped when they are dead.
//!
//! The service is child-subreaper, so processes that outlive their parents in a containment become
//! its children, and zombies when they end. They have no pidfd here and nobody waits for them. The
//! invariant: only a zombie that is certainly ours is reaped, because a host has children of its own.
//! Leaders are children of the spawning thread and are left to their drivers; the kernel gives
//! orphans to another thread, so the lists are short.

use std::path::PathBuf;

use super::group::Stat;
use super::wait::{self, Child, Zombie};

/// Reaps dead children that `is_ours`, except those of the calling thread, which must be the
/// spawning one. How many.
pub(super) fn reap(is_ours: impl Fn(i32) -> bool) -> usize {
    let own = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let tasks = tasks.filter_map(Result::ok);
    let others = tasks.filter(|task| task.file_name() != own.as_str());
    let children = others.flat_map(|task| children(task.path().join("children")));
    let dead = children.filter(|pid| Stat::of(*pid).is_some_and(Stat::is_dead));
    let ours = dead.filter(|pid| is_ours(*pid));
    // An unreaped child's pid is nobody else's.
    ours.filter(|pid| wait::ended(Child::Pid(*pid), Zombie::Reap).is_some())
        .count()
}

/// Empty also on kernels that do not have the list.
fn children(path: PathBuf) -> Vec<i32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pids = text.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}
