//! Processes outside: their limits, scheduling, signals, memory, and the group that ends us.

use crate::scene::Scene;
use crate::sys::{CWD, at, c, close, cstring, in_child, into, open, opens, signed, sys, wait_for};
use crate::tries::{Tries, Verdict};

/// Ignored by default, and blocked by the bystander, which reports it as pending.
const SIGNAL: usize = libc::SIGWINCH as usize;

const IOPRIO_WHO_PROCESS: usize = 1;
const IOPRIO_WHO_PGRP: usize = 2;
/// The class `best effort` with a level that is not the default.
const IOPRIO_CHANGED: usize = (2 << 13) | 6;

pub(super) fn limits(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    // Lowers what neither the bystander nor a server needs.
    let lower = [0_u64, 0];
    for (whose, pid) in scene.outsiders() {
        let pid = pid as usize;
        let core = libc::RLIMIT_CORE as usize;
        let set = sys(libc::SYS_prlimit64, &[pid, core, at(&lower), 0]);
        tries.must_fail(format!("set a limit of the {whose}"), set);
        let noisy = pid | 0x7777_0000_0000_0000;
        let set = sys(libc::SYS_prlimit64, &[noisy, core, at(&lower), 0]);
        tries.must_fail(format!("set a limit of the {whose} with noise"), set);
        let mut found = [0_u64; 2];
        let files = libc::RLIMIT_NOFILE as usize;
        let read = sys(libc::SYS_prlimit64, &[pid, files, 0, into(&mut found)]);
        tries.must_fail(format!("read a limit of the {whose}"), read);
    }
    tries.verdict()
}

