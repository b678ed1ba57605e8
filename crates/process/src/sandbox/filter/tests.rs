//! The filter, run by a small machine like the kernel's.

use super::assemble::{
    ALLOW, AND, JUMP, JUMP_IF_ANY, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, KILL, LOAD, RETURN,
};
use super::*;

/// Runs a program as the kernel would.
fn answer(program: &[[u8; 8]], architecture: u32, number: c_long, arguments: [u64; 6]) -> u32 {
    let mut seen = [0_u8; 64];
    seen[..4].copy_from_slice(&u32::try_from(number).unwrap().to_ne_bytes());
    seen[4..8].copy_from_slice(&architecture.to_ne_bytes());
    for (place, argument) in seen[16..].chunks_exact_mut(8).zip(arguments) {
        place.copy_from_slice(&argument.to_ne_bytes());
    }
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let [c0, c1, then, otherwise, k @ ..] = program[at];
        let k = u32::from_ne_bytes(k);
        let jump = |met: bool| usize::from(if met { then } else { otherwise });
        at += 1;
        match u16::from_ne_bytes([c0, c1]) {
            LOAD => {
                let word = &seen[k as usize..k as usize + 4];
                value = u32::from_ne_bytes(word.try_into().unwrap());
            }
            AND => value &= k,
            JUMP_IF_EQUAL => at += jump(value == k),
            JUMP_IF_AT_LEAST => at += jump(value >= k),
            JUMP_IF_ANY => at += jump(value & k != 0),
            JUMP => at += k as usize,
            RETURN => return k,
            code => panic!("no instruction {code}"),
        }
    }
}

fn answers(scope: Scope, number: c_long, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    answer(&program(scope).unwrap(), ARCHITECTURE.unwrap(), number, all)
}

const STRICTEST: Scope = Scope {
    network: Network::Off,
    files: Files::Frozen,
    ipc: Ipc::Shared,
};
const LOOSEST: Scope = Scope {
    network: Network::Open,
    files: Files::Untouched,
    ipc: Ipc::Shared,
};
/// A workspace with network, in namespaces of its own.
const WORKSPACE: Scope = Scope {
    network: Network::Open,
    files: Files::Confined,
    ipc: Ipc::Own,
};
const ABSENT: u32 = fail(libc::ENOSYS);

#[test]
fn escapes_are_refused_in_every_scope_and_work_is_allowed() {
    for scope in [STRICTEST, LOOSEST] {
        for call in ESCAPES {
            assert_eq!(answers(scope, *call, &[]), REFUSE, "{call}");
        }
        for call in [libc::SYS_read, libc::SYS_execve, libc::SYS_sendmsg] {
            assert_eq!(answers(scope, call, &[]), ALLOW, "{call}");
        }
    }
}

#[test]
fn sockets_and_metadata_are_refused_only_where_they_are_asked_to_be() {
    for call in SOCKETS
        .iter()
        .chain(METADATA)
        .chain(METADATA_OLD)
        .chain(MOUNTS)
    {
        assert_eq!(answers(STRICTEST, *call, &[]), REFUSE, "{call}");
        assert_eq!(answers(LOOSEST, *call, &[]), ALLOW, "{call}");
    }
    assert_eq!(answers(WORKSPACE, libc::SYS_fchmod, &[]), ALLOW);
    assert_eq!(answers(WORKSPACE, libc::SYS_mount, &[]), REFUSE);
    assert_eq!(answers(WORKSPACE, libc::SYS_connect, &[]), ALLOW);
    // Given another error, bash reads the user's start-up file.
    let getpeername = answers(STRICTEST, libc::SYS_getpeername, &[]);
    assert_eq!(getpeername, fail(libc::ENOTSOCK));
}

#[test]
fn what_belongs_to_the_user_or_the_machine_is_refused_wherever_files_are_confined() {
    for call in KEYRINGS.iter().chain(MACHINE).chain(MACHINE_OLD) {
        assert_eq!(answers(STRICTEST, *call, &[]), REFUSE, "{call}");
        assert_eq!(answers(WORKSPACE, *call, &[]), REFUSE, "{call}");
        assert_eq!(answers(LOOSEST, *call, &[]), ALLOW, "{call}");
    }
    for call in IPC {
        assert_eq!(answers(STRICTEST, *call, &[]), REFUSE, "{call}");
        // An IPC namespace keeps it inside.
        assert_eq!(answers(WORKSPACE, *call, &[]), ALLOW, "{call}");
    }
    for call in [libc::SYS_clone3, libc::SYS_openat2] {
        assert_eq!(answers(WORKSPACE, call, &[]), ABSENT, "{call}");
    }
}

