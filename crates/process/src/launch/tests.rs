//! Launches of real children: what they start with, how they fail, what is left behind.
//!
//! A child is looked at from outside, through `/proc`, while it waits for its standard input. Tests
//! that count descriptors or change this process run alone, in a copy of the test program that is
//! itself launched from here.

mod cost;
mod errors;
mod restrictions;
mod state;
mod terminal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus};

use super::*;
use crate::environment::{ServiceEnv, SocketNames};
use crate::error::SpawnError;
use crate::spec::{Io, Spec, Stdin};

/// What a child wrote and how it ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    signal: Option<i32>,
    stdout: String,
    stderr: String,
}

fn sh(script: &str) -> Spec {
    Spec::new(["/bin/sh", "-c", script], "/")
}

fn plan(spec: &Spec) -> Plan {
    prepare(
        spec,
        spec.env.build(&ServiceEnv::default(), SocketNames::Pass),
    )
    .unwrap()
}

fn wait(pidfd: BorrowedFd<'_>) -> WaitIdStatus {
    rustix::process::waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED)
        .unwrap()
        .unwrap()
}

/// All there is to read until the stream ends. It may end a moment after its writer: a child that
/// is just being launched by another test has a copy of every low descriptor for that long.
fn read_all(end: Option<OwnedFd>) -> String {
    let Some(end) = end else {
        return String::new();
    };
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let mut wait = [PollFd::new(&end, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        let ready = rustix::event::poll(&mut wait, Some(&patience)).unwrap();
        assert_eq!(ready, 1, "somebody holds the stream open");
        match rustix::io::read(&end, &mut buffer).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
}

fn run_with(plan: &Plan, ruleset: Option<BorrowedFd<'_>>) -> Result<Ran, LaunchError> {
    let mut slots = Slots::reserve().unwrap();
    let io = Io::Pipe {
        stdin: Stdin::Closed,
    };
    let (ends, ours) = open_ends(io, crate::Delivery::Stream).unwrap();
    let launched = launch(&mut slots, plan, &ends, ruleset, None)?;
    drop(ends);
    let status = wait(launched.pidfd.as_fd());
    Ok(Ran {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        stdout: read_all(ours.stdout),
        stderr: read_all(ours.stderr),
    })
}

fn run(spec: &Spec) -> Result<Ran, SpawnError> {
    let plan = prepare(
        spec,
        spec.env.build(&ServiceEnv::default(), SocketNames::Pass),
    )?;
    run_with(&plan, None).map_err(|error| error.explain(&plan))
}

/// A child that does nothing until it is let go, to be looked at.
struct Held {
    launched: Launched,
    stdin: Option<OwnedFd>,
}

impl Held {
    fn start(slots: &mut Slots, plan: &Plan, ruleset: Option<BorrowedFd<'_>>) -> Self {
        let io = Io::Pipe { stdin: Stdin::Open };
        let (ends, ours) = open_ends(io, crate::Delivery::Discard).unwrap();
        let launched = launch(slots, plan, &ends, ruleset, None).unwrap();
        Self {
            launched,
            stdin: ours.stdin,
        }
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.launched.pid))
    }

    fn status(&self, field: &str) -> String {
        status_field(&self.proc("status"), field)
    }

    /// Soft and hard.
    fn limit(&self, name: &str) -> (String, String) {
        let limits = std::fs::read_to_string(self.proc("limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let mut words = line[name.len()..].split_whitespace();
        let mut word = || words.next().unwrap().to_owned();
        (word(), word())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stdin.take();
        let _ = rustix::process::waitid(
            WaitId::PidFd(self.launched.pidfd.as_fd()),
            WaitIdOptions::EXITED,
        );
    }
}

/// The plan of a child that waits for the end of its standard input.
fn cat() -> Plan {
    plan(&Spec::new(["cat"], "/"))
}

fn status_field(file: &std::path::Path, field: &str) -> String {
    let status = std::fs::read_to_string(file).unwrap();
    let wanted = format!("{field}:");
    let line = status.lines().find(|line| line.starts_with(&wanted));
    line.unwrap()[wanted.len()..].trim().to_owned()
}

/// What of this thread and process a launch must not change.
fn own_state() -> BTreeMap<String, String> {
    let thread = PathBuf::from("/proc/thread-self");
    let mut state: BTreeMap<_, _> = [
        "Umask",
        "Uid",
        "Gid",
        "Groups",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
        "TracerPid",
    ]
    .into_iter()
    .map(|field| {
        (
            field.to_owned(),
            status_field(&thread.join("status"), field),
        )
    })
    .collect();
    for link in ["ns/mnt", "ns/user", "ns/cgroup", "cwd", "root"] {
        let target = std::fs::read_link(thread.join(link)).unwrap();
        state.insert(link.to_owned(), target.display().to_string());
    }
    for file in ["limits", "mountinfo"] {
        state.insert(
            file.to_owned(),
            std::fs::read_to_string(thread.join(file)).unwrap(),
        );
    }
    // SAFETY: takes no further arguments.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    state.insert("dumpable".to_owned(), dumpable.to_string());
    state
}

/// What is open, apart from the directory that is read here.
fn open_descriptors() -> Vec<(String, String)> {
    let mut found: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let target = std::fs::read_link(entry.path()).ok()?;
            let name = entry.file_name().into_string().unwrap();
            Some((name, target.display().to_string()))
        })
        .filter(|(_, target)| !target.ends_with("/fd"))
        .collect();
    found.sort();
    found
}

/// Tells why a test shows nothing on this machine. Not through the captured macros: it must be seen.
fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

const ALONE: &str = "TURNLANE_TEST_ALONE";

/// Runs the test `name` of this module in a process of its own, where no other test runs.
fn alone(name: &str, body: fn()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let name = format!("launch::tests::{name}");
    let argv: Vec<OsString> = vec![
        std::env::current_exe().unwrap().into(),
        "--exact".into(),
        name.clone().into(),
        "--nocapture".into(),
        "--test-threads=1".into(),
    ];
    let mut spec = Spec::new(argv, "/");
    spec.env.vars = std::env::vars_os().collect();
    spec.env.vars.insert(ALONE.into(), "1".into());
    let ran = run(&spec).unwrap();
    for line in ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("SKIPPED"))
    {
        skip(line.trim_start_matches("SKIPPED: "));
    }
    assert_eq!(ran.code, Some(0), "{name}: {}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("1 passed"),
        "{name} was not found: {}",
        ran.stdout
    );
}

/// Makes this thread an ordinary user, for good; other threads stay who they are.
fn become_nobody() {
    let (uid, gid) = (
        rustix::thread::Uid::from_raw(65_534),
        rustix::thread::Gid::from_raw(65_534),
    );
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    // A change of user hides `/proc/self` from it, until the next exec or this.
    // SAFETY: says only that others of this user may look at this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) }, 0);
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
