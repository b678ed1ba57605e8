//! The filter of system calls: which calls a confined process may make, and with which arguments.
//!
//! Paths are the business of Landlock and mounts. The filter closes what neither of them sees: other
//! processes, sockets, keyrings, shared memory, metadata, set-user-id bits, and calls whose arguments
//! the kernel reads from memory where a filter cannot look (`clone3`, `openat2`). Calls of another
//! architecture end the process, since their numbers mean something else.
//!
//! A call that takes a pid may name only the caller itself, as 0: a filter cannot know which other
//! pids are inside the sandbox.

mod assemble;
mod calls;

use std::collections::BTreeMap;

use libc::c_long;

use self::assemble::{
    ALLOW, AND, Body, JUMP_IF_ANY, JUMP_IF_EQUAL, REFUSE, answer, fail, jump, load_argument,
    load_upper_half, plain,
};
use self::calls::{
    ESCAPES, IPC, KEYRINGS, MACHINE, MACHINE_OLD, METADATA, METADATA_OLD, MOUNTS, SOCKETS,
    SYS_FCHMODAT2, SYS_FILE_SETATTR,
};
use crate::report::NetworkEnforcement;

/// Why there is no program.
pub(super) const UNKNOWN_ARCHITECTURE: &str = "known for x86_64 and aarch64 only";

/// The kinds of things a filtered process may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) network: Network,
    pub(super) files: Files,
    pub(super) ipc: Ipc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Internet sockets and sockets of other programs of this machine.
    OpenWithLocal,
    /// Internet sockets only. Sockets of the user's other programs stay closed: no `AF_UNIX` socket
    /// can be made, because no filter sees which path a socket connects to.
    Open,
    /// Connected pairs only.
    Off,
}

impl Network {
    /// The same, for reports.
    pub(super) fn enforcement(self) -> NetworkEnforcement {
        match self {
            Self::Open | Self::OpenWithLocal => NetworkEnforcement::Open,
            Self::Off => NetworkEnforcement::Seccomp,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// Another sandbox confines them.
    Untouched,
    /// Some may be written.
    Confined,
    /// None may be written. Landlock does not know owners, modes, times and attributes; the filter
    /// keeps those unchanged too.
    Frozen,
}

/// Who shares System V objects and message queues with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ipc {
    /// Only its own descendants: it has an IPC namespace.
    Own,
    /// Every process of the machine.
    Shared,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
)))]
const ARCHITECTURE: Option<u32> = None;

/// The second numbering of `x86_64`, with 32-bit pointers, has this bit.
const X32_BIT: u32 = 0x4000_0000;

/// The first number that is no call of this architecture.
const NUMBERS_END: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(X32_BIT)
} else {
    None
};

/// The part of a socket's type that is not a flag.
const SOCKET_TYPE: u32 = 0xf;

const AF_UNIX: u32 = libc::AF_UNIX.unsigned_abs();

/// Every kind of namespace. A new user namespace would give all capabilities inside of it, and with
/// them a wide way into the kernel.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

/// The time namespace. Its bit means something else to `clone`.
const NEW_TIME: u32 = 0x80;

/// Set-user-id and set-group-id: whoever executes such a file outside runs as its owner.
const SET_ID: u32 = 0o6000;

/// The flags of an `open` that may create a file, and so use its mode.
const CREATES: u32 = (libc::O_CREAT | O_TMPFILE_BIT).cast_unsigned();
const O_TMPFILE_BIT: i32 = 0o20_000_000;

/// The program for this scope; `None` on an architecture we do not know.
pub(super) fn program(scope: Scope) -> Option<Vec<[u8; 8]>> {
    let decided = decisions(scope);
    Some(assemble::program(ARCHITECTURE?, NUMBERS_END, &decided))
}