#[test]
fn a_process_changes_limits_and_priorities_of_itself_only() {
    let other = 4_711;
    let address = 1 << 40;
    let allowed: &[(c_long, &[u64])] = &[
        (libc::SYS_prlimit64, &[0, 7, address]),
        (libc::SYS_sched_setaffinity, &[0, 8, address]),
        (libc::SYS_setpriority, &[0, 0, 10]),
        (libc::SYS_ioprio_set, &[1, 0, 3]),
        (libc::SYS_getpriority, &[0, other]),
    ];
    let refused: &[(c_long, &[u64])] = &[
        (libc::SYS_prlimit64, &[other, 7, address]),
        (libc::SYS_prlimit64, &[other, 7, 0, address]),
        (libc::SYS_sched_setaffinity, &[other, 8, address]),
        (libc::SYS_sched_setscheduler, &[other, 5, address]),
        (libc::SYS_sched_setparam, &[other, address]),
        (libc::SYS_sched_setattr, &[other, address]),
        (libc::SYS_setpriority, &[0, other, 10]),
        // All processes of the user.
        (libc::SYS_setpriority, &[2, 0, 10]),
        (libc::SYS_ioprio_set, &[1, other, 3]),
        (libc::SYS_ioprio_set, &[3, 0, 3]),
    ];
    for scope in [STRICTEST, WORKSPACE] {
        for (call, arguments) in allowed {
            let answer = answers(scope, *call, arguments);
            assert_eq!(answer, ALLOW, "{call} {arguments:?}");
        }
        for (call, arguments) in refused {
            let answer = answers(scope, *call, arguments);
            assert_eq!(answer, REFUSE, "{call} {arguments:?}");
        }
    }
}

#[test]
fn no_file_gets_a_set_id_bit() {
    let creates = u64::from((libc::O_CREAT | libc::O_WRONLY).unsigned_abs());
    for (mode, expected) in [
        (0o644, ALLOW),
        (0o1777, ALLOW),
        (0o4755, REFUSE),
        (0o2755, REFUSE),
    ] {
        let ways: &[(c_long, &[u64])] = &[
            (libc::SYS_fchmod, &[3, mode]),
            (libc::SYS_fchmodat, &[3, 1, mode]),
            (SYS_FCHMODAT2, &[3, 1, mode]),
            (libc::SYS_mknodat, &[3, 1, mode]),
            (libc::SYS_openat, &[3, 1, creates, mode]),
            (
                libc::SYS_openat,
                &[3, 1, u64::from(libc::O_TMPFILE.unsigned_abs()), mode],
            ),
        ];
        for (call, arguments) in ways {
            assert_eq!(
                answers(WORKSPACE, *call, arguments),
                expected,
                "{call} {mode:o}"
            );
        }
        // Without creating, the argument is whatever the register held.
        let opened = answers(WORKSPACE, libc::SYS_openat, &[3, 1, 0, mode]);
        assert_eq!(opened, ALLOW);
    }
}

#[test]
fn no_namespace_is_made_inside() {
    let fork = u64::from(libc::SIGCHLD.unsigned_abs());
    let thread =
        u64::from((libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).cast_unsigned());
    for flags in [fork, thread] {
        assert_eq!(answers(WORKSPACE, libc::SYS_clone, &[flags]), ALLOW);
    }
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
    ] {
        let flag = u64::from(flag.cast_unsigned());
        assert_eq!(answers(WORKSPACE, libc::SYS_clone, &[flag | fork]), REFUSE);
        assert_eq!(answers(WORKSPACE, libc::SYS_unshare, &[flag]), REFUSE);
    }
    let files = u64::from(libc::CLONE_FILES.cast_unsigned());
    assert_eq!(answers(WORKSPACE, libc::SYS_unshare, &[files]), ALLOW);
}

