//! The mark that every started process carries, and all its descendants.
//!
//! It is the hard limit of a resource that Linux has not looked at since 2.4: `RLIMIT_LOCKS`. The
//! kernel hands it down through fork and exec, shows it to every process in `/proc/PID/limits`, and
//! lets only `CAP_SYS_RESOURCE` raise it, which a confined process never has. Sessions, cgroups,
//! parents, names and environments can all be left or changed by a descendant; this cannot.
//!
//! The invariant here: every descendant of a process that any service on this machine started under an
//! enforced policy has a value in the range of [`CONFINED_END`], below the value of the service
//! itself. It may lower the value, which stays in the range. A service that is itself a descendant of
//! a confined process marks its own with smaller values still, so that the rule holds at every depth.
//!
//! What a mark means for a client of a socket is decided in `peer`, what it means for orphans in
//! `contain`.

use std::hash::{BuildHasher, RandomState};

use rustix::process::Resource;

/// Values below this are marks of confined processes.
const CONFINED_END: u64 = 1 << 48;

/// Values from here to [`OPEN_END`] are marks of processes without an enforced policy.
const OPEN_START: u64 = 1 << 62;
const OPEN_END: u64 = 1 << 63;

/// The two marks of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// `None` where the service's own value leaves no smaller one.
    confined: Option<u64>,
    open: Option<u64>,
    /// The service's own value.
    own: u64,
}

/// The two kinds of processes that marks tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marking {
    Confined,
    Open,
}

impl Mark {
    /// Chooses marks that no other service has, by chance, below this process's own value.
    pub(crate) fn choose() -> Self {
        let own = rustix::process::getrlimit(Resource::Locks).maximum;
        Self::below(own.unwrap_or(u64::MAX))
    }

    fn below(own: u64) -> Self {
        Self {
            confined: random(1, own.min(CONFINED_END)),
            open: random(OPEN_START, own.min(OPEN_END)),
            own,
        }
    }

    /// The limit that marks a child: resource, soft, hard. `None` where this process is nested too
    /// deeply; no process then counts as confined.
    pub(crate) fn rlimit(&self, marking: Marking) -> Option<(u32, u64, u64)> {
        let value = match marking {
            Marking::Confined => self.confined,
            Marking::Open => self.open,
        };
        value.map(|value| (libc::RLIMIT_LOCKS, value, value))
    }

    /// Returns whether a value is that of a confined process, of this or of any other service.
    pub(crate) fn is_confined(&self, value: u64) -> bool {
        value < CONFINED_END && value < self.own
    }

    /// Returns whether a value is one of this service's.
    pub(crate) fn is_ours(&self, value: u64) -> bool {
        [self.confined, self.open].contains(&Some(value))
    }
}

/// The value that the process with this pid has now; `None` if there is no such process.
pub(crate) fn of(pid: i32) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

/// The hard limit in the line `Max file locks  SOFT  HARD  locks`.
fn parse(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file locks"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        hard => hard.parse().ok(),
    }
}

/// A number of the range that is hard to meet by accident.
fn random(start: u64, end: u64) -> Option<u64> {
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    Some(start + RandomState::new().hash_one(std::process::id()) % len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_in_a_mark_is_known_from_outside_and_inside() {
        let mut own = u64::MAX;
        let outermost = Mark::below(own);
        for _ in 0..8 {
            let mark = Mark::below(own);
            let confined = mark.confined.unwrap();
            assert!(mark.is_confined(confined) && outermost.is_confined(confined));
            assert!(
                !mark.is_confined(own),
                "the service's own siblings are free"
            );
            own = confined;
        }
    }

    #[test]
    fn services_without_a_policy_nest_as_well() {
        let outer = Mark::below(u64::MAX);
        let inner = Mark::below(outer.open.unwrap());
        assert!(inner.open < outer.open);
        assert!(!outer.is_confined(inner.open.unwrap()));
        assert!(outer.is_confined(inner.confined.unwrap()));
        assert!(!outer.is_ours(inner.open.unwrap()) && outer.is_ours(outer.open.unwrap()));
        // Inside of a confined process there is no value for "not confined".
        assert_eq!(Mark::below(outer.confined.unwrap()).open, None);
        assert_eq!(Mark::below(1).rlimit(Marking::Confined), None);
    }

    #[test]
    fn the_value_is_read_from_the_kernels_table() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max file locks            7                    9                    locks     \n\
                     Max pending signals       1                    1                    signals   \n";
        assert_eq!(parse(table), Some(9));
        assert_eq!(parse("Max file locks 1 unlimited locks\n"), Some(u64::MAX));
        assert_eq!(parse(""), None);
        assert_eq!(parse("Max file locks\n"), None);
        let own = of(std::process::id().cast_signed()).unwrap();
        assert_eq!(own, Mark::choose().own);
        assert_eq!(of(i32::MAX), None);
    }
}