fn decisions(scope: Scope) -> BTreeMap<u32, Body> {
    let mut decided = Decisions::default();
    decided.all(ESCAPES, REFUSE);
    if scope.files != Files::Untouched {
        for list in [MOUNTS, KEYRINGS, MACHINE, MACHINE_OLD] {
            decided.all(list, REFUSE);
        }
        // Their arguments lie in memory. Callers fall back to the older calls.
        decided.all(&[libc::SYS_clone3, libc::SYS_openat2], fail(libc::ENOSYS));
        if scope.ipc == Ipc::Shared {
            decided.all(IPC, REFUSE);
        }
        decided.one(libc::SYS_clone, refuse_any(0, NAMESPACES));
        decided.one(libc::SYS_unshare, refuse_any(0, NAMESPACES | NEW_TIME));
        decided.one(libc::SYS_ioctl, ioctl());
        // A lease on a file that may only be read stops its writers outside for as long as it lasts.
        decided.one(
            libc::SYS_fcntl,
            refuse_value(1, libc::F_SETLEASE.unsigned_abs()),
        );
        decided.processes();
        decided.modes();
    }
    if scope.files == Files::Frozen {
        decided.all(METADATA, REFUSE);
        decided.all(METADATA_OLD, REFUSE);
    }
    decided.network(scope);
    decided.0
}

/// Bodies by the number of the call. A later decision replaces an earlier one.
#[derive(Default)]
struct Decisions(BTreeMap<u32, Body>);

impl Decisions {
    fn one(&mut self, call: c_long, body: Body) {
        if let Ok(number) = u32::try_from(call) {
            self.0.insert(number, body);
        }
    }

    fn all(&mut self, calls: &[c_long], value: u32) {
        for call in calls {
            self.one(*call, vec![answer(value)]);
        }
    }

    /// Limits, priorities and scheduling of other processes.
    fn processes(&mut self) {
        const PRIO_PROCESS: u32 = 0;
        const IOPRIO_WHO_PROCESS: u32 = 1;
        for call in [
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
        ] {
            self.one(call, only(&[(0, 0)]));
        }
        self.one(libc::SYS_setpriority, only(&[(0, PRIO_PROCESS), (1, 0)]));
        self.one(
            libc::SYS_ioprio_set,
            only(&[(0, IOPRIO_WHO_PROCESS), (1, 0)]),
        );
    }

    /// Modes with a set-user-id or set-group-id bit, wherever a mode is given.
    fn modes(&mut self) {
        self.one(libc::SYS_fchmod, refuse_any(1, SET_ID));
        self.one(libc::SYS_fchmodat, refuse_any(2, SET_ID));
        self.one(SYS_FCHMODAT2, refuse_any(2, SET_ID));
        self.one(libc::SYS_mknodat, refuse_any(2, SET_ID));
        self.one(libc::SYS_openat, creating(2, 3));
        self.all(&[SYS_FILE_SETATTR], REFUSE);
        #[cfg(target_arch = "x86_64")]
        {
            self.one(libc::SYS_chmod, refuse_any(1, SET_ID));
            self.one(libc::SYS_creat, refuse_any(1, SET_ID));
            self.one(libc::SYS_mknod, refuse_any(1, SET_ID));
            self.one(libc::SYS_open, creating(1, 2));
        }
    }

    fn network(&mut self, scope: Scope) {
        match (scope.network, scope.files) {
            (Network::Off, _) => {
                self.all(SOCKETS, REFUSE);
                // Given any other error, bash takes its standard input for a network login and reads
                // the user's start-up file.
                self.all(&[libc::SYS_getpeername], fail(libc::ENOTSOCK));
                self.one(libc::SYS_socket, connected_local());
                self.one(libc::SYS_socketpair, connected_local());
                self.one(libc::SYS_sendto, without_address());
            }
            (Network::Open | Network::OpenWithLocal, Files::Untouched) => {}
            (Network::Open, Files::Confined | Files::Frozen) => {
                self.one(libc::SYS_socket, families(&[]));
                self.one(libc::SYS_socketpair, connected_local());
            }
            (Network::OpenWithLocal, Files::Confined | Files::Frozen) => {
                self.one(libc::SYS_socket, families(&[AF_UNIX]));
            }
        }
    }
}

/// Refuses the call if the argument has one of these bits.
fn refuse_any(argument: u32, bits: u32) -> Body {
    vec![
        load_argument(argument),
        jump(JUMP_IF_ANY, bits, 0, 1),
        answer(REFUSE),
        answer(ALLOW),
    ]
}

/// Refuses the call if the argument has this value.
fn refuse_value(argument: u32, value: u32) -> Body {
    vec![
        load_argument(argument),
        jump(JUMP_IF_EQUAL, value, 0, 1),
        answer(REFUSE),
        answer(ALLOW),
    ]
}

