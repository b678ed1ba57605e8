//! The filter of system calls, as a program for the kernel's classic BPF machine.
//!
//! Made by hand because it is short: check the architecture, compare the number with a list, look at
//! a few arguments. What is not on the list is allowed. A call of another architecture ends
//! the process, since its numbers mean something else. The kernel remembers which numbers are always
//! allowed, so the length of the list costs nothing per call.

use libc::{c_long, sock_filter};

use crate::report::NetworkEnforcement;

/// Why there is no program.
pub(super) const UNKNOWN_ARCHITECTURE: &str = "known for x86_64 and aarch64 only";

/// What a process may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) network: Network,
    pub(super) files: Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Open,
    Off,
}

impl Network {
    /// The same, for reports.
    pub(super) fn enforcement(self) -> NetworkEnforcement {
        match self {
            Self::Open => NetworkEnforcement::Open,
            Self::Off => NetworkEnforcement::Seccomp,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// Not our concern.
    Untouched,
    /// Some may be written.
    Confined,
    /// None may be written; owners, modes, times and attributes, which Landlock does not know,
    /// cannot be changed either.
    Frozen,
}

/// Ways into other processes and round the checks of paths.
const ESCAPES: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
];

/// Ways to other mounts. Most are refused by Landlock as well, not all of them.
const MOUNTS: &[c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
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

/// Changes of what is not contents, of the calls both architectures have.
const METADATA: &[c_long] = &[
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
const METADATA_OLD: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_OLD: &[c_long] = &[];

// Not in every list of the library, and the same number on every architecture.
const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_FILE_SETATTR: c_long = 469;

const SOCKETS: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_shutdown,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

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

// Offsets in `seccomp_data`; of each argument the lower half comes first. Of a number the kernel looks
// at that only, of an address at both.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENT_0: u32 = 16;
const AT_ARGUMENT_1: u32 = 24;
const AT_ARGUMENT_4: u32 = 48;

/// What `socket` and `socketpair` take for a type besides its flags.
const SOCKET_TYPE: u32 = 0xf;

// Codes of instructions.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const REFUSE: u32 = 0x0005_0000 | libc::EPERM.unsigned_abs();

/// The program for this scope; `None` on an architecture we do not know.
pub(super) fn program(scope: Scope) -> Option<Vec<[u8; 8]>> {
    let architecture = ARCHITECTURE?;
    let mut refused: Vec<c_long> = ESCAPES.to_vec();
    if scope.files != Files::Untouched {
        refused.extend_from_slice(MOUNTS);
    }
    if scope.files == Files::Frozen {
        refused.extend_from_slice(METADATA);
        refused.extend_from_slice(METADATA_OLD);
    }
    let looked_at: &[(c_long, To)] = match scope.network {
        Network::Open => &[],
        Network::Off => {
            refused.extend_from_slice(SOCKETS);
            &[
                (libc::SYS_socket, To::Socket),
                (libc::SYS_socketpair, To::Socket),
                (libc::SYS_sendto, To::Send),
            ]
        }
    };
    Some(assemble(architecture, &refused, looked_at))
}

/// Where a jump goes; the ends lie behind the comparisons.
#[derive(Clone, Copy)]
enum To {
    Next,
    Allow,
    Refuse,
    Kill,
    /// Where the arguments of `socket` and `socketpair` are looked at.
    Socket,
    /// Where the address of `sendto` is looked at.
    Send,
}

/// An instruction whose jumps have no distance yet.
struct Line {
    code: u16,
    value: u32,
    then: To,
    otherwise: To,
}

fn line(code: u16, value: u32, then: To, otherwise: To) -> Line {
    Line {
        code,
        value,
        then,
        otherwise,
    }
}

fn assemble(architecture: u32, refused: &[c_long], looked_at: &[(c_long, To)]) -> Vec<[u8; 8]> {
    let plain = |code, value| line(code, value, To::Next, To::Next);
    let is = |value, then, otherwise| line(JUMP_IF_EQUAL, value, then, otherwise);
    let number = |number: c_long| u32::try_from(number).unwrap_or(u32::MAX);
    let mut lines = vec![
        plain(LOAD, AT_ARCHITECTURE),
        is(architecture, To::Next, To::Kill),
        plain(LOAD, AT_NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        lines.push(line(JUMP_IF_AT_LEAST, X32_BIT, To::Kill, To::Next));
    }
    let refused = refused.iter().map(|call| (*call, To::Refuse));
    let compared = refused.chain(looked_at.iter().copied());
    lines.extend(compared.map(|(call, then)| is(number(call), then, To::Next)));
    lines.push(plain(RETURN, ALLOW));
    let socket = lines.len();
    // Only local sockets, and of those only the kinds that must be connected before they can send:
    // a datagram can be sent to any address with `sendmsg`, which connected pairs need.
    lines.extend([
        plain(LOAD, AT_ARGUMENT_0),
        is(libc::AF_UNIX.unsigned_abs(), To::Next, To::Refuse),
        plain(LOAD, AT_ARGUMENT_1),
        plain(AND, SOCKET_TYPE),
        is(libc::SOCK_STREAM.unsigned_abs(), To::Allow, To::Next),
        is(libc::SOCK_SEQPACKET.unsigned_abs(), To::Allow, To::Refuse),
    ]);
    let send = lines.len();
    // Without an address it is a write to a connected pair; Rust's library writes to those so.
    lines.extend([
        plain(LOAD, AT_ARGUMENT_4),
        is(0, To::Next, To::Refuse),
        plain(LOAD, AT_ARGUMENT_4 + 4),
        is(0, To::Allow, To::Refuse),
    ]);
    let ends = lines.len();
    lines.extend([ALLOW, REFUSE, KILL].map(|answer| plain(RETURN, answer)));

    let distance = |from: usize, to: To| {
        let target = match to {
            To::Next => from + 1,
            To::Allow => ends,
            To::Refuse => ends + 1,
            To::Kill => ends + 2,
            To::Socket => socket,
            To::Send => send,
        };
        u8::try_from(target - from - 1).unwrap_or(u8::MAX)
    };
    let instructions = lines.iter().enumerate().map(|(at, line)| sock_filter {
        code: line.code,
        jt: distance(at, line.then),
        jf: distance(at, line.otherwise),
        k: line.value,
    });
    instructions.map(bytes).collect()
}

/// As it lies in memory.
fn bytes(instruction: sock_filter) -> [u8; 8] {
    let [code_0, code_1] = instruction.code.to_ne_bytes();
    let [k_0, k_1, k_2, k_3] = instruction.k.to_ne_bytes();
    [
        code_0,
        code_1,
        instruction.jt,
        instruction.jf,
        k_0,
        k_1,
        k_2,
        k_3,
    ]
}

#[cfg(test)]
mod tests;
