//! The filter, run by a small machine like the kernel's.

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
};
const LOOSEST: Scope = Scope {
    network: Network::Open,
    files: Files::Untouched,
};

#[test]
fn escapes_are_refused_in_every_scope_and_work_is_allowed() {
    for scope in [STRICTEST, LOOSEST] {
        for call in ESCAPES {
            assert_eq!(answers(scope, *call, &[]), REFUSE, "{call}");
        }
        for call in [
            libc::SYS_read,
            libc::SYS_execve,
            libc::SYS_clone3,
            libc::SYS_sendmsg,
        ] {
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
    let workspace = Scope {
        network: Network::Open,
        files: Files::Confined,
    };
    assert_eq!(answers(workspace, libc::SYS_fchmod, &[]), ALLOW);
    assert_eq!(answers(workspace, libc::SYS_mount, &[]), REFUSE);
    assert_eq!(answers(workspace, libc::SYS_connect, &[]), ALLOW);
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
fn jumps_fit_into_their_byte() {
    let length = program(STRICTEST).unwrap().len();
    assert!(length < usize::from(u8::MAX), "{length}");
}
