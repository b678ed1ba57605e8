//! The process that has a socket open, found among the descriptors in `/proc`.
//!
//! Looks at the processes of one user only: a confined process has the user of its service. One look
//! is no snapshot, so the caller looks more than once before it believes that no process has a socket.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mark::{self, Mark};

/// The process that has a socket open, as far as one scan tells. Of several that apply, the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SocketOwner {
    /// No process at all.
    None,
    /// No process that can be read, but there are some that cannot, none of them confined.
    Unreadable,
    /// No process that can be read, but a confined one hides what it has open.
    Hidden,
    /// A process that is not confined. A confined one that hides something cannot spoil its connection.
    Free,
    /// A confined process.
    Confined,
}

/// The result of one scan of `/proc`.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) owner: SocketOwner,
    /// Every confined process there was.
    pub(super) confined: BTreeSet<i32>,
}

/// Presence of a socket among the descriptors of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Present,
    Absent,
    /// They cannot be read, or descriptors of it are under way in the queue of a socket.
    Unknown,
}

/// Looks for the socket `inode` among the processes of `uid`.
pub(super) fn find(inode: u64, uid: u32, mark: &Mark) -> Scan {
    let link = PathBuf::from(format!("socket:[{inode}]"));
    let mut scan = Scan {
        owner: SocketOwner::None,
        confined: BTreeSet::new(),
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids {
        let Some(value) = mark::of(pid) else { continue };
        if !runs_as(pid, uid) {
            continue;
        }
        let process = PathBuf::from(format!("/proc/{pid}"));
        let owner = if mark.is_confined(value) {
            scan.confined.insert(pid);
            match descriptors(&process, &link, InFlight::Look) {
                Presence::Present => SocketOwner::Confined,
                Presence::Absent => SocketOwner::None,
                Presence::Unknown => SocketOwner::Hidden,
            }
        } else {
            match descriptors(&process, &link, InFlight::Ignore) {
                Presence::Present => SocketOwner::Free,
                Presence::Absent => SocketOwner::None,
                Presence::Unknown => SocketOwner::Unreadable,
            }
        };
        scan.owner = scan.owner.max(owner);
    }
    scan
}

/// Treatment of descriptors that were sent and not yet received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Look,
    Ignore,
}

fn descriptors(process: &Path, wanted: &Path, in_flight: InFlight) -> Presence {
    let Ok(entries) = fs::read_dir(process.join("fd")) else {
        // One that has ended, and nothing else, has no descriptors at all.
        return if process.exists() && !is_dead(process) {
            Presence::Unknown
        } else {
            Presence::Absent
        };
    };
    let mut found = Presence::Absent;
    for entry in entries.flatten() {
        let Ok(link) = fs::read_link(entry.path()) else {
            continue; // Closed meanwhile.
        };
        if link == wanted {
            return Presence::Present;
        }
        let is_socket = link.as_os_str().as_encoded_bytes().starts_with(b"socket:");
        if in_flight == InFlight::Look && is_socket {
            let info = process.join("fdinfo").join(entry.file_name());
            if has_in_flight(&fs::read_to_string(info).unwrap_or_default()) {
                found = Presence::Unknown;
            }
        }
    }
    found
}

/// Returns whether the kernel says of a local socket that descriptors wait in its queue: `scm_fds: 1`.
fn has_in_flight(info: &str) -> bool {
    info.lines()
        .filter_map(|line| line.strip_prefix("scm_fds:"))
        .any(|count| count.trim() != "0")
}

fn is_dead(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
    state.is_none_or(|state| matches!(state.first(), Some(b'Z' | b'X') | None))
}

/// Returns whether the process has this user. Its directory would not tell: it belongs to root where
/// a process may not be looked into.
fn runs_as(pid: i32, uid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.is_some_and(|line| {
        line.split_whitespace()
            .any(|found| found.parse() == Ok(uid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_under_way_are_seen() {
        assert!(has_in_flight("pos:\t0\nflags:\t02\nscm_fds: 1\n"));
        assert!(!has_in_flight("pos:\t0\nscm_fds: 0\n"));
        assert!(!has_in_flight("pos:\t0\n"));
    }

    #[test]
    fn a_process_that_may_not_be_read_is_told_from_one_that_ended() {
        let nothing = Path::new("socket:[0]");
        let own = Path::new("/proc/self");
        assert_eq!(descriptors(own, nothing, InFlight::Look), Presence::Absent);
        let gone = Path::new("/proc/2147483647");
        assert_eq!(descriptors(gone, nothing, InFlight::Look), Presence::Absent);
        let own = std::process::id().cast_signed();
        assert!(runs_as(own, rustix::process::geteuid().as_raw()));
    }
}
