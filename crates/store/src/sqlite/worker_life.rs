//! Decides whether a worker lives whose lock file this user cannot open.
//!
//! The lock is the proof of life, but a lock file of another user (root's, mode 0600) cannot be
//! opened to try it. The invariant here: a worker is called dead only on evidence. The kernel's table
//! of locks does not show its lock, and its process is gone, belongs to an earlier boot, or has left
//! its number to a younger process. A worker of another host, or a process that cannot be looked at,
//! stays undecided: its lanes wait until a person releases them.
//!
//! What becomes of a dead worker's lanes is decided by `recovery`.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::lock_holder;
use crate::worker::{Unjudged, Worker, WorkerLife};

/// The facts that a judgement rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// This machine's name.
    host: String,
    /// This run of the machine.
    boot_id: String,
    /// The kernel's table shows a lock on the worker's file.
    locked: bool,
    /// The process that has the worker's number now.
    process: Process,
}

/// The process of a given number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Gone,
    /// In the system's ticks since its boot.
    StartedAt(u64),
    /// It exists, and the system does not say more.
    Hidden,
}

/// Collects the evidence about a worker with this lock file.
pub(super) fn evidence(worker: Option<&Worker>, lock_file: &Path) -> Evidence {
    let line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().to_owned()
    };
    Evidence {
        host: line("/proc/sys/kernel/hostname"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        locked: lock_holder::is_flocked(lock_file),
        process: worker.map_or(Process::Hidden, |worker| process(worker.pid)),
    }
}

fn process(pid: u32) -> Process {
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Process::Hidden;
    };
    // Asked with a signal, because /proc may hide the processes of other users.
    match test_kill_process(known) {
        Err(Errno::SRCH) => return Process::Gone,
        Ok(()) | Err(Errno::PERM) => {}
        Err(_) => return Process::Hidden,
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Process::Hidden;
    };
    // The second field is a name in parentheses that may hold spaces; state and start are the third
    // and the 22nd.
    let mut fields = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace(),
        None => return Process::Hidden,
    };
    // A zombie has closed its files and holds no lock.
    if matches!(fields.next(), Some("Z" | "X")) {
        return Process::Gone;
    }
    let started = fields.nth(18).and_then(|ticks| ticks.parse().ok());
    started.map_or(Process::Hidden, Process::StartedAt)
}

/// Decides by the worker's record and the evidence.
pub(super) fn judge(worker: Option<&Worker>, evidence: &Evidence) -> WorkerLife {
    if evidence.locked {
        return WorkerLife::Alive;
    }
    let Some(worker) = worker else {
        return WorkerLife::Unknown(Unjudged::NoRecord);
    };
    if worker.host.is_empty() || worker.host != evidence.host {
        let host = worker.host.clone();
        return WorkerLife::Unknown(Unjudged::OtherHost { host });
    }
    if worker.boot_id.is_empty() || evidence.boot_id.is_empty() {
        return WorkerLife::Unknown(Unjudged::NoRecord);
    }
    if worker.boot_id != evidence.boot_id {
        return WorkerLife::Dead;
    }
    match evidence.process {
        Process::StartedAt(_) if worker.pid_start == 0 => WorkerLife::Unknown(Unjudged::NoRecord),
        Process::StartedAt(ticks) if ticks == worker.pid_start => WorkerLife::Alive,
        Process::Gone | Process::StartedAt(_) => WorkerLife::Dead,
        Process::Hidden => WorkerLife::Unknown(Unjudged::HiddenProcess { pid: worker.pid }),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn worker() -> Worker {
        Worker {
            id: Uuid::from_u128(1).into(),
            pid: 7,
            pid_start: 100,
            boot_id: "boot".to_owned(),
            host: "host".to_owned(),
            endpoint: None,
            kind: "test".to_owned(),
            started_ms: 0,
        }
    }

    fn here(process: Process) -> Evidence {
        Evidence {
            host: "host".to_owned(),
            boot_id: "boot".to_owned(),
            locked: false,
            process,
        }
    }

    #[test]
    fn a_worker_is_dead_only_when_its_process_is_gone_or_replaced() {
        let life = |process| judge(Some(&worker()), &here(process));
        assert_eq!(life(Process::Gone), WorkerLife::Dead);
        assert_eq!(life(Process::StartedAt(100)), WorkerLife::Alive);
        assert_eq!(life(Process::StartedAt(101)), WorkerLife::Dead);
        let hidden = Unjudged::HiddenProcess { pid: 7 };
        assert_eq!(life(Process::Hidden), WorkerLife::Unknown(hidden));
    }

    #[test]
    fn an_earlier_boot_of_this_host_is_over() {
        let mut rebooted = here(Process::StartedAt(100));
        rebooted.boot_id = "another".to_owned();
        assert_eq!(judge(Some(&worker()), &rebooted), WorkerLife::Dead);
    }

    #[test]
    fn a_lock_in_the_kernels_table_is_proof_of_life() {
        let mut locked = here(Process::Gone);
        locked.locked = true;
        assert_eq!(judge(Some(&worker()), &locked), WorkerLife::Alive);
        assert_eq!(judge(None, &locked), WorkerLife::Alive);
    }

    #[test]
    fn a_worker_of_another_host_or_without_a_record_stays_undecided() {
        let mut elsewhere = here(Process::Gone);
        elsewhere.host = "another".to_owned();
        let other = Unjudged::OtherHost {
            host: "host".to_owned(),
        };
        let unknown = WorkerLife::Unknown(Unjudged::NoRecord);
        assert_eq!(
            judge(Some(&worker()), &elsewhere),
            WorkerLife::Unknown(other)
        );
        assert_eq!(judge(None, &here(Process::Gone)), unknown);
        let mut bare = worker();
        bare.boot_id.clear();
        assert_eq!(judge(Some(&bare), &here(Process::Gone)), unknown);
        let mut bare = worker();
        bare.pid_start = 0;
        assert_eq!(judge(Some(&bare), &here(Process::StartedAt(5))), unknown);
    }

    #[test]
    fn this_process_is_found_with_its_start() {
        let Process::StartedAt(ticks) = process(std::process::id()) else {
            panic!("/proc tells our own start");
        };
        assert!(ticks > 0);
    }
}
