//! One test per row of the contract's table, and what holds for all rows.
//!
//! Each answer is judged as a client sees it: word, text, details, and whether it is tried again.
//! Waits and the calendar have tests of their own beside their code.

use super::*;
use http::{HeaderName, HeaderValue};
use serde_json::json;

const KEY: &str = "sk-planted-0123456789";
/// 2030-01-01T00:00:00Z.
const NOW: Now = Now {
    unix_ms: 1_893_456_000_000,
};

fn judge(cause: Cause<'_>) -> Failure {
    let redactor = Redactor::new([KEY]);
    let around = Around {
        model: "m-1",
        now: NOW,
        redactor: &redactor,
    };
    classify(cause, around)
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    pairs.iter().map(pair).collect()
}

fn answer(status: u16, body: &Value) -> Failure {
    judge(Cause::Answer {
        status,
        headers: &HeaderMap::new(),
        body: body.to_string().as_bytes(),
    })
}

fn plain(status: u16, body: &str) -> Failure {
    judge(Cause::Answer {
        status,
        headers: &HeaderMap::new(),
        body: body.as_bytes(),
    })
}

fn code(status: u16, code: &str) -> Failure {
    answer(status, &json!({"error": {"code": code, "message": "why"}}))
}

fn stream(error: &Value) -> Failure {
    judge(Cause::Event {
        event: &json!({"type": "response.failed", "response": {"error": error}}),
        headers: &HeaderMap::new(),
    })
}

fn connection(http_status_code: Option<u16>) -> CodexErrorInfo {
    CodexErrorInfo::HttpConnectionFailed { http_status_code }
}

#[test]
fn an_overflow_of_the_context_is_told_by_code_type_or_text() {
    let start = "This conversation ran out of room in the model's context window.";
    let by_type = json!({"error": {"type": "exceed_context_size_error", "message": "big"}});
    let mut all = vec![
        code(400, "context_length_exceeded"),
        code(500, "context_length_exceeded"),
        answer(400, &by_type),
        stream(&json!({"code": "context_length_exceeded"})),
        stream(&json!({"code": "invalid_prompt", "message": "Prompt is too long"})),
        stream(&json!({"code": 400, "message": "too many tokens"})),
    ];
    for text in [
        "maximum context length is 8",
        "the Context Window is full",
        "context size",
        "prompt is too long",
        "too many tokens",
    ] {
        all.extend([400, 413, 422].map(|status| plain(status, text)));
    }
    for failure in all {
        assert_eq!(failure.info, CodexErrorInfo::ContextWindowExceeded);
        assert_eq!(failure.kind, ErrorKind::ContextExhausted);
        assert!(failure.message.starts_with(start), "{}", failure.message);
        assert_eq!(failure.again, Again::Compact);
    }
    // The same words about a rate are no overflow.
    let rate = stream(&json!({"code": "rate_limit_exceeded", "message": "too many tokens"}));
    assert_eq!(rate.info, CodexErrorInfo::RateLimitExceeded);
    let rate = stream(&json!({"code": 429, "message": "too many tokens"}));
    assert_eq!(rate.info, CodexErrorInfo::RateLimitExceeded);
    let server = plain(500, "context length");
    assert_eq!(server.info, CodexErrorInfo::InternalServerError);
}

#[test]
fn a_used_up_allowance_names_when_it_is_there_again() {
    for word in [
        "insufficient_quota",
        "credit_balance_exhausted",
        "project_spend_limit_exceeded",
        "weekly_usage_limit_exceeded",
        "usage_limit_reached",
        "usage_not_included",
    ] {
        for failure in [
            code(429, word),
            stream(&json!({"type": word, "message": "why"})),
        ] {
            assert_eq!(failure.info, CodexErrorInfo::UsageLimitExceeded, "{word}");
            assert_eq!(failure.message, "Quota exceeded: why");
            assert_eq!(failure.again, Again::Never);
            assert_eq!(failure.resets_at, None);
        }
    }
    let paid = plain(402, "");
    assert_eq!(paid.message, "Quota exceeded: the provider gave no reason");

    let at = json!({"error": {"type": "usage_limit_reached", "message": "Out.",
        "resets_at": 1_893_488_700}});
    let failure = answer(429, &at);
    let expected = "You've hit your usage limit; try again at 9:05 AM UTC. Out.";
    assert_eq!(failure.message, expected);
    let error = failure.error();
    assert_eq!(error.retry_at, Some(1_893_488_700));
    assert_eq!(error.kind, Some(ErrorKind::Quota));
    let details = "http_status=429; resets_at=2030-01-01T09:05:00Z";
    assert_eq!(error.additional_details.as_deref(), Some(details));
    let within = json!({"code": "usage_limit_reached", "resets_in_seconds": 86_400.5});
    let failure = stream(&within);
    assert_eq!(failure.resets_at, Some(1_893_456_000 + 86_401));
    let expected = "You've hit your usage limit; try again at Jan 2nd, 2030 12:00 AM UTC.";
    assert_eq!(failure.message, expected);
}

