//! Processes that fell to the service because their keeper died.
//!
//! The service adopts orphans. When a keeper is killed its holders fall to it and end what they hold;
//! when holders are killed as well, what they held falls to it too. The invariant here: only a process
//! that certainly is the service's own is ended or reaped, because a host has other children. Holders
//! are known by their names, orphans by the mark that the caller looks for, and children of the
//! calling thread, the spawning one, are leaders and left alone.

use std::collections::BTreeSet;

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::tree::{Root, Visit, is_named};
use super::{holder, second, sweep};

/// Reaps holders and second keepers that fell to this process; how many of them still live.
pub(crate) fn reap_fallen_holders() -> usize {
    let Some(root) = Root::this() else { return 0 };
    let mut fallen = Vec::new();
    root.children(|pid, dir| {
        if is_named(dir, holder::NAME) || is_named(dir, second::NAME) {
            fallen.extend(Pid::from_raw(pid));
        }
    });
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let lives = |pid: &Pid| {
        matches!(
            rustix::process::waitid(WaitId::Pid(*pid), options),
            Ok(None)
        )
    };
    fallen.iter().filter(|pid| lives(pid)).count()
}

/// Stops and kills those of `orphans`, children of this process, that have not exited, with all their
/// descendants; how many were found. Reaps none of them.
pub(crate) fn end_orphans(orphans: &BTreeSet<i32>) -> usize {
    if orphans.is_empty() {
        return 0;
    }
    let Some(root) = Root::this() else { return 0 };
    sweep::stop_and_kill(&root, |pid| {
        if orphans.contains(&pid) {
            Visit::Enter
        } else {
            Visit::Skip
        }
    })
}
