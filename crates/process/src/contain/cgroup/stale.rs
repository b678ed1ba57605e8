//! Parents that services left behind when they crashed together with their keeper.
//!
//! Best effort, at the start of a service. One is removed only if the pid in its name is gone, nobody
//! holds its lock (a service in another pid namespace does) and nobody is in it: what lives is never
//! touched.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use super::PREFIX;
use super::files::{self, Occupancy};

/// Removes what is stale below `base`.
pub(super) fn remove(base: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(base) = rustix::fs::openat(CWD, base, flags, Mode::empty()) else {
        return;
    };
    for name in files::below(base.as_fd()) {
        let Ok(name) = name.into_string() else {
            continue;
        };
        let Some(pid) = pid(&name).filter(|pid| !lives(*pid)) else {
            continue;
        };
        let Ok(parent) = rustix::fs::openat(&base, name.as_str(), flags, Mode::empty()) else {
            continue;
        };
        let lock = rustix::fs::flock(&parent, FlockOperation::NonBlockingLockExclusive);
        let occupancy = files::occupancy(parent.as_fd(), "cgroup.events");
        if lock.is_ok() && occupancy == Occupancy::Empty {
            files::remove_below(parent.as_fd());
            let gone = files::remove(base.as_fd(), &name);
            tracing::debug!(pid, name, gone, "cgroups of a service that crashed");
        }
    }
}

/// The pid in `turnlane-<pid>-<random>`.
fn pid(name: &str) -> Option<i32> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

fn lives(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
