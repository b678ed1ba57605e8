//! Policies, tried on real children.
//!
//! A child is this test program again: it runs one test that attempts everything on a list
//! and prints what the kernel said to each. The tests here compare. The whole module runs once more
//! as an ordinary user where the tests run as root.

mod custom;
mod escape;
mod files;
mod inside;
mod network;
mod ordinary;
mod programs;
mod wall;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus};
use tempfile::TempDir;

use super::*;
use crate::launch::{ChildEnds, Slots, launch, prepare};
use crate::spec::Spec;

/// No child here takes longer unless it hangs.
const CHILD_MAX: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

const OUTPUT_MAX: usize = 256 * 1024;

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(Machine::probe)
}

/// What a test needs of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Landlock and filters.
    Confinement,
    /// Also mounts.
    Mounts,
}

/// Whether the machine has it; says so aloud if not.
fn has(need: Need) -> bool {
    let machine = machine();
    let mut missing = Vec::new();
    match &machine.landlock {
        Ok(abi) if *abi >= landlock::ABI_MIN => {}
        found => missing.push(format!("Landlock: {found:?}")),
    }
    if let Err(why) = &machine.seccomp {
        missing.push(format!("filters: {why}"));
    }
    if let (Need::Mounts, Err(why)) = (need, &machine.mounts) {
        missing.push(format!("mounts: {why}"));
    }
    if missing.is_empty() {
        return true;
    }
    skipped(&missing.join("; "));
    false
}

/// Past the capture of the test program, which would keep it quiet.
fn skipped(why: &str) {
    let _ = writeln!(io::stderr().lock(), "SKIPPED: {why}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A writable root in `/tmp` with a protected `.git`, and a directory elsewhere, all our own.
struct Place {
    /// Holds the root.
    tmp: TempDir,
    elsewhere: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            tmp: tempfile::tempdir_in("/tmp").unwrap(),
            elsewhere: tempfile::tempdir_in("/var/tmp").unwrap(),
        };
        let root = place.root();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join(".git/config"), "[core]\n").unwrap();
        fs::write(root.join("file"), "contents").unwrap();
        fs::write(place.outside().join("file"), "contents").unwrap();
        fs::create_dir(place.outside().join("dir")).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.tmp.path().join("a/project")
    }

    fn outside(&self) -> &Path {
        self.elsewhere.path()
    }

    /// Nothing but the root is writable.
    fn workspace(&self) -> Sandbox {
        Sandbox::WorkspaceWrite {
            roots: vec![self.root()],
            network: false,
            exclude_tmpdir: true,
            exclude_slash_tmp: true,
        }
    }

    /// The root lies in another writable directory.
    fn workspace_in_tmp(&self) -> Sandbox {
        Sandbox::WorkspaceWrite {
            roots: vec![self.root()],
            network: false,
            exclude_tmpdir: true,
            exclude_slash_tmp: false,
        }
    }

    /// What the service's own files look like afterwards.
    fn is_untouched(&self) -> bool {
        fs::read(self.root().join(".git/config")).is_ok_and(|text| text == b"[core]\n")
            && fs::read_dir(self.root().join(".git")).unwrap().count() == 2
            && fs::read_dir(self.root().join(".git/hooks"))
                .unwrap()
                .count()
                == 0
            && fs::read(self.outside().join("file")).is_ok_and(|text| text == b"contents")
            && fs::read_dir(self.outside()).unwrap().count() == 2
    }
}

/// How a child ended and what it said.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    signal: Option<i32>,
    said: String,
    /// Error numbers by attempt, 0 for success.
    attempts: BTreeMap<String, i32>,
    confined: Confined,
}

impl Outcome {
    fn of(&self, attempt: &str) -> i32 {
        match self.attempts.get(attempt) {
            Some(errno) => *errno,
            None => panic!("{attempt} was not attempted: {self:#?}"),
        }
    }

    /// Each attempt ended with one of these.
    fn expect(&self, attempts: &[&str], errnos: &[i32]) {
        for attempt in attempts {
            let errno = self.of(attempt);
            let said = io::Error::from_raw_os_error(errno);
            assert!(errnos.contains(&errno), "{attempt}: {said}");
        }
    }

    fn allows(&self, attempts: &[&str]) {
        self.expect(attempts, &[0]);
    }

    fn refuses(&self, attempts: &[&str]) {
        self.expect(attempts, &[libc::EACCES, libc::EPERM, libc::EROFS]);
    }
}

/// One child to try.
struct Attempt<'a> {
    place: &'a Place,
    /// Which list of attempts.
    list: &'static str,
    who: Who,
}

/// Who makes the attempts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The child itself.
    Child,
    /// A grandchild in the background of a shell.
    Descendant,
}

static MOUNT_POINTS: std::sync::LazyLock<MountPoints> =
    std::sync::LazyLock::new(MountPoints::default);

/// A child without a terminal, of a service that hides nothing.
fn nowhere() -> Surroundings<'static> {
    Surroundings {
        tmpdir: None,
        pts: None,
        hidden: &[],
        root_links: RootLinks::Followed,
        shared_memory: None,
        local_sockets: LocalSockets::Closed,
        absent_mounts: AbsentMounts::Refuse,
        mount_points: &MOUNT_POINTS,
    }
}

