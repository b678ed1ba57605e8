//! How a turn ended.
//!
//! The invariant here: an outcome says only what the engine knows. What it cannot know stays
//! [`Accepted::Unknown`] or `outcome_known: false`, and the lane decides what follows from that.
//!
//! What becomes of the queued turn behind it is the lane's business.

use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_protocol::usage::TokenCounts;

/// Why an engine gave up: the error of the wire, so that it reaches clients as it was made.
pub type EngineError = TurnError;

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// Which ending it was.
    pub status: OutcomeStatus,
    /// Why it failed, or was stopped.
    pub error: Option<EngineError>,
    /// What the turn has used; none when the engine cannot tell.
    pub usage: Option<TokenCounts>,
    /// The text of the last agentMessage item.
    pub last_agent_message: Option<String>,
    /// False when a check failed before the first model call: the turn could not start.
    pub begun: bool,
    /// Whether a foreign engine has taken the turn; our own always have.
    pub accepted: Accepted,
    /// False when nobody can say what the turn has done.
    pub outcome_known: bool,
}

/// Which ending of a turn it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeStatus {
    /// By itself.
    Completed,
    /// By an error.
    Failed,
    /// By somebody's wish.
    Interrupted,
}

/// Whether a foreign engine has taken a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It has.
    Yes,
    /// It has not.
    No,
    /// Nobody can say.
    Unknown,
}

/// Why a turn failed that waited for an approval longer than it may.
pub fn approval_timeout() -> EngineError {
    TurnError::new(
        "an approval was not answered within its time limit",
        CodexErrorInfo::Other,
        ErrorKind::ApprovalTimeout,
    )
}

impl TurnOutcome {
    /// A turn that ended by itself.
    pub fn completed() -> Self {
        Self {
            status: OutcomeStatus::Completed,
            error: None,
            usage: None,
            last_agent_message: None,
            begun: true,
            accepted: Accepted::Yes,
            outcome_known: true,
        }
    }

    /// A turn that was stopped.
    pub fn interrupted() -> Self {
        Self {
            status: OutcomeStatus::Interrupted,
            ..Self::completed()
        }
    }

    /// A turn that an error ended.
    pub fn failed(error: EngineError) -> Self {
        Self {
            status: OutcomeStatus::Failed,
            error: Some(error),
            ..Self::completed()
        }
    }

    /// A turn that could not start: no model call was made and nothing was done.
    pub fn cannot_start(error: EngineError) -> Self {
        Self {
            begun: false,
            ..Self::failed(error)
        }
    }

    /// A turn whose engine ended without a word: it panicked or was dropped.
    ///
    /// This is what a lane makes of a channel that closes without
    /// [`Said::Ended`](crate::Said::Ended).
    pub fn lost() -> Self {
        let error = TurnError::new(
            "the engine ended without an outcome",
            CodexErrorInfo::Other,
            ErrorKind::Unknown,
        );
        Self::failed(error)
    }
}
