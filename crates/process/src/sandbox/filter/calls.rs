//! The system calls a filter decides about, by the reason for the decision.
//!
//! Only numbers: which list applies to which scope is decided in [`super`].

use libc::c_long;

/// Ways into other processes and around the checks of paths.
pub(super) const ESCAPES: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
];

/// Ways to other mounts and roots. Landlock refuses most of them as well, but not all.
pub(super) const MOUNTS: &[c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    SYS_OPEN_TREE_ATTR,
];

/// Keyrings belong to the user, not to the process, and no namespace divides them.
pub(super) const KEYRINGS: &[c_long] =
    &[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

/// System V shared memory, semaphores and message queues, and the POSIX queues: shared by all
/// processes of an IPC namespace.
pub(super) const IPC: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that act on the whole machine or on other processes. Most need a capability that the child
/// has given up; refusing them here keeps their code out of reach as well.
pub(super) const MACHINE: &[c_long] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    SYS_PROCESS_MRELEASE,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

#[cfg(target_arch = "x86_64")]
pub(super) const MACHINE_OLD: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const MACHINE_OLD: &[c_long] = &[];

/// Changes of metadata, of the calls both architectures have.
pub(super) const METADATA: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

#[cfg(target_arch = "x86_64")]
pub(super) const METADATA_OLD: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const METADATA_OLD: &[c_long] = &[];

/// Every use of a socket but `socket`, `socketpair`, `sendto` and the calls that a connected pair
/// needs. `shutdown` is one of those: Node ends the input of a child with it.
pub(super) const SOCKETS: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

// The C library's list does not have these on every target; the numbers are the same everywhere.
const SYS_QUOTACTL_FD: c_long = 443;
const SYS_PROCESS_MRELEASE: c_long = 448;
pub(super) const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_OPEN_TREE_ATTR: c_long = 467;
pub(super) const SYS_FILE_SETATTR: c_long = 469;
