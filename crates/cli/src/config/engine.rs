//! `[engine]`, `[engine.codex]` and `[engine.codex-exec]`: which engine runs new threads, and how the
//! engines that are other programs are started.
//!
//! The invariant here: nothing in these tables grants a right by itself. The flag that takes Codex's
//! sandbox away also needs a thread whose sandbox is `danger-full-access`; the engine checks that.

use std::time::Duration;

use super::Section;
use super::exec_server::{count, set};
use super::server::LONG;

/// Those tables with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineConfig {
    /// The engine of a thread whose caller named none.
    pub(crate) default: String,
    /// None: turns may take as long as they take.
    pub(crate) turn_timeout: Option<Duration>,
    /// Variables that the children of `codex` and `codex-exec` do not get.
    pub(crate) env_remove: Vec<String>,
    /// The Codex program of both engines; none: `codex` from PATH.
    pub(crate) codex_program: Option<String>,
    /// The number of `codex app-server` children that the lanes of this worker share.
    pub(crate) codex_children: usize,
    pub(crate) codex_exec_bypass: Bypass,
}

/// Whether `codex exec` may be started without Codex's own sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bypass {
    /// For threads whose sandbox is `danger-full-access`.
    Allowed,
    Never,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            default: NATIVE.to_owned(),
            turn_timeout: None,
            env_remove: Vec::new(),
            codex_program: None,
            codex_children: 1,
            codex_exec_bypass: Bypass::Never,
        }
    }
}

/// The engine that runs turns by itself.
pub(crate) const NATIVE: &str = "native";

/// Every engine that a configuration may name.
const ENGINES: [(&str, &str); 4] = [
    (NATIVE, NATIVE),
    ("codex", "codex"),
    ("codex-exec", "codex-exec"),
    ("scripted", "scripted"),
];

/// The engines whose program has a configuration, a model and a login of its own.
pub(crate) fn is_codex(engine: &str) -> bool {
    matches!(engine, "codex" | "codex-exec")
}

impl EngineConfig {
    /// Takes over what the table `engine` says.
    pub(super) fn apply(&mut self, section: &Section<'_>) -> anyhow::Result<()> {
        let engine = section.word("default", &ENGINES)?;
        set(&mut self.default, engine.map(str::to_owned));
        if let Some(limit) = section.duration("turn_timeout", LONG)? {
            self.turn_timeout = Some(limit).filter(|limit| !limit.is_zero());
        }
        set(&mut self.env_remove, section.texts("env_remove")?);
        if let Some(codex) = section.table("codex", "engine.codex")? {
            set(&mut self.codex_program, codex.text("program")?.map(Some));
            set(&mut self.codex_children, count(&codex, "children", 1, 16)?);
            codex.finish();
        }
        if let Some(exec) = section.table("codex-exec", "engine.codex-exec")? {
            let bypass = exec.flag("bypass")?.map(|allowed| {
                if allowed {
                    Bypass::Allowed
                } else {
                    Bypass::Never
                }
            });
            set(&mut self.codex_exec_bypass, bypass);
            exec.finish();
        }
        Ok(())
    }
}
