//! Random system calls with plausible arguments, in workers that may die.
//!
//! The supervisor starts one worker after another, each with a seed of its own, and kills a worker
//! that lives too long. It checks nothing: the tests compare what is outside before and after.
//!
//! Theory of safety, should the sandbox be broken. The generator refuses to start where the basic
//! restrictions are not in force. It starts no processes and runs no programs. Limits bound the size
//! of files, memory and descriptors. A call that could hurt the machine or programs of others is
//! probed with harmless arguments first, and left out, aloud, unless the sandbox refuses it.

mod calls;
mod pool;

use std::ffi::CStr;

use crate::json;
use crate::scene::Scene;
use crate::sys::{at, checked, cstring, into, opens, sys};
use pool::Pool;

/// How long a worker lives, in nanoseconds.
const WORKER_NANOSECONDS_MAX: u64 = 300_000_000;
/// How often the supervisor looks after a worker.
const LOOK_NANOSECONDS: i64 = 5_000_000;

/// Numbers of a seed (`SplitMix64`).
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Makes calls for some seconds and prints how many.
pub(crate) fn run(scene: &str, seed: &str, seconds: &str) -> Result<(), String> {
    let scene = Scene::read(scene)?;
    let seed: u64 = seed.parse().map_err(|_| "the seed is not a number")?;
    let seconds: u64 = seconds
        .parse()
        .map_err(|_| "the seconds are not a number")?;
    confined(&scene)?;
    limit();
    let (numbers, left_out) = calls::usable(&scene);
    let counts = Counts::shared()?;
    let end = now() + seconds * 1_000_000_000;
    let mut workers = 0_u64;
    while now() < end {
        // SAFETY: this process has one thread.
        let pid = checked(unsafe { libc::fork() }).map_err(|errno| format!("fork: {errno}"))?;
        if pid == 0 {
            let random = Random(seed.wrapping_add(workers.wrapping_mul(0x1_0001)));
            work(&scene, random, &numbers, counts);
        }
        supervise(pid as usize);
        workers += 1;
    }
    let summary = [
        ("calls".to_owned(), counts.read(0).to_string()),
        ("succeeded".to_owned(), counts.read(1).to_string()),
        ("workers".to_owned(), workers.to_string()),
        ("left-out".to_owned(), left_out.join(" ")),
    ];
    println!("{}", json::object(&summary));
    Ok(())
}

/// Directories that programs of others use.
const SHARED: [&CStr; 5] = [c"/tmp", c"/var/tmp", c"/dev/shm", c"/etc", c"/"];

/// Refuses to run where a random call could reach the machine: without the filter, with more
/// capabilities than the sandbox leaves, or where a shared directory is writable.
fn confined(scene: &Scene) -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = |line: &str| status.lines().any(|known| known == line);
    let capabilities = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:\t"));
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(text, 16).ok());
    let few = capabilities.is_some_and(|found| found & !0b1011 == 0);
    let outside = opens(&scene.path("outside", "file"), libc::O_WRONLY);
    if !has("NoNewPrivs:\t1") || !has("Seccomp:\t2") || !few || outside.is_ok() {
        return Err("random calls are made in a sandbox only".to_owned());
    }
    // A sandbox with shared memory of its own does not show that of the bystander.
    let memory = cstring(format!("/dev/shm/{}", scene.text("posix-shm")));
    let is_private = opens(&memory, libc::O_RDONLY).is_err();
    for shared in SHARED {
        if shared == c"/dev/shm" && is_private {
            continue;
        }
        if opens(shared, libc::O_RDWR | libc::O_TMPFILE).is_ok() {
            return Err(format!("{shared:?} is writable, and others use it"));
        }
    }
    Ok(())
}

/// Bounds what even a call in the right place could use up. Inherited, and never raised again.
fn limit() {
    for (resource, limit) in [
        (libc::RLIMIT_FSIZE, 1 << 20),
        (libc::RLIMIT_AS, 1 << 30),
        (libc::RLIMIT_DATA, 256 << 20),
        (libc::RLIMIT_NOFILE, 256),
        (libc::RLIMIT_MEMLOCK, 1 << 16),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_MSGQUEUE, 1 << 16),
        (libc::RLIMIT_SIGPENDING, 64),
    ] {
        let limit = [limit as u64; 2];
        let _ = sys(libc::SYS_prlimit64, &[0, resource as usize, at(&limit), 0]);
    }
}

/// Waits for the end of a worker, and kills it when its time is over.
fn supervise(pid: usize) {
    let end = now() + WORKER_NANOSECONDS_MAX;
    let look = libc::timespec {
        tv_sec: 0,
        tv_nsec: LOOK_NANOSECONDS,
    };
    let flags = (libc::WNOHANG | libc::__WALL) as usize;
    loop {
        // 0: alive. An error means that the worker is gone.
        if sys(libc::SYS_wait4, &[pid, 0, flags, 0]) != Ok(0) {
            return;
        }
        if now() > end {
            let _ = sys(libc::SYS_kill, &[pid, libc::SIGKILL as usize]);
            let _ = sys(libc::SYS_wait4, &[pid, 0, libc::__WALL as usize, 0]);
            return;
        }
        let _ = sys(libc::SYS_nanosleep, &[at(&look), 0]);
    }
}

/// The worker: makes calls until it dies.
fn work(scene: &Scene, mut random: Random, numbers: &[i64], counts: Counts) -> ! {
    let _ = sys(libc::SYS_setsid, &[]);
    let pool = Pool::new(scene);
    loop {
        let number = numbers[random.below(numbers.len())];
        let arguments = pool.arguments(&mut random, number);
        counts.add(0);
        if sys(number, &arguments).is_ok() {
            counts.add(1);
        }
    }
}

/// Two numbers in memory that the supervisor shares with its workers.
#[derive(Clone, Copy)]
struct Counts(*mut u64);

impl Counts {
    fn shared() -> Result<Self, String> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as usize;
        let none = usize::MAX;
        let mapped = sys(libc::SYS_mmap, &[0, 4096, protection, flags, none, 0]);
        let address = mapped.map_err(|errno| format!("no shared page: {errno}"))?;
        Ok(Self(address as *mut u64))
    }

    fn read(self, index: usize) -> u64 {
        // SAFETY: the page lives as long as the process.
        unsafe { self.0.add(index).read_volatile() }
    }

    fn add(self, index: usize) {
        // SAFETY: as above; only one worker writes at a time.
        unsafe { self.0.add(index).write_volatile(self.read(index) + 1) }
    }
}

/// Nanoseconds of a clock that only goes forward.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_MONOTONIC as usize;
    let _ = sys(libc::SYS_clock_gettime, &[clock, into(&mut time)]);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
