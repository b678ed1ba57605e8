//! The states of a shim, in the detail of v2 and as v1 shows them.

use std::fmt;

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Starting,
    Idle,
    Working,
    /// A question of the turn waits for an answer.
    Waiting,
    /// The engine has been silent for long.
    Stalled,
    Blocked(Block),
    ContextExhausted,
    Draining,
    Dead,
}

/// What keeps a lane from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Quota,
    Plan,
    Rate,
    Overload,
    Auth,
    Paused,
    FailedHead,
    Engine,
}

impl Block {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Plan => "plan",
            Self::Rate => "rate",
            Self::Overload => "overload",
            Self::Auth => "auth",
            Self::Paused => "paused",
            Self::FailedHead => "failed_head",
            Self::Engine => "engine",
        }
    }

    /// What an error kind that makes a lane wait is called here. Failures of the provider and of the
    /// network count as overload.
    pub(crate) fn of_kind(kind: &str) -> Self {
        match kind {
            "quota" => Self::Quota,
            "plan" => Self::Plan,
            "rate_limited" => Self::Rate,
            "auth" => Self::Auth,
            "engine_unavailable" => Self::Engine,
            _ => Self::Overload,
        }
    }
}

impl Detail {
    /// The word of v1; a shim that drains works as long as a turn runs.
    pub(crate) const fn shown(self, has_turn: bool) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working | Self::Waiting | Self::Stalled => "working",
            Self::ContextExhausted => "context_exhausted",
            Self::Draining if has_turn => "working",
            Self::Idle | Self::Blocked(_) | Self::Draining => "idle",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Stalled => "stalled",
            Self::Blocked(block) => return write!(f, "blocked({})", block.word()),
            Self::ContextExhausted => "context_exhausted",
            Self::Draining => "draining",
            Self::Dead => "dead",
        };
        f.write_str(word)
    }
}
