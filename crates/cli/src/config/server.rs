//! `[server]`, `[thread]`, `[approvals]`, `[queue]`, `[lanes]`, `[engine]`, `[process]`, `[store]`, `[fanout]`,
//! `[workspace]`: how we serve.
//!
//! The invariant here: what is not said has the default of the documentation, and what is said is
//! within its range. What a setting does is decided by whoever it is handed to.

use std::path::PathBuf;
use std::time::Duration;

use turnlane_process::{AbsentMounts, LocalSockets};
use turnlane_store::queue::{OnCannotStart, OnCrash, OnError, OnLimit, OnStop, Policies};

use super::Section;
use super::engine::EngineConfig;
use super::exec_server::{count, set};

/// Those sections with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerConfig {
    /// Where `serve` listens when no flag says it.
    pub(crate) listen: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    /// Clients that may be connected to one listener at once.
    pub(crate) max_connections: usize,
    pub(crate) shutdown_grace: Duration,
    pub(crate) unload_after: Duration,
    /// None: an approval waits without limit.
    pub(crate) approval_timeout: Option<Duration>,
    /// None: it waits without limit while no client can answer.
    pub(crate) unattended_timeout: Option<Duration>,
    pub(crate) on_interrupt: OnInterrupt,
    pub(crate) dedupe_window: Duration,
    /// None: archived threads stay.
    pub(crate) retention: Option<Duration>,
    pub(crate) max_depth: u32,
    /// What becomes of a queued turn that fails and says nothing about it.
    pub(crate) policies: Policies,
    /// How often a turn may lose its worker before it began.
    pub(crate) poison_limit: u32,
    pub(crate) max_running: usize,
    pub(crate) engine: EngineConfig,
    pub(crate) spawn: Spawn,
    /// Whether commands with network may use sockets of the user's other programs.
    pub(crate) local_sockets: LocalSockets,
    /// Whether what surrounds this program is the sandbox, where mounts cannot be had.
    pub(crate) absent_mounts: AbsentMounts,
    pub(crate) fanout: FanoutConfig,
    /// Where git worktrees go; none: the user's directory for data.
    pub(crate) workspace_dir: Option<PathBuf>,
}

/// `[fanout]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FanoutConfig {
    /// Items of fan-out jobs that run at once in one process.
    pub(crate) max_running: usize,
    /// Whether paths of the server are taken from websockets too.
    pub(crate) server_paths: bool,
    /// Whether agents are offered the tools of fan-out jobs.
    pub(crate) agent_tools: bool,
}

impl Default for FanoutConfig {
    fn default() -> Self {
        Self {
            max_running: 256,
            server_paths: false,
            agent_tools: false,
        }
    }
}

/// What becomes of a queue when its running turn is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    Continue,
    Pause,
}

/// Whether clients may start processes without a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spawn {
    Allow,
    Deny,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            max_connections: 1_024,
            shutdown_grace: Duration::from_secs(30),
            unload_after: Duration::from_mins(30),
            approval_timeout: None,
            unattended_timeout: None,
            on_interrupt: OnInterrupt::Pause,
            dedupe_window: Duration::from_hours(24),
            retention: None,
            max_depth: 1_000,
            policies: Policies::default(),
            poison_limit: 3,
            max_running: 32,
            engine: EngineConfig::default(),
            spawn: Spawn::Allow,
            local_sockets: LocalSockets::Closed,
            absent_mounts: AbsentMounts::Refuse,
            fanout: FanoutConfig::default(),
            workspace_dir: None,
        }
    }
}

/// The longest time a setting may name: a year.
pub(super) const LONG: Duration = Duration::from_hours(24 * 366);
/// The longest time that archived threads are kept by a setting: ten years.
const RETENTION_MAX: Duration = Duration::from_hours(24 * 3_660);
/// The longest time that keys of ended turns are remembered.
const DEDUPE_MAX: Duration = Duration::from_hours(24 * 30);

impl ServerConfig {
    /// The names of the sections.
    pub(super) const SECTIONS: [&'static str; 10] = [
        "server",
        "thread",
        "approvals",
        "queue",
        "lanes",
        "engine",
        "process",
        "store",
        "fanout",
        "workspace",
    ];

