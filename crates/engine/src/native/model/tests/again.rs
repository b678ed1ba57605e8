//! Tries: what is waited for, what a retried answer leaves behind, and what a gate changes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_protocol::usage::TokenUsage;
use turnlane_testkit::mock_model::{ApiError, At, Cut, Item, MockModel, Noise, Reply};

use super::*;
use crate::engine::BoxFuture;
use crate::hooks::{Gate, Limited};

#[tokio::test]
async fn a_wait_that_the_provider_asks_for_is_waited() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::http_error(ApiError::rate_limited().retry_after_s(2)))
        .push(Reply::text("ok"));
    let before = Instant::now();
    let played = Stage::of(&mock).play().await;
    assert!(before.elapsed() >= Duration::from_secs(2));
    played.response();
    let Event::Retry(notice) = &played.events[0] else {
        panic!("{:?}", played.events);
    };
    let details = "http_status=429; retry_after_ms=2000; attempts=1";
    assert_eq!(notice.additional_details.as_deref(), Some(details));
}

#[tokio::test]
async fn a_wait_that_is_too_long_fails_at_once() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::http_error(
        ApiError::rate_limited().retry_after_s(3600),
    ));
    let played = Stage::of(&mock).play().await;
    let details = played.failure().details().unwrap();
    assert_eq!(
        details,
        "http_status=429; retry_after_ms=3600000; attempts=1"
    );
    assert!(played.retries().is_empty());
}

/// A gate that holds, and counts.
#[derive(Default)]
struct Holding {
    gated: AtomicUsize,
    told: Mutex<Vec<Duration>>,
}

impl Hooks for Holding {
    fn gate<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Gate> {
        assert_eq!(provider, "mock");
        self.gated.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Gate::Go })
    }

    fn limited<'a>(&'a self, _: &'a str, delay: Duration) -> BoxFuture<'a, Limited> {
        self.told.lock().unwrap().push(delay);
        Box::pin(async { Limited::Hold })
    }
}

#[tokio::test]
async fn a_gate_that_holds_takes_over_any_wait_and_no_try_is_counted() {
    let mock = MockModel::start().await.unwrap();
    for _ in 0..6 {
        mock.push(Reply::http_error(
            ApiError::rate_limited().retry_after_s(3600),
        ));
    }
    mock.push(Reply::text("ok"));
    let holding = Arc::new(Holding::default());
    let mut stage = Stage::of(&mock);
    stage.hooks = holding.clone();
    let played = stage.play().await;
    played.response();
    assert!(played.retries().is_empty());
    assert_eq!(holding.gated.load(Ordering::Relaxed), 7);
    assert_eq!(*holding.told.lock().unwrap(), [Duration::from_hours(1); 6]);
}

/// A gate that lets nothing through.
struct Shut;

impl Hooks for Shut {
    fn gate<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Gate> {
        let kind = ErrorKind::Unknown;
        let mut error = TurnError::new("not now", CodexErrorInfo::UsageLimitExceeded, kind);
        error.retry_at = Some(5);
        error.additional_details = Some(format!("pool=2; key={KEY}"));
        Box::pin(async { Gate::Stop(Box::new(error)) })
    }
}

#[tokio::test]
async fn a_gate_that_stops_fails_the_call_without_a_request() {
    let mock = MockModel::start().await.unwrap();
    let mut stage = Stage::of(&mock);
    stage.hooks = Arc::new(Shut);
    let played = stage.play().await;
    let Err(CallFailed {
        why: CallFailure::Stopped(error),
        ..
    }) = &played.result
    else {
        panic!("{:?}", played.result)
    };
    assert_eq!(error.message, "not now");
    assert_eq!(error.retry_at, Some(5));
    let details = error.additional_details.as_deref();
    assert_eq!(details, Some("pool=2; key=[redacted]"));
    assert!(mock.requests().is_empty());
}

#[tokio::test]
async fn a_cut_after_a_complete_call_gives_one_set_of_calls() {
    let call = || {
        let item = Item::function_call("exec_command", json!({"cmd": "rm x"})).call_id("call_1");
        Reply::of([Item::text("I will"), item])
    };
    let mock = MockModel::start().await.unwrap();
    // Everything but the terminal event.
    mock.push(call().without_end()).push(call());
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    assert_eq!(played.response().calls.len(), 1);
    assert_eq!(played.response().produced.len(), 2);
    assert_eq!(played.retries(), ["Reconnecting... 1/1"]);
}

