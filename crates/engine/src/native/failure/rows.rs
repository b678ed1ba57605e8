//! The rows of the contract's table: from codes, statuses and texts to words and beginnings.
//!
//! The invariant here: codes of the provider beat the status of the answer, and among equals the
//! first row wins. `invalid_request_error` is no such code: providers put it on everything from a
//! wrong key to an unknown model, so it counts only where its row stands.
//!
//! Shapes are read by `said`, waits by `wait`.

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::said::{Resets, Said, shown};
use super::{Again, Around, Failure, Fault, wait};

/// The longest name of a request that is passed on.
const REQUEST_ID_BYTES_MAX: usize = 128;
const CONTEXT_START: &str = "This conversation ran out of room in the model's context window.";
const CONTEXT_TEXTS: [&str; 5] = [
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "too many tokens",
];
/// Stands where a provider said nothing.
const NO_REASON: &str = "the provider gave no reason";

/// A row of the table, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Context,
    Quota,
    Overloaded,
    RateLimit,
    Unauthorized,
    ModelNotFound,
    CyberPolicy,
    BadRequest,
    Connection,
    Redirect,
    ServerError,
    /// A code that nobody knows, inside a stream.
    Unknown,
}

pub(super) fn answer(status: u16, headers: &HeaderMap, body: &[u8], around: Around<'_>) -> Failure {
    let said = Said::body(body);
    let lower = said.lower();
    let row = row_of_codes(&said)
        .or_else(|| row_of_text(Some(status), &lower))
        .or_else(|| row_of_status(status, &said, &lower, around))
        .unwrap_or(Row::BadRequest);
    let mut failure = failure(row, Some(status), &said, Again::Request, around);
    failure.http_status = Some(status);
    failure.request_id = request_id(headers, around);
    let mut asked = wait::retry_after(headers, around.now);
    if row == Row::RateLimit {
        asked = asked
            .or_else(|| wait::limit_reset(headers))
            .or_else(|| wait::in_text(&lower));
    }
    with_wait(failure, asked, around)
}

pub(super) fn event(event: &Value, headers: &HeaderMap, around: Around<'_>) -> Failure {
    let said = Said::event(event);
    let lower = said.lower();
    let row = row_of_codes(&said)
        .or_else(|| row_of_text(said.status, &lower))
        .or_else(|| match said.status {
            Some(status) => row_of_status(status, &said, &lower, around),
            None => row_of_plain_code(&said),
        })
        .unwrap_or(Row::Unknown);
    let mut failure = failure(row, said.status, &said, Again::Stream, around);
    failure.request_id = request_id(headers, around);
    // The headers were written before anything failed; only the text can know of a wait.
    let asked = (row == Row::RateLimit).then(|| wait::in_text(&lower));
    with_wait(failure, asked.flatten(), around)
}

pub(super) fn incomplete(reason: &str, headers: &HeaderMap, around: Around<'_>) -> Failure {
    let reason = shown(reason, around.redactor);
    let message = format!("Incomplete response returned, reason: {reason}");
    Failure {
        kind: ErrorKind::Incomplete,
        request_id: request_id(headers, around),
        ..Failure::new(CodexErrorInfo::Other, message, Again::Never)
    }
}

