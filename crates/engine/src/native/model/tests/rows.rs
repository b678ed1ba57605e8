//! The rows of the error table, from the provider's answer to the end of the call.

use turnlane_protocol::turn_error::CodexErrorInfo as Info;
use turnlane_testkit::mock_model::{ApiError, Cut, Item, MockModel, Reply};

use super::*;
use crate::native::history::Produced;

const CONTEXT: &str = "This conversation ran out of room in the model's context window.";
const CUT: &str = "stream disconnected before completion: ";

/// What a provider always answers, and what a call makes of it.
struct Row {
    reply: Reply,
    info: Info,
    /// How the message begins.
    start: &'static str,
    /// What of the details stands before the number of requests.
    details: &'static str,
}

fn row(reply: Reply, info: Info, start: &'static str, details: &'static str) -> Row {
    Row {
        reply,
        info,
        start,
        details,
    }
}

impl Row {
    async fn plays(self, requests: usize) {
        let start = self.start;
        let mock = MockModel::start().await.unwrap();
        mock.choose_with(move |_| Some(self.reply.clone()));
        let played = Stage::of(&mock).play().await;
        played.adds_up();
        let failure = played.failure();
        assert_eq!(failure.info, self.info, "{start}");
        let message = &failure.message;
        assert!(message.starts_with(start), "{start}: {message}");
        let details = failure.details().unwrap();
        let expected = format!("{}attempts={requests}", self.details);
        assert_eq!(details, expected, "{start}");
        assert_eq!(mock.requests().len(), requests, "{start}");
        let expected = vec!["Reconnecting... 1/1".to_owned(); requests - 1];
        assert_eq!(played.retries(), expected, "{start}");
    }
}

/// Plays all rows at once, because some wait.
async fn play(rows: Vec<Row>, requests: usize) {
    let rows = rows.into_iter();
    let rows: Vec<_> = rows.map(|row| tokio::spawn(row.plays(requests))).collect();
    for row in rows {
        row.await.unwrap();
    }
}

fn http(error: ApiError) -> Reply {
    Reply::http_error(error)
}

fn says(status: u16, text: &str) -> Reply {
    Reply::json(status, &json!({"error": {"message": text}}))
}

fn connection(http_status_code: Option<u16>) -> Info {
    Info::HttpConnectionFailed { http_status_code }
}

fn disconnected() -> Info {
    Info::ResponseStreamDisconnected {
        http_status_code: None,
    }
}

#[tokio::test]
async fn a_limit_has_its_word_and_is_not_tried_again() {
    let overflow = Info::ContextWindowExceeded;
    let quota = Info::UsageLimitExceeded;
    let (s400, s413) = ("http_status=400; ", "http_status=413; ");
    let s429 = "http_status=429; ";
    let resets = "http_status=429; resets_at=2030-01-01T09:05:00Z; ";
    let too_long = ApiError::context_length_exceeded;
    let reset = ApiError::usage_limit_reached(1_893_488_700);
    let again = "You've hit your usage limit; try again at 9:05 AM UTC.";
    let llama = ApiError::new(400, "exceed_context_size_error", "no");
    let spent = ApiError::insufficient_quota;
    let rows = vec![
        row(http(too_long()), overflow.clone(), CONTEXT, s400),
        row(http(llama), overflow.clone(), CONTEXT, s400),
        row(
            says(413, "prompt is too long"),
            overflow.clone(),
            CONTEXT,
            s413,
        ),
        row(Reply::failed(too_long()), overflow.clone(), CONTEXT, ""),
        row(Reply::error_event(too_long()), overflow, CONTEXT, ""),
        row(http(spent()), quota.clone(), "Quota exceeded: You", s429),
        row(
            Reply::failed(spent()),
            quota.clone(),
            "Quota exceeded: You",
            "",
        ),
        row(http(reset), quota.clone(), again, resets),
        row(
            says(402, "pay"),
            quota,
            "Quota exceeded: pay",
            "http_status=402; ",
        ),
    ];
    play(rows, 1).await;
}

