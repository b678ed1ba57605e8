//! A host of a service as a process of its own, which a test may kill, and what became of its trees.
//!
//! Whoever belongs to a tree is found by a variable in its environment, in `/proc`, whatever its
//! parent, group, session or cgroup. A zombie has no environment and is not alive.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::support::say;

/// Members of each tree of the host.
pub(crate) const TREE_SIZE: usize = 4;

/// The user `nobody` of most systems; any number that is not ours would do.
const NOBODY: u32 = 65_534;

/// What it takes to become another user, without what it takes to kill one.
const CLIMB: &str = "+setuid,+setgid";

static HOSTS: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Me,
    /// An ordinary user; needs root.
    Nobody,
    /// An ordinary user whose programs may become other users; needs root.
    Climber,
}

/// Those this test can be.
pub(crate) fn users() -> Vec<User> {
    if rustix::process::getuid().is_root() {
        return vec![User::Me, User::Nobody];
    }
    say("SKIPPED: only as this user, since that is not root");
    vec![User::Me]
}

pub(crate) fn am_root() -> bool {
    rustix::process::getuid().is_root()
}

/// See the module.
pub(crate) struct Host {
    process: TestProcess,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    mark: String,
    /// The command that starts a host in the same place, without its last arguments.
    command: String,
    // Dropped last: the host is in it.
    cgroup: Option<Delegated>,
    folder: Option<TempDir>,
}

impl Host {
    /// A host with `count` trees, all of them up. `None`, and said aloud, without the containment.
    pub(crate) async fn start(user: User, kind: &str, count: usize, io: &str) -> Option<Self> {
        let mark = new_mark();
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_process_host"));
        let mut before = String::new();
        let (mut cgroup, mut folder) = (None, None);
        if user != User::Me {
            // The build folder may not be everybody's to read.
            let copy = TempDir::new().unwrap();
            std::fs::set_permissions(copy.path(), PermissionsExt::from_mode(0o755)).unwrap();
            program = copy.path().join("process_host");
            std::fs::copy(env!("CARGO_BIN_EXE_process_host"), &program).unwrap();
            // Built under a strict umask it is its builder's alone.
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            folder = Some(copy);
            if kind == "cgroup" {
                let delegated = Delegated::new(&mark)?;
                before = format!("echo $$ > \"{}/cgroup.procs\"; ", delegated.0.display());
                cgroup = Some(delegated);
            }
        }
        let nobody = format!("--reuid {NOBODY} --regid {NOBODY} --clear-groups");
        let become_user = match user {
            User::Me => String::new(),
            User::Nobody => format!("setpriv {nobody} "),
            User::Climber => format!("setpriv {nobody} --inh-caps {CLIMB} --ambient-caps {CLIMB} "),
        };
        let program = program.display();
        let command = format!("{before}exec {become_user}'{program}' {kind}");
        let mut host = Self::launch(command, &format!("{count} {io}"), mark);
        (host.cgroup, host.folder) = (cgroup, folder);
        let answer = host.answer().await;
        if answer != "ready" {
            assert!(answer.starts_with("unavailable"), "{answer}");
            say(&format!("SKIPPED: {kind} as {user:?}: {answer}"));
            return None;
        }
        host.until_alive(count * TREE_SIZE).await;
        Some(host)
    }

    fn launch(command: String, arguments: &str, mark: String) -> Self {
        let script = format!("{command} {arguments} {mark}");
        let mut process = TestProcess::start(ProcessSpec::shell(&script)).unwrap();
        let stdin = process.take_stdin();
        let stdout = BufReader::new(process.take_stdout().unwrap()).lines();
        Self {
            process,
            stdin,
            stdout,
            mark,
            command,
            cgroup: None,
            folder: None,
        }
    }

    /// Another host in the same place, as the same user, without trees; to be dropped first.
    pub(crate) async fn start_beside(&self) -> Self {
        let mut host = Self::launch(self.command.clone(), "0 pipe", new_mark());
        assert_eq!(host.answer().await, "ready");
        host
    }