/// A rule about every path.
fn everything(access: Access) -> PathRule {
    PathRule {
        path: PathBuf::from("/"),
        access,
        missing: MissingPath::Refuse,
    }
}

impl Attempt<'_> {
    fn under(&self, policy: &Sandbox) -> Outcome {
        self.with(policy, &[])
    }

    fn with(&self, policy: &Sandbox, more: &[(&'static str, OsString)]) -> Outcome {
        self.confined(machine().confine(policy, nowhere()).unwrap(), more)
    }

    fn confined(&self, confinement: Confinement, more: &[(&'static str, OsString)]) -> Outcome {
        let exe = std::env::current_exe().unwrap();
        let test = [
            exe.as_os_str(),
            "--exact".as_ref(),
            "sandbox::tests::inside::attempts".as_ref(),
            "--nocapture".as_ref(),
        ];
        let shell = ["sh", "-c", "\"$@\" & wait $!", "sh"];
        let shell = shell.iter().map(OsString::from);
        let shell = shell.filter(|_| self.who == Who::Descendant);
        let argv: Vec<OsString> = shell.chain(test.iter().map(OsString::from)).collect();
        let mut env = vec![
            ("TRY_LIST", self.list.into()),
            ("TRY_ROOT", self.place.root().into_os_string()),
            ("TRY_OUTSIDE", self.place.outside().as_os_str().to_owned()),
            ("TRY_SERVICE", std::process::id().to_string().into()),
        ];
        env.extend_from_slice(more);
        run_confined(confinement, argv, &env, &self.place.root())
    }
}

/// Attempts everything on a list under a policy.
fn attempt(place: &Place, list: &'static str, policy: &Sandbox) -> Outcome {
    let attempt = Attempt {
        place,
        list,
        who: Who::Child,
    };
    attempt.under(policy)
}

/// Runs a shell's command under a policy.
fn shell(policy: &Sandbox, command: &str, cwd: &Path) -> Outcome {
    run(policy, ["sh", "-c", command].map(OsString::from), &[], cwd)
}

/// Runs a shell's command under a policy, for a service with these surroundings.
fn shell_in(policy: &Sandbox, command: &str, cwd: &Path, around: Surroundings<'_>) -> Outcome {
    let confinement = machine().confine(policy, around).unwrap();
    let argv = ["sh", "-c", command].map(OsString::from);
    run_confined(confinement, argv, &[], cwd)
}

/// Runs a program under a policy and waits for its end.
fn run(
    policy: &Sandbox,
    argv: impl IntoIterator<Item = OsString>,
    env: &[(&str, OsString)],
    cwd: &Path,
) -> Outcome {
    let confinement = machine().confine(policy, nowhere()).unwrap();
    run_confined(confinement, argv, env, cwd)
}

fn run_confined(
    confinement: Confinement,
    argv: impl IntoIterator<Item = OsString>,
    env: &[(&str, OsString)],
    cwd: &Path,
) -> Outcome {
    let kept = [
        "PATH",
        "HOME",
        "RUSTUP_HOME",
        "CARGO_HOME",
        "RUSTUP_TOOLCHAIN",
    ];
    let kept = kept
        .iter()
        .filter(|name| env.iter().all(|(given, _)| given != *name))
        .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let given = env
        .iter()
        .map(|(name, value)| (OsString::from(name), value.clone()));
    let mut plan = prepare(&Spec::new(argv, cwd), kept.chain(given).collect()).unwrap();
    plan.restrictions = confinement.restrictions;
    let (output, input) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    // All of it is read after the end.
    rustix::pipe::fcntl_setpipe_size(&input, OUTPUT_MAX).unwrap();
    let ends = ChildEnds {
        stdin: File::open("/dev/null").unwrap().into(),
        stdout: input.try_clone().unwrap(),
        stderr: input,
    };
    let mut slots = Slots::reserve().unwrap();
    let _kept = confinement.mount_points;
    let ruleset = confinement.ruleset.as_ref().map(AsFd::as_fd);
    let child = launch(&mut slots, &plan, &ends, ruleset, None)
        .map_err(|error| error.explain(&plan))
        .unwrap();
    drop(ends);
    let ended = end_of(&child.pidfd);
    let mut said = Vec::new();
    File::from(output).read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    let Some(status) = ended else {
        panic!("hangs: {said}");
    };
    let attempts = said
        .lines()
        .filter_map(|line| line.strip_prefix("@ "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, errno)| (name.to_owned(), errno.parse().unwrap()))
        .collect();
    Outcome {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        said,
        attempts,
        confined: confinement.confined,
    }
}

/// How a child ended; `None` if it had to be killed.
fn end_of(pidfd: &OwnedFd) -> Option<WaitIdStatus> {
    let mut done = [PollFd::new(pidfd, PollFlags::IN)];
    let in_time = rustix::event::poll(&mut done, Some(&CHILD_MAX)).unwrap() == 1;
    if !in_time {
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
    }
    let status = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    status.unwrap().filter(|_| in_time)
}
