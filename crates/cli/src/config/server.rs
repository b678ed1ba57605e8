//! `[server]`, `[thread]`, `[approvals]`, `[queue]`, `[engine]`, `[process]`: how an app-server serves.

use std::time::Duration;

use super::Section;
use super::exec_server::{count, set};

/// Those sections with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerConfig {
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) unload_after: Duration,
    pub(crate) approval_timeout: Duration,
    pub(crate) unattended_timeout: Duration,
    pub(crate) on_interrupt: OnInterrupt,
    pub(crate) dedupe_window: Duration,
    pub(crate) max_depth: u32,
    pub(crate) max_running: usize,
    pub(crate) engine: String,
    /// None: turns may take as long as they take.
    pub(crate) turn_timeout: Option<Duration>,
    pub(crate) spawn: Spawn,
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
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            shutdown_grace: Duration::from_secs(30),
            unload_after: Duration::from_mins(30),
            approval_timeout: Duration::from_hours(1),
            unattended_timeout: Duration::from_mins(10),
            on_interrupt: OnInterrupt::Continue,
            dedupe_window: Duration::from_hours(24),
            max_depth: 1_000,
            max_running: 32,
            engine: "native".to_owned(),
            turn_timeout: None,
            spawn: Spawn::Allow,
        }
    }
}

/// The longest time a setting may name: a year.
const LONG: Duration = Duration::from_hours(24 * 366);

impl ServerConfig {
    /// The names of the sections.
    pub(super) const SECTIONS: [&'static str; 6] = [
        "server",
        "thread",
        "approvals",
        "queue",
        "engine",
        "process",
    ];

    /// Takes over what one of the tables says.
    pub(super) fn apply(&mut self, name: &str, section: Section<'_>) -> anyhow::Result<()> {
        match name {
            "server" => {
                set(&mut self.allowed_origins, section.texts("allowed_origins")?);
                set(&mut self.allowed_hosts, section.texts("allowed_hosts")?);
                let grace = section.duration("shutdown_grace", LONG)?;
                set(&mut self.shutdown_grace, grace);
            }
            "thread" => set(
                &mut self.unload_after,
                section.duration("unload_after", LONG)?,
            ),
            "approvals" => {
                set(
                    &mut self.approval_timeout,
                    section.duration("timeout", LONG)?,
                );
                let unattended = section.duration("unattended_timeout", LONG)?;
                set(&mut self.unattended_timeout, unattended);
            }
            "queue" => {
                set(
                    &mut self.on_interrupt,
                    section.word("on_interrupt", &ON_INTERRUPT)?,
                );
                set(
                    &mut self.dedupe_window,
                    section.duration("dedupe_window", LONG)?,
                );
                let depth = section.number("max_depth", 1..=1_000_000)?;
                set(
                    &mut self.max_depth,
                    depth.and_then(|depth| u32::try_from(depth).ok()),
                );
                set(
                    &mut self.max_running,
                    count(&section, "max_running", 1, 4096)?,
                );
            }
            "engine" => {
                let engine = section.word("default", &ENGINES)?;
                set(&mut self.engine, engine.map(str::to_owned));
                if let Some(limit) = section.duration("turn_timeout", LONG)? {
                    self.turn_timeout = Some(limit).filter(|limit| !limit.is_zero());
                }
            }
            _ => set(&mut self.spawn, section.word("spawn", &SPAWN)?),
        }
        section.finish();
        Ok(())
    }
}

const ON_INTERRUPT: [(&str, OnInterrupt); 2] = [
    ("continue", OnInterrupt::Continue),
    ("pause", OnInterrupt::Pause),
];
const ENGINES: [(&str, &str); 2] = [("native", "native"), ("scripted", "scripted")];
const SPAWN: [(&str, Spawn); 2] = [("allow", Spawn::Allow), ("deny", Spawn::Deny)];
