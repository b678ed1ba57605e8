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

/// Calls that act on other processes, on objects of the user, or on the machine, each with harmless
/// arguments. A call is used only if the sandbox refuses its probe.
///
/// Calls that need a capability which the supervisor does not have are not listed: without it they
/// hurt nothing, whatever their arguments.
fn probes(scene: &Scene, space: &mut [u64; 64]) -> Vec<(libc::c_long, Vec<usize>)> {
    let pid = scene.number("bystander") as usize;
    let pidfd = sys(libc::SYS_pidfd_open, &[pid, 0]).unwrap_or(-1) as usize;
    let memory = into(space);
    let (none, bad) = (signed(-1), 1);
    // `sched_attr` of the default policy.
    space[32] = 48;
    let default = at(&space[32]);
    let mut probes = vec![
        (libc::SYS_kill, vec![pid, 0]),
        (libc::SYS_tkill, vec![pid, 0]),
        (libc::SYS_tgkill, vec![pid, pid, 0]),
        (libc::SYS_rt_sigqueueinfo, vec![pid, 0, memory]),
        (libc::SYS_rt_tgsigqueueinfo, vec![pid, pid, 0, memory]),
        (libc::SYS_pidfd_send_signal, vec![pidfd, 0, 0, 0]),
        (libc::SYS_prlimit64, vec![pid, 4, 0, memory]),
        (libc::SYS_sched_setaffinity, vec![pid, 0, memory]),
        (libc::SYS_sched_setscheduler, vec![pid, 0, memory]),
        (libc::SYS_sched_setparam, vec![pid, memory]),
        (libc::SYS_sched_setattr, vec![pid, default, 0]),
        (libc::SYS_setpriority, vec![0, pid, 0]),
        (libc::SYS_ioprio_set, vec![1, pid, 0]),
        (libc::SYS_migrate_pages, vec![pid, 0, 0, 0]),
        (libc::SYS_move_pages, vec![pid, 0, 0, 0, 0, 0]),
        (libc::SYS_process_vm_writev, vec![pid, 0, 0, 0, 0, 0]),
        (libc::SYS_process_madvise, vec![pidfd, memory, 0, 20, 0]),
        (libc::SYS_ptrace, vec![0x4206, pid, 0, 0]),
        (libc::SYS_add_key, vec![bad, bad, 0, 0, 0]),
        (libc::SYS_request_key, vec![bad, bad, 0, 0]),
        (libc::SYS_keyctl, vec![0, signed(-2), 0]),
        (libc::SYS_mq_unlink, vec![c(c"turnlane-none")]),
        (libc::SYS_mount, vec![bad, bad, bad, 0, 0]),
        (libc::SYS_umount2, vec![bad, 0]),
        (libc::SYS_setns, vec![none, 0]),
        (libc::SYS_open_by_handle_at, vec![CWD, bad, 0]),
        (libc::SYS_reboot, vec![0, 0, 0, 0]),
        (libc::SYS_kexec_load, vec![none, bad, 0, bad]),
        (libc::SYS_init_module, vec![bad, 16, bad]),
        (libc::SYS_finit_module, vec![none, bad, 0]),
        (libc::SYS_delete_module, vec![bad, 0]),
        (libc::SYS_swapon, vec![bad, 0]),
        (libc::SYS_swapoff, vec![bad]),
        (libc::SYS_sethostname, vec![bad, none]),
        (libc::SYS_setdomainname, vec![bad, none]),
    ];
    // In a namespace of its own the sandbox has objects of its own.
    if !has_own_ipc(scene) {
        probes.extend([
            (libc::SYS_shmget, vec![0, 0, 0]),
            (libc::SYS_shmat, vec![none, 0, 0]),
            (libc::SYS_shmctl, vec![none, 2, memory]),
            (libc::SYS_msgget, vec![0x7f7f_7f7f, 0]),
            (libc::SYS_msgctl, vec![none, 2, memory]),
            (libc::SYS_msgsnd, vec![none, memory, 0, 0]),
            (libc::SYS_msgrcv, vec![none, memory, 0, 0, 0]),
            (libc::SYS_semget, vec![0x7f7f_7f7f, 0, 0]),
            (libc::SYS_semctl, vec![none, 0, 12]),
            (libc::SYS_semop, vec![none, memory, 1]),
            (libc::SYS_semtimedop, vec![none, memory, 1, 0]),
        ]);
    }
    probes
}

fn has_own_ipc(scene: &Scene) -> bool {
    let own = std::fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
    own.to_string_lossy() != scene.text("ipc-namespace")
}

/// Numbers that may be called, and those that the sandbox did not refuse.
pub(super) fn usable(scene: &Scene) -> (Vec<i64>, Vec<String>) {
    let mut space = [0_u64; 64];
    let mut left_out = Vec::new();
    for (number, arguments) in probes(scene, &mut space) {
        let refused = [libc::EPERM, libc::EACCES, libc::ENOSYS];
        let answer = sys(number, &arguments);
        if !answer.is_err_and(|errno| refused.contains(&errno)) {
            left_out.push(number);
        }
    }
    let never = |number: &i64| NEVER.contains(number) || NEVER_OLD.contains(number);
    let numbers = (0..NUMBERS_END).filter(|number| !never(number) && !left_out.contains(number));
    let numbers = numbers.collect();
    (numbers, left_out.iter().map(ToString::to_string).collect())
}
