//! Calls that change the machine, or that the filter cannot look into.

use crate::scene::Scene;
use crate::sys::{
    CWD, ChildEnd, at, c, close, cstring, in_child, open, opens, signed, sys, wait_for,
};
use crate::tries::{Tries, Verdict};

/// What a refused call answers; another error comes from behind the check.
const REFUSED: &[i32] = &[libc::EPERM, libc::ENOSYS, libc::EACCES];

pub(super) fn clone3(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let mut arguments = [0_u64; 11];
    arguments[4] = libc::SIGCHLD as u64;
    let cloned = sys(libc::SYS_clone3, &[at(&arguments), size_of_val(&arguments)]);
    match cloned {
        // SAFETY: ends the new child.
        Ok(0) => unsafe { libc::_exit(0) },
        Ok(pid) => {
            wait_for(pid as i32);
        }
        Err(_) => {}
    }
    // Any other error would end the C library's own fallback to `clone`.
    tries.must_fail_with("clone3", cloned, &[libc::ENOSYS]);
    tries.verdict()
}

pub(super) fn openat2(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let how = [0_u64; 3];
    let opened = sys(
        libc::SYS_openat2,
        &[CWD, c(&scene.path("root", "plain")), at(&how), 24],
    );
    tries.must_fail_with("openat2", opened, &[libc::ENOSYS]);
    tries.verdict()
}

pub(super) fn namespaces(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let kinds = [
        ("user", libc::CLONE_NEWUSER),
        ("user and mounts", libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        ("user and network", libc::CLONE_NEWUSER | libc::CLONE_NEWNET),
        ("mounts", libc::CLONE_NEWNS),
        ("network", libc::CLONE_NEWNET),
        ("processes", libc::CLONE_NEWPID),
        ("ipc", libc::CLONE_NEWIPC),
        ("host name", libc::CLONE_NEWUTS),
        ("control groups", libc::CLONE_NEWCGROUP),
        ("time", 0x80),
    ];
    for (what, flags) in kinds {
        // In a child of its own, so that a success changes only that child.
        let unshared = in_child(5, || match sys(libc::SYS_unshare, &[flags as usize]) {
            Ok(_) => "0".to_owned(),
            Err(errno) => errno.to_string(),
        });
        tries.must_fail(format!("unshare {what}"), said_errno(unshared));
        // Time has no flag of `clone`, where the bit is part of the signal.
        if flags == 0x80 {
            continue;
        }
        let cloned = in_child(5, || {
            match sys(libc::SYS_clone, &[(flags | libc::SIGCHLD) as usize]) {
                // SAFETY: ends the child of the child.
                Ok(0) => unsafe { libc::_exit(0) },
                Ok(pid) => {
                    wait_for(pid as i32);
                    "0".to_owned()
                }
                Err(errno) => errno.to_string(),
            }
        });
        tries.must_fail(format!("clone {what}"), said_errno(cloned));
    }
    let mut targets = vec![1];
    targets.extend(scene.outsiders().iter().map(|(_, pid)| *pid));
    for pid in targets {
        for name in ["user", "mnt", "net", "ipc", "pid", "uts", "cgroup"] {
            if let Ok(fd) = open(&cstring(format!("/proc/{pid}/ns/{name}")), libc::O_RDONLY) {
                let entered = sys(libc::SYS_setns, &[fd as usize, 0]);
                tries.must_fail(format!("enter {name} of {pid}"), entered);
                close(fd);
            }
        }
    }
    tries.verdict()
}

fn said_errno(end: Result<ChildEnd, i32>) -> Result<i64, i32> {
    match end {
        Ok(ChildEnd::Said(text)) => match text.parse() {
            Ok(0) => Ok(0),
            Ok(errno) => Err(errno),
            Err(_) => Err(libc::EIO),
        },
        Ok(ChildEnd::Killed(_)) => Err(libc::EPERM),
        Err(errno) => Err(errno),
    }
}

pub(super) fn mounts(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    if !scene.says("confined") {
        // As root without a sandbox they would change the machine.
        tries.skip("only in a sandbox");
        return tries.verdict();
    }
    let (root, outside) = (scene.path("root", ""), scene.path("outside", ""));
    let attributes = [0_u64; 4];
    let mount = |from: usize, to: usize, kind: usize, flags: libc::c_ulong| {
        sys(libc::SYS_mount, &[from, to, kind, flags as usize, 0])
    };
    let (at_root, at_outside) = (c(&root), c(&outside));
    let none = c(c"none");
    tries.must_fail("bind", mount(at_outside, at_root, 0, libc::MS_BIND));
    tries.must_fail("tmpfs", mount(none, at_root, c(c"tmpfs"), 0));
    tries.must_fail("proc", mount(none, at_root, c(c"proc"), 0));
    let writable = libc::MS_REMOUNT | libc::MS_BIND;
    tries.must_fail("remount /", mount(none, c(c"/"), 0, writable));
    tries.must_fail("remount", mount(none, at_root, 0, writable));
    tries.must_fail("move", mount(at_root, at_outside, 0, libc::MS_MOVE));
    tries.must_fail(
        "share",
        mount(none, c(c"/"), 0, libc::MS_SHARED | libc::MS_REC),
    );
    for path in [
        &root,
        &scene.path("home", ""),
        &cstring("/proc"),
        &cstring("/"),
    ] {
        let lazy = libc::MNT_DETACH as usize;
        tries.must_fail("umount", sys(libc::SYS_umount2, &[c(path), lazy]));
    }
    for (what, number, arguments) in [
        ("open_tree", libc::SYS_open_tree, vec![CWD, c(c"/"), 1]),
        (
            "open_tree_attr",
            467,
            vec![CWD, c(c"/"), 1, at(&attributes), 32],
        ),
        ("fsopen", libc::SYS_fsopen, vec![c(c"tmpfs"), 0]),
        ("fspick", libc::SYS_fspick, vec![CWD, c(c"/"), 0]),
        (
            "mount_setattr",
            libc::SYS_mount_setattr,
            vec![CWD, c(c"/"), 0, at(&attributes), 32],
        ),
        (
            "move_mount",
            libc::SYS_move_mount,
            vec![CWD, at_outside, CWD, at_root, 0],
        ),
        ("pivot_root", libc::SYS_pivot_root, vec![at_root, at_root]),
        ("chroot", libc::SYS_chroot, vec![at_root]),
    ] {
        tries.must_fail(what, sys(number, &arguments));
    }
    tries.verdict()
}

pub(super) fn doors(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    if !scene.says("confined") {
        tries.skip("only in a sandbox");
        return tries.verdict();
    }
    let ring = [0_u32; 30];
    let next = [0_u32; 32];
    // Pointers and sizes are bad, so that a call that is not refused fails all the same.
    let bad = 1;
    for (what, number, arguments) in [
        (
            "io_uring_setup",
            libc::SYS_io_uring_setup,
            vec![4, at(&ring)],
        ),
        (
            "io_uring_enter",
            libc::SYS_io_uring_enter,
            vec![signed(-1), 0, 0, 0],
        ),
        (
            "io_uring_register",
            libc::SYS_io_uring_register,
            vec![signed(-1), 0, 0, 0],
        ),
        ("init_module", libc::SYS_init_module, vec![bad, 16, bad]),
        (
            "finit_module",
            libc::SYS_finit_module,
            vec![signed(-1), bad, 0],
        ),
        ("delete_module", libc::SYS_delete_module, vec![bad, 0]),
        ("kexec_load", libc::SYS_kexec_load, vec![0, 1, bad, 0]),
        (
            "bpf maps of others",
            libc::SYS_bpf,
            vec![12, at(&next), 128],
        ),
        ("ptrace", libc::SYS_ptrace, vec![0x4206, 1, 0, 0]),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            vec![signed(-1), bad, 0],
        ),
        ("acct", libc::SYS_acct, vec![bad]),
        ("swapon", libc::SYS_swapon, vec![bad, 0]),
        ("swapoff", libc::SYS_swapoff, vec![bad]),
        ("reboot", libc::SYS_reboot, vec![0, 0, 0, 0]),
        ("sethostname", libc::SYS_sethostname, vec![bad, signed(-1)]),
        (
            "setdomainname",
            libc::SYS_setdomainname,
            vec![bad, signed(-1)],
        ),
        (
            "quotactl",
            libc::SYS_quotactl,
            vec![0x8000_0700, bad, 0, bad],
        ),
        ("fanotify_init", libc::SYS_fanotify_init, vec![4, 0]),
        (
            "process_vm_readv",
            libc::SYS_process_vm_readv,
            vec![1, 0, 0, 0, 0, 0],
        ),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, vec![signed(-1), 0, 0]),
    ] {
        let mut refused = REFUSED.to_vec();
        // Without quotas or modules in the kernel nothing is behind the door.
        refused.extend(
            [libc::ESRCH, libc::ENOTBLK]
                .iter()
                .filter(|_| what == "quotactl"),
        );
        // The C library's pointer is read before the check of the right; nothing was reached.
        refused.extend([libc::EFAULT].iter().filter(|_| what == "quotactl"));
        tries.must_fail_with(what, sys(number, &arguments), &refused);
    }
    tries.verdict()
}