    /// Tells the host to do something and returns what it says to that.
    pub(crate) async fn ask(&mut self, line: &str) -> String {
        let line = format!("{line}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn answer(&mut self) -> String {
        let line = within("an answer of the host", DEADLINE, self.stdout.next_line()).await;
        let line = line.unwrap().unwrap();
        line.unwrap_or_else(|| panic!("the host ended: {}", self.process.stderr_tail()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Kills the host itself, and nobody else.
    pub(crate) fn kill9(&self) {
        kill9(self.pid());
    }

    /// Everybody of the trees who is alive.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let mark = format!("TL_MARK={}", self.mark);
        let has_mark = |pid: &i32| {
            let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            text.split(|byte| *byte == 0)
                .any(|word| word == mark.as_bytes())
        };
        processes().into_iter().filter(has_mark).collect()
    }

    pub(crate) async fn until_alive(&self, count: usize) {
        let alive = async || self.alive().len() == count;
        let waited = eventually("the trees to be as they should", DEADLINE, alive).await;
        if let Err(error) = waited {
            panic!("{error}: {} of {count} alive", self.alive().len());
        }
    }

    /// Waits until nobody of the trees is alive; how long that took.
    pub(crate) async fn until_nobody_is_alive(&self) -> Duration {
        let before = Instant::now();
        self.until_alive(0).await;
        before.elapsed()
    }

    /// The keeper of the host.
    pub(crate) fn keeper(&self) -> i32 {
        let keepers = children_named(self.pid(), "tl-keeper");
        assert_eq!(keepers.len(), 1, "one keeper");
        keepers[0]
    }

    /// The second keeper, wherever it belongs by now; none under `reaper`.
    pub(crate) fn second(&self) -> Option<i32> {
        let parents = [Some(self.pid()), self.try_keeper()];
        let seconds = parents.into_iter().flatten();
        seconds
            .flat_map(|parent| children_named(parent, "tl-second"))
            .next()
    }

    fn try_keeper(&self) -> Option<i32> {
        children_named(self.pid(), "tl-keeper").first().copied()
    }

    /// Stops the host itself.
    pub(crate) fn pause(&self) {
        signal(self.pid(), Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        signal(self.pid(), Signal::CONT);
    }

    /// Closes the host's input, which stops its service, and waits for its end.
    pub(crate) async fn stop(&mut self) {
        self.stdin = None;
        let ended = self.process.wait(DEADLINE).await.unwrap();
        assert!(ended.success(), "{ended}: {}", self.process.stderr_tail());
    }

    /// Holders of the keeper, spares included.
    pub(crate) fn holders(&self) -> Vec<i32> {
        children_named(self.keeper(), "tl-holder")
    }
}

/// A cgroup that an ordinary user may do with what it likes. Everybody in it is killed at the end.
struct Delegated(PathBuf);

impl Delegated {
    fn new(mark: &str) -> Option<Self> {
        let Some(own) = own_cgroup() else {
            say("SKIPPED: no cgroup2 to delegate");
            return None;
        };
        let path = own.join(format!("tl-test-{mark}"));
        if let Err(error) = std::fs::create_dir(&path) {
            say(&format!("SKIPPED: no cgroup to delegate: {error}"));
            return None;
        }
        let delegated = Self(path);
        for name in [
            "",
            "cgroup.procs",
            "cgroup.threads",
            "cgroup.subtree_control",
        ] {
            let path = delegated.0.join(name);
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Some(delegated)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        // Whoever was killed needs a moment; each try takes a while itself.
        for _ in 0..100_000 {
            remove_below(&self.0);
            if std::fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::yield_now();
        }
        say(&format!("{} could not be removed", self.0.display()));
    }
}

fn remove_below(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

fn own_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let point = mount.split(' ').nth(4)?;
    Some(cgroup_of(
        std::process::id().cast_signed(),
        Path::new(point),
    ))
}

/// The directory of the cgroup a process is in.
fn cgroup_of(pid: i32, mount: &Path) -> PathBuf {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    mount.join(own.unwrap_or_default())
}

/// The directory that holds the cgroups of a service, from one of its processes.
pub(crate) fn service_cgroup(member: i32) -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let point = mount.and_then(|line| line.split(' ').nth(4)).unwrap();
    cgroup_of(member, Path::new(point))
        .parent()
        .unwrap()
        .to_owned()
}

fn new_mark() -> String {
    let number = HOSTS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.collect()
}

/// State and parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn children_named(parent: i32, name: &str) -> Vec<i32> {
    let is_named = |pid: &i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let children = processes();
    let children = children.into_iter().filter(|pid| {
        let stat = stat(*pid);
        stat.is_some_and(|(state, of)| of == parent && state != 'Z')
    });
    children.filter(is_named).collect()
}

/// Dead children of a process that nobody has reaped.
pub(crate) fn zombies_of(parent: i32) -> Vec<i32> {
    let is_zombie = |pid: &i32| stat(*pid) == Some(('Z', parent));
    processes().into_iter().filter(is_zombie).collect()
}

/// The parent of a process.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Tasks of the user the host runs as, which a limit on its processes counts.
pub(crate) fn tasks_of(user: User) -> usize {
    use std::os::unix::fs::MetadataExt;
    let uid = match user {
        User::Me => rustix::process::getuid().as_raw(),
        User::Nobody | User::Climber => NOBODY,
    };
    let is_theirs = |pid: &i32| {
        let owner = std::fs::metadata(format!("/proc/{pid}"));
        owner.is_ok_and(|owner| owner.uid() == uid)
    };
    let theirs = processes().into_iter().filter(is_theirs);
    let tasks = theirs.filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok());
    tasks.map(Iterator::count).sum()
}

/// Whether a process belongs to root for good, its real user included.
pub(crate) fn is_root(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("\nUid:\t0\t0\t0\t0\n")
}

pub(crate) fn kill9(pid: i32) {
    signal(pid, Signal::KILL);
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
