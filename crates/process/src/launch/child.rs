//! What a child does between the clone and its exec, in the order of [`Stage`].
//!
//! The invariant here: nothing allocates, locks, unwinds or uses the C library's state, because the
//! memory is the parent's. Everything was prepared in the [`Job`]; the child only makes system calls
//! and, when one fails, writes into the job where and why, then exits. The parent reads that after
//! the clone has returned.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::AtomicI32;

use super::privileges::{self, prctl};
use super::syscall::{address, call, fd, word};
use super::{LaunchError, Mounts, Restrictions, Stage, Terminal, attributes, mount};

/// What a child needs, all of it lent by the parent, which waits.
pub(super) struct Job<'a> {
    /// Files to try, and two lists that end with a null pointer.
    pub(super) programs: &'a [CString],
    pub(super) argv: &'a [*const libc::c_char],
    pub(super) envp: &'a [*const libc::c_char],
    pub(super) cwd: &'a CStr,
    pub(super) terminal: Terminal,
    pub(super) rlimits: &'a [(u32, u64, u64)],
    /// The soft limit of descriptors, unless the list above has one.
    pub(super) open_files: u64,
    /// The reserved descriptors of standard input, output and error.
    pub(super) stdio: [i32; 3],
    pub(super) ruleset: Option<i32>,
    /// The highest reserved descriptor.
    pub(super) last_slot: i32,
    pub(super) restrictions: Option<&'a Restrictions>,
    /// Lines for `uid_map` and `gid_map`; empty without a user namespace.
    pub(super) uid_map: &'a [u8],
    pub(super) gid_map: &'a [u8],
    /// A place for a descriptor for every mount step.
    pub(super) trees: &'a [AtomicI32],
    pub(super) parent: i32,
    /// Written by the child that did not reach its exec.
    pub(super) failure: Option<LaunchError>,
}

/// `TIOCSCTTY`, which has another type in every C library.
const TIOCSCTTY: usize = 0x540e;

/// How a step ends.
pub(super) type Step = Result<(), LaunchError>;

/// The index of a failure that is about no list.
const NO_INDEX: u32 = u32::MAX;

/// The last descriptor there could be.
const EVERY: usize = u32::MAX as usize;

/// Runs the job in a new child. Only `clone` calls this.
pub(super) extern "C" fn run(job: *mut Job<'_>) -> ! {
    // SAFETY: `clone` lends the job exclusively until the child has left this memory.
    let job = unsafe { &mut *job };
    let Err(failure) = steps(job);
    // SAFETY: the place is valid as above; volatile, since to the compiler nobody reads it here.
    unsafe { ptr::write_volatile(&raw mut job.failure, Some(failure)) };
    // SAFETY: ends this process only: it is a thread group of its own.
    let _ = unsafe { call(libc::SYS_exit_group, [127, 0, 0, 0, 0, 0]) };
    // Its own filter has refused even that. The parent waits, so it must end all the same.
    trap()
}

/// Ends this process by a fault, which nothing can refuse.
fn trap() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: faults; the signal has its default effect, since handlers went with the clone.
    unsafe {
        core::arch::asm!("ud2", options(noreturn, nomem, nostack))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: faults; the signal has its default effect, since handlers went with the clone.
    unsafe {
        core::arch::asm!("udf #0", options(noreturn, nomem, nostack))
    }
}

/// Everything in order; only comes back when something failed.
fn steps(job: &Job<'_>) -> Result<std::convert::Infallible, LaunchError> {
    // SAFETY: concerns this process only.
    at(Stage::Session, unsafe { call(libc::SYS_setsid, [0; 6]) })?;
    attributes::tighten_umask();
    limits(job, Resources::AllButOpenFiles)?;
    stdio(job)?;
    if job.restrictions.is_some() {
        attributes::raise_oom_score();
    }
    let mounts = job.restrictions.and_then(|given| given.mounts.as_ref());
    if let Some(mounts) = mounts {
        enter_namespaces(job, mounts)?;
        mount::make(mounts, job.trees)?;
    }
    // SAFETY: the path ends with NUL; the directory is this process's own (no CLONE_FS).
    at(Stage::Cwd, unsafe {
        call(libc::SYS_chdir, [address(job.cwd.as_ptr()), 0, 0, 0, 0, 0])
    })?;
    // A small limit would have failed what opens files above, and raising one may take the
    // capabilities dropped below.
    limits(job, Resources::OpenFiles)?;
    if let Some(restrictions) = job.restrictions {
        privileges::drop_capabilities(restrictions.capabilities_kept)?;
        privileges::forbid_new_ones()?;
    }
    if job.ruleset.is_some() {
        restrict_files()?;
    }
    die_with_parent(job.parent)?;
    default_dispositions();
    if let Some(restrictions) = job.restrictions {
        privileges::filter_calls(&restrictions.filter)?;
    }
    unblock_signals()?;
    exec(job)
}

