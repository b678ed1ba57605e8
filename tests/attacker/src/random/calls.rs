//! The calls that the generator may make.

use crate::scene::Scene;
use crate::sys::{CWD, at, c, into, signed, sys};

/// Behind the last number of any kernel we know.
const NUMBERS_END: i64 = 480;

/// Calls that end, block or multiply the worker, or that load the whole machine.
const NEVER: &[libc::c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigreturn,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_flock,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_seccomp,
];

#[cfg(target_arch = "x86_64")]
const NEVER_OLD: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_pause,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OLD: &[libc::c_long] = &[];

/// Calls that act on other processes or on the machine, each with harmless arguments. A call is used
/// only if the sandbox refuses the probe.
fn probes(scene: &Scene, space: &mut [u64; 64]) -> Vec<(libc::c_long, Vec<usize>)> {
    let pid = scene.number("bystander") as usize;
    let memory = into(space);
    let bad = 1;
    let mut probes = vec![
        (libc::SYS_kill, vec![pid, 0]),
        (libc::SYS_tkill, vec![pid, 0]),
        (libc::SYS_tgkill, vec![pid, pid, 0]),
        (libc::SYS_rt_sigqueueinfo, vec![pid, 0, memory]),
        (libc::SYS_rt_tgsigqueueinfo, vec![pid, pid, 0, memory]),
        (libc::SYS_prlimit64, vec![pid, 4, 0, memory]),
        (libc::SYS_sched_setaffinity, vec![pid, 0, memory]),
        (libc::SYS_sched_setscheduler, vec![pid, 0, memory]),
        (libc::SYS_sched_setparam, vec![pid, memory]),
        (libc::SYS_sched_setattr, vec![pid, memory, 0]),
        (libc::SYS_setpriority, vec![0, pid, 0]),
        (libc::SYS_ioprio_set, vec![1, pid, 0]),
        (libc::SYS_migrate_pages, vec![pid, 0, 0, 0]),
        (libc::SYS_move_pages, vec![pid, 0, 0, 0, 0, 0]),
        (libc::SYS_process_vm_writev, vec![pid, 0, 0, 0, 0, 0]),
        (libc::SYS_process_madvise, vec![signed(-1), 0, 0, 0, 0]),
        (libc::SYS_ptrace, vec![0x4206, pid, 0, 0]),
        (libc::SYS_shmget, vec![0, 0, 0]),
        (libc::SYS_shmctl, vec![signed(-1), 2, memory]),
        (libc::SYS_msgget, vec![0x7f7f_7f7f, 0]),
        (libc::SYS_msgctl, vec![signed(-1), 2, memory]),
        (libc::SYS_msgsnd, vec![signed(-1), memory, 0, 0]),
        (libc::SYS_semget, vec![0x7f7f_7f7f, 0, 0]),
        (libc::SYS_semctl, vec![signed(-1), 0, 12]),
        (libc::SYS_semop, vec![signed(-1), memory, 1]),
        (libc::SYS_semtimedop, vec![signed(-1), memory, 1, 0]),
        (libc::SYS_add_key, vec![bad, bad, 0, 0, 0]),
        (libc::SYS_request_key, vec![bad, bad, 0, 0]),
        (libc::SYS_keyctl, vec![0, signed(-2), 0]),
        (libc::SYS_mq_unlink, vec![c(c"turnlane-none")]),
    ];
    for number in MACHINE {
        // Bad pointers and descriptors: what is not refused fails behind its check.
        probes.push((*number, vec![signed(-1), bad, 0, bad, 0]));
    }
    probes.push((libc::SYS_setns, vec![signed(-1), 0]));
    probes.push((libc::SYS_mount, vec![bad, bad, bad, 0, 0]));
    probes.push((libc::SYS_umount2, vec![bad, 0]));
    probes.push((libc::SYS_open_by_handle_at, vec![CWD, bad, 0]));
    probes
}

/// Calls about the machine as a whole.
const MACHINE: &[libc::c_long] = &[
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_userfaultfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_mrelease,
];

/// Numbers that may be called, and those that the sandbox should have refused and did not, or that
/// could not be told apart from that.
pub(super) fn usable(scene: &Scene) -> (Vec<i64>, Vec<String>) {
    let mut space = [0_u64; 64];
    let mut left_out = Vec::new();
    for (number, arguments) in probes(scene, &mut space) {
        let refused = matches!(sys(number, &arguments), Err(libc::EPERM | libc::ENOSYS));
        if !refused {
            left_out.push(number);
        }
    }
    let never = |number: &i64| NEVER.contains(number) || NEVER_OLD.contains(number);
    let numbers = (0..NUMBERS_END).filter(|number| !never(number) && !left_out.contains(number));
    let numbers = numbers.collect();
    let _ = at(&space);
    (numbers, left_out.iter().map(ToString::to_string).collect())
}
