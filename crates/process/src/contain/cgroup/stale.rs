//! Parents that services left behind when they crashed together with their keepers.
//!
//! At the start of a service, before it starts anything. A parent is stale if the process in its name
//! (pid and start time) is gone and its lock is free: a service holds the lock as long as it lives, in
//! whatever pid namespace. Processes in a stale one are killed: no keeper is left to do it. The
//! invariant here: what belongs to a living service is never touched. Both conditions are needed, the
//! first for a service that has made its parent and not locked it yet.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use super::files::{self, Occupancy};
use super::{PREFIX, wait_until_empty};

/// Time that one stale parent gets to become empty after its processes were killed. A process
/// that is still there then is stuck in the kernel, and the parent is left to the next start.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);

/// Ends and removes what is stale below `base`.
pub(super) fn remove(base: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(base) = rustix::fs::openat(CWD, base, flags, Mode::empty()) else {
        return;
    };
    let mut stale: Vec<(String, OwnedFd)> = Vec::new();
    for name in files::below(base.as_fd()) {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if Owner::parse(&name).is_none_or(Owner::lives) {
            continue;
        }
        let Ok(parent) = rustix::fs::openat(&base, name.as_str(), flags, Mode::empty()) else {
            continue;
        };
        let lock = rustix::fs::flock(&parent, FlockOperation::NonBlockingLockExclusive);
        if lock.is_ok() {
            // All are killed before the first is waited for.
            kill(parent.as_fd(), &name);
            stale.push((name, parent));
        }
    }
    for (name, parent) in stale {
        if let Ok(events) = files::open(parent.as_fd(), "cgroup.events") {
            wait_until_empty(&events, EMPTY_WITHIN);
        }
        files::remove_below(parent.as_fd());
        if files::remove(base.as_fd(), &name) {
            tracing::debug!(name, "removed the cgroups of a service that crashed");
        } else {
            tracing::error!(name, "a cgroup of a service that crashed cannot be emptied");
        }
    }
}

fn kill(parent: BorrowedFd<'_>, name: &str) {
    if files::occupancy(parent, "cgroup.events") != Occupancy::Populated {
        return;
    }
    tracing::warn!(name, "ending processes of a service that crashed");
    if let Err(errno) = files::write(parent, "cgroup.kill", b"1") {
        tracing::error!(name, %errno, "cgroup.kill failed");
    }
}

/// The end of a parent's name that says whose it is.
pub(super) fn owner_of_this_process() -> String {
    let pid = std::process::id();
    let started = started(pid.cast_signed()).unwrap_or_default();
    format!("{pid}-{started}")
}

/// The process in `turnlane-<pid>-<start time>-<random>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    pid: i32,
    /// In ticks since the boot. `None` in names of earlier versions.
    started: Option<u64>,
}

impl Owner {
    fn parse(name: &str) -> Option<Self> {
        let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let started = rest.split_once('-').and_then(|(text, _)| text.parse().ok());
        let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
        Some(Self { pid, started })
    }

    /// Returns whether that process is still there, and not another one with its number.
    fn lives(self) -> bool {
        match (self.started, started(self.pid)) {
            (Some(then), Some(now)) => then == now,
            (None, now) => now.is_some(),
            (Some(_), None) => false,
        }
    }
}

/// When a process started, the 22nd field of its `stat`; the second, its name, may hold anything.
/// `None` also for a dead process that was not reaped: it holds no lock any more.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    if rest.starts_with(['Z', 'X']) {
        return None;
    }
    rest.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_away_again_does_not_keep_a_parent_alive() {
        let own = owner_of_this_process();
        let alive = Owner::parse(&format!("{PREFIX}{own}-0a")).unwrap();
        assert!(alive.started.is_some() && alive.lives());
        let reused = Owner {
            started: alive.started.map(|started| started + 1),
            ..alive
        };
        assert!(!reused.lives());
        let gone = Owner::parse("turnlane-2147483646-1-0a").unwrap();
        assert!(!gone.lives());
        // A name of an earlier version.
        let earlier = Owner::parse(&format!("{PREFIX}{}-0a1b", alive.pid)).unwrap();
        assert_eq!(earlier.started, None);
        assert!(earlier.lives());
        for other in [
            "turnlane-x-1-2",
            "turnlane--1-2",
            "other-1-2-3",
            "turnlane-0-1-2",
        ] {
            assert_eq!(Owner::parse(other), None, "{other}");
        }
    }
}