#[test]
fn an_overloaded_provider_is_tried_again() {
    let mut all: Vec<(Failure, Again)> = vec![
        (plain(503, "why"), Again::Request),
        (plain(529, "why"), Again::Request),
    ];
    for word in ["server_is_overloaded", "slow_down", "overloaded_error"] {
        all.push((code(500, word), Again::Request));
        all.push((
            stream(&json!({"code": word, "message": "why"})),
            Again::Stream,
        ));
    }
    for (failure, again) in all {
        assert_eq!(failure.info, CodexErrorInfo::ServerOverloaded);
        assert_eq!(failure.message, "why");
        assert_eq!(failure.again, again);
    }
    assert_eq!(
        plain(503, "").message,
        "unexpected status 503 Service Unavailable"
    );
}

#[test]
fn a_rate_limit_says_how_long_to_wait() {
    let limited = |pairs: &[(&'static str, &'static str)], body: &str| {
        let headers = headers(pairs);
        judge(Cause::Answer {
            status: 429,
            headers: &headers,
            body: body.as_bytes(),
        })
    };
    for (pairs, body, expected) in [
        (vec![], "slow", None),
        (vec![], "Try again in 1.5s.", Some(1500)),
        (
            vec![("x-ratelimit-reset-tokens", "6m0s")],
            "try again in 1s",
            Some(360_000),
        ),
        (
            vec![("retry-after", "20"), ("x-ratelimit-reset-tokens", "6m0s")],
            "",
            Some(20_000),
        ),
        (
            vec![("retry-after-ms", "7"), ("retry-after", "20")],
            "",
            Some(7),
        ),
        (
            vec![("retry-after", "Tue, 01 Jan 2030 00:01:00 GMT")],
            "",
            Some(60_000),
        ),
    ] {
        let failure = limited(&pairs, body);
        assert_eq!(failure.info, CodexErrorInfo::RateLimitExceeded);
        assert!(failure.message.starts_with("rate limit exceeded: "));
        assert_eq!(failure.again, Again::Request);
        let wait = failure.retry_after.map(|wait| wait.as_millis());
        assert_eq!(wait, expected, "{pairs:?} {body}");
    }
    let whole = limited(&[("retry-after", "20"), ("x-request-id", "req_1")], "slow").error();
    let details = "http_status=429; retry_after_ms=20000; request_id=req_1";
    assert_eq!(whole.additional_details.as_deref(), Some(details));
    assert_eq!(whole.retry_at, Some(1_893_456_020));
    assert_eq!(whole.kind, Some(ErrorKind::RateLimited));
    // Codes beat statuses, numbers are statuses.
    assert_eq!(
        code(503, "rate_limit_exceeded").info,
        CodexErrorInfo::RateLimitExceeded
    );
    let number = stream(&json!({"code": 429, "message": "try again in 2s"}));
    assert_eq!(number.again, Again::Stream);
    assert_eq!(number.retry_after, Some(Duration::from_secs(2)));
    assert_eq!(number.http_status, None);
}