pub(super) fn not_a_stream(status: u16, headers: &HeaderMap, around: Around<'_>) -> Failure {
    let info = CodexErrorInfo::HttpConnectionFailed {
        http_status_code: Some(status),
    };
    let kind = headers.get(http::header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("none");
    let kind = shown(kind, around.redactor);
    let message =
        format!("the answer is neither an event stream nor JSON, its content type: {kind}");
    Failure {
        http_status: Some(status),
        request_id: request_id(headers, around),
        ..Failure::new(info, message, Again::Stream)
    }
}

pub(super) fn transport(fault: Fault, text: &str, around: Around<'_>) -> Failure {
    let text = match shown(text, around.redactor) {
        text if text.is_empty() => fallback_text(fault).to_owned(),
        text => text,
    };
    if fault.is_stream() {
        let info = CodexErrorInfo::ResponseStreamDisconnected {
            http_status_code: None,
        };
        let message = format!("stream disconnected before completion: {text}");
        return Failure::new(info, message, Again::Stream);
    }
    let again = match fault {
        Fault::Certificate => Again::Never,
        _ => Again::Request,
    };
    let info = CodexErrorInfo::HttpConnectionFailed {
        http_status_code: None,
    };
    Failure::new(info, text, again)
}

fn fallback_text(fault: Fault) -> &'static str {
    match fault {
        Fault::Dns => "the name of the provider's host cannot be resolved",
        Fault::Connect => "no connection to the provider",
        Fault::ConnectTimeout => "no connection to the provider in time",
        Fault::Proxy => "the proxy did not connect to the provider",
        Fault::Tls => "no encrypted connection to the provider",
        Fault::Certificate => "the certificate of the provider is not valid",
        Fault::BeforeHeaders => "the provider did not answer",
        Fault::Cut => "the stream ended without a last event",
        Fault::Idle => "the stream was silent for too long",
        Fault::TooLarge => "the response is too large",
        Fault::Framing => "the framing of the response is broken",
    }
}

/// The row that words of the provider name by themselves; the first one, if they name several.
fn row_of_codes(said: &Said) -> Option<Row> {
    said.codes.iter().filter_map(|code| row_of_code(code)).min()
}

fn row_of_code(code: &str) -> Option<Row> {
    match code {
        "context_length_exceeded" | "exceed_context_size_error" => Some(Row::Context),
        "insufficient_quota"
        | "credit_balance_exhausted"
        | "usage_limit_reached"
        | "usage_not_included" => Some(Row::Quota),
        _ if code.ends_with("_spend_limit_exceeded") => Some(Row::Quota),
        _ if code.ends_with("_usage_limit_exceeded") => Some(Row::Quota),
        "server_is_overloaded" | "slow_down" | "overloaded_error" => Some(Row::Overloaded),
        "rate_limit_exceeded" => Some(Row::RateLimit),
        "model_not_found" => Some(Row::ModelNotFound),
        "cyber_policy" => Some(Row::CyberPolicy),
        _ => None,
    }
}

/// The overflow of the context, which many servers tell in words only.
fn row_of_text(status: Option<u16>, lower: &str) -> Option<Row> {
    let place = matches!(status, None | Some(400 | 413 | 422));
    (place && CONTEXT_TEXTS.iter().any(|text| lower.contains(text))).then_some(Row::Context)
}

fn row_of_status(status: u16, said: &Said, lower: &str, around: Around<'_>) -> Option<Row> {
    let model = around.model.to_lowercase();
    match status {
        402 => Some(Row::Quota),
        503 | 529 => Some(Row::Overloaded),
        429 => Some(Row::RateLimit),
        401 | 403 => Some(Row::Unauthorized),
        404 if !model.is_empty() && lower.contains(&model) => Some(Row::ModelNotFound),
        // The row of the generic words stands before those of the statuses below.
        _ if row_of_plain_code(said) == Some(Row::BadRequest) => Some(Row::BadRequest),
        300..=399 => Some(Row::Redirect),
        408 | 409 | 425 => Some(Row::Connection),
        400..=499 => Some(Row::BadRequest),
        500..=599 => Some(Row::ServerError),
        _ => None,
    }
}

fn row_of_plain_code(said: &Said) -> Option<Row> {
    let any = |words: [&str; 2]| said.codes.iter().any(|code| words.contains(&code.as_str()));
    if any(["invalid_prompt", "invalid_request_error"]) {
        Some(Row::BadRequest)
    } else if any(["server_error", "internal_error"]) {
        Some(Row::ServerError)
    } else {
        None
    }
}

