//! Turns, errors and counts as servers write them, and as they should not.

use serde_json::{Value, json};

use super::*;

fn kind(info: &Value) -> ErrorKind {
    let error = json!({"message": "m", "codexErrorInfo": info});
    ErrorInfo::from_json(&error).unwrap().kind
}

#[test]
fn a_failed_turn_of_codex_says_what_kind_of_failure_it_was() {
    let turn = json!({
        "id": "01a1e09b-e036-7143-8829-4441468bf03a", "rootTurnId": "01a1e09b-e036-7143-8829-4441468bf03a",
        "items": [], "itemsView": "notLoaded", "status": "failed",
        "error": {
            "message": "exceeded retry limit, last status: 429 Too Many Requests",
            "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}},
            "additionalDetails": null, "misalignment": null,
        },
        "startedAt": 1_794_769_674, "completedAt": 1_794_769_675, "durationMs": 273,
    });
    let turn = TurnView::from_json(&turn).unwrap();
    assert_eq!(turn.status, TurnStatus::Failed);
    assert_eq!(turn.duration, Some(Duration::from_millis(273)));
    assert_eq!(
        (turn.started_at, turn.completed_at),
        (Some(1_794_769_674), Some(1_794_769_675))
    );
    let error = turn.error.unwrap();
    assert_eq!(
        (error.kind, error.http_status),
        (ErrorKind::RateLimited, Some(429))
    );
    assert!(error.outcome_known && !error.will_retry);
    assert_eq!(error.details, None);
}

#[test]
fn a_turn_of_turnlane_carries_what_codex_has_no_words_for() {
    let counts = json!({
        "inputTokens": 10, "cachedInputTokens": 2, "cacheWriteInputTokens": 1,
        "outputTokens": 3, "reasoningOutputTokens": 0,
    });
    let turn = json!({
        "id": "u", "items": [], "itemsView": "notLoaded", "status": "interrupted",
        "error": {
            "message": "m", "codexErrorInfo": "other", "kind": "engine_crashed", "retryAt": 17,
            "outcomeKnown": false, "blockedBy": {"hook": "h", "phase": "preTurn", "message": "no"},
        },
        "queuedTurnId": "q", "attempt": 2, "source": "queue",
        "usage": {"turn": null, "thread": counts},
    });
    let turn = TurnView::from_json(&turn).unwrap();
    assert_eq!(turn.queued_turn, Some(QueuedTurnId::from("q")));
    assert_eq!(turn.attempt, Some(2));
    let usage = turn.usage.unwrap();
    assert_eq!(usage.turn, None, "unknown is not zero");
    assert_eq!(usage.thread.unwrap().input_tokens, 10);
    let error = turn.error.unwrap();
    assert_eq!(
        (error.kind, error.retry_at),
        (ErrorKind::EngineCrashed, Some(17))
    );
    assert!(!error.outcome_known);
    assert_eq!(error.blocked_by.unwrap().hook, "h");
}

#[test]
fn the_kind_the_server_told_wins_and_unknown_words_are_kept() {
    let error = json!({"message": "m", "codexErrorInfo": "unauthorized", "kind": "plan"});
    assert_eq!(ErrorInfo::from_json(&error).unwrap().kind, ErrorKind::Plan);
    let error = json!({"message": "m", "kind": "moon_phase"});
    let kind = ErrorInfo::from_json(&error).unwrap().kind;
    assert_eq!(kind, ErrorKind::Unlisted("moon_phase".to_owned()));
    let error = json!({"message": "m", "kind": 7, "codexErrorInfo": "unauthorized"});
    assert_eq!(ErrorInfo::from_json(&error).unwrap().kind, ErrorKind::Auth);
}

#[test]
fn every_word_of_codex_has_its_kind() {
    let words = [
        ("contextWindowExceeded", ErrorKind::ContextExhausted),
        ("usageLimitExceeded", ErrorKind::Quota),
        ("rateLimitExceeded", ErrorKind::RateLimited),
        ("unauthorized", ErrorKind::Auth),
        ("serverOverloaded", ErrorKind::Overloaded),
        ("flexUnavailable", ErrorKind::Overloaded),
        ("policyCapacityUnavailable", ErrorKind::Overloaded),
        ("internalServerError", ErrorKind::ServerError),
        ("modelNotFound", ErrorKind::ModelNotFound),
        ("badRequest", ErrorKind::BadRequest),
        ("cyberPolicy", ErrorKind::Policy),
        ("misalignmentPolicyViolation", ErrorKind::Policy),
        ("tooManyDenials", ErrorKind::Policy),
        ("sandboxError", ErrorKind::Sandbox),
        ("sessionBudgetExceeded", ErrorKind::Budget),
        ("other", ErrorKind::Other),
        ("aWordOfTomorrow", ErrorKind::Other),
    ];
    for (word, expected) in words {
        assert_eq!(kind(&json!(word)), expected, "{word}");
    }
    assert_eq!(kind(&json!(null)), ErrorKind::Unknown);
    assert_eq!(kind(&json!([1, {}])), ErrorKind::Other);
}

