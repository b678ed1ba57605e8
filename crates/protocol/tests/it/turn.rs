//! Turns, their errors and what they used.

use serde_json::{Value, json};
use turnlane_protocol::turn::{ItemsView, Turn, TurnSource, TurnStatus};
use turnlane_protocol::turn_error::{
    BlockedBy, CodexErrorInfo, ErrorKind, TurnError, UnsteerableTurn,
};
use turnlane_protocol::usage::{ThreadTokenUsage, TokenCounts, TokenUsage, TurnUsage};

use crate::example::{reads_as, refusal, whole, with};
use crate::item::item;

pub(crate) const TURN: &str = "0198c0de-0000-7000-8000-000000000002";

/// A turn as `turn/start` answers it, with these members.
pub(crate) fn turn(members: Value) -> Value {
    let all = json!({"id": TURN, "rootTurnId": TURN, "items": [], "itemsView": "notLoaded",
        "status": "inProgress", "error": null, "startedAt": null, "completedAt": null,
        "durationMs": null, "queuedTurnId": null, "attempt": null, "source": null, "usage": null});
    with(all, members)
}

fn counts() -> Value {
    json!({"inputTokens": 10, "cachedInputTokens": 4, "cacheWriteInputTokens": 1,
        "outputTokens": 2, "reasoningOutputTokens": 1})
}

pub(crate) fn token_usage() -> Value {
    with(counts(), json!({"totalTokens": 12}))
}

pub(crate) fn turn_error(members: Value) -> Value {
    let all = json!({"message": "no", "codexErrorInfo": null, "additionalDetails": null,
        "misalignment": null});
    with(all, members)
}

#[test]
fn turns_come_back_whole_in_every_state() {
    let accepted = whole::<Turn>(turn(json!({})));
    assert_eq!(accepted, Turn::accepted(TURN.parse().unwrap()));
    whole::<Turn>(turn(
        json!({"status": "completed", "itemsView": "full", "startedAt": 1,
        "completedAt": 2, "durationMs": 900, "items": [item("plan", json!({"text": "a"}))],
        "queuedTurnId": "0198c0de-0000-7000-8000-000000000003", "attempt": 2, "source": "queue",
        "usage": {"turn": counts(), "thread": counts()}}),
    ));
    whole::<Turn>(turn(
        json!({"status": "failed", "error": turn_error(json!({})),
        "usage": {"turn": null, "thread": null}}),
    ));
    for status in ["inProgress", "completed", "interrupted", "failed"] {
        let status = whole::<TurnStatus>(json!(status));
        assert_eq!(status.is_final(), status != TurnStatus::InProgress);
    }
    for view in ["notLoaded", "summary", "full"] {
        whole::<ItemsView>(json!(view));
    }
    for source in ["direct", "queue", "schedule", "fanout", "shim"] {
        whole::<TurnSource>(json!(source));
    }
}

#[test]
fn a_turn_of_codex_is_read_without_our_members() {
    reads_as::<Turn>(
        json!({"id": TURN, "items": [], "status": "completed"}),
        &turn(json!({"status": "completed", "rootTurnId": null, "itemsView": "full"})),
    );
    assert_eq!(
        refusal::<Turn>(turn(json!({"status": "asleep"}))),
        "Invalid request: unknown variant `asleep`, expected one of `inProgress`, `completed`, \
         `interrupted`, `failed`"
    );
}

#[test]
fn errors_come_back_whole() {
    whole::<TurnError>(turn_error(json!({})));
    let error = whole::<TurnError>(turn_error(json!({
        "codexErrorInfo": "usageLimitExceeded", "additionalDetails": "resets_at=5",
        "misalignment": {"errorType": "x"}, "kind": "quota", "retryAt": 1_767_225_600,
        "outcomeKnown": false, "blockedBy": {"hook": "guard", "phase": "PreToolUse", "message": "no"}})));
    assert_eq!(error.kind, Some(ErrorKind::Quota));
    whole::<BlockedBy>(json!({"hook": "guard", "phase": "TurnEnd", "message": "no"}));
    let made = TurnError::new("no", CodexErrorInfo::Other, ErrorKind::Timeout);
    let json = turn_error(json!({"codexErrorInfo": "other", "kind": "timeout"}));
    assert_eq!(whole::<TurnError>(json), made);
}

#[test]
fn error_words_come_back_whole_known_or_not() {
    for word in [
        "contextWindowExceeded",
        "usageLimitExceeded",
        "rateLimitExceeded",
        "serverOverloaded",
        "modelNotFound",
        "internalServerError",
        "unauthorized",
        "badRequest",
        "cyberPolicy",
        "sandboxError",
        "other",
    ] {
        let info = whole::<CodexErrorInfo>(json!(word));
        assert!(!matches!(info, CodexErrorInfo::Unlisted(_)), "{word}");
    }
    for word in [
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    ] {
        for status in [json!(null), json!(503)] {
            let info = whole::<CodexErrorInfo>(json!({word: {"httpStatusCode": status}}));
            assert!(!matches!(info, CodexErrorInfo::Unlisted(_)), "{word}");
        }
    }
    for (kind, turn_kind) in [
        ("review", UnsteerableTurn::Review),
        ("compact", UnsteerableTurn::Compact),
        ("engine", UnsteerableTurn::Engine),
    ] {
        let info = whole::<CodexErrorInfo>(json!({"activeTurnNotSteerable": {"turnKind": kind}}));
        assert_eq!(info, CodexErrorInfo::ActiveTurnNotSteerable { turn_kind });
    }
    for later in [
        json!("tooManyDenials"),
        json!({"brandNew": {"a": [1]}}),
        json!({"activeTurnNotSteerable": {"turnKind": "dream"}}),
    ] {
        let info = whole::<CodexErrorInfo>(later.clone());
        assert_eq!(info, CodexErrorInfo::Unlisted(later));
    }
}

#[test]
fn kinds_come_back_whole_known_or_not() {
    for word in [
        "context_exhausted",
        "quota",
        "plan",
        "rate_limited",
        "auth",
        "overloaded",
        "server_error",
        "model_not_found",
        "network",
        "incomplete",
        "policy",
        "bad_request",
        "sandbox",
        "budget",
        "engine_unavailable",
        "engine_refused",
        "engine_crashed",
        "busy",
        "thread_not_found",
        "resume_mismatch",
        "protocol",
        "unsupported",
        "timeout",
        "interrupted",
        "unknown",
        "other",
    ] {
        assert!(
            !matches!(whole::<ErrorKind>(json!(word)), ErrorKind::Unlisted(_)),
            "{word}"
        );
    }
    assert_eq!(
        whole::<ErrorKind>(json!("bored")),
        ErrorKind::Unlisted("bored".into())
    );
}

#[test]
fn usage_comes_back_whole() {
    whole::<TokenCounts>(counts());
    whole::<TurnUsage>(json!({"turn": null, "thread": counts()}));
    let usage = whole::<TokenUsage>(token_usage());
    assert_eq!(TokenCounts::from(usage), whole::<TokenCounts>(counts()));
    for window in [json!(null), json!(258_400)] {
        whole::<ThreadTokenUsage>(json!({"total": token_usage(), "last": token_usage(),
            "modelContextWindow": window}));
    }
}