pub(super) fn settings(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/debug/tracing/trace",
        "/sys/fs/cgroup/release_agent",
        "/dev/kmsg",
        "/dev/mem",
        "/dev/port",
    ] {
        tries.must_fail(
            format!("open {path}"),
            opens(&cstring(path), libc::O_WRONLY),
        );
    }
    // A file of the kernel opened for reading must not become one for writing.
    if let Ok(fd) = open(c"/proc/sys/kernel/core_pattern", libc::O_RDONLY) {
        let again = cstring(format!("/proc/self/fd/{fd}"));
        tries.must_fail("reopened setting", opens(&again, libc::O_WRONLY));
        close(fd);
    }
    tries.verdict()
}

/// Numbers of another architecture, where the filter's list means something else.
#[cfg(target_arch = "x86_64")]
pub(super) fn foreign_calls(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let refused = |end: Result<ChildEnd, i32>| match end {
        Ok(ChildEnd::Said(text)) => text.parse::<i64>().is_ok_and(|result| result < 0),
        Ok(ChildEnd::Killed(_)) | Err(_) => true,
    };
    // `getpid` in the numbering of 32-bit programs.
    let old = in_child(5, || {
        let result: i64;
        // SAFETY: the call takes no arguments and changes nothing but its result.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => result,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
        result.to_string()
    });
    tries.must_not("int 0x80", !refused(old));
    let x32 = in_child(5, || {
        let answer = sys(0x4000_0000 | libc::SYS_getpid, &[]);
        answer.unwrap_or_else(|errno| -i64::from(errno)).to_string()
    });
    tries.must_not("x32", !refused(x32));
    tries.verdict()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn foreign_calls(_: &Scene) -> Verdict {
    Verdict::Skipped("this architecture has one numbering".to_owned())
}