#[tokio::test]
async fn a_refusal_has_its_word_and_is_not_tried_again() {
    let (s400, s404) = ("http_status=400; ", "http_status=404; ");
    let unauthorized = "unexpected status 401 Unauthorized: Incorrect";
    let forbidden = http(ApiError::forbidden()).header("x-request-id", "req_1");
    let policy = ApiError::new(400, "x", "policy").code("cyber_policy");
    let place = "odd (does this server offer `/responses`?)";
    let moved = Reply::redirect("http://127.0.0.1:9/elsewhere");
    let incomplete = Reply::text("half").incomplete("max_output_tokens");
    let reason = "Incomplete response returned, reason: max_output_tokens";
    let rows = vec![
        row(
            http(ApiError::unauthorized()),
            Info::Unauthorized,
            unauthorized,
            "http_status=401; ",
        ),
        row(
            forbidden,
            Info::Unauthorized,
            "unexpected status 403 Forbidden: ",
            "http_status=403; request_id=req_1; ",
        ),
        row(
            says(404, "m-1 is not here"),
            Info::ModelNotFound,
            "m-1",
            s404,
        ),
        row(http(policy), Info::CyberPolicy, "policy", s400),
        row(says(400, "odd"), Info::BadRequest, "odd", s400),
        row(says(404, "odd"), Info::BadRequest, place, s404),
        row(
            says(415, "odd"),
            Info::BadRequest,
            "odd",
            "http_status=415; ",
        ),
        row(
            Reply::failed(ApiError::invalid_prompt()),
            Info::BadRequest,
            "Invalid prompt",
            "",
        ),
        row(
            moved,
            connection(Some(307)),
            "unexpected status 307",
            "http_status=307; ",
        ),
        row(incomplete, Info::Other, reason, ""),
    ];
    play(rows, 1).await;
}

#[tokio::test]
async fn an_answer_that_may_be_another_one_later_is_tried_again() {
    let limited = "http_status=429; retry_after_ms=100; ";
    let busy = Info::ServerOverloaded;
    let down = Info::InternalServerError;
    let page = Reply::text("x").header("content-type", "text/html");
    let rows = vec![
        row(
            http(ApiError::overloaded()),
            busy.clone(),
            "Our servers",
            "http_status=503; ",
        ),
        row(says(529, "busy"), busy, "busy", "http_status=529; "),
        row(
            http(ApiError::rate_limited()),
            Info::RateLimitExceeded,
            "rate limit exceeded: Rate limit",
            limited,
        ),
        row(
            says(408, "later"),
            connection(Some(408)),
            "later",
            "http_status=408; ",
        ),
        row(
            says(425, "later"),
            connection(Some(425)),
            "later",
            "http_status=425; ",
        ),
        row(
            http(ApiError::server_error()),
            down.clone(),
            "The server had",
            "http_status=500; ",
        ),
        row(says(502, "gateway"), down, "gateway", "http_status=502; "),
        row(
            page,
            connection(Some(200)),
            "the answer is neither",
            "http_status=200; ",
        ),
        row(
            Reply::hang_up(),
            connection(None),
            "error sending request",
            "",
        ),
    ];
    play(rows, 2).await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_tried_again() {
    let odd = ApiError::new(500, "x", "odd").code("odd_code");
    let down = Info::InternalServerError;
    let server_error = ApiError::server_error;
    let unfinished = Reply::json(200, &json!({"status": "in_progress"}));
    let rows = vec![
        row(
            Reply::failed(ApiError::overloaded()),
            Info::ServerOverloaded,
            "Our servers",
            "",
        ),
        row(
            Reply::failed(server_error()),
            down.clone(),
            "The server had",
            "",
        ),
        row(
            Reply::error_event(server_error()),
            down,
            "The server had",
            "",
        ),
        row(Reply::failed(odd), Info::Other, "odd", ""),
        row(Reply::text("part").without_end(), disconnected(), CUT, ""),
        row(
            Reply::text("part").cut(Cut::AfterEvents(4)),
            disconnected(),
            CUT,
            "",
        ),
        row(unfinished, disconnected(), CUT, ""),
        row(Reply::json(200, &json!([1])), disconnected(), CUT, ""),
    ];
    play(rows, 2).await;
}

#[tokio::test]
async fn the_text_of_an_incomplete_response_is_kept_and_its_calls_are_not() {
    let mock = MockModel::start().await.unwrap();
    let reply = Reply::of([
        Item::reasoning("first"),
        Item::text("half an answer"),
        Item::reasoning("second"),
        Item::function_call("exec_command", "{}"),
    ]);
    mock.push(reply.incomplete("max_output_tokens"));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    let failed = played.result.as_ref().unwrap_err();
    assert!(matches!(
        failed.produced[..],
        [Produced::Reasoning(_), Produced::Message { .. }]
    ));
    assert_eq!(failed.last_message.as_ref().unwrap().1, "half an answer");
    assert_eq!(failed.usage.len(), 1);
}
