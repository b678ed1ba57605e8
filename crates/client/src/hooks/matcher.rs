//! Which questions a hook wants to be asked.
//!
//! The invariant here: a matcher selects, it never decides. Patterns of tool names are matched by the
//! server, which knows their aliases; this client passes them on as they are.

use std::path::{Path, PathBuf};

use super::{HookContext, HookPhase};

/// Which questions a hook wants to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    phases: Vec<HookPhase>,
    tool: Option<String>,
    cwd_prefix: Option<PathBuf>,
}

impl Matcher {
    /// Those of these phases.
    pub fn phases(phases: impl IntoIterator<Item = HookPhase>) -> Self {
        Self {
            phases: phases.into_iter().collect(),
            ..Self::default()
        }
    }

    /// In phases about tools, only tools like this: names with `|` between them, or a regular
    /// expression.
    #[must_use]
    pub fn tool(mut self, pattern: &str) -> Self {
        self.tool = Some(pattern.to_owned());
        self
    }

    /// Only where the agent works in this directory or below it. Where the directory is not known, as
    /// before a thread is resumed, the hook is not asked.
    #[must_use]
    pub fn cwd_prefix(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.cwd_prefix = Some(prefix.into());
        self
    }

    pub(super) fn selects(&self, context: &HookContext) -> bool {
        self.phases.contains(&context.phase) && self.is_below(context.cwd.as_deref())
    }

    pub(super) fn is_below(&self, cwd: Option<&Path>) -> bool {
        match (&self.cwd_prefix, cwd) {
            (None, _) => true,
            // By components: `/a` is no prefix of `/ab`.
            (Some(prefix), Some(cwd)) => cwd.starts_with(prefix),
            (Some(_), None) => false,
        }
    }

    pub(super) fn is_about_tools(&self) -> bool {
        self.phases.iter().any(|phase| phase.is_about_tools())
    }

    /// The phases that the server asks about.
    pub(super) fn tool_phases(&self) -> impl Iterator<Item = HookPhase> {
        self.phases
            .iter()
            .copied()
            .filter(|phase| phase.is_about_tools())
    }

    pub(super) fn tool_pattern(&self) -> Option<&str> {
        self.tool.as_deref()
    }
}
