//! Limits on processes and memory of commands whose spec names none.
//!
//! A command under an enforced policy is not trusted, so a fork storm or a leak in it must not take
//! the machine and the service with it. The defaults hold by whatever mechanism this machine has: the
//! cgroup controllers, or, for an ordinary user, the limit on processes in a user namespace, which
//! counts for that namespace alone. A default that cannot be enforced is reported and skipped, where a
//! limit of a spec would be refused. Which mechanism there is was found at the start of the service;
//! `RLIMIT_AS` and `RLIMIT_DATA` are none of them, since sanitizers and managed runtimes reserve more
//! than they use.

use crate::launch::Plan;
use crate::report::{ContainmentKind, MountsBy};
use crate::spec::Limits;

/// Processes and threads of one command.
const PIDS_MAX: u64 = 4096;

/// The first Linux that counts the processes of a user per user namespace.
const COUNTS_PER_NAMESPACE: (u32, u32) = (5, 14);

/// Limits of each process that is started under an enforced policy, with all its descendants, unless
/// its [`Limits`] name their own. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultLimits {
    /// Processes and threads.
    pub pids_max: Option<u64>,
    /// Bytes of memory.
    pub memory_max: Option<u64>,
}

impl DefaultLimits {
    /// No limits at all.
    pub const NONE: Self = Self {
        pids_max: None,
        memory_max: None,
    };
}

impl Default for DefaultLimits {
    /// 4,096 processes and 90 % of the machine's memory.
    fn default() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            pids_max: Some(PIDS_MAX),
            memory_max: memory_total(&meminfo).map(|total| total / 10 * 9),
        }
    }
}

/// Mechanism that enforces a default limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitMechanism {
    /// A controller of the command's cgroup.
    Cgroup,
    /// The limit on processes of the command's user namespace; only policies that need mounts have one.
    UserNamespace,
}

impl LimitMechanism {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::UserNamespace => "user namespace",
        }
    }
}

/// One default limit on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultLimit {
    /// The limit that was asked for.
    pub max: u64,
    /// The mechanism that enforces it, or why none does.
    pub by: Result<LimitMechanism, String>,
}

/// The default limits that hold on this machine; `None` for one that is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultLimitsReport {
    /// Processes and threads of a command.
    pub pids_max: Option<DefaultLimit>,
    /// Memory of a command.
    pub memory_max: Option<DefaultLimit>,
    /// `Ok` if the kernel ends commands before the service when memory runs out, or why it does not.
    pub oom_score: Result<(), String>,
}

/// The means of this machine to enforce limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanisms<'a> {
    pub(crate) containment: ContainmentKind,
    pub(crate) controllers: &'a [String],
    pub(crate) mounts: &'a Result<MountsBy, String>,
}

impl DefaultLimits {
    pub(crate) fn report(self, machine: Mechanisms<'_>) -> DefaultLimitsReport {
        let by_cgroup = |controller: &str| {
            if machine.controllers.iter().any(|found| found == controller) {
                Ok(LimitMechanism::Cgroup)
            } else if machine.containment == ContainmentKind::Cgroup {
                Err(format!(
                    "the cgroup controller `{controller}` is not available"
                ))
            } else {
                Err(format!(
                    "it needs the containment `cgroup` and its controller `{controller}`"
                ))
            }
        };
        let by_namespace = |reason: String| match machine.mounts {
            Ok(MountsBy::UserNamespace) if counts_per_namespace() => {
                Ok(LimitMechanism::UserNamespace)
            }
            Ok(MountsBy::UserNamespace) => {
                let (major, minor) = COUNTS_PER_NAMESPACE;
                Err(format!("{reason}, and Linux is older than {major}.{minor}"))
            }
            Ok(MountsBy::Root) | Err(_) => Err(reason),
        };
        DefaultLimitsReport {
            pids_max: self.pids_max.map(|max| DefaultLimit {
                max,
                by: by_cgroup("pids").or_else(by_namespace),
            }),
            memory_max: self.memory_max.map(|max| DefaultLimit {
                max,
                by: by_cgroup("memory"),
            }),
            oom_score: oom_score(),
        }
    }
}

impl DefaultLimitsReport {
    /// Adds to a confined child's plan what the child limits by itself. What its cgroup limits is not
    /// here.
    pub(crate) fn apply(&self, plan: &mut Plan, given: &Limits) {
        let mounts = plan.restrictions.as_ref().and_then(|r| r.mounts.as_ref());
        let has_namespace = mounts.is_some_and(|mounts| mounts.user_namespace.is_some());
        let named = given.processes.is_some() || given.pids_max.is_some();
        if let Some(limit) = &self.pids_max
            && limit.by == Ok(LimitMechanism::UserNamespace)
            && has_namespace
            && !named
        {
            // Not more than this process may have itself, which could not be set.
            let own = rustix::process::getrlimit(rustix::process::Resource::Nproc);
            let max = own.current.map_or(limit.max, |own| own.min(limit.max));
            plan.rlimits.push((libc::RLIMIT_NPROC, max, max));
        }
    }
}

/// Total memory in bytes, from the text of `/proc/meminfo`.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn counts_per_namespace() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_some_and(|version| version >= COUNTS_PER_NAMESPACE)
}

/// Major and minor number of a release like `6.18.44-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|char: char| !char.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Every process may raise its own score; it only has to reach the file.
fn oom_score() -> Result<(), String> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let opened = std::fs::File::options().write(true).open(PATH);
    opened
        .map(drop)
        .map_err(|error| format!("cannot write {PATH}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_leave_a_tenth_of_the_memory() {
        let meminfo = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!(memory_total(meminfo), Some(16_384 * 1024));
        assert_eq!(memory_total("MemTotal: many kB\n"), None);
        let defaults = DefaultLimits::default();
        assert_eq!(defaults.pids_max, Some(4096));
        assert!(defaults.memory_max.unwrap() > 0);
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v445\n"), Some((6, 18)));
        assert_eq!(version("5.4\n"), Some((5, 4)));
        assert!(version("5.4").unwrap() < COUNTS_PER_NAMESPACE);
        assert!(version("5.14.0-70.el9").unwrap() >= COUNTS_PER_NAMESPACE);
        assert_eq!(version("strange"), None);
    }

    #[test]
    fn the_report_says_by_what_each_default_holds() {
        let both = ["memory".to_owned(), "pids".to_owned()];
        let report = |controllers, mounts| {
            let report = DefaultLimits::default().report(Mechanisms {
                containment: ContainmentKind::Cgroup,
                controllers,
                mounts,
            });
            (report.pids_max.unwrap().by, report.memory_max.unwrap().by)
        };
        let cgroup = Ok(LimitMechanism::Cgroup);
        let (root, user) = (Ok(MountsBy::Root), Ok(MountsBy::UserNamespace));
        assert_eq!(report(&both, &user), (cgroup.clone(), cgroup));
        let (pids, memory) = report(&[], &user);
        assert_eq!(pids, Ok(LimitMechanism::UserNamespace));
        assert!(memory.unwrap_err().contains("`memory`"));
        let (pids, _) = report(&[], &root);
        assert!(pids.unwrap_err().contains("`pids`"));
        let off = DefaultLimits::NONE.report(Mechanisms {
            containment: ContainmentKind::Group,
            controllers: &[],
            mounts: &root,
        });
        assert_eq!((off.pids_max, off.memory_max), (None, None));
    }
}
