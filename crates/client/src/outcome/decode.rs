//! Turns, errors and counts of tokens, as servers write them.
//!
//! The invariant here: nothing but a missing id keeps a turn from being read. A member that is
//! absent or of another type counts as not told, a word nobody knows is kept, ids are any text. What
//! kind of failure a word of Codex means is decided by the table of [`kind_of`] and by nothing else:
//! texts for people are never read.
//!
//! Items are read in `event/item.rs`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{CodexErrorInfo, ErrorInfo, ErrorKind, TokenCounts, TurnStatus, TurnView, Usage};
use crate::error::Block;
use crate::event::item_from_json;
use crate::ids::{QueuedTurnId, TurnId};

impl TurnStatus {
    /// The status of a word.
    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "interrupted" => Self::Interrupted,
            "inProgress" => Self::InProgress,
            _ => Self::Unknown(word.to_owned()),
        }
    }
}

impl TurnView {
    /// A turn of an answer or a notification; none when it has no id.
    pub(crate) fn from_json(turn: &Value) -> Option<Self> {
        let items = turn.get("items").and_then(Value::as_array);
        Some(Self {
            id: TurnId::from(text(turn, "id")?),
            status: TurnStatus::from_word(text(turn, "status").unwrap_or_default()),
            items: items
                .into_iter()
                .flatten()
                .filter_map(item_from_json)
                .collect(),
            error: turn.get("error").and_then(ErrorInfo::from_json),
            usage: turn.get("usage").and_then(Usage::from_json),
            started_at: integer(turn, "startedAt"),
            completed_at: integer(turn, "completedAt"),
            duration: turn
                .get("durationMs")
                .and_then(Value::as_u64)
                .map(Duration::from_millis),
            queued_turn: text(turn, "queuedTurnId").map(QueuedTurnId::from),
            attempt: turn
                .get("attempt")
                .and_then(Value::as_u64)
                .and_then(|attempt| u32::try_from(attempt).ok()),
        })
    }
}

impl ErrorInfo {
    /// The error of a turn; none when it is no object. Whether the turn goes on is not in it: the
    /// notification says so beside it.
    pub(crate) fn from_json(error: &Value) -> Option<Self> {
        let members = error.as_object()?;
        let info = members.get("codexErrorInfo").filter(|info| !info.is_null());
        let told = members
            .get("kind")
            .and_then(|kind| ErrorKind::deserialize(kind).ok());
        let derived = || info.map_or(ErrorKind::Unknown, kind_of);
        Some(Self {
            message: text(error, "message").unwrap_or_default().to_owned(),
            info: info.map(cause),
            kind: told.unwrap_or_else(derived),
            retry_at: integer(error, "retryAt"),
            retry_estimated: members.get("retryEstimated") == Some(&Value::Bool(true)),
            http_status: info.and_then(|info| word_of(info).1),
            details: text(error, "additionalDetails").map(ToOwned::to_owned),
            will_retry: false,
            outcome_known: members
                .get("outcomeKnown")
                .and_then(Value::as_bool)
                .unwrap_or(true),
            blocked_by: members.get("blockedBy").and_then(block),
        })
    }
}

fn block(value: &Value) -> Option<Block> {
    value.as_object()?;
    let member = |name| text(value, name).unwrap_or_default().to_owned();
    Some(Block {
        hook: member("hook"),
        phase: member("phase"),
        message: member("message"),
    })
}

/// A `codexErrorInfo`. One that is not quite as we know it is kept, never refused.
fn cause(info: &Value) -> CodexErrorInfo {
    CodexErrorInfo::deserialize(info).unwrap_or_else(|_| CodexErrorInfo::Unlisted(info.clone()))
}

/// The word of a `codexErrorInfo` and the status of the provider's answer. Words that carry
/// something are objects with one member.
fn word_of(info: &Value) -> (&str, Option<u16>) {
    if let Some(word) = info.as_str() {
        return (word, None);
    }
    let Some((word, carried)) = info.as_object().and_then(|members| members.iter().next()) else {
        return ("", None);
    };
    let status = carried.get("httpStatusCode").and_then(Value::as_u64);
    (word, status.and_then(|status| u16::try_from(status).ok()))
}

/// What kind of failure a `codexErrorInfo` means. A word without a row is [`ErrorKind::Other`],
/// never a guess.
fn kind_of(info: &Value) -> ErrorKind {
    match word_of(info) {
        ("contextWindowExceeded", _) => ErrorKind::ContextExhausted,
        ("usageLimitExceeded", _) => ErrorKind::Quota,
        ("rateLimitExceeded", _) => ErrorKind::RateLimited,
        ("unauthorized", _) => ErrorKind::Auth,
        ("serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable", _) => {
            ErrorKind::Overloaded
        }
        ("internalServerError", _) => ErrorKind::ServerError,
        ("modelNotFound", _) => ErrorKind::ModelNotFound,
        ("badRequest", _) => ErrorKind::BadRequest,
        ("cyberPolicy" | "misalignmentPolicyViolation" | "tooManyDenials", _) => ErrorKind::Policy,
        ("sandboxError", _) => ErrorKind::Sandbox,
        ("sessionBudgetExceeded", _) => ErrorKind::Budget,
        (
            word @ ("httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts"),
            status,
        ) => match (status, word) {
            (Some(429), _) => ErrorKind::RateLimited,
            (Some(401 | 403), _) => ErrorKind::Auth,
            (Some(503), _) => ErrorKind::Overloaded,
            (Some(500..=599), _) => ErrorKind::ServerError,
            (_, "responseStreamDisconnected")
            | (None, "httpConnectionFailed" | "responseStreamConnectionFailed") => {
                ErrorKind::Network
            }
            _ => ErrorKind::Other,
        },
        _ => ErrorKind::Other,
    }
}

impl Usage {
    /// Counts as `thread/tokenUsage/updated` has them, or as a turn of Turnlane has them at its end;
    /// none when neither says anything.
    pub(crate) fn from_json(usage: &Value) -> Option<Self> {
        let usage = Self {
            turn: usage.get("turn").and_then(counts),
            thread: usage
                .get("thread")
                .or_else(|| usage.get("total"))
                .and_then(counts),
            last: usage.get("last").and_then(counts),
            context_window: integer(usage, "modelContextWindow"),
        };
        (usage != Self::default()).then_some(usage)
    }
}

/// The five counts; none without the two that everybody tells, since zeros would be a claim.
fn counts(value: &Value) -> Option<TokenCounts> {
    let part = |name| integer(value, name).unwrap_or(0);
    Some(TokenCounts {
        input_tokens: integer(value, "inputTokens")?,
        cached_input_tokens: part("cachedInputTokens"),
        cache_write_input_tokens: part("cacheWriteInputTokens"),
        output_tokens: integer(value, "outputTokens")?,
        reasoning_output_tokens: part("reasoningOutputTokens"),
    })
}

/// A member that is a text with something in it.
fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn integer(value: &Value, name: &str) -> Option<i64> {
    value.get(name)?.as_i64()
}
