//! How a child ended, asked of the kernel through its pidfd.
//!
//! The one place that reaps. It never blocks and never waits for "any child": a host has children of
//! its own, and their statuses are not ours to take.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::{Ended, How};
use crate::status::Rusage;

/// What becomes of a child whose status was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zombie {
    Reap,
    /// It stays a zombie, and its pid and group its own, until it is asked for again.
    Keep,
}

/// Which child.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child<'a> {
    Pidfd(BorrowedFd<'a>),
    /// Only for a pid that cannot be anybody else's: of a child that was not reaped.
    Pid(i32),
}

/// The child's end, or `None` while it lives. A child that somebody else reaped is lost.
pub(super) fn ended(child: Child<'_>, zombie: Zombie) -> Option<Ended> {
    let (kind, id) = match child {
        Child::Pidfd(fd) => (libc::P_PIDFD, fd.as_raw_fd()),
        Child::Pid(pid) => (libc::P_PID, pid),
    };
    let keep = match zombie {
        Zombie::Reap => 0,
        Zombie::Keep => libc::WNOWAIT,
    };
    let options = libc::WEXITED | libc::WNOHANG | libc::__WALL | keep;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writes of their types for the whole call, and the
        // kernel reads nothing through them. The C library's wrapper has no parameter for rusage.
        let result = unsafe {
            libc::syscall(
                libc::SYS_waitid,
                kind,
                id,
                info.as_mut_ptr(),
                options,
                usage.as_mut_ptr(),
            )
        };
        if result == 0 {
            break;
        }
        if last_errno() != libc::EINTR {
            return Some(LOST);
        }
    }
    // SAFETY: all-zero bytes are a value of either plain C structure, and the kernel wrote over them
    // only with values of its own.
    let (info, usage) = unsafe { (info.assume_init(), usage.assume_init()) };
    // SAFETY: waitid fills the fields of a child's signal, or leaves everything zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return None;
    }
    let how = if info.si_code == libc::CLD_EXITED {
        How::Code(status)
    } else {
        How::Signal(status)
    };
    Some(Ended {
        how,
        rusage: used(&usage),
    })
}

/// An end nobody can tell anything about.
pub(super) const LOST: Ended = Ended {
    how: How::Lost,
    rusage: Rusage {
        user: Duration::ZERO,
        system: Duration::ZERO,
        max_resident_bytes: 0,
    },
};

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn used(usage: &libc::rusage) -> Rusage {
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Rusage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        // The kernel counts in KiB.
        max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }
}