/// The failure of a row; `retried` is the class it is counted in if it is.
fn failure(
    row: Row,
    status: Option<u16>,
    said: &Said,
    retried: Again,
    around: Around<'_>,
) -> Failure {
    let text = said.shown(around.redactor);
    let line = status.map(status_line);
    // Without a fixed beginning the provider's text stands alone; something must be said.
    let alone = || match (&line, text.is_empty()) {
        (_, false) => text.clone(),
        (Some(line), true) => format!("unexpected status {line}"),
        (None, true) => NO_REASON.to_owned(),
    };
    let after = |start: &str| match text.as_str() {
        "" => format!("{start}{NO_REASON}"),
        text => format!("{start}{text}"),
    };
    let connection = CodexErrorInfo::HttpConnectionFailed {
        http_status_code: status,
    };
    let (info, message, again) = match row {
        Row::Context => {
            let message = format!("{CONTEXT_START} {text}");
            let message = message.trim_end().to_owned();
            (
                CodexErrorInfo::ContextWindowExceeded,
                message,
                Again::Compact,
            )
        }
        Row::Quota => return quota(said, &text, &after, around),
        Row::Overloaded => (CodexErrorInfo::ServerOverloaded, alone(), retried),
        Row::RateLimit => {
            let message = after("rate limit exceeded: ");
            (CodexErrorInfo::RateLimitExceeded, message, retried)
        }
        Row::Unauthorized => {
            let line = line.as_deref().unwrap_or("401 Unauthorized");
            let message = after(&format!("unexpected status {line}: "));
            (CodexErrorInfo::Unauthorized, message, Again::Never)
        }
        Row::ModelNotFound => (CodexErrorInfo::ModelNotFound, alone(), Again::Never),
        Row::CyberPolicy => (CodexErrorInfo::CyberPolicy, alone(), Again::Never),
        Row::BadRequest => {
            let mut message = alone();
            if matches!(status, Some(404 | 405)) {
                message.push_str(" (does this server offer `/responses`?)");
            }
            (CodexErrorInfo::BadRequest, message, Again::Never)
        }
        Row::Connection => (connection, alone(), retried),
        Row::Redirect => (connection, alone(), Again::Never),
        Row::ServerError => (CodexErrorInfo::InternalServerError, alone(), retried),
        Row::Unknown => (CodexErrorInfo::Other, alone(), Again::Stream),
    };
    Failure::new(info, message, again)
}

fn quota(said: &Said, text: &str, after: &dyn Fn(&str) -> String, around: Around<'_>) -> Failure {
    let resets_at = said.resets.map(|resets| match resets {
        Resets::At(at) => at,
        Resets::In(seconds) => around.now.unix_seconds().saturating_add(seconds),
    });
    let message = match resets_at {
        Some(at) => {
            let spoken = around.now.spoken(at);
            let start = format!("You've hit your usage limit; try again at {spoken}.");
            format!("{start} {text}").trim_end().to_owned()
        }
        None => after("Quota exceeded: "),
    };
    Failure {
        resets_at,
        retry_at: resets_at,
        ..Failure::new(CodexErrorInfo::UsageLimitExceeded, message, Again::Never)
    }
}

fn with_wait(
    mut failure: Failure,
    asked: Option<std::time::Duration>,
    around: Around<'_>,
) -> Failure {
    let Some(asked) = asked else {
        return failure;
    };
    failure.retry_after = Some(asked);
    // A reset that was named says it more exactly. Rounded up: a second too late is no harm.
    if failure.retry_at.is_none() {
        let asked_ms = i64::try_from(asked.as_millis()).unwrap_or(i64::MAX);
        let at_ms = around.now.unix_ms.saturating_add(asked_ms);
        failure.retry_at = Some(at_ms.saturating_add(999).div_euclid(1000));
    }
    failure
}

fn status_line(status: u16) -> String {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason());
    match reason {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

fn request_id(headers: &HeaderMap, around: Around<'_>) -> Option<String> {
    let id = ["x-request-id", "request-id"]
        .into_iter()
        .find_map(|name| headers.get(name)?.to_str().ok())?
        .trim();
    // It stands among members that end with a semicolon.
    let whole = !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && !id.contains(';');
    whole.then(|| around.redactor.text(id).into_owned())
}