pub(super) fn scheduling(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let parameter = 0_i32;
    let mask = 1_u64;
    // `sched_attr` of version 0 with the policy `SCHED_BATCH` and a nice value of 5.
    let attributes = [48_u32, 3, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    for (whose, pid) in scene.outsiders() {
        let pid = pid as usize;
        for (what, number, arguments) in [
            (
                "affinity",
                libc::SYS_sched_setaffinity,
                vec![pid, 8, at(&mask)],
            ),
            (
                "policy",
                libc::SYS_sched_setscheduler,
                vec![pid, 3, at(&parameter)],
            ),
            (
                "parameter",
                libc::SYS_sched_setparam,
                vec![pid, at(&parameter)],
            ),
            (
                "attributes",
                libc::SYS_sched_setattr,
                vec![pid, at(&attributes), 0],
            ),
            ("priority", libc::SYS_setpriority, vec![0, pid, 19]),
            ("group's priority", libc::SYS_setpriority, vec![1, pid, 19]),
            (
                "ioprio",
                libc::SYS_ioprio_set,
                vec![IOPRIO_WHO_PROCESS, pid, IOPRIO_CHANGED],
            ),
            (
                "group's ioprio",
                libc::SYS_ioprio_set,
                vec![IOPRIO_WHO_PGRP, pid, IOPRIO_CHANGED],
            ),
        ] {
            // A server leads no group of its own under every starter.
            if whose == "bystander" || !what.starts_with("group") {
                tries.must_fail(format!("{what} of the {whose}"), sys(number, &arguments));
            }
        }
    }
    // SAFETY: takes nothing.
    let user = unsafe { libc::getuid() } as usize;
    if user == 0 || !scene.says("confined") {
        // A success would reach every program of the user.
        tries.skip("priority of a whole user");
    } else {
        tries.must_fail(
            "priority of the user",
            sys(libc::SYS_setpriority, &[2, user, 5]),
        );
        let ioprio = sys(libc::SYS_ioprio_set, &[3, user, IOPRIO_CHANGED]);
        tries.must_fail("ioprio of the user", ioprio);
    }
    tries.verdict()
}

pub(super) fn signals(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    // `siginfo` of `SI_QUEUE`.
    let mut info = [0_i32; 32];
    info[0] = libc::SIGWINCH;
    info[2] = -1;
    for (whose, pid) in scene.outsiders() {
        let id = pid as usize;
        for (what, number, arguments) in [
            ("kill", libc::SYS_kill, vec![id, SIGNAL]),
            ("kill 0", libc::SYS_kill, vec![id, 0]),
            ("tkill", libc::SYS_tkill, vec![id, SIGNAL]),
            ("tgkill", libc::SYS_tgkill, vec![id, id, SIGNAL]),
            (
                "queue",
                libc::SYS_rt_sigqueueinfo,
                vec![id, SIGNAL, at(&info)],
            ),
            (
                "thread queue",
                libc::SYS_rt_tgsigqueueinfo,
                vec![id, id, SIGNAL, at(&info)],
            ),
        ] {
            tries.must_fail(format!("{what} to the {whose}"), sys(number, &arguments));
        }
        if whose == "bystander" {
            let group = signed(-pid);
            tries.must_fail("kill to a group", sys(libc::SYS_kill, &[group, SIGNAL]));
        }
        if let Ok(pidfd) = sys(libc::SYS_pidfd_open, &[id, 0]) {
            let sent = sys(libc::SYS_pidfd_send_signal, &[pidfd as usize, SIGNAL, 0, 0]);
            tries.must_fail(format!("pidfd signal to the {whose}"), sent);
            close(pidfd);
        }
        signal_by_descriptor(id);
    }
    tries.verdict()
}

/// Names an owner for the signals of a pipe and makes the pipe ready. No call fails; the bystander
/// reports whether the signal arrived.
fn signal_by_descriptor(pid: usize) {
    let mut ends = [0_i32; 2];
    if sys(libc::SYS_pipe2, &[into(&mut ends), 0]).is_err() {
        return;
    }
    let (read, write) = (ends[0] as usize, ends[1] as usize);
    for (command, value) in [
        (libc::F_SETOWN, pid),
        (10, SIGNAL), // F_SETSIG
        (libc::F_SETFL, libc::O_ASYNC as usize),
    ] {
        let _ = sys(libc::SYS_fcntl, &[read, command as usize, value]);
    }
    let byte = [0_u8];
    let _ = sys(libc::SYS_write, &[write, at(&byte), 1]);
    close(ends[0].into());
    close(ends[1].into());
}

pub(super) fn memory(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let mut buffer = [0_u8; 64];
    let mut local = [into(&mut buffer), 64];
    let remote = [scene.number("mark-address") as usize, 8];
    let mut page = 0_usize;
    let mut status = 0_i32;
    // `perf_event_attr` that counts page faults.
    let mut event = [0_u64; 16];
    event[0] = 1 | (128 << 32);
    event[1] = 2;
    for (whose, pid) in scene.outsiders() {
        let pid = pid as usize;
        let (vectors, remotes) = (at(&local), at(&remote));
        let (found, size) = (into(&mut page), into(&mut local));
        for (what, number, arguments) in [
            ("seize", libc::SYS_ptrace, vec![0x4206, pid, 0, 0]),
            (
                "read",
                libc::SYS_process_vm_readv,
                vec![pid, vectors, 1, remotes, 1, 0],
            ),
            (
                "write",
                libc::SYS_process_vm_writev,
                vec![pid, vectors, 0, remotes, 0, 0],
            ),
            ("compare", libc::SYS_kcmp, vec![pid, pid, 0, 0, 0]),
            (
                "pages",
                libc::SYS_move_pages,
                vec![pid, 1, found, 0, into(&mut status), 0],
            ),
            (
                "robust list",
                libc::SYS_get_robust_list,
                vec![pid, found, size],
            ),
            (
                "count",
                libc::SYS_perf_event_open,
                vec![at(&event), pid, signed(-1), signed(-1), 0],
            ),
        ] {
            tries.must_fail(format!("{what} of the {whose}"), sys(number, &arguments));
        }
        if let Ok(pidfd) = sys(libc::SYS_pidfd_open, &[pid, 0]) {
            let pidfd = pidfd as usize;
            for descriptor in [0, 1, 3] {
                let taken = sys(libc::SYS_pidfd_getfd, &[pidfd, descriptor, 0]);
                tries.must_fail(format!("descriptor {descriptor} of the {whose}"), taken);
            }
            let advised = [pidfd, at(&remote), 1, libc::MADV_COLD as usize, 0];
            let advised = sys(libc::SYS_process_madvise, &advised);
            tries.must_fail(format!("advice to the {whose}"), advised);
            let entered = sys(libc::SYS_setns, &[pidfd, libc::CLONE_NEWNS as usize]);
            tries.must_fail(format!("namespaces of the {whose}"), entered);
        }
    }
    tries.verdict()
}

pub(super) fn proc_files(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (whose, pid) in scene.outsiders() {
        for (name, flags) in [
            ("mem", libc::O_RDONLY),
            ("mem", libc::O_RDWR),
            ("environ", libc::O_RDONLY),
            ("maps", libc::O_RDONLY),
            ("auxv", libc::O_RDONLY),
            ("root/", libc::O_RDONLY),
            ("cwd/", libc::O_RDONLY),
            ("fd/0", libc::O_RDONLY),
            ("fd/1", libc::O_WRONLY),
            ("fd/3", libc::O_RDONLY),
            ("ns/mnt", libc::O_RDONLY),
            ("oom_score_adj", libc::O_WRONLY),
            ("coredump_filter", libc::O_WRONLY),
            ("comm", libc::O_WRONLY),
            ("timerslack_ns", libc::O_WRONLY),
            ("uid_map", libc::O_WRONLY),
            ("clear_refs", libc::O_WRONLY),
            ("sched", libc::O_WRONLY),
            ("autogroup", libc::O_WRONLY),
        ] {
            let path = cstring(format!("/proc/{pid}/{name}"));
            tries.must_fail(
                format!("{name} of the {whose} {flags}"),
                opens(&path, flags),
            );
        }
    }
    tries.verdict()
}

/// Directories of control groups, whichever hierarchies are mounted.
fn cgroups() -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_cgroup = |line: &&str| line.contains(" cgroup2 ") || line.contains(" cgroup ");
    let lines = mounts.lines().filter(is_cgroup);
    lines
        .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
        .collect()
}