    /// Takes over what one of the tables says.
    pub(super) fn apply(&mut self, name: &str, section: Section<'_>) -> anyhow::Result<()> {
        match name {
            "server" => {
                set(&mut self.listen, section.texts("listen")?);
                set(&mut self.allowed_origins, section.texts("allowed_origins")?);
                set(&mut self.allowed_hosts, section.texts("allowed_hosts")?);
                let connections = count(&section, "max_connections", 1, 65_536)?;
                set(&mut self.max_connections, connections);
                let grace = section.duration("shutdown_grace", LONG)?;
                set(&mut self.shutdown_grace, grace);
            }
            "thread" => set(
                &mut self.unload_after,
                section.duration("unload_after", LONG)?,
            ),
            "approvals" => {
                let attended = section.duration("timeout", LONG)?;
                set(&mut self.approval_timeout, attended.map(Some));
                let unattended = section.duration("unattended_timeout", LONG)?;
                set(&mut self.unattended_timeout, unattended.map(Some));
            }
            "queue" => self.apply_queue(&section)?,
            "store" => {
                if let Some(kept) = section.duration("retention", RETENTION_MAX)? {
                    self.retention = Some(kept).filter(|kept| !kept.is_zero());
                }
            }
            "lanes" => set(
                &mut self.max_running,
                count(&section, "max_running", 1, 1_000)?,
            ),
            "fanout" => {
                let running = count(&section, "max_running", 1, 10_000)?;
                set(&mut self.fanout.max_running, running);
                set(&mut self.fanout.server_paths, section.flag("server_paths")?);
                set(&mut self.fanout.agent_tools, section.flag("agent_tools")?);
            }
            "workspace" => {
                if let Some(dir) = section.text("dir")? {
                    let dir = PathBuf::from(dir);
                    anyhow::ensure!(dir.is_absolute(), "workspace.dir must be an absolute path");
                    self.workspace_dir = Some(dir);
                }
            }
            "engine" => self.engine.apply(&section)?,
            _ => {
                set(&mut self.spawn, section.word("spawn", &SPAWN)?);
                let sockets = section.word("local_sockets", &LOCAL_SOCKETS)?;
                set(&mut self.local_sockets, sockets);
                let mounts = section.word("sandbox", &SANDBOX)?;
                set(&mut self.absent_mounts, mounts);
            }
        }
        section.finish();
        Ok(())
    }

    fn apply_queue(&mut self, section: &Section<'_>) -> anyhow::Result<()> {
        let interrupt = section.word("on_interrupt", &ON_INTERRUPT)?;
        set(&mut self.on_interrupt, interrupt);
        let policies = &mut self.policies;
        set(&mut policies.on_error, section.word("on_error", &ON_ERROR)?);
        set(&mut policies.on_crash, section.word("on_crash", &ON_CRASH)?);
        set(&mut policies.on_stop, section.word("on_stop", &ON_STOP)?);
        let cannot_start = section.word("on_cannot_start", &ON_CANNOT_START)?;
        set(&mut policies.on_cannot_start, cannot_start);
        set(&mut policies.on_limit, section.word("on_limit", &ON_LIMIT)?);
        let window = section.duration("dedupe_window", DEDUPE_MAX)?;
        set(&mut self.dedupe_window, window);
        let small = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
        let depth = section.number("max_depth", 1..=100_000)?;
        set(&mut self.max_depth, small(depth));
        let poison = section.number("poison_limit", 1..=10)?;
        set(&mut self.poison_limit, small(poison));
        Ok(())
    }
}

const ON_INTERRUPT: [(&str, OnInterrupt); 2] = [
    ("continue", OnInterrupt::Continue),
    ("pause", OnInterrupt::Pause),
];
const ON_ERROR: [(&str, OnError); 2] = [("continue", OnError::Continue), ("block", OnError::Block)];
const ON_CRASH: [(&str, OnCrash); 3] = [
    ("block", OnCrash::Block),
    ("continue", OnCrash::Continue),
    ("retry", OnCrash::Retry),
];
const ON_STOP: [(&str, OnStop); 3] = [
    ("continue", OnStop::Continue),
    ("block", OnStop::Block),
    ("retry", OnStop::Retry),
];
const ON_CANNOT_START: [(&str, OnCannotStart); 2] = [
    ("block", OnCannotStart::Block),
    ("continue", OnCannotStart::Continue),
];
const ON_LIMIT: [(&str, OnLimit); 2] = [("wait", OnLimit::Wait), ("fail", OnLimit::Fail)];
const SPAWN: [(&str, Spawn); 2] = [("allow", Spawn::Allow), ("deny", Spawn::Deny)];
const SANDBOX: [(&str, AbsentMounts); 2] = [
    ("enforced", AbsentMounts::Refuse),
    ("container", AbsentMounts::Tolerate),
];
pub(super) const LOCAL_SOCKETS: [(&str, LocalSockets); 2] = [
    ("closed", LocalSockets::Closed),
    ("open", LocalSockets::Open),
];
