//! The worker of a demo: this same program as the daemon of the demo's home.
//!
//! The invariant here: a worker is a process of its own in a group of its own, and goes with this
//! value, with everything it started. What it started and whether any of that is left is known by the
//! process service that started it, not by asking it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::timeout;
use turnlane_process::{
    Containment, ContainmentKind, Delivery, EnvSpec, Event, Process, ProcessService, Sandbox,
    Signal, SpawnErrorKind, Spec, StreamName, Target, Until,
};

use super::folder::Folder;

/// How long a worker may take to be ready, and to end.
const LIMIT: Duration = Duration::from_secs(30);

/// A running worker.
#[derive(Debug)]
pub(super) struct Worker {
    process: Process,
    /// What it said when it was ready.
    pub(super) ready: String,
}

/// Whether anything is left of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// How many processes are.
    pub(super) processes: usize,
}

impl Worker {
    /// Starts one and waits until it serves. Cancelled, it leaves nothing behind.
    pub(super) async fn start(service: &ProcessService, folder: &Folder) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let script = folder.script().into_os_string();
        let words = ["serve", "--listen", "off", "--script"].map(OsString::from);
        let argv = std::iter::once(program.into_os_string()).chain(words);
        let spec = Spec {
            env: environment(folder),
            // It must never wait for somebody to read what it logs.
            delivery: Delivery::Retain,
            containment: containment(service),
            ..Spec::new(argv.chain([script]), folder.work())
        };
        let process = service.spawn(spec).await.context("cannot start a worker")?;
        let ready = timeout(LIMIT, until_ready(&process)).await;
        let ready = ready.context("the worker is not ready after 30 s")??;
        Ok(Self { process, ready })
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.info().pid
    }

    /// `kill -9` of the worker alone, and what is then left of it.
    pub(super) async fn kill(self) -> anyhow::Result<Left> {
        self.process.signal(Signal::Kill, Target::Leader);
        let status = self.process.wait(Until::Exited, Some(LIMIT)).await;
        let status = status.context("the worker was killed and is still there")?;
        if status.signal != Some(Signal::Kill.number()) {
            bail!("the worker ended by itself before it was killed: {status:?}");
        }
        Ok(self.left().await)
    }

    /// Asks the worker to end, and what is then left of it.
    pub(super) async fn stop(self) -> anyhow::Result<Left> {
        self.process.signal(Signal::Terminate, Target::Leader);
        let status = self.process.wait(Until::Exited, Some(LIMIT)).await;
        let status = status.context("the worker was asked to end and is still there after 30 s")?;
        if status.code != 0 {
            bail!(
                "the worker did not end in order: {}",
                last_words(&self.process)
            );
        }
        Ok(self.left().await)
    }

    /// Nobody helps here: whoever outlives a worker is found.
    async fn left(&self) -> Left {
        let gone = self.process.wait(Until::Gone, Some(LIMIT)).await;
        let processes = match gone {
            Some(_) => 0,
            None => self.process.listed().survivors.max(1),
        };
        Left { processes }
    }
}

/// Why commands cannot be confined here, found by trying; none: they can.
pub(super) async fn no_sandbox(
    service: &ProcessService,
    folder: &Folder,
) -> anyhow::Result<Option<String>> {
    let spec = Spec {
        env: environment(folder),
        sandbox: Sandbox::WorkspaceWrite {
            roots: vec![folder.work()],
            network: false,
            exclude_tmpdir: true,
            exclude_slash_tmp: true,
        },
        containment: Containment::Group,
        ..Spec::new(["sh", "-c", ":"], folder.work())
    };
    match service.spawn(spec).await {
        Ok(process) => {
            let ended = process.wait(Until::Exited, Some(LIMIT)).await;
            Ok(match ended {
                Some(status) if status.code == 0 => None,
                Some(_) | None => Some("a confined command does not work".to_owned()),
            })
        }
        Err(error) => match error.kind {
            SpawnErrorKind::SandboxUnavailable | SpawnErrorKind::SandboxRefused => {
                Ok(Some(error.to_string()))
            }
            _ => Err(error).context("cannot run `sh`"),
        },
    }
}

/// The widest containment that this machine offers.
pub(super) fn containment(service: &ProcessService) -> Containment {
    match service.report().containment {
        ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
        ContainmentKind::Group => Containment::Group,
    }
}

/// Nothing of the caller's but where programs are: no keys, no configuration, no home.
pub(super) fn environment(folder: &Folder) -> EnvSpec {
    let mut vars = BTreeMap::new();
    for name in ["PATH", "TMPDIR", "LANG"] {
        if let Some(value) = std::env::var_os(name) {
            vars.insert(OsString::from(name), value);
        }
    }
    vars.insert("HOME".into(), folder.path().into());
    vars.insert("TURNLANE_HOME".into(), folder.home().into());
    vars.insert("CODEX_HOME".into(), folder.path().join("codex").into());
    EnvSpec {
        vars,
        ..EnvSpec::default()
    }
}

/// Reads what it says until it is ready.
async fn until_ready(process: &Process) -> anyhow::Result<String> {
    let mut output = process.output().context("its output is read elsewhere")?;
    let mut said = String::new();
    while let Some(event) = output.next().await {
        match event {
            Event::Output {
                stream: StreamName::Stderr,
                bytes,
                ..
            } => said.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Output { .. } => {}
            Event::Exited { .. } | Event::Closed { .. } => break,
        }
        let lines = said
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        if let Some(line) = lines
            .map(str::trim_end)
            .find(|line| line.starts_with("ready"))
        {
            return Ok(line.to_owned());
        }
    }
    bail!("the worker could not start: {}", last_words(process))
}

/// The last line a worker wrote.
fn last_words(process: &Process) -> String {
    let kept = process.snapshot().stderr;
    let text = [&kept.head[..], &kept.tail[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text
        .trim_end()
        .lines()
        .next_back()
        .unwrap_or("it said nothing");
    crate::shown::text::visible(last)
}