/// Refuses the call unless every argument has its value.
fn only(values: &[(u32, u32)]) -> Body {
    let mut body = Body::new();
    for (argument, value) in values {
        body.extend([
            load_argument(*argument),
            jump(JUMP_IF_EQUAL, *value, 1, 0),
            answer(REFUSE),
        ]);
    }
    body.push(answer(ALLOW));
    body
}

/// Refuses a mode with a bit of [`SET_ID`] where the flags say that the mode is used.
fn creating(flags: u32, mode: u32) -> Body {
    let mut body = vec![
        load_argument(flags),
        jump(JUMP_IF_ANY, CREATES, 1, 0),
        answer(ALLOW),
    ];
    body.extend(refuse_any(mode, SET_ID));
    body
}

/// Only local sockets of the kinds that must be connected before they can send: a datagram can be sent
/// to any address with `sendmsg`, which connected pairs need.
fn connected_local() -> Body {
    vec![
        load_argument(0),
        jump(JUMP_IF_EQUAL, AF_UNIX, 1, 0),
        answer(REFUSE),
        load_argument(1),
        plain(AND, SOCKET_TYPE),
        jump(JUMP_IF_EQUAL, libc::SOCK_STREAM.unsigned_abs(), 1, 0),
        jump(JUMP_IF_EQUAL, libc::SOCK_SEQPACKET.unsigned_abs(), 0, 1),
        answer(ALLOW),
        answer(REFUSE),
    ]
}

/// A `sendto` without an address is a write to a connected pair; Rust's library writes to those so.
fn without_address() -> Body {
    const ADDRESS: u32 = 4;
    vec![
        load_argument(ADDRESS),
        jump(JUMP_IF_EQUAL, 0, 1, 0),
        answer(REFUSE),
        load_upper_half(ADDRESS),
        jump(JUMP_IF_EQUAL, 0, 1, 0),
        answer(REFUSE),
        answer(ALLOW),
    ]
}

/// The internet, the netlink protocol that lists addresses and routes, and these families.
fn families(more: &[u32]) -> Body {
    const NETLINK_ROUTE: u32 = libc::NETLINK_ROUTE.unsigned_abs();
    let internet = [libc::AF_INET, libc::AF_INET6].map(i32::unsigned_abs);
    let mut body = vec![load_argument(0)];
    for family in internet.iter().chain(more) {
        body.extend([jump(JUMP_IF_EQUAL, *family, 0, 1), answer(ALLOW)]);
    }
    body.extend([
        jump(JUMP_IF_EQUAL, libc::AF_NETLINK.unsigned_abs(), 1, 0),
        answer(REFUSE),
        load_argument(2),
        jump(JUMP_IF_EQUAL, NETLINK_ROUTE, 0, 1),
        answer(ALLOW),
        answer(REFUSE),
    ]);
    body
}

/// Ioctls that put input into terminals or change their line discipline.
const TERMINAL_IOCTLS: [u32; 5] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x541d, // TIOCCONS
    0x5423, // TIOCSETD
    0x5437, // TIOCVHANGUP
];

/// Ioctls of file systems that read, or whose target the kernel wants to be open for writing.
const FILE_IOCTLS: [u32; 9] = [
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
    0xc020_660b, // FS_IOC_FIEMAP
    0xc004_6686, // FS_IOC_MEASURE_VERITY
    0x8100_9431, // FS_IOC_GETFSLABEL
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0xc018_9436, // FIDEDUPERANGE
];

/// The second byte of an ioctl says whose it is. A file system takes its own on a descriptor that is
/// open for reading, and changes inode flags, project ids, versions, subvolumes by them.
const FILE_SYSTEMS: [u32; 5] = [
    0x6600, // ext4, and what all share
    0x7600, // ext2's versions
    0x5800, // XFS, and what all share
    0x9400, // btrfs
    0xf500, // F2FS
];

fn ioctl() -> Body {
    let mut body = vec![load_argument(1)];
    for request in TERMINAL_IOCTLS {
        body.extend([jump(JUMP_IF_EQUAL, request, 0, 1), answer(REFUSE)]);
    }
    for request in FILE_IOCTLS {
        body.extend([jump(JUMP_IF_EQUAL, request, 0, 1), answer(ALLOW)]);
    }
    body.push(plain(AND, 0xff00));
    for owner in FILE_SYSTEMS {
        body.extend([jump(JUMP_IF_EQUAL, owner, 0, 1), answer(REFUSE)]);
    }
    body.push(answer(ALLOW));
    body
}

#[cfg(test)]
mod tests;