#[test]
fn a_key_that_is_refused_or_missing_is_not_tried_again() {
    // The generic type stands on every error of some providers.
    let body = json!({"error": {"type": "invalid_request_error", "code": "invalid_api_key",
        "message": format!("Incorrect key {KEY}.")}});
    let failure = answer(401, &body);
    let expected = "unexpected status 401 Unauthorized: Incorrect key [redacted].";
    assert_eq!(failure.message, expected);
    assert_eq!(failure.info, CodexErrorInfo::Unauthorized);
    assert_eq!(failure.kind, ErrorKind::Auth);
    assert_eq!(failure.again, Again::Never);
    let start = "unexpected status 403 Forbidden: ";
    assert!(plain(403, "no").message.starts_with(start));
    let missing = judge(Cause::MissingKey {
        variable: "X",
        instructions: Some("Get one."),
    });
    assert_eq!(
        missing.message,
        "Missing environment variable: `X`. Get one."
    );
    assert_eq!(missing.info, CodexErrorInfo::Unauthorized);
    assert_eq!(missing.details(), None);
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let named = answer(
        404,
        &json!({"error": "model \"M-1\" not found, try pulling it first"}),
    );
    for failure in [
        code(400, "model_not_found"),
        code(404, "model_not_found"),
        named,
    ] {
        assert_eq!(failure.info, CodexErrorInfo::ModelNotFound);
        assert_eq!(failure.again, Again::Never);
    }
    assert_eq!(
        plain(404, "page not found").info,
        CodexErrorInfo::BadRequest
    );
}

#[test]
fn a_policy_of_the_provider_is_not_tried_again() {
    for failure in [
        code(400, "cyber_policy"),
        stream(&json!({"code": "cyber_policy"})),
    ] {
        assert_eq!(failure.info, CodexErrorInfo::CyberPolicy);
        assert_eq!(failure.kind, ErrorKind::Policy);
        assert_eq!(failure.again, Again::Never);
    }
}

#[test]
fn a_bad_request_is_not_tried_again() {
    let mut all: Vec<Failure> = [400, 404, 405, 413, 415, 422, 418, 431]
        .map(|status| plain(status, "why"))
        .into();
    all.push(code(500, "invalid_request_error"));
    all.push(stream(&json!({"code": "invalid_prompt", "message": "why"})));
    for failure in all {
        assert_eq!(failure.info, CodexErrorInfo::BadRequest);
        assert_eq!(failure.again, Again::Never);
        let asks = matches!(failure.http_status, Some(404 | 405));
        assert_eq!(failure.message.contains("`/responses`"), asks);
        assert!(failure.message.starts_with("why"));
    }
}

#[test]
fn a_connection_that_fails_is_tried_again_unless_it_will_fail_again() {
    for (fault, again) in [
        (Fault::Dns, Again::Request),
        (Fault::Connect, Again::Request),
        (Fault::ConnectTimeout, Again::Request),
        (Fault::Proxy, Again::Request),
        (Fault::Tls, Again::Request),
        (Fault::BeforeHeaders, Again::Request),
        (Fault::Certificate, Again::Never),
    ] {
        let failure = judge(Cause::Transport { fault, text: "" });
        assert_eq!(failure.info, connection(None));
        assert_eq!(failure.kind, ErrorKind::Network);
        assert_eq!(failure.again, again, "{fault:?}");
        assert!(!failure.message.is_empty());
    }
    for status in [408, 409, 425] {
        let failure = plain(status, "");
        assert_eq!(failure.info, connection(Some(status)));
        assert_eq!(failure.again, Again::Request);
    }
    for status in [301, 302, 307, 308] {
        let failure = plain(status, "");
        assert_eq!(failure.info, connection(Some(status)));
        assert_eq!(failure.again, Again::Never);
    }
    let html = judge(Cause::NotAStream {
        status: 200,
        headers: &headers(&[("content-type", "text/html")]),
    });
    assert_eq!(html.info, connection(Some(200)));
    assert!(html.message.ends_with("text/html"));
}

#[test]
fn a_provider_that_fails_is_tried_again() {
    for status in [500, 502, 504, 501, 599] {
        let failure = plain(status, "why");
        assert_eq!(failure.info, CodexErrorInfo::InternalServerError);
        assert_eq!(failure.again, Again::Request);
    }
    for word in ["server_error", "internal_error"] {
        let failure = stream(&json!({"code": word, "message": "why"}));
        assert_eq!(failure.info, CodexErrorInfo::InternalServerError);
        assert_eq!(failure.again, Again::Stream);
    }
}

