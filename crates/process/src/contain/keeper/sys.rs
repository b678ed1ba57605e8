//! The system calls of keeper and holder that nobody wraps.
//!
//! Each function is one call, or the few that belong together, with its proof. What they are used
//! for is the business of the callers. Only [`pidfd_signal`] is also used by the service.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::status::Rusage;

fn checked(result: i32) -> io::Result<i32> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set it is given; `sigaddset` only changes it and fails
    // for a number that is no signal.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks exactly these signals in this thread.
pub(super) fn block_only(signals: &[i32]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: the set is initialised and the old one is not asked for.
    checked(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) })
        .map(drop)
}

/// A descriptor that is readable while one of these, which must be blocked, is pending.
pub(super) fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: the set is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    // SAFETY: the call returned a new descriptor that nobody else owns.
    checked(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes what is pending from a [`signal_fd`]; whether `wanted` was among it.
pub(super) fn take_signals(fd: BorrowedFd<'_>, wanted: i32) -> bool {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0_u8; SIZE * 4];
    let mut seen = false;
    while let Ok(len) = rustix::io::read(fd, &mut buffer) {
        // The number is the first field of each record.
        for record in buffer[..len].chunks_exact(SIZE) {
            let number = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            seen |= number == wanted.cast_unsigned();
        }
        if len < buffer.len() {
            break;
        }
    }
    seen
}

/// What a signal does to this process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Disposition {
    Ignore,
    Default,
}

/// Sets it. A default SIGCHLD is not sent for children that stop.
pub(super) fn dispose(signal: i32, disposition: Disposition) {
    let handler = match disposition {
        Disposition::Ignore => libc::SIG_IGN,
        Disposition::Default => libc::SIG_DFL,
    };
    // SAFETY: all zeroes is a valid `sigaction`; no handler function is installed, and the call only
    // fails for signals that cannot be changed, which then stay as they are.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Who a [`fork`] returned to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Forked {
    Parent(i32),
    Child,
}

/// Copies this process.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: keeper and holder have one thread, so no lock or invariant of another thread can be
    // caught half-way in the copy.
    let pid = checked(unsafe { libc::fork() })?;
    Ok(match pid {
        0 => Forked::Child,
        pid => Forked::Parent(pid),
    })
}

/// Ends this process at once, without running what the program registered for its exit.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: never returns; what this process owns is given back by the system.
    unsafe { libc::_exit(code) }
}

/// One answer of [`wait_any`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Waited {
    /// A child was reaped: pid, status, what it used.
    Reaped(i32, i32, Rusage),
    /// Children, but none that has exited.
    None,
    /// No children at all, which is the only proof that nobody is left.
    NoChildren,
}

/// Reaps one child of any kind that has exited, without waiting.
pub(super) fn wait_any() -> Waited {
    loop {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // `__WALL`: also children whose death raises no SIGCHLD.
        // SAFETY: both pointers are valid for writing, and all zeroes is a valid `rusage`.
        let (pid, usage) = unsafe {
            let options = libc::WNOHANG | libc::__WALL;
            let pid = libc::wait4(-1, &raw mut status, options, usage.as_mut_ptr());
            (pid, usage.assume_init())
        };
        match pid {
            0 => return Waited::None,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Waited::NoChildren,
            pid => return Waited::Reaped(pid, status, rusage_of(&usage)),
        }
    }
}

fn rusage_of(usage: &libc::rusage) -> Rusage {
    let duration = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Rusage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }
}

/// Which of a process and its group a [`pidfd_signal`] is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    Process,
    /// Of which the process is the leader. Needs Linux 6.9: `EINVAL` before.
    Group,
}

/// Sends a signal to the process behind a pidfd or an open `/proc/<pid>`, never to another one that
/// got its number later. Signal 0 only asks whether it still exists (a zombie does).
pub(super) fn pidfd_signal(fd: BorrowedFd<'_>, signal: i32, reach: Reach) -> io::Result<()> {
    const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 4;
    let flags = match reach {
        Reach::Process => 0,
        Reach::Group => PIDFD_SIGNAL_PROCESS_GROUP,
    };
    // SAFETY: plain numbers and a null `siginfo`, which means that of `kill`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Gives freed memory back to the system.
pub(super) fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only touches memory that the allocator knows to be free.
    unsafe {
        libc::malloc_trim(0);
    }
}
