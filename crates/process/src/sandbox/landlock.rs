//! Landlock rulesets: made here, in the parent, applied by the child with one call.
//!
//! A ruleset handles every right the kernel knows, so that what is not granted is refused, and it
//! never grants the making of devices. Rules name inodes, not paths: a ruleset is made for each spawn
//! and each path is opened without following links, so that a directory replaced since the policy
//! was resolved cannot become writable.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use crate::sandbox::Access;

/// The first version of Landlock that knows truncation; without it a file could be emptied.
pub const ABI_MIN: u32 = 3;
/// The first version with rules about TCP.
const ABI_TCP: u32 = 4;
/// The first version with rights about the control of devices.
const ABI_IOCTL: u32 = 5;
/// The first version that keeps signals and abstract sockets inside.
pub const ABI_SCOPES: u32 = 6;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// All rights of version 3, in one run of bits.
const ALL_V3: u64 = (TRUNCATE << 1) - 1;

/// Rights that make sense for what is not a directory; the kernel refuses rules with others.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
const READING: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Whoever may make a device in a writable directory owns the machine.
const NEVER: u64 = MAKE_CHAR | MAKE_BLOCK;

const BIND_AND_CONNECT_TCP: u64 = 0b11;
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

/// `landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `landlock_path_beneath_attr`, which the kernel packs.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: RawFd,
}

/// What a ruleset is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) files: Files,
    pub(super) tcp: Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Confined,
    Untouched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tcp {
    Forbidden,
    Untouched,
}

/// A ruleset that is being made.
#[derive(Debug)]
pub(super) struct Ruleset {
    fd: OwnedFd,
    handled: u64,
}

/// The version of Landlock, from the kernel.
pub(super) fn abi() -> io::Result<u32> {
    // SAFETY: with this flag the kernel reads no memory and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(checked(version)?).map_err(io::Error::other)
}

/// Whether this version keeps signals and abstract sockets inside.
pub(super) const fn has_scopes(abi: u32) -> bool {
    abi >= ABI_SCOPES
}

/// Whether this version can refuse TCP without confining files.
pub(super) const fn has_tcp(abi: u32) -> bool {
    abi >= ABI_TCP
}

impl Ruleset {
    /// One that refuses everything it is about.
    pub(super) fn new(abi: u32, about: About) -> io::Result<Self> {
        let ioctl = if abi >= ABI_IOCTL { IOCTL_DEV } else { 0 };
        let handled = match about.files {
            Files::Confined => ALL_V3 | ioctl,
            Files::Untouched => 0,
        };
        let attr = RulesetAttr {
            handled_access_fs: handled,
            handled_access_net: match about.tcp {
                Tcp::Forbidden if has_tcp(abi) => BIND_AND_CONNECT_TCP,
                Tcp::Forbidden | Tcp::Untouched => 0,
            },
            scoped: match about.files {
                Files::Confined if has_scopes(abi) => ABSTRACT_SOCKETS_AND_SIGNALS,
                Files::Confined | Files::Untouched => 0,
            },
        };
        // SAFETY: the attributes live here and are as large as said; an older kernel accepts a larger
        // structure whose unknown end is zero.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attr,
                size_of::<RulesetAttr>(),
                0_u32,
            )
        };
        let fd = RawFd::try_from(checked(fd)?).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor for us; it is closed on exec.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, handled })
    }

    /// Allows this at the canonical path and below.
    pub(super) fn grant(&self, path: &Path, access: Access) -> io::Result<()> {
        match access {
            Access::Deny => Ok(()),
            Access::Read => self.allow(path, READING),
            Access::Write => self.allow(path, !NEVER),
        }
    }

    /// Allows directories to be listed at the canonical path and below, and nothing else.
    pub(super) fn grant_listing(&self, path: &Path) -> io::Result<()> {
        self.allow(path, READ_DIR)
    }

    fn allow(&self, path: &Path, rights: u64) -> io::Result<()> {
        let place = rustix::fs::openat2(
            CWD,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        )?;
        let mode = rustix::fs::fstat(&place)?.st_mode;
        let possible = match FileType::from_raw_mode(mode) {
            FileType::Directory => u64::MAX,
            _ => OF_FILES,
        };
        self.add(place.as_fd(), rights & possible & self.handled)
    }

    fn add(&self, place: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
        let beneath = PathBeneath {
            allowed_access: rights,
            parent_fd: place.as_raw_fd(),
        };
        // SAFETY: the rule lives here and has the layout of its kind.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const beneath,
                0_u32,
            )
        };
        checked(added).map(drop)
    }

    /// The descriptor a child restricts itself with.
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