#[test]
fn a_broken_stream_is_tried_again() {
    for fault in [Fault::Cut, Fault::Idle, Fault::TooLarge, Fault::Framing] {
        let failure = judge(Cause::Transport { fault, text: "why" });
        let info = CodexErrorInfo::ResponseStreamDisconnected {
            http_status_code: None,
        };
        assert_eq!(failure.info, info);
        assert_eq!(
            failure.message,
            "stream disconnected before completion: why"
        );
        assert_eq!(failure.again, Again::Stream);
    }
}

#[test]
fn an_incomplete_response_is_not_tried_again() {
    let failure = judge(Cause::Incomplete {
        reason: "max_output_tokens",
        headers: &headers(&[("x-request-id", "req_2")]),
    });
    let message = "Incomplete response returned, reason: max_output_tokens";
    assert_eq!(failure.message, message);
    assert_eq!(failure.info, CodexErrorInfo::Other);
    assert_eq!(failure.error().kind, Some(ErrorKind::Incomplete));
    assert_eq!(failure.details().as_deref(), Some("request_id=req_2"));
    assert_eq!(failure.again, Again::Never);
}

#[test]
fn an_unknown_code_in_a_stream_is_tried_again() {
    let new = json!({"code": "brand_new", "message": "why"});
    for event in [
        json!({"type": "response.failed", "response": {"error": new}}),
        json!({"error": new}),
        json!({"type": "error", "code": "brand_new", "message": "why"}),
    ] {
        let failure = judge(Cause::Event {
            event: &event,
            headers: &HeaderMap::new(),
        });
        assert_eq!(failure.info, CodexErrorInfo::Other);
        assert_eq!(failure.kind, ErrorKind::Other);
        assert_eq!(failure.message, "why");
        assert_eq!(failure.again, Again::Stream);
    }
    let silent = stream(&json!({}));
    assert_eq!(silent.message, "the provider gave no reason");
}

#[test]
fn a_turn_that_cannot_go_on_says_why() {
    let sandbox = judge(Cause::SandboxUnenforceable {
        text: "no landlock",
    });
    assert_eq!(sandbox.info, CodexErrorInfo::SandboxError);
    let cwd = judge(Cause::CwdMissing { cwd: "/gone" });
    assert_eq!(cwd.info, CodexErrorInfo::BadRequest);
    assert_eq!(cwd.message, "cwd is not a directory: /gone");
    let rounds = judge(Cause::RoundLimit { rounds_max: 200 });
    assert_eq!(rounds.info, CodexErrorInfo::Other);
    let message = "turn stopped after 200 model calls (native.max_rounds)";
    assert_eq!(rounds.message, message);
    for failure in [sandbox, cwd, rounds] {
        assert_eq!(failure.again, Again::Never);
    }
}

#[test]
fn a_text_is_taken_from_every_known_shape() {
    for (body, expected) in [
        (r#"{"error":{"message":" a "},"message":"b"}"#, "a"),
        (r#"{"error":{"code":7},"message":"b"}"#, "b"),
        (r#"{"error":"c"}"#, "c"),
        (r#"{"message":"d","detail":"e"}"#, "d"),
        (r#"{"detail":"e"}"#, "e"),
        (r#"{"detail":[{"msg":"f"}]}"#, r#"[{"msg":"f"}]"#),
        (r#"{"other":1}"#, r#"{"other":1}"#),
        ("[1]", "[1]"),
        (" plain \n", "plain"),
        ("", "unexpected status 500 Internal Server Error"),
    ] {
        assert_eq!(plain(500, body).message, expected, "{body}");
    }
}

#[test]
fn a_long_text_is_cut_without_showing_a_piece_of_a_key() {
    let edge = said::TEXT_BYTES_MAX;
    for before in [edge - 30, edge - 10, edge - 1, edge] {
        let text = format!("{}{KEY}{}", "é".repeat(before / 2), "x".repeat(90));
        let message = plain(500, &text).message;
        assert!(message.len() <= edge);
        assert!(!message.contains("sk-"), "{before}");
    }
    let request = headers(&[("x-request-id", "sk-planted-0123456789")]);
    let failure = judge(Cause::Answer {
        status: 500,
        headers: &request,
        body: b"",
    });
    assert_eq!(failure.request_id.as_deref(), Some("[redacted]"));
}
