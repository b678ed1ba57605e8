//! The clone: a child that shares memory and descriptors with its parent until its exec.
//!
//! The invariant here: the calling thread waits in the kernel until the child has left this memory,
//! by its exec or its exit, and no signal handler runs in either of them meanwhile. So the child may
//! read and write what the caller lends it. It runs on a stack of its own, made once. What the child
//! does is the business of `child`.
//!
//! Container runtimes hide `clone3` from their containers, because a filter cannot see its flags. The
//! older `clone` does all but one thing there: it puts nobody into a cgroup.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::child::{self, Job};
use super::syscall::{self, address, call};

/// Ample: a child uses about 2 KiB of it, even in a debug build; a test looks.
const STACK_BYTES: usize = 64 * 1024;

/// Below the stack, so that an overflow is a fault and not a corruption. A multiple of every page
/// size in use.
const GUARD_BYTES: usize = 64 * 1024;

/// The stack a child runs on until its exec. One child at a time.
#[derive(Debug)]
pub(super) struct Stack {
    /// Of the whole mapping, guard included.
    start: *mut libc::c_void,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Stack {}

impl Stack {
    pub(super) fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new anonymous mapping at an address the kernel chooses touches no other memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                GUARD_BYTES + STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { start };
        // SAFETY: the guard is the beginning of the mapping made above, which nobody else uses.
        if unsafe { libc::mprotect(start, GUARD_BYTES, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// How much of it was ever written to.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        // SAFETY: the part above the guard is readable and belongs to this value; no child runs.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.start.cast::<u8>().add(GUARD_BYTES), STACK_BYTES)
        };
        bytes.iter().skip_while(|byte| **byte == 0).count()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length; a child that used it has left.
        unsafe {
            libc::munmap(self.start, GUARD_BYTES + STACK_BYTES);
        }
    }
}

/// The argument of `clone3`, in the kernel's layout.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// What the C library does not have as 64 bits.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which namespaces of its own a child starts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    None,
    Mounts,
    UserAndMounts,
}

impl Namespaces {
    fn flags(self) -> i32 {
        match self {
            Self::None => 0,
            // Whatever is shared through the kernel by key or name stays inside as well.
            Self::Mounts => libc::CLONE_NEWNS | libc::CLONE_NEWIPC,
            Self::UserAndMounts => libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC,
        }
    }
}

/// What the kernel returns for a call it does not have.
const NO_SUCH_CALL: libc::c_long = -(libc::ENOSYS as libc::c_long);

/// Whether the system has said that it has no `clone3`.
static NO_CLONE3: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
pub(super) fn is_clone3_hidden() -> bool {
    NO_CLONE3.load(Ordering::Relaxed)
}