#[test]
fn the_status_of_the_provider_decides_where_there_is_one() {
    let of = |word: &str, status: Value| kind(&json!({word: {"httpStatusCode": status}}));
    for word in [
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    ] {
        assert_eq!(of(word, json!(429)), ErrorKind::RateLimited);
        assert_eq!(of(word, json!(401)), ErrorKind::Auth);
        assert_eq!(of(word, json!(403)), ErrorKind::Auth);
        assert_eq!(of(word, json!(503)), ErrorKind::Overloaded);
        assert_eq!(of(word, json!(502)), ErrorKind::ServerError);
    }
    assert_eq!(of("httpConnectionFailed", json!(null)), ErrorKind::Network);
    assert_eq!(
        of("responseStreamConnectionFailed", json!(null)),
        ErrorKind::Network
    );
    assert_eq!(
        of("responseStreamDisconnected", json!(200)),
        ErrorKind::Network
    );
    assert_eq!(
        of("responseTooManyFailedAttempts", json!(null)),
        ErrorKind::Other
    );
    assert_eq!(of("httpConnectionFailed", json!(404)), ErrorKind::Other);
    // A status that cannot be one is none.
    assert_eq!(
        of("httpConnectionFailed", json!(70_000)),
        ErrorKind::Network
    );
}

#[test]
fn a_turn_is_read_whatever_surrounds_its_id() {
    let odd = json!({
        "id": "u", "status": "paused", "items": [7, {"type": "dream", "id": 3}, null], "error": "no",
        "usage": [], "startedAt": "now", "durationMs": -1, "attempt": 5_000_000_000_u64,
    });
    let turn = TurnView::from_json(&odd).unwrap();
    assert_eq!(turn.status, TurnStatus::Unknown("paused".to_owned()));
    assert!(!turn.status.is_final());
    assert_eq!(turn.items.len(), 1);
    assert_eq!(
        (turn.error, turn.usage, turn.started_at),
        (None, None, None)
    );
    assert_eq!((turn.duration, turn.attempt), (None, None));

    assert_eq!(TurnView::from_json(&json!({"status": "completed"})), None);
    assert_eq!(TurnView::from_json(&json!({"id": ""})), None);
    assert_eq!(TurnView::from_json(&json!("u")), None);
    let bare = TurnView::from_json(&json!({"id": "u"})).unwrap();
    assert_eq!(bare.status, TurnStatus::Unknown(String::new()));
}

#[test]
fn counts_of_a_running_turn_are_those_of_its_thread_and_its_last_call() {
    let call =
        |input: i64| json!({"totalTokens": input + 1, "inputTokens": input, "outputTokens": 1});
    let usage = json!({"total": call(30), "last": call(10), "modelContextWindow": 258_400});
    let usage = Usage::from_json(&usage).unwrap();
    assert_eq!(usage.turn, None);
    assert_eq!(usage.thread.unwrap().input_tokens, 30);
    assert_eq!(usage.last.unwrap().input_tokens, 10);
    assert_eq!(usage.context_window, Some(258_400));
    assert_eq!(
        Usage::from_json(&json!({"total": {"inputTokens": 1}})),
        None
    );
}

#[test]
fn the_words_of_codex_can_be_matched_and_others_keep_their_text() {
    let info = |info: &Value| {
        let error = json!({"message": "m", "codexErrorInfo": info});
        ErrorInfo::from_json(&error).unwrap().info
    };
    assert_eq!(
        info(&json!("usageLimitExceeded")),
        Some(CodexErrorInfo::UsageLimitExceeded)
    );
    assert_eq!(
        info(&json!({"httpConnectionFailed": {"httpStatusCode": 502, "later": 1}})),
        Some(CodexErrorInfo::HttpConnectionFailed {
            http_status_code: Some(502)
        })
    );
    assert_eq!(info(&Value::Null), None);
    for other in [
        json!("a word of tomorrow"),
        json!({"newShape": {"with": ["parts"]}}),
        json!({"httpConnectionFailed": {"httpStatusCode": "many"}}),
        json!({"httpConnectionFailed": null}),
        json!({"usageLimitExceeded": {"now": "carries"}, "and": 1}),
        json!(7),
        json!([]),
        json!({}),
    ] {
        let read = info(&other).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), other);
        assert_eq!(read, CodexErrorInfo::Unlisted(other));
    }
}