#[tokio::test]
async fn what_a_retried_answer_left_open_is_ended_and_not_stored() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::streamed(["par", "tial"]).cut(Cut::AfterEvents(6)))
        .push(Reply::text("whole"));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    let (stored, dropped) = played.ended();
    assert_eq!(stored, ["whole"]);
    assert_eq!(dropped, ["partial"]);
    // Its end comes before the notice.
    let retry = played
        .events
        .iter()
        .position(|e| matches!(e, Event::Retry(_)));
    let dropped = |event: &Event| matches!(event, Event::ItemDropped(_));
    assert!(played.events.iter().position(dropped) < retry);
}

#[tokio::test]
async fn what_the_last_answer_left_open_is_stored_and_not_sent_again() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::text("first").without_end())
        .push(Reply::streamed(["se", "cond"]).cut(Cut::AfterEvents(6)));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    assert_eq!(
        played.ended(),
        (vec!["first".into(), "second".into()], vec![])
    );
    let failed = played.result.unwrap_err();
    assert!(failed.produced.is_empty());
    assert_eq!(failed.last_message.unwrap().1, "second");
}

#[tokio::test]
async fn failed_responses_are_paid_for_too() {
    let mock = MockModel::start().await.unwrap();
    let failed = Reply::failed(ApiError::server_error()).edited(|mut events| {
        let usage = json!({"input_tokens": 7, "output_tokens": 1});
        events.last_mut().unwrap()["response"]["usage"] = usage;
        events
    });
    mock.push(failed.clone()).push(Reply::text("ok"));
    let stage = Stage::of(&mock);
    let played = stage.play().await;
    let inputs =
        |used: &[TokenUsage]| -> Vec<i64> { used.iter().map(|used| used.input_tokens).collect() };
    let response = played.response();
    assert_eq!(inputs(&response.usage_failed), [7]);
    assert_eq!(response.usage.unwrap().input_tokens, 100);
    assert_eq!(inputs(&told(&played)), [7, 100]);

    mock.push(failed.clone()).push(failed);
    let played = stage.play().await;
    assert_eq!(inputs(&told(&played)), [7, 7]);
    assert_eq!(inputs(&played.result.unwrap_err().usage), [7, 7]);
}

fn told(played: &Played) -> Vec<TokenUsage> {
    let usage = |event: &Event| match event {
        Event::Usage { last, .. } => Some(*last),
        _ => None,
    };
    played.events.iter().filter_map(usage).collect()
}

#[tokio::test]
async fn silence_is_counted_in_bytes() {
    let mock = MockModel::start().await.unwrap();
    let mut alive = Reply::text("alive");
    for _ in 0..180 {
        alive = alive
            .pause(At::AfterEvents(2), Duration::from_millis(10))
            .insert(At::AfterEvents(2), Noise::Comment);
    }
    mock.push(alive);
    let before = Instant::now();
    let played = Stage::of(&mock).idle_ms(1_500).play().await;
    played.response();
    assert!(before.elapsed() > Duration::from_millis(1_500));
    assert!(played.retries().is_empty());

    let stage = Stage::of(&mock).idle_ms(1_000);
    let (silent, gate) = Reply::text("silent").gated(At::AfterEvents(2));
    mock.push(silent).push(Reply::text("ok"));
    let played = stage.play().await;
    assert_eq!(played.retries(), ["Reconnecting... 1/1"]);
    assert_eq!(played.response().last_message.as_ref().unwrap().1, "ok");
    gate.release();

    // Before the headers it is a failure of the request.
    let (mute, gate) = Reply::text("mute").gated(At::Request);
    mock.push(mute).push(Reply::text("ok"));
    let played = stage.play().await;
    let Event::Retry(notice) = &played.events[0] else {
        panic!("{:?}", played.events);
    };
    let info = CodexErrorInfo::HttpConnectionFailed {
        http_status_code: None,
    };
    assert_eq!(notice.codex_error_info, Some(info));
    gate.release();
}

#[tokio::test]
async fn the_two_counters_are_not_multiplied() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::http_error(ApiError::server_error()))
        .push(Reply::text("a").without_end())
        .push(Reply::http_error(ApiError::server_error()));
    let played = Stage::of(&mock).play().await;
    assert_eq!(played.failure().info, CodexErrorInfo::InternalServerError);
    assert_eq!(played.failure().attempts, 3);
    assert_eq!(mock.requests().len(), 3);
}
