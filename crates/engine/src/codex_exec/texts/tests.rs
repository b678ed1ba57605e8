//! Every text of the contract, as Codex 0.166 writes it.

use super::*;

fn error(text: &str) -> EngineError {
    let zone = ChildZone::of_variable(Some(std::ffi::OsStr::new("UTC")));
    // 2026-07-01 12:00 UTC.
    to_error(text, None, None, &zone, 1_782_907_200_000)
}

#[track_caller]
fn assert_kind(text: &str, kind: ErrorKind, info: CodexErrorInfo) {
    let error = error(text);
    assert_eq!(
        (error.kind, error.codex_error_info),
        (Some(kind), Some(info)),
        "{text}"
    );
}

use CodexErrorInfo as Info;
use ErrorKind as Kind;

/// Texts of Codex with their kind and Codex's own word for it.
const TEXTS: &[(&str, Kind, Info)] = &[
    (
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier \
             history before retrying.",
        Kind::ContextExhausted,
        Info::ContextWindowExceeded,
    ),
    (
        "Codex RAN OUT of room in the model\u{2019}s context window.",
        Kind::ContextExhausted,
        Info::ContextWindowExceeded,
    ),
    (
        "Your input exceeds the context window of this model.",
        Kind::ContextExhausted,
        Info::ContextWindowExceeded,
    ),
    (
        "code context_length_exceeded",
        Kind::ContextExhausted,
        Info::ContextWindowExceeded,
    ),
    (
        "You\u{2019}ve hit your usage limit. Try again later.",
        Kind::Quota,
        Info::UsageLimitExceeded,
    ),
    ("usage_limit_reached", Kind::Quota, Info::UsageLimitExceeded),
    (
        "Quota exceeded. Check your plan and billing details.",
        Kind::Quota,
        Info::UsageLimitExceeded,
    ),
    ("insufficient_quota", Kind::Quota, Info::UsageLimitExceeded),
    (
        "You exceeded your current quota, please check",
        Kind::Quota,
        Info::UsageLimitExceeded,
    ),
    (
        "To use Codex with your ChatGPT plan, upgrade to Plus: https://example.org/plus.",
        Kind::Plan,
        Info::Other,
    ),
    (
        "rate limit exceeded: Rate limit reached",
        Kind::RateLimited,
        Info::RateLimitExceeded,
    ),
    (
        "exceeded retry limit, last status: 429 Too Many Requests",
        Kind::RateLimited,
        Info::RateLimitExceeded,
    ),
    (
        "unexpected status 401 Unauthorized: Incorrect API key",
        Kind::Auth,
        Info::Unauthorized,
    ),
    (
        "unexpected status 403 Forbidden: forbidden",
        Kind::Auth,
        Info::Unauthorized,
    ),
    (
        "Your access token could not be refreshed: refresh token expired",
        Kind::Auth,
        Info::Unauthorized,
    ),
    (
        "Please log out and sign in again.",
        Kind::Auth,
        Info::Unauthorized,
    ),
    (
        "Selected model is at capacity. Please try a different model.",
        Kind::Overloaded,
        Info::ServerOverloaded,
    ),
    (
        "We\u{2019}re currently experiencing high demand, which may cause temporary errors.",
        Kind::ServerError,
        Info::InternalServerError,
    ),
    (
        "unexpected status 502 Bad Gateway: x",
        Kind::ServerError,
        Info::InternalServerError,
    ),
    (
        "The model `mock-model` does not exist",
        Kind::ModelNotFound,
        Info::ModelNotFound,
    ),
    (
        "stream disconnected before completion: stream closed before response.completed",
        Kind::Network,
        Info::ResponseStreamDisconnected {
            http_status_code: None,
        },
    ),
    (
        "Connection failed: refused",
        Kind::Network,
        Info::HttpConnectionFailed {
            http_status_code: None,
        },
    ),
    (
        "error sending request for url",
        Kind::Network,
        Info::HttpConnectionFailed {
            http_status_code: None,
        },
    ),
    (
        "Incomplete response returned, reason: max_output_tokens",
        Kind::Incomplete,
        Info::Other,
    ),
    (
        "Invalid prompt: your prompt was flagged",
        Kind::Policy,
        Info::Other,
    ),
];

#[test]
fn each_text_has_its_kind() {
    for (text, kind, info) in TEXTS {
        assert_kind(text, kind.clone(), info.clone());
    }
}

#[test]
fn the_first_rule_wins() {
    // A retry limit after rate limits inside a cut stream is still a rate limit.
    let text = "stream disconnected before completion: rate limit exceeded: slow";
    assert_kind(
        text,
        ErrorKind::RateLimited,
        CodexErrorInfo::RateLimitExceeded,
    );
}

#[test]
fn a_refused_request_has_the_providers_message() {
    let body = r#"{"error": {"message": "bad request from mock", "type": "invalid_request_error", "code": null}}"#;
    let refused = error(body);
    assert_eq!(refused.message, "bad request from mock");
    assert_eq!(refused.kind, Some(ErrorKind::BadRequest));
    let body = r#"{"error": {"message": "too much", "type": "x", "code": "insufficient_quota"}}"#;
    let refused = error(body);
    assert_eq!(
        (refused.message.as_str(), refused.kind),
        ("too much", Some(ErrorKind::Quota))
    );
    for other in [
        r#"{"detail": "x"}"#,
        r#"{"error": "text"}"#,
        "{broken",
        "[]",
    ] {
        assert_kind(other, ErrorKind::Other, CodexErrorInfo::Other);
    }
}

#[test]
fn an_unknown_text_is_other() {
    for text in [
        "",
        "something new",
        "unexpected status 418",
        "unexpected status 5",
        "unexpected status 50000",
        "exceeded retry limit, last status: 408",
        "the model\nand a file that does not exist",
    ] {
        assert_kind(text, ErrorKind::Other, CodexErrorInfo::Other);
    }
}

#[test]
fn times_are_read_for_kinds_that_wait_for_them() {
    let quota = "You\u{2019}ve hit your usage limit. Upgrade or try again at 9:05 PM.";
    assert_eq!(error(quota).retry_at, Some(1_782_939_900 + 60));
    let rate = "rate limit exceeded: Limit 30000. Please try again in 20s.";
    assert_eq!(error(rate).retry_at, Some(1_782_907_220));
    assert_eq!(error("rate limit exceeded: slow").retry_at, None);
    assert_eq!(
        error("You've hit your usage limit or try again later.").retry_at,
        None
    );
    assert_eq!(error("at capacity, try again at 9:05 PM").retry_at, None);
}

#[test]
fn structured_words_win_over_the_text() {
    let zone = ChildZone::of_variable(Some(std::ffi::OsStr::new("UTC")));
    let error = to_error("at capacity", Some(ErrorKind::Quota), Some(7), &zone, 0);
    assert_eq!(
        (error.kind, error.retry_at),
        (Some(ErrorKind::Quota), Some(7))
    );
    let error = to_error("at capacity", Some(ErrorKind::Other), None, &zone, 0);
    assert_eq!(error.kind, Some(ErrorKind::Overloaded));
}

#[test]
fn retries_are_known_by_their_beginning() {
    assert!(is_retry("Reconnecting... 1/2 (x)"));
    assert!(is_retry("Reconnecting... waiting for network (x)"));
    assert!(!is_retry("we are Reconnecting..."));
}