pub(super) fn leave_cgroup(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let cgroups = cgroups();
    if cgroups.is_empty() {
        tries.skip("no control groups are mounted");
    }
    for directory in cgroups {
        for file in ["cgroup.procs", "cgroup.threads", "tasks"] {
            let path = cstring(format!("{directory}/{file}"));
            tries.must_fail(
                format!("open {directory}/{file}"),
                opens(&path, libc::O_WRONLY),
            );
        }
        let Ok(fd) = open(
            &cstring(directory.as_str()),
            libc::O_RDONLY | libc::O_DIRECTORY,
        ) else {
            continue;
        };
        // `clone_args` with `CLONE_INTO_CGROUP`; the child ends at once.
        let mut arguments = [0_u64; 11];
        arguments[0] = 0x2_0000_0000;
        arguments[4] = libc::SIGCHLD as u64;
        arguments[10] = fd as u64;
        let cloned = in_child(5, || {
            match sys(libc::SYS_clone3, &[at(&arguments), size_of_val(&arguments)]) {
                // SAFETY: ends the child of the child, which has nothing to clean up.
                Ok(0) => unsafe { libc::_exit(0) },
                Ok(pid) => {
                    wait_for(pid as i32);
                    "made".to_owned()
                }
                Err(errno) => errno.to_string(),
            }
        });
        if let Ok(crate::sys::ChildEnd::Said(text)) = cloned {
            tries.must_not(format!("start in {directory}"), text == "made");
        }
        let name = cstring(format!("{directory}/turnlane-attack"));
        let made = sys(libc::SYS_mkdirat, &[CWD, c(&name), 0o755]);
        let remove = libc::AT_REMOVEDIR as usize;
        let _ = made.map(|_| sys(libc::SYS_unlinkat, &[CWD, c(&name), remove]));
        tries.must_fail(format!("mkdir in {directory}"), made);
        close(fd);
    }
    tries.verdict()
}
