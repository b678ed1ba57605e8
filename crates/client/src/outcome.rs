//! What became of a turn.
//!
//! The invariant here: the truth about an end is the status the server told, never the presence of
//! text. A word we do not know is kept, and is never a success.

mod decode;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::de::DeserializeOwned;
pub use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
pub use turnlane_protocol::usage::TokenCounts;

use crate::error::{DecodeError, TurnError};
use crate::event::Item;
use crate::hooks::HookReport;
use crate::ids::{QueuedTurnId, ThreadId, TurnId};

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TurnStatus {
    /// Ended by itself.
    Completed,
    /// Ended by an error.
    Failed,
    /// Stopped by somebody, or by the end of its process.
    Interrupted,
    /// Not ended.
    InProgress,
    /// A word of a later server.
    Unknown(String),
}

impl TurnStatus {
    /// Whether nothing more will happen to the turn.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::InProgress | Self::Unknown(_))
    }
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorInfo {
    /// The server's text for people.
    pub message: String,
    /// The word Codex's clients match, with what it carries; a word that is none of ours is kept as it
    /// came ([`CodexErrorInfo::Unlisted`]).
    pub info: Option<CodexErrorInfo>,
    /// What went wrong, as programs act on it.
    pub kind: ErrorKind,
    /// When trying again makes sense, in seconds since 1970.
    pub retry_at: Option<i64>,
    /// True when `retry_at` is the server's back-off because the provider named no time.
    pub retry_estimated: bool,
    /// What the model provider answered.
    pub http_status: Option<u16>,
    /// More text for people.
    pub details: Option<String>,
    /// Whether the turn goes on with another try.
    pub will_retry: bool,
    /// False when a crash left undecidable what the turn has done.
    pub outcome_known: bool,
    /// The hook that stopped it.
    pub blocked_by: Option<crate::error::Block>,
}

/// What a turn and its thread have used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The turn alone; none when its engine cannot tell.
    pub turn: Option<TokenCounts>,
    /// The thread up to now.
    pub thread: Option<TokenCounts>,
    /// The last model call; told while a turn runs.
    pub last: Option<TokenCounts>,
    /// How many tokens fit into the model's context.
    pub context_window: Option<i64>,
}

/// A turn as answers and notifications show it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    /// The turn.
    pub id: TurnId,
    /// Where it stands.
    pub status: TurnStatus,
    /// Its items, as far as they were shown.
    pub items: Vec<Item>,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// What it has used.
    pub usage: Option<Usage>,
    /// When it began, in seconds since 1970.
    pub started_at: Option<i64>,
    /// When it ended, in seconds since 1970.
    pub completed_at: Option<i64>,
    /// From start to end.
    pub duration: Option<Duration>,
    /// The row it waited in.
    pub queued_turn: Option<QueuedTurnId>,
    /// Which try of its row it is, from 1.
    pub attempt: Option<u32>,
}

/// What became of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The thread.
    pub thread: ThreadId,
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub status: TurnStatus,
    /// The final answer; none when the agent said nothing.
    pub text: Option<String>,
    /// Everything it produced.
    pub items: Vec<Item>,
    /// What it has used.
    pub usage: Option<Usage>,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// From start to end.
    pub duration: Option<Duration>,
    /// What hooks of this client did.
    pub hooks: HookReport,
}

impl TurnOutcome {
    /// Reads the final answer as JSON, for turns with an output schema.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        let text = self.text.as_deref().unwrap_or_default();
        serde_json::from_str(text).map_err(|source| DecodeError {
            what: "the final answer".to_owned(),
            source,
        })
    }

    /// The outcome if the turn completed, else the error that says how it ended.
    pub fn into_success(self) -> Result<Self, TurnError> {
        let turn = self.turn.clone();
        match &self.status {
            TurnStatus::Completed => Ok(self),
            TurnStatus::Interrupted => Err(TurnError::Interrupted {
                turn,
                outcome: Box::new(self),
            }),
            TurnStatus::Failed | TurnStatus::InProgress | TurnStatus::Unknown(_) => {
                let info = self
                    .error
                    .clone()
                    .unwrap_or_else(|| unexplained(&self.status));
                Err(TurnError::Failed {
                    turn,
                    info: Box::new(info),
                    outcome: Box::new(self),
                })
            }
        }
    }
}

/// A server that says a turn failed and not why.
fn unexplained(status: &TurnStatus) -> ErrorInfo {
    ErrorInfo {
        message: format!("the server gave no reason (status {status:?})"),
        info: None,
        kind: ErrorKind::Unknown,
        retry_at: None,
        retry_estimated: false,
        http_status: None,
        details: None,
        will_retry: false,
        outcome_known: true,
        blocked_by: None,
    }
}
