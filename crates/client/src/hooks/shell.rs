//! Hooks that are commands.
//!
//! The invariant here: a command is run by the process service alone, with an environment that is
//! built and not inherited, and whatever it started has ended when its run has. What it says is read
//! in `script.rs`.

pub(super) mod script;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use turnlane_process::{
    Communicated, Containment, ContainmentKind, End, Io, Process, Reason, Spec, Stdin, Survivors,
    Until,
};
use turnlane_protocol::hook::{Ended, Exit, FailureClass, HookFailure, HookOutput, read};

use super::wire::Said;
use super::{HookContext, HookIssue};
use crate::link::child::home;

/// How long a command may take.
pub(super) const RUN_MAX: Duration = Duration::from_secs(30);
/// How long it has between the signal that asks it to end and the one that ends it.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long the end of everything it started is waited for.
const GONE_MAX: Duration = Duration::from_secs(5);
/// How much of standard error is kept.
const STDERR_BYTES_MAX: usize = 64 * 1024;

/// What a command gets of our own environment.
const INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "CODEX_HOME",
    "TURNLANE_HOME",
    "LANGUAGE",
];

/// A hook that is a command.
#[derive(Debug)]
pub(super) struct ShellHook {
    name: String,
    command: String,
    limit: Duration,
}

impl ShellHook {
    pub(super) fn new(name: &str, command: &str, limit: Duration) -> Self {
        Self {
            name: name.to_owned(),
            command: command.to_owned(),
            limit,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The command's own limit comes first, so that it is ended in order.
    pub(super) fn timeout(&self) -> Duration {
        self.limit + GONE_MAX * 2
    }

    pub(super) async fn run(&self, context: &HookContext) -> Result<Said, HookIssue> {
        let output = self.output(context).await;
        let output = output.map_err(|failure| script::issue(&self.name, context.phase, failure))?;
        Ok(script::said(context, output))
    }

    async fn output(&self, context: &HookContext) -> Result<HookOutput, HookFailure> {
        let input = script::input(&self.name, context).to_string();
        let process = start(self.spec(context)?).await?;
        let run = process.communicate(Bytes::from(input), None);
        let Ok(run) = timeout(self.limit, run).await else {
            process.end(End::Graceful {
                interrupt: Duration::ZERO,
                term: TERM_GRACE,
            });
            process.wait(Until::Gone, Some(GONE_MAX)).await;
            let message = format!("hook timed out after {}s", self.limit.as_secs_f64());
            return Err(failure(FailureClass::Timeout, message));
        };
        process.wait(Until::Gone, Some(GONE_MAX)).await;
        let run = run.map_err(|_| failure(FailureClass::Internal, "output was taken"))?;
        let (event, name) = script::event(context.phase);
        read_run(&run, |ended| read(event, name, ended))
    }

    fn spec(&self, context: &HookContext) -> Result<Spec, HookFailure> {
        let cwd = match &context.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir()
                .map_err(|error| failure(FailureClass::Spawn, error.to_string()))?,
        };
        let mut spec = Spec::new(["sh", "-c", self.command.as_str()], &cwd);
        spec.env.vars = environment(context, &cwd);
        spec.io = Io::Pipe { stdin: Stdin::Open };
        spec.survivors = Survivors::End;
        Ok(spec)
    }
}

fn failure(class: FailureClass, message: impl Into<String>) -> HookFailure {
    HookFailure {
        class,
        message: message.into(),
    }
}

/// Where servers are started too: a place that outlives the runtime of the caller, so that a command
/// ends also when nobody is there to see it. Dropping the process ends all its containment holds.
async fn start(mut spec: Spec) -> Result<Process, HookFailure> {
    let failed = |why: String| failure(FailureClass::Spawn, why);
    let home = home::find()
        .await
        .map_err(|error| failed(error.to_string()))?;
    spec.containment = match home.containment() {
        ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
        ContainmentKind::Group => Containment::Group,
    };
    let started = home.service.spawn(spec).await;
    started.map_err(|error| failed(error.to_string()))
}

fn read_run(
    run: &Communicated,
    read: impl FnOnce(&Ended<'_>) -> Result<HookOutput, HookFailure>,
) -> Result<HookOutput, HookFailure> {
    let exit = match run.status.reason {
        Reason::Exited => Exit::Code(run.status.code),
        Reason::Signaled | Reason::Terminated | Reason::Timeout | Reason::Lost => Exit::Signal,
    };
    let (out, err) = (&run.snapshot.stdout, &run.snapshot.stderr);
    if out.omitted_bytes > 0 {
        return Err(failure(FailureClass::Output, "hook wrote more than 1 MiB"));
    }
    let stdout = [&out.head[..], &out.tail[..]].concat();
    let stderr = [&err.head[..], &err.tail[..]].concat();
    let stderr = &stderr[stderr.len().saturating_sub(STDERR_BYTES_MAX)..];
    read(&Ended {
        exit,
        stdout: &stdout,
        stdout_bytes: out.total_bytes,
        stderr,
    })
}

fn environment(context: &HookContext, cwd: &Path) -> BTreeMap<OsString, OsString> {
    let is_inherited = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("LC_") || INHERITED.contains(&name.as_ref())
    };
    let inherited = std::env::vars_os().filter(|(name, _)| is_inherited(name));
    let mut vars: BTreeMap<OsString, OsString> = inherited.collect();
    let mut set = |name: &str, value: OsString| vars.insert(name.into(), value);
    let root = project_root(cwd);
    set("CLAUDE_PROJECT_DIR", root.clone().into());
    set("PROJECT_DIR", root.into());
    set("HOOK_EVENT", script::event(context.phase).1.into());
    if let Some(thread) = &context.thread_id {
        set("TURNLANE_THREAD_ID", thread.as_str().into());
    }
    if let Some(turn) = &context.turn_id {
        set("TURNLANE_TURN_ID", turn.as_str().into());
    }
    vars
}

/// The nearest directory above with a repository in it, else the directory itself.
fn project_root(cwd: &Path) -> PathBuf {
    let mut above = cwd.ancestors();
    let root = above.find(|dir| dir.join(".git").exists());
    root.unwrap_or(cwd).to_owned()
}
