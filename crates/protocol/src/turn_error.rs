//! Why a turn failed, or was cut off.
//!
//! The invariant here: whatever word another engine sends survives reading and writing, so a
//! client that knows more words than we do still sees the one that was sent.
//!
//! Which text means which kind is decided by the engines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// A text for people; the provider's own where there is one.
    pub message: String,
    /// The word Codex's clients match.
    pub codex_error_info: Option<CodexErrorInfo>,
    /// More text for people.
    pub additional_details: Option<String>,
    /// Passed through from the engine `codex`.
    #[serde(default)]
    pub misalignment: Option<Value>,
    /// The word that lanes, `exec` and the shim act on; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// When trying again makes sense, in seconds since 1970; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// True when `retryAt` is the lane's back-off because the provider named no time; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_estimated: Option<bool>,
    /// False when a crash left undecidable what the turn has done; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome_known: Option<bool>,
    /// The hook that stopped the turn; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
}

impl TurnError {
    /// An error with a text and the words for it.
    pub fn new(message: impl Into<String>, info: CodexErrorInfo, kind: ErrorKind) -> Self {
        Self {
            message: message.into(),
            codex_error_info: Some(info),
            additional_details: None,
            misalignment: None,
            kind: Some(kind),
            retry_at: None,
            retry_estimated: None,
            outcome_known: None,
            blocked_by: None,
        }
    }
}

/// The hook that stopped a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockedBy {
    /// Its name.
    pub hook: String,
    /// The event it was asked at.
    pub phase: String,
    /// Its reason.
    pub message: String,
}

/// What went wrong, in Codex's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CodexErrorInfo {
    /// The conversation does not fit into the model's context any more.
    ContextWindowExceeded,
    /// The account's allowance is used up.
    UsageLimitExceeded,
    /// Too many requests in a short time.
    RateLimitExceeded,
    /// The provider has no capacity.
    ServerOverloaded,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider failed.
    InternalServerError,
    /// The key or login is not accepted.
    Unauthorized,
    /// The provider refused the request as such.
    BadRequest,
    /// The provider's policy refused the content.
    CyberPolicy,
    /// The sandbox could not be set up.
    SandboxError,
    /// Anything else.
    Other,
    /// No connection to the provider.
    HttpConnectionFailed {
        /// Its status, if it answered at all.
        http_status_code: Option<u16>,
    },
    /// No stream from the provider.
    ResponseStreamConnectionFailed {
        /// Its status, if it answered at all.
        http_status_code: Option<u16>,
    },
    /// The stream ended before the answer did.
    ResponseStreamDisconnected {
        /// Its status, if it answered at all.
        http_status_code: Option<u16>,
    },
    /// Every try failed.
    ResponseTooManyFailedAttempts {
        /// The status of the last one, if there was any.
        http_status_code: Option<u16>,
    },
    /// The running turn takes no further input; stands in the data of errors.
    ActiveTurnNotSteerable {
        /// What kind of turn it is.
        turn_kind: UnsteerableTurn,
    },
    /// A word or shape of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(Value),
}

/// A turn that takes no further input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum UnsteerableTurn {
    /// A review.
    Review,
    /// A compaction of the history.
    Compact,
    /// A turn whose engine cannot be steered.
    Engine,
}

/// What went wrong, as lanes act on it: wait, try again, or go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The conversation does not fit into the model's context any more.
    ContextExhausted,
    /// The account's allowance is used up.
    Quota,
    /// The account's plan does not include this; needs a person.
    Plan,
    /// Too many requests in a short time.
    RateLimited,
    /// The key or login is not accepted.
    Auth,
    /// The provider has no capacity.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider cannot be reached, or the stream was cut.
    Network,
    /// The provider ended the answer early.
    Incomplete,
    /// The provider's policy refused the content.
    Policy,
    /// The provider refused the request as such.
    BadRequest,
    /// The sandbox could not be set up.
    Sandbox,
    /// The budget of the session is used up.
    Budget,
    /// The engine's program cannot be started.
    EngineUnavailable,
    /// The engine did not take the turn.
    EngineRefused,
    /// The engine ended in the middle of the turn.
    EngineCrashed,
    /// Somebody else writes to the engine's thread.
    Busy,
    /// The engine does not know its thread.
    ThreadNotFound,
    /// The engine resumed another thread than it was asked to.
    ResumeMismatch,
    /// The engine broke its protocol.
    Protocol,
    /// The engine cannot do this.
    Unsupported,
    /// The turn took too long.
    Timeout,
    /// An approval was not answered within its limit.
    #[serde(rename = "approvalTimeout")]
    ApprovalTimeout,
    /// A graceful stop of the server cut the turn.
    Stopped,
    /// The turn was stopped.
    Interrupted,
    /// Nothing is known.
    Unknown,
    /// Something known that no other word fits.
    Other,
    /// A word of a later server, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}
