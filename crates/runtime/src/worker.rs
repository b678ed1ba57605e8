//! Who this process is, for the store's list of workers.
//!
//! The invariant here: only the id decides anything; the rest is for people, and for knowing the
//! children of foreign engines again.

use std::fs;

use turnlane_protocol::ids::WorkerId;
use turnlane_store::Worker;

use crate::clock::Clock;

/// This run of this process, as a worker of the given kind: `serve`, `app-server`, `exec`.
pub fn this_worker(kind: impl Into<String>, clock: &dyn Clock) -> Worker {
    let started_ms = clock.now_ms();
    let id = WorkerId::new(u64::try_from(started_ms).unwrap_or(0));
    Worker {
        id: id.as_uuid().into(),
        pid: std::process::id(),
        pid_start: pid_start().unwrap_or(0),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        host: read("/proc/sys/kernel/hostname"),
        endpoint: None,
        kind: kind.into(),
        started_ms,
    }
}

/// When this process started, in the system's ticks since its boot.
fn pid_start() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses that may hold spaces; the start is the 22nd.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// A line of the system's, empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
