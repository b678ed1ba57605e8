//! What hooks did: runs and issues, in the order they happened.
//!
//! The invariant here: a report is only ever appended to. Every hook that was selected has a run, also
//! when it was not asked because another had said no.

use std::time::Duration;

use super::HookPhase;

/// What hooks did in one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookReport {
    /// Each time a hook was selected.
    pub runs: Vec<HookRun>,
    /// What went wrong.
    pub issues: Vec<HookIssue>,
}

/// One time that a hook was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookRun {
    /// Its name.
    pub hook: String,
    /// When it was asked.
    pub phase: HookPhase,
    /// What came of it.
    pub outcome: HookOutcome,
    /// How long it took.
    pub duration: Duration,
}

/// What came of asking a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookOutcome {
    /// It wanted nothing.
    Noop,
    /// It wanted something else; what was not allowed is an issue.
    Mutated,
    /// It said no; in a `Post` phase without effect.
    Blocked,
    /// It failed; the issue says how.
    Failed,
    /// It was not asked: another had said no.
    Skipped,
}

impl HookOutcome {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Mutated => "mutated",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Something that went wrong with a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hook '{hook}' at {phase}: {message}")]
pub struct HookIssue {
    /// Its name.
    pub hook: String,
    /// When it was asked.
    pub phase: HookPhase,
    /// What kind of trouble.
    pub class: IssueClass,
    /// What happened.
    pub message: String,
}

/// What kind of trouble a hook had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IssueClass {
    /// It wanted what it may not have.
    Validation,
    /// It failed.
    Execution,
    /// It took too long.
    Timeout,
    /// It panicked, or we could not ask it.
    Internal,
}

impl IssueClass {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Execution => "execution",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
        }
    }
}
