//! System calls without the C library's opinion, and children that may die.

use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::fd::FromRawFd;

/// A result of the kernel: a number, or an errno.
pub(crate) type Answer = Result<i64, i32>;

/// Makes a system call. Missing arguments are zero.
pub(crate) fn sys(number: libc::c_long, arguments: &[usize]) -> Answer {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = *argument;
    }
    let [a, b, c, d, e, f] = all;
    // SAFETY: callers pass pointers to memory that outlives the call, or numbers that are no pointers.
    // The generator of random calls passes anything, in a child that may die of it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    checked(result)
}

/// The result of a function of the C library.
pub(crate) fn checked(result: impl Into<i64>) -> Answer {
    let result = result.into();
    if result < 0 { Err(errno()) } else { Ok(result) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A pointer as an argument.
pub(crate) fn at<T>(value: &T) -> usize {
    std::ptr::from_ref(value) as usize
}

/// A pointer to what the kernel fills in.
pub(crate) fn into<T>(value: &mut T) -> usize {
    std::ptr::from_mut(value) as usize
}

/// A text as an argument.
pub(crate) fn c(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// A text of ours for the kernel.
pub(crate) fn cstring(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_default()
}

/// A negative number as an argument.
pub(crate) fn signed(number: i64) -> usize {
    number as usize
}

pub(crate) const CWD: usize = libc::AT_FDCWD as usize;

/// Opens a path, closed on exec.
pub(crate) fn open(path: &CStr, flags: i32) -> Answer {
    open_mode(path, flags, 0o600)
}

pub(crate) fn open_mode(path: &CStr, flags: i32, mode: u32) -> Answer {
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    sys(
        libc::SYS_openat,
        &[CWD, c(path), flags as usize, mode as usize],
    )
}

pub(crate) fn close(fd: i64) {
    let _ = sys(libc::SYS_close, &[fd as usize]);
}

/// Opens, and closes again.
pub(crate) fn opens(path: &CStr, flags: i32) -> Answer {
    open(path, flags).inspect(|fd| close(*fd))
}

/// The mode of a path, without following a link.
pub(crate) fn mode_of(path: &CStr) -> Option<u32> {
    // SAFETY: all zero is a valid `stat`, and the path ends with NUL.
    let (result, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::lstat(path.as_ptr(), &raw mut stat), stat)
    };
    (result == 0).then_some(stat.st_mode)
}

/// How a child ended.
pub(crate) enum ChildEnd {
    /// It returned a text.
    Said(String),
    /// A signal killed it before.
    Killed(i32),
}

/// Runs a function in a child and returns its text. An alarm ends a child that hangs.
pub(crate) fn in_child(
    seconds_max: i32,
    function: impl FnOnce() -> String,
) -> Result<ChildEnd, i32> {
    let mut ends = [0_i32; 2];
    // SAFETY: the array takes two descriptors.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the program has one thread, so that the child may do anything.
    let pid = checked(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: takes a number.
        unsafe { libc::alarm(seconds_max.unsigned_abs()) };
        let text = function();
        // SAFETY: the text is as long as said. Nothing of the parent runs in the child.
        unsafe {
            libc::write(ends[1], text.as_ptr().cast(), text.len());
            libc::_exit(0);
        }
    }
    close(ends[1].into());
    let status = wait_for(pid as i32);
    // Behind the child's end, whatever its descendants hold: a text is shorter than a pipe.
    let _ = sys(
        libc::SYS_fcntl,
        &[
            ends[0] as usize,
            libc::F_SETFL as usize,
            libc::O_NONBLOCK as usize,
        ],
    );
    let mut text = Vec::new();
    // SAFETY: the descriptor is ours and nothing else owns it.
    let mut file = unsafe { std::fs::File::from_raw_fd(ends[0]) };
    let _ = file.read_to_end(&mut text);
    if libc::WIFSIGNALED(status) {
        return Ok(ChildEnd::Killed(libc::WTERMSIG(status)));
    }
    Ok(ChildEnd::Said(String::from_utf8_lossy(&text).into_owned()))
}

/// Waits for a child; its status.
pub(crate) fn wait_for(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status lives here. `__WALL`: also a child that was cloned without a signal.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0 {
        if errno() != libc::EINTR {
            break;
        }
    }
    status
}

/// The name of an errno that attacks meet.
pub(crate) fn errno_name(errno: i32) -> String {
    let known = [
        (0, "ineffective"),
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::ENXIO, "ENXIO"),
        (libc::EBADF, "EBADF"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::EROFS, "EROFS"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ENOKEY, "ENOKEY"),
        (libc::EIO, "EIO"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::EIDRM, "EIDRM"),
        (libc::ELOOP, "ELOOP"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
    ];
    let found = known.iter().find(|(number, _)| *number == errno);
    found.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}
