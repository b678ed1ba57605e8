//! Arguments that reach further into the kernel than noise does: open descriptors, paths, structures,
//! ids of the bystander.

use std::ffi::CString;

use super::Random;
use crate::scene::Scene;
use crate::sys::{CWD, at, c, cstring, open, signed, sys};

/// Numbers that mean something to many calls: flags, modes, commands, sizes.
const NUMBERS: [usize; 24] = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    16,
    24,
    32,
    64,
    128,
    256,
    0o600,
    0o1000,
    0o4755,
    4096,
    0x8000,
    0x1_0000,
    0x8_0000,
    0xffff_ffff,
];

/// Numbers of `ioctl` and `fcntl` that change something.
const COMMANDS: [usize; 12] = [
    0x4008_6602,
    0x401c_5820,
    0x4008_7602,
    0x5412,
    0x5402,
    0x5414,
    0x540e,
    0x5421,
    0x4004_9409,
    1033,
    1024,
    8,
];

/// Everything that arguments are made of. Lives as long as its worker.
pub(super) struct Pool {
    paths: Vec<CString>,
    /// Structures by address.
    structures: Vec<[u64; 32]>,
    addresses: Vec<[u8; 128]>,
    descriptors: Vec<usize>,
    pids: Vec<usize>,
    ids: Vec<usize>,
}

impl Pool {
    pub(super) fn new(scene: &Scene) -> Self {
        // Nothing random is written to the pipes of the supervisor.
        if let Ok(null) = open(c"/dev/null", libc::O_RDWR) {
            for fd in 0..3 {
                let _ = sys(libc::SYS_dup3, &[null as usize, fd, 0]);
            }
        }
        let paths = paths(scene);
        let mut descriptors: Vec<usize> = (0..3).collect();
        for path in &paths {
            for flags in [libc::O_RDONLY, libc::O_PATH, libc::O_RDWR] {
                descriptors.extend(open(path, flags).map(|fd| fd as usize));
            }
        }
        for family in [libc::AF_UNIX, libc::AF_INET] {
            let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
            let made = sys(libc::SYS_socket, &[family as usize, kind as usize, 0]);
            descriptors.extend(made.map(|fd| fd as usize));
        }
        descriptors.extend([CWD, usize::MAX]);
        let mut pids = vec![0];
        for (_, pid) in scene.outsiders() {
            pids.push(pid as usize);
            pids.extend(sys(libc::SYS_pidfd_open, &[pid as usize, 0]).map(|fd| fd as usize));
        }
        let ids = ["shm", "msg", "sem", "key", "tcp-port", "mark-address"];
        let ids = ids.map(|key| scene.number(key) as usize);
        // The first word is no address family, so that no structure is an address by accident.
        let structure = |value: u64| {
            let mut structure = [value; 32];
            structure[0] = value | 0xff00;
            structure
        };
        Self {
            structures: [0, 1, 8, 0o777, u64::MAX >> 1].map(structure).into(),
            addresses: addresses(scene),
            paths,
            descriptors,
            pids,
            ids: ids.into(),
        }
    }

    /// Six arguments. The first is a descriptor, a path or a process more often than the rest.
    pub(super) fn arguments(&self, random: &mut Random, number: i64) -> [usize; 6] {
        let mut arguments = [0; 6];
        for (index, argument) in arguments.iter_mut().enumerate() {
            *argument = self.argument(random, index);
        }
        // A signal to all, or to the group, would end the supervisor and nothing else.
        let signals = [libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo];
        if signals.contains(&number) {
            let outsiders = &self.pids[1..];
            arguments[0] = outsiders
                .get(random.below(outsiders.len()))
                .copied()
                .unwrap_or(1);
        }
        arguments
    }

    fn argument(&self, random: &mut Random, index: usize) -> usize {
        fn of<T: Copy>(random: &mut Random, some: &[T]) -> T {
            some[random.below(some.len())]
        }
        match random.below(if index == 0 { 10 } else { 14 }) {
            0..=2 => of(random, &self.descriptors),
            3..=5 => c(&self.paths[random.below(self.paths.len())]),
            6 => of(random, &self.pids),
            7 => of(random, &self.ids),
            8 => at(&self.structures[random.below(self.structures.len())]),
            9 => at(&self.addresses[random.below(self.addresses.len())]),
            10 => of(random, &COMMANDS),
            11 => 1 << random.below(32),
            12 => signed(-(random.below(8) as i64)),
            _ => of(random, &NUMBERS),
        }
    }
}

/// Only paths of the test's own: a directory that others use must not depend on the sandbox under test.
fn paths(scene: &Scene) -> Vec<CString> {
    let mut paths: Vec<CString> = Vec::new();
    for (key, name) in [
        ("outside", ""),
        ("outside", "file"),
        ("outside", "dir"),
        ("outside", "new"),
        ("outside", "stream"),
        ("home", ""),
        ("home", "config.toml"),
        ("home", "token"),
        ("home", "new"),
        ("codex", "auth.json"),
        ("user", ""),
        ("user", ".profile"),
        ("user", "new"),
        ("pts", ""),
        ("root", ""),
        ("root", "plain"),
        ("root", "random-a"),
        ("root", "random-b"),
        ("root", ".git"),
        ("root", ".git/config"),
    ] {
        paths.push(scene.path(key, name));
    }
    for pid in scene.outsiders().iter().map(|(_, pid)| pid) {
        for name in ["mem", "root", "fd/3", "oom_score_adj", "comm"] {
            paths.push(cstring(format!("/proc/{pid}/{name}")));
        }
    }
    paths.extend(["/proc/self/fd/5", "user.x"].map(cstring));
    paths.push(cstring(format!("/dev/shm/{}", scene.text("posix-shm"))));
    paths
}

/// Addresses of sockets: the bystander's and the server's, all on this machine.
fn addresses(scene: &Scene) -> Vec<[u8; 128]> {
    let mut addresses = Vec::new();
    for key in [
        "unix-stream",
        "unix-datagrams",
        "unix-packets",
        "unix-abstract",
        "server-socket",
    ] {
        let mut address = [0_u8; 128];
        address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        for (slot, byte) in address[2..110].iter_mut().zip(scene.text(key).bytes()) {
            *slot = if byte == b'@' { 0 } else { byte };
        }
        addresses.push(address);
    }
    for key in ["tcp-port", "server-port"] {
        let mut address = [0_u8; 128];
        address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        address[2..4].copy_from_slice(&(scene.number(key) as u16).to_be_bytes());
        address[4..8].copy_from_slice(&[127, 0, 0, 1]);
        addresses.push(address);
    }
    addresses
}