/// Clones a child that runs `job` and returns its pid and pidfd when it has left this memory. The
/// job says afterwards whether it failed.
pub(super) fn clone(
    stack: &mut Stack,
    job: &mut Job<'_>,
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<(i32, OwnedFd), i32> {
    let flags = libc::CLONE_VM
        | libc::CLONE_VFORK
        | libc::CLONE_PIDFD
        | libc::CLONE_FILES
        | namespaces.flags();
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs {
        flags: u64::from(flags.cast_unsigned()) | CLONE_CLEAR_SIGHAND,
        pidfd: address(&raw mut pidfd) as u64,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: (address(stack.start) + GUARD_BYTES) as u64,
        stack_size: STACK_BYTES as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    }
    let blocked = block_signals()?;
    // SAFETY: the arguments are complete and live until the call returns, which is after the child
    // has left this memory (CLONE_VFORK). The child gets a stack nobody else uses, since `stack` is
    // borrowed exclusively, and a job that is borrowed exclusively. All signals are blocked.
    let returned = unsafe {
        let hidden = NO_CLONE3.load(Ordering::Relaxed);
        let returned = if hidden {
            NO_SUCH_CALL
        } else {
            clone3(&raw const args, ptr::from_mut(job))
        };
        if returned == NO_SUCH_CALL && cgroup.is_none() {
            NO_CLONE3.store(true, Ordering::Relaxed);
            // The dispositions it does not clear are reset by the child itself.
            let flags = flags | libc::SIGCHLD;
            let top = address(stack.start) + GUARD_BYTES + STACK_BYTES;
            old_clone(flags, top, &raw mut pidfd, ptr::from_mut(job))
        } else {
            returned
        }
    };
    restore_signals(blocked);
    let pid = syscall::decode(returned)?;
    // SAFETY: the clone succeeded, so the kernel has put a new descriptor there that is only ours.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok((i32::try_from(pid).unwrap_or(i32::MAX), pidfd))
}

/// Enters the kernel and, in the child, `child::run` on the new stack.
///
/// # Safety
///
/// `args` and `job` must be valid until the call returns; the stack in `args` must be unused; the
/// flags must contain `CLONE_VM | CLONE_VFORK`; signals must be blocked.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(args: *const CloneArgs, job: *mut Job<'_>) -> libc::c_long {
    let returned: libc::c_long;
    // SAFETY: parent: an ordinary system call. Child: the kernel has set the stack pointer to the
    // top of the new stack, 16-byte aligned, and kept all registers but rax, rcx and r11; it calls
    // `run` with the job and never comes back, so nothing of this frame is used twice.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, rdx",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => returned,
            in("rdi") args,
            in("rsi") size_of::<CloneArgs>(),
            in("rdx") job,
            in("r8") child::run as extern "C" fn(*mut Job<'_>) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    returned
}

/// Enters the kernel and, in the child, `child::run` on the new stack.
///
/// # Safety
///
/// `args` and `job` must be valid until the call returns; the stack in `args` must be unused; the
/// flags must contain `CLONE_VM | CLONE_VFORK`; signals must be blocked.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(args: *const CloneArgs, job: *mut Job<'_>) -> libc::c_long {
    let returned: libc::c_long;
    // SAFETY: parent: an ordinary system call. Child: the kernel has set the stack pointer to the
    // top of the new stack, 16-byte aligned, and kept all registers but x0; it calls `run` with the
    // job and never comes back, so nothing of this frame is used twice.
    unsafe {
        core::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x2",
            "blr x3",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") args => returned,
            in("x1") size_of::<CloneArgs>(),
            in("x2") job,
            in("x3") child::run as extern "C" fn(*mut Job<'_>) -> !,
        );
    }
    returned
}

/// The same by the older call, whose flags fit in a word and whose pidfd goes where the thread id of
/// the child would.
///
/// # Safety
///
/// As for [`clone3`]; `top` must be the end of an unused stack, 16-byte aligned.
#[cfg(target_arch = "x86_64")]
unsafe fn old_clone(flags: i32, top: usize, pidfd: *mut i32, job: *mut Job<'_>) -> libc::c_long {
    let returned: libc::c_long;
    // SAFETY: as in `clone3`; the kernel looks at five registers and keeps the others.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r9",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => returned,
            in("rdi") syscall::word(flags),
            in("rsi") top,
            in("rdx") pidfd,
            in("r10") 0,
            in("r8") 0,
            in("r9") job,
            in("r12") child::run as extern "C" fn(*mut Job<'_>) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    returned
}

/// The same by the older call, whose flags fit in a word and whose pidfd goes where the thread id of
/// the child would.
///
/// # Safety
///
/// As for [`clone3`]; `top` must be the end of an unused stack, 16-byte aligned.
#[cfg(target_arch = "aarch64")]
unsafe fn old_clone(flags: i32, top: usize, pidfd: *mut i32, job: *mut Job<'_>) -> libc::c_long {
    let returned: libc::c_long;
    // SAFETY: as in `clone3`; the kernel looks at five registers and keeps the others.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x5",
            "blr x6",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") syscall::word(flags) as libc::c_long => returned,
            in("x1") top,
            in("x2") pidfd,
            in("x3") 0,
            in("x4") 0,
            in("x5") job,
            in("x6") child::run as extern "C" fn(*mut Job<'_>) -> !,
            lateout("x30") _,
        );
    }
    returned
}

/// Blocks every signal in this thread, also those the C library keeps for itself; what was blocked.
fn block_signals() -> Result<u64, i32> {
    let all = u64::MAX;
    let mut before = 0_u64;
    // SAFETY: both sets live in this frame and have the size that is given.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [
                syscall::word(libc::SIG_SETMASK),
                address(&raw const all),
                address(&raw mut before),
                size_of::<u64>(),
                0,
                0,
            ],
        )?;
    }
    Ok(before)
}

fn restore_signals(before: u64) {
    // SAFETY: the set lives in this frame and has the size that is given.
    let restored = unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [
                syscall::word(libc::SIG_SETMASK),
                address(&raw const before),
                0,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    };
    debug_assert!(restored.is_ok(), "a valid mask is always accepted");
}
