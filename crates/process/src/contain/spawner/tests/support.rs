//! Spawners, requests and waits that the tests of this module share.

use std::fs::File;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::*;
use crate::contain::{Ended, group};
use crate::launch::{self, OurEnds};
use crate::spec::{Delivery, Io, Spec, Stdin, TerminalSize};

pub(super) const PIPE: Io = Io::Pipe {
    stdin: Stdin::Closed,
};
pub(super) const STDIN: Io = Io::Pipe { stdin: Stdin::Open };
pub(super) const PTY: Io = Io::Pty(TerminalSize { rows: 24, cols: 80 });

/// A member that left the session and a daemon that left its parent, each with a child, all with the
/// mark as their argument.
pub(super) const TREE: &str = "setsid sh -c 'sh -c \"sleep 1000; : \\$0\" $0; :' $0 & \
    (setsid sh -c 'sh -c \"sleep 1000; : \\$0\" $0; :' $0 &) & sleep 1000; : $0";

/// An argument nobody else has.
pub(super) fn mark(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("ts-{name}-{}-{number}", std::process::id())
}

/// A spawner of this kind, or a visible skip.
pub(super) fn spawner(kind: ContainmentKind) -> Option<(Spawner, Found)> {
    let mut options = Options {
        containment: Some(kind),
        ..Options::default()
    };
    match Spawner::start(&mut options, Mark::choose()) {
        Ok(started) => Some(started),
        Err(StartError::Containment { wanted, reason }) => {
            // The test harness swallows what the macros print.
            let line = format!("SKIPPED: containment `{wanted}`: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Every kind this machine has, with what to ask of it; and the group inside of a cgroup.
pub(super) fn every_kind() -> Vec<(Spawner, Containment)> {
    let kinds = [
        (ContainmentKind::Cgroup, Containment::Tree),
        (ContainmentKind::Cgroup, Containment::Group),
        (ContainmentKind::Reaper, Containment::Tree),
        (ContainmentKind::Group, Containment::Group),
    ];
    let started = kinds.map(|(kind, containment)| Some((spawner(kind)?.0, containment)));
    started.into_iter().flatten().collect()
}

pub(super) fn request(argv: &[&str], io: Io) -> (Request, OurEnds) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let plan = launch::prepare(&Spec::new(argv, "/"), vec![("PATH".into(), path)]).unwrap();
    let (ends, ours) = launch::open_ends(io, Delivery::Stream).unwrap();
    let request = Request {
        plan,
        ends,
        ruleset: None,
        containment: Containment::Tree,
        memory_max: None,
        pids_max: None,
        default_limits: Defaults::Skip,
    };
    (request, ours)
}

pub(super) async fn start(spawner: &Spawner, argv: &[&str], io: Io) -> (Running, OurEnds) {
    let (request, ends) = request(argv, io);
    (spawner.spawn(request).await.unwrap(), ends)
}

pub(super) async fn exit(running: &Running) -> Ended {
    let exit = poll_fn(|cx| running.poll_exit(cx));
    within("the exit", DEADLINE, exit).await.unwrap()
}

pub(super) async fn empty(running: &Running) {
    let empty = poll_fn(|cx| running.poll_empty(cx));
    within("emptiness", DEADLINE, empty).await.unwrap();
}

/// Pids of those who have `mark` among their arguments. Zombies have none.
pub(super) fn marked(mark: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &i32| {
        let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text.split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    pids.filter(has_mark).collect()
}

pub(super) async fn all_up(mark: &str, expected: usize) {
    let up = async || marked(mark).len() == expected;
    eventually("everybody to be up", DEADLINE, up)
        .await
        .unwrap();
}

pub(super) async fn nobody_left(mark: &str) {
    let nobody = async || marked(mark).is_empty();
    eventually("nobody to be left", DEADLINE, nobody)
        .await
        .unwrap();
}

pub(super) fn kill9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Ends those who left a group that held them, with the groups they lead: they are nobody's but the
/// test's.
pub(super) fn kill_escaped(mark: &str) {
    for pid in marked(mark) {
        group::signal(pid, Signal::Kill);
        kill9(pid);
    }
}

/// Lines of standard output, read on a thread of the runtime's.
pub(super) struct Lines(mpsc::Receiver<String>);

impl Lines {
    pub(super) fn of(ends: &OurEnds) -> Self {
        let fd = ends.stdout.as_ref().unwrap().try_clone().unwrap();
        let flags = rustix::fs::fcntl_getfl(fd.as_fd()).unwrap();
        let blocking = flags - rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(fd.as_fd(), blocking).unwrap();
        let (sender, receiver) = mpsc::channel(64);
        std::thread::spawn(move || {
            for line in BufReader::new(File::from(fd)).lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    pub(super) async fn next(&mut self) -> String {
        let line = within("a line", DEADLINE, self.0.recv()).await.unwrap();
        line.unwrap()
    }
}

pub(super) async fn first_line(ends: &OurEnds) -> String {
    Lines::of(ends).next().await
}

/// Children of this process that are dead and not reaped.
pub(super) fn zombies() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let text = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let children: String = tasks.filter_map(|task| text(task).ok()).collect();
    let pids = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let dead = |pid: &i32| group::Stat::of(*pid).is_some_and(group::Stat::is_dead);
    pids.filter(dead).collect()
}

pub(super) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs one test in a process of its own, because it counts what the whole process has. Whether this
/// is that process.
pub(super) async fn alone(test: &str) -> bool {
    const ALONE: &str = "TURNLANE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let (spawner, _) = spawner(ContainmentKind::Group).unwrap();
    let path = std::env::current_exe().unwrap();
    let argv = [path.to_str().unwrap(), "--exact", test, "--nocapture"];
    let environment = std::env::vars_os().chain([(ALONE.into(), "1".into())]);
    let (mut request, ends) = request(&argv, PIPE);
    let plan = launch::prepare(&Spec::new(argv, "/"), environment.collect());
    request.plan = plan.unwrap();
    request.containment = Containment::Group;
    let running = spawner.spawn(request).await.unwrap();
    let mut lines = Lines::of(&ends);
    let mut text = String::new();
    while let Some(line) = lines.0.recv().await {
        text.push_str(&line);
        text.push('\n');
    }
    assert_eq!(exit(&running).await.how, How::Code(0), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    false
}
