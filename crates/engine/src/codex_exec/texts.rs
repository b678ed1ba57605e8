//! The meaning of Codex's error texts.
//!
//! `codex exec` gives the reason of a failure as a text for people and nothing else, and the app-server
//! of Codex has no word of its own for some failures. The rules here are the only place that reads such
//! texts. They see error texts and standard error, never the
//! words of a model. A text that no rule knows is [`ErrorKind::Other`].
//!
//! The times in these texts are read in [`reset`].

pub(super) mod reset;
mod wait;

use serde_json::Value;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use self::reset::ChildZone;
use crate::outcome::EngineError;

/// The beginning of the text of every `error` event that announces another try.
const RETRY_START: &str = "Reconnecting...";

/// Bytes of a text that are examined; all rules match near the beginning.
const EXAMINED_BYTES_MAX: usize = 16 * 1024;

/// Returns true if the text of an `error` event announces another try.
pub(super) fn is_retry(text: &str) -> bool {
    text.starts_with(RETRY_START)
}

/// The error of a turn that failed with this text.
///
/// `kind` and `retry_at` are structured words that came with the text; they win over it.
pub(super) fn to_error(
    text: &str,
    kind: Option<ErrorKind>,
    retry_at: Option<i64>,
    zone: &ChildZone,
    now_ms: i64,
) -> EngineError {
    let (read_kind, read_info) = kind_of(text);
    let (kind, info) = match kind {
        Some(kind) if kind != ErrorKind::Other => {
            let info = info_of(&kind);
            (kind, info)
        }
        _ => (read_kind, read_info),
    };
    let read_time = || match kind {
        ErrorKind::Quota => reset::reset_at(text, zone, now_ms),
        ErrorKind::RateLimited => wait::wait_until(text, now_ms),
        _ => None,
    };
    let retry_at = retry_at.or_else(read_time);
    let message =
        provider_error(text).and_then(|error| Some(error["message"].as_str()?.to_owned()));
    let mut error = EngineError::new(message.unwrap_or_else(|| text.to_owned()), info, kind);
    error.retry_at = retry_at;
    error
}

/// The kind of a failure with this text, and Codex's word for it.
pub(crate) fn kind_of(text: &str) -> (ErrorKind, CodexErrorInfo) {
    let examined = normalized(text);
    let network = (ErrorKind::Network, network_info(&examined));
    if let Some(kind) = rule(&examined) {
        let info = match kind {
            ErrorKind::Network => network.1,
            _ => info_of(&kind),
        };
        return (kind, info);
    }
    let Some(error) = provider_error(text) else {
        return (ErrorKind::Other, CodexErrorInfo::Other);
    };
    let words = ["code", "type"]
        .into_iter()
        .filter_map(|name| error[name].as_str());
    let mut kinds = words.filter_map(|word| rule(&normalized(word)));
    let kind = kinds.next().unwrap_or(ErrorKind::BadRequest);
    let info = info_of(&kind);
    (kind, info)
}

/// The first rule that fits, in the order of the contract. The text is normalized.
fn rule(text: &str) -> Option<ErrorKind> {
    let has = |part: &str| text.contains(part);
    let has_one = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let kind = if has_one(&[
        "ran out of room in the model's context window",
        "context_length_exceeded",
        "exceeds the context window",
    ]) {
        ErrorKind::ContextExhausted
    } else if has_one(&[
        "hit your usage limit",
        "usage_limit_reached",
        "quota exceeded",
        "insufficient_quota",
        "exceeded your current quota",
    ]) {
        ErrorKind::Quota
    } else if has("to use codex with your chatgpt plan") {
        ErrorKind::Plan
    } else if has_one(&["rate limit exceeded:", "last status: 429"]) {
        ErrorKind::RateLimited
    } else if has_one(&[
        "unexpected status 401",
        "unexpected status 403",
        "refresh token",
        "log out and sign in",
    ]) {
        ErrorKind::Auth
    } else if has("at capacity") {
        ErrorKind::Overloaded
    } else if has("experiencing high demand") || has_server_status(text) {
        ErrorKind::ServerError
    } else if names_missing_model(text) {
        ErrorKind::ModelNotFound
    } else if has_one(&[
        "stream disconnected before completion",
        "connection failed",
        "error sending request",
    ]) {
        ErrorKind::Network
    } else if has("incomplete response returned, reason:") {
        ErrorKind::Incomplete
    } else if has("invalid prompt") {
        ErrorKind::Policy
    } else {
        return None;
    };
    Some(kind)
}

/// `unexpected status 5` and two more digits.
fn has_server_status(text: &str) -> bool {
    const START: &str = "unexpected status 5";
    let mut places = text.match_indices(START);
    places.any(|(at, _)| {
        let digits = text[at + START.len()..].bytes();
        digits.take_while(u8::is_ascii_digit).count() == 2
    })
}

/// `model … does not exist`, on one line.
fn names_missing_model(text: &str) -> bool {
    text.lines().any(|line| {
        let model = line.find("model");
        model.is_some_and(|at| line[at..].contains("does not exist"))
    })
}

/// Lower case, with the typographic apostrophe as the plain one.
fn normalized(text: &str) -> String {
    let mut end = text.len().min(EXAMINED_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_ascii_lowercase().replace('\u{2019}', "'")
}

/// The `error` of a text that is the body of a provider's refusal.
fn provider_error(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let mut body: Value = serde_json::from_str(text).ok()?;
    let error = body.get_mut("error")?.take();
    error.is_object().then_some(error)
}

fn network_info(text: &str) -> CodexErrorInfo {
    let http_status_code = None;
    if text.contains("stream disconnected") {
        CodexErrorInfo::ResponseStreamDisconnected { http_status_code }
    } else {
        CodexErrorInfo::HttpConnectionFailed { http_status_code }
    }
}

/// Codex's word for a kind that was read from a text.
fn info_of(kind: &ErrorKind) -> CodexErrorInfo {
    match kind {
        ErrorKind::ContextExhausted => CodexErrorInfo::ContextWindowExceeded,
        ErrorKind::Quota => CodexErrorInfo::UsageLimitExceeded,
        ErrorKind::RateLimited => CodexErrorInfo::RateLimitExceeded,
        ErrorKind::Auth => CodexErrorInfo::Unauthorized,
        ErrorKind::Overloaded => CodexErrorInfo::ServerOverloaded,
        ErrorKind::ServerError => CodexErrorInfo::InternalServerError,
        ErrorKind::ModelNotFound => CodexErrorInfo::ModelNotFound,
        ErrorKind::Network => network_info(""),
        ErrorKind::BadRequest => CodexErrorInfo::BadRequest,
        ErrorKind::Sandbox => CodexErrorInfo::SandboxError,
        _ => CodexErrorInfo::Other,
    }
}

#[cfg(test)]
mod tests;