/// The result of a call as the result of a stage that works through no list.
pub(super) fn at(stage: Stage, result: Result<usize, i32>) -> Step {
    at_index(stage, NO_INDEX, result)
}

/// The result of a call as the result of a stage.
pub(super) fn at_index(stage: Stage, index: u32, result: Result<usize, i32>) -> Step {
    match result {
        Ok(_) => Ok(()),
        Err(errno) => Err(LaunchError {
            stage,
            errno,
            index,
        }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Resources {
    AllButOpenFiles,
    OpenFiles,
}

fn limits(job: &Job<'_>, which: Resources) -> Step {
    let mut given = false;
    for (index, &(resource, soft, hard)) in (0_u32..).zip(job.rlimits) {
        let open_files = resource == libc::RLIMIT_NOFILE;
        given |= open_files;
        if open_files == (which == Resources::OpenFiles) {
            at_index(Stage::Limit, index, set_limit(resource, soft, hard))?;
        }
    }
    if which == Resources::OpenFiles && !given {
        // The service may have raised its own limit; the child gets what the service was given.
        let (soft, hard) = match open_files_limit() {
            Ok(now) => now,
            Err(errno) => return at(Stage::Limit, Err(errno)),
        };
        let wanted = job.open_files.min(hard);
        if wanted != soft {
            at(Stage::Limit, set_limit(libc::RLIMIT_NOFILE, wanted, hard))?;
        }
    }
    Ok(())
}

fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<usize, i32> {
    let new: [u64; 2] = [soft, hard];
    // SAFETY: pid 0 is this process; the pair has the layout of `rlimit64` and lives here.
    unsafe {
        call(
            libc::SYS_prlimit64,
            [0, resource as usize, address(&raw const new), 0, 0, 0],
        )
    }
}

fn open_files_limit() -> Result<(u64, u64), i32> {
    let mut now: [u64; 2] = [0, 0];
    // SAFETY: pid 0 is this process; the pair has the layout of `rlimit64` and lives here.
    unsafe {
        call(
            libc::SYS_prlimit64,
            [
                0,
                libc::RLIMIT_NOFILE as usize,
                0,
                address(&raw mut now),
                0,
                0,
            ],
        )?;
    }
    let [soft, hard] = now;
    Ok((soft, hard))
}

/// Where the ruleset is until it is used.
const RULESET: usize = 3;

/// Leaves the parent's table of descriptors with a copy that ends at the slots, puts the slots in
/// place and closes the rest. At once, since a copy of somebody else's pipe keeps it from ending.
/// The slots are above 2, so none is overwritten before its turn and each copy loses close-on-exec.
fn stdio(job: &Job<'_>) -> Step {
    let above = fd(job.last_slot.saturating_add(1));
    // With this flag the call first gives this process a table of its own, so that nothing of the
    // parent's is closed.
    close_from(above, libc::CLOSE_RANGE_UNSHARE as usize)?;
    for (target, slot) in (0_usize..).zip(job.stdio) {
        duplicate(fd(slot), target)?;
    }
    match job.ruleset.map(fd) {
        None => close_from(RULESET, 0)?,
        Some(slot) => {
            if slot != RULESET {
                duplicate(slot, RULESET)?;
            }
            close_from(RULESET.saturating_add(1), 0)?;
        }
    }
    match job.terminal {
        Terminal::None => Ok(()),
        // SAFETY: takes no memory; the session is this process's own and has no terminal yet.
        Terminal::Controlling => at(Stage::Stdio, unsafe {
            call(libc::SYS_ioctl, [0, TIOCSCTTY, 0, 0, 0, 0])
        }),
    }
}

fn duplicate(from: usize, to: usize) -> Step {
    // SAFETY: the table is this process's own when this is called.
    at(Stage::Stdio, unsafe {
        call(libc::SYS_dup3, [from, to, 0, 0, 0, 0])
    })
}

fn close_from(first: usize, flags: usize) -> Step {
    // SAFETY: the table is this process's own when this is called, or becomes so by the flag.
    at(Stage::Stdio, unsafe {
        call(libc::SYS_close_range, [first, EVERY, flags, 0, 0, 0])
    })
}

/// Takes on the ruleset and closes it, the last descriptor that is not the program's.
fn restrict_files() -> Step {
    // SAFETY: restricts this task only.
    at(Stage::Landlock, unsafe {
        call(libc::SYS_landlock_restrict_self, [RULESET, 0, 0, 0, 0, 0])
    })?;
    // SAFETY: the table is this process's own.
    at(Stage::Landlock, unsafe {
        call(libc::SYS_close, [RULESET, 0, 0, 0, 0, 0])
    })
}

/// In a new user namespace the ids must be mapped before they mean anything. The namespaces
/// themselves came with the clone.
fn enter_namespaces(job: &Job<'_>, mounts: &Mounts) -> Step {
    if mounts.user_namespace.is_none() {
        return Ok(());
    }
    // Without this an ordinary user may not map its group.
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/uid_map", job.uid_map)?;
    write_file(c"/proc/self/gid_map", job.gid_map)
}

fn write_file(path: &CStr, text: &[u8]) -> Step {
    let flags = word(libc::O_WRONLY | libc::O_CLOEXEC);
    // SAFETY: the path ends with NUL and the text is as long as said; the descriptor is used and
    // closed here only, in a table that is this process's own.
    let written = unsafe {
        call(
            libc::SYS_openat,
            [fd(libc::AT_FDCWD), address(path.as_ptr()), flags, 0, 0, 0],
        )
        .and_then(|file| {
            let written = call(
                libc::SYS_write,
                [file, address(text.as_ptr()), text.len(), 0, 0, 0],
            );
            call(libc::SYS_close, [file, 0, 0, 0, 0, 0]).and(written)
        })
    };
    at(Stage::Namespace, written)
}

/// After the last change of credentials, which would have undone it.
fn die_with_parent(parent: i32) -> Step {
    at(
        Stage::Session,
        prctl(libc::PR_SET_PDEATHSIG, word(libc::SIGKILL), 0),
    )?;
    // The parent may have died before the line above.
    // SAFETY: takes no arguments.
    let now = unsafe { call(libc::SYS_getppid, [0; 6]) };
    if now == Ok(word(parent)) {
        Ok(())
    } else {
        at(Stage::Session, Err(libc::ESRCH))
    }
}

/// Handlers are gone since the clone; what is left are ignored signals. Two cannot be set.
fn default_dispositions() {
    /// As the kernel has it: handler, flags, restorer, mask; all zero is the default.
    type Action = [u64; 4];
    let default: Action = [0; 4];
    for signal in 1..=64_usize {
        // SAFETY: the action lives here and has the kernel's size; the dispositions are this
        // process's own (no CLONE_SIGHAND).
        let _ = unsafe {
            call(
                libc::SYS_rt_sigaction,
                [
                    signal,
                    address(&raw const default),
                    0,
                    size_of::<u64>(),
                    0,
                    0,
                ],
            )
        };
    }
}

/// A signal that came meanwhile takes its default effect here, before the exec.
fn unblock_signals() -> Step {
    let none = 0_u64;
    // SAFETY: the set lives here and has the size that is given.
    at(Stage::Exec, unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [
                word(libc::SIG_SETMASK),
                address(&raw const none),
                0,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    })
}

/// Tries the files in order as a search of `PATH` does: one that is not there is passed over, one
/// that may not be executed is remembered in case no other is found.
fn exec(job: &Job<'_>) -> Result<std::convert::Infallible, LaunchError> {
    let mut failure = LaunchError {
        stage: Stage::Exec,
        errno: libc::ENOENT,
        index: 0,
    };
    for (index, program) in (0_u32..).zip(job.programs) {
        // SAFETY: the path ends with NUL, the lists with a null pointer, their strings with NUL.
        let failed = unsafe {
            call(
                libc::SYS_execve,
                [
                    address(program.as_ptr()),
                    address(job.argv.as_ptr()),
                    address(job.envp.as_ptr()),
                    0,
                    0,
                    0,
                ],
            )
        };
        let errno = failed.err().unwrap_or(libc::EIO);
        match errno {
            libc::ENOENT | libc::ENOTDIR if failure.errno != libc::EACCES => {
                failure.errno = errno;
                failure.index = index;
            }
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES if failure.errno == libc::EACCES => {}
            libc::EACCES => {
                failure.errno = errno;
                failure.index = index;
            }
            _ => {
                failure.errno = errno;
                failure.index = index;
                break;
            }
        }
    }
    Err(failure)
}
