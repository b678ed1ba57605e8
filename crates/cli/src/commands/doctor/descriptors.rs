//! The limit of open files, of this shell and of the daemon.
//!
//! The invariant here: a limit below which commands of a turn fail has to be fixed, wherever turns run:
//! in the daemon where one serves, else in this process.

use std::fs;

use rustix::process::{Resource, getrlimit};
use serde_json::{Map, json};

use super::{Finding, Mark, Part};
use crate::commands::serve::record::{Presence, presence};
use crate::home;

/// A daemon with 32 running turns was seen to need 134.
const OPEN_FILES_MIN: u64 = 256;

pub(super) fn look() -> Part {
    let own = getrlimit(Resource::Nofile).current;
    let daemon = home::find().ok().and_then(|home| match presence(&home) {
        Presence::Listening(pid) | Presence::Suspended(pid) => Some(pid),
        Presence::Absent | Presence::Stopping(_) | Presence::Denied => None,
    });
    let of_daemon = daemon.and_then(limit_of);
    let found = match (daemon, of_daemon) {
        (Some(pid), Some(limit)) => finding(limit, &format!("process {pid}, the daemon,")),
        // A daemon of another user does not show its limits; then this shell is all that is known.
        _ => finding(own.unwrap_or(u64::MAX), "a process of this shell"),
    };
    let facts = json!({"limit": own, "daemonLimit": of_daemon});
    Part {
        title: "Open files: how many a process may have at once",
        findings: vec![found],
        facts: Map::from_iter([("openFiles".to_owned(), facts)]),
    }
}

fn finding(limit: u64, who: &str) -> Finding {
    if limit >= OPEN_FILES_MIN {
        let limit = match limit {
            u64::MAX => "any number".to_owned(),
            limit => limit.to_string(),
        };
        return Finding::new(Mark::Yes, "limit", format!("{who} may open {limit}"));
    }
    let text =
        format!("{who} may open {limit}: commands of agents may fail, {OPEN_FILES_MIN} are needed");
    Finding::new(Mark::Fix, "limit", text).next(
        "type `ulimit -n 1024` in the shell that starts turnlane, or set LimitNOFILE=1024 in the \
         systemd unit of the daemon, and start the daemon again",
    )
}

/// The limit of another process; none where the system does not tell.
fn limit_of(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    read_limit(&limits)
}

fn read_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_process_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max open files            40                   1048576              files     \n";
        assert_eq!(read_limit(text), Some(40));
        assert_eq!(
            read_limit("Max open files unlimited unlimited files"),
            Some(u64::MAX)
        );
        assert_eq!(read_limit(""), None);
        assert!(limit_of(std::process::id()).is_some());
    }

    #[test]
    fn a_low_limit_has_to_be_fixed() {
        assert_eq!(finding(40, "it").mark, Mark::Fix);
        assert_eq!(finding(256, "it").mark, Mark::Yes);
        assert_eq!(finding(u64::MAX, "it").text, "it may open any number");
    }
}
