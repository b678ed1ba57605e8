//! The process group of a leader: who is in it, and signals to it.
//!
//! A group's number is the leader's pid and may become somebody else's once the leader is reaped and
//! the group is empty. Whoever signals a group therefore keeps its leader unreaped; nothing here
//! could find out. Under the kind `group` the leader stays a zombie until its [`super::Running`] is
//! dropped, for this reason alone.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::spec::Signal;

/// What `/proc/<pid>/stat` says of a process, as far as it concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// `Z` and `X` are dead.
    pub(super) state: u8,
    pub(super) group: i32,
    pub(super) session: i32,
}

impl Stat {
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state parent group session …`; the name may hold anything, also `)`.
    fn parse(stat: &[u8]) -> Option<Self> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(stat.get(end + 2..)?).ok()?.split(' ');
        let state = *fields.next()?.as_bytes().first()?;
        let mut number = || fields.next()?.parse::<i32>().ok();
        let _parent = number()?;
        Some(Self {
            state,
            group: number()?,
            session: number()?,
        })
    }

    pub(super) fn is_dead(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Sends a signal to everybody in the group; whether there was anybody. A zombie counts.
pub(super) fn signal(group: i32, signal: Signal) -> bool {
    rustix::process::Pid::from_raw(group).is_some_and(|group| {
        // SAFETY: sends a signal, touches no memory.
        let result = unsafe { libc::kill(-group.as_raw_nonzero().get(), signal.number()) };
        result == 0
    })
}

/// Everybody in the group who has not exited. Reads all of `/proc`: there is no list of a group.
pub(super) fn members(group: i32) -> Vec<i32> {
    let inside = living().filter(|(_, stat)| stat.group == group);
    inside.map(|(pid, _)| pid).collect()
}

/// Whether everybody in the group has exited, as of some moment after `since`. Many who ask at about
/// the same time share one look at `/proc`.
pub(super) fn is_empty(group: i32, since: Instant) -> bool {
    static LAST: Mutex<Option<(Instant, HashSet<i32>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, groups) = match last.take().filter(|(begun, _)| *begun >= since) {
        Some(look) => last.insert(look),
        None => last.insert((
            Instant::now(),
            living().map(|(_, stat)| stat.group).collect(),
        )),
    };
    !groups.contains(&group)
}

/// Every process of the machine that has not exited.
fn living() -> impl Iterator<Item = (i32, Stat)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse().ok());
    pids.filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(_, stat)| !stat.is_dead())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_group() {
        let stat = Stat::parse(b"42 (a) R 1 (b) S 7 40 39 0 -1 4194560").unwrap();
        assert_eq!((stat.state, stat.group, stat.session), (b'S', 40, 39));
        assert_eq!(Stat::parse(b"42 (cut"), None);
        assert_eq!(Stat::parse(b"42 (cut) Z 1"), None);
    }

    #[test]
    fn this_process_is_in_its_own_group() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = Stat::of(own).unwrap();
        assert!(members(stat.group).contains(&own));
        assert!(!is_empty(stat.group, Instant::now()));
        assert!(is_empty(i32::MAX, Instant::now()));
        assert!(!stat.is_dead());
    }
}