#[test]
fn ioctls_of_file_systems_only_read_and_terminals_take_no_input() {
    let of = |request: u64| answers(STRICTEST, libc::SYS_ioctl, &[3, request]);
    // TCGETS, TIOCGWINSZ, FIONREAD, FIOCLEX, FS_IOC_GETFLAGS, FICLONE
    for request in [0x5401, 0x5413, 0x541b, 0x5451, 0x8008_6601, 0x4004_9409] {
        assert_eq!(of(request), ALLOW, "{request:x}");
    }
    // TIOCSTI, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, BTRFS_IOC_SUBVOL_CREATE,
    // and the first with an upper half that the kernel does not look at.
    for request in [
        0x5412,
        0x4008_6602,
        0x401c_5820,
        0x4008_7602,
        0x5000_940e,
        0x1_0000_5412,
    ] {
        assert_eq!(of(request), REFUSE, "{request:x}");
    }
}

#[test]
fn no_lease_keeps_writers_of_a_file_waiting() {
    let of = |command: i32| {
        answers(
            STRICTEST,
            libc::SYS_fcntl,
            &[3, u64::from(command.unsigned_abs())],
        )
    };
    assert_eq!(of(libc::F_SETLEASE), REFUSE);
    for command in [libc::F_GETFL, libc::F_DUPFD_CLOEXEC, libc::F_SETLK] {
        assert_eq!(of(command), ALLOW, "{command}");
    }
}

#[test]
fn with_network_only_internet_sockets_are_made() {
    let of = |scope, family: i32, kind: u64, protocol: u64| {
        let arguments = [u64::from(family.unsigned_abs()), kind, protocol];
        answers(scope, libc::SYS_socket, &arguments)
    };
    let local = Scope {
        network: Network::OpenWithLocal,
        ..WORKSPACE
    };
    for scope in [WORKSPACE, local] {
        assert_eq!(of(scope, libc::AF_INET, 1, 0), ALLOW);
        assert_eq!(of(scope, libc::AF_INET6, 2, 0), ALLOW);
        assert_eq!(of(scope, libc::AF_NETLINK, 3, 0), ALLOW);
        assert_eq!(of(scope, libc::AF_NETLINK, 3, 15), REFUSE);
        for family in [
            libc::AF_VSOCK,
            libc::AF_PACKET,
            libc::AF_ALG,
            libc::AF_BLUETOOTH,
        ] {
            assert_eq!(of(scope, family, 1, 0), REFUSE, "{family}");
        }
    }
    for kind in [1, 2, 5] {
        assert_eq!(of(WORKSPACE, libc::AF_UNIX, kind, 0), REFUSE);
        assert_eq!(of(local, libc::AF_UNIX, kind, 0), ALLOW);
    }
    let pair = |kind| answers(WORKSPACE, libc::SYS_socketpair, &[1, kind]);
    assert_eq!((pair(1), pair(5), pair(2)), (ALLOW, ALLOW, REFUSE));
}

#[test]
fn only_connected_local_sockets_can_be_made_and_sent_to() {
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    let inet = u64::from(libc::AF_INET.unsigned_abs());
    let flags = u64::from((libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).unsigned_abs());
    let high = 1 << 32;
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        for (arguments, expected) in [
            ([unix, 1], ALLOW),
            ([unix, 5 | flags], ALLOW),
            ([unix | high, 1 | high], ALLOW),
            ([unix, 2], REFUSE),
            ([unix, 3 | flags], REFUSE),
            ([inet, 1], REFUSE),
            ([inet | high, 1], REFUSE),
            ([0, 1], REFUSE),
        ] {
            assert_eq!(
                answers(STRICTEST, call, &arguments),
                expected,
                "{arguments:?}"
            );
        }
    }
    for (address, expected) in [(0, ALLOW), (1, REFUSE), (high, REFUSE)] {
        let arguments = [3, 0, 0, 0, address, 16];
        assert_eq!(answers(STRICTEST, libc::SYS_sendto, &arguments), expected);
    }
}

#[test]
fn other_numberings_end_the_process() {
    let program = program(LOOSEST).unwrap();
    let own = ARCHITECTURE.unwrap();
    let i386 = 0x4000_0003;
    assert_eq!(answer(&program, i386, libc::SYS_getpid, [0; 6]), KILL);
    if cfg!(target_arch = "x86_64") {
        let x32 = libc::SYS_getpid | c_long::from(X32_BIT);
        assert_eq!(answer(&program, own, x32, [0; 6]), KILL);
    }
}

#[test]
fn the_program_is_short_enough_for_the_kernel_and_finds_a_call_in_a_few_steps() {
    let length = program(STRICTEST).unwrap().len();
    assert!(length < 600, "{length}");
}
