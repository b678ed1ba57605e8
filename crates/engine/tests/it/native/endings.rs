//! How turns end: limits, schemas, and providers that want to be asked again.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_engine::OutcomeStatus;
use turnlane_testkit::mock_model::{ApiError, At, Noise, Reply};

use super::support::Bench;

#[tokio::test]
async fn the_201st_model_call_fails_the_turn_by_the_limits_name() {
    let bench = Bench::new().await;
    let plan = json!({"plan": [{"step": "look", "status": "pending"}]});
    let reply = Reply::function_call("update_plan", plan);
    bench.mock.choose_with(move |_| Some(reply.clone()));
    let seen = bench.turn("go").await;
    assert_eq!(bench.mock.requests().len(), 200);
    let outcome = seen.assert_whole().outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(
        error.message,
        "turn stopped after 200 model calls (native.max_rounds)"
    );
    assert_eq!(outcome.usage.unwrap().input_tokens, 200 * 100);
}

#[tokio::test]
async fn a_provider_that_is_not_done_is_asked_again() {
    let bench = Bench::new().await;
    let not_done = |events: Vec<Value>| {
        let mark = |mut event: Value| {
            if event["type"] == "response.completed" {
                event["response"]["end_turn"] = json!(false);
            }
            event
        };
        events.into_iter().map(mark).collect()
    };
    bench.mock.push(Reply::text("wait").edited(not_done));
    bench.mock.push(Reply::text("now"));
    let seen = bench.turn("go").await;
    let outcome = seen.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("now"));
    assert_eq!(seen.count("close steer"), 1);
}

#[tokio::test]
async fn an_answer_of_another_form_warns_and_completes() {
    let bench = Bench::new().await;
    let schema = json!({"type": "object", "required": ["ok"]});
    for (answer, warnings) in [("{\"ok\": 1}", 0), ("{}", 1), ("sure", 1)] {
        bench.mock.push(Reply::text(answer));
        let mut request = bench.request(1, "go", vec![]);
        request.settings.output_schema = Some(schema.clone());
        let seen = bench.start(request).finish().await;
        seen.assert_completed();
        assert_eq!(seen.warnings.len(), warnings, "{answer}");
    }
}

#[tokio::test]
async fn usage_that_nobody_told_is_not_made_up() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::text("hi").without_usage());
    let seen = bench.turn("go").await;
    assert_eq!(seen.assert_completed().outcome().usage, None);
    assert_eq!(seen.count("usage"), 0);
}

#[tokio::test]
async fn an_incomplete_response_fails_and_its_text_is_sent_on() {
    let bench = Bench::new().await;
    bench
        .mock
        .push(Reply::text("half of").incomplete("max_output_tokens"));
    bench.mock.push(Reply::text("fine"));
    let seen = bench.turn("go").await;
    let outcome = seen.assert_whole().outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(outcome.last_agent_message.as_deref(), Some("half of"));
    let next = bench.request(2, "again", seen.entries.clone());
    bench.start(next).finish().await.assert_completed();
    let request = &bench.mock.requests()[1];
    assert_eq!(request.input()[1]["content"][0]["text"], "half of");
}

#[tokio::test]
async fn failed_responses_count_if_they_say_what_they_used() {
    let bench = Bench::with(&json!({"mock": {"stream_max_retries": 1}}), &json!({})).await;
    let paid = |mut events: Vec<Value>| {
        let last = events.last_mut().unwrap();
        last["response"]["usage"] = json!({"input_tokens": 100, "output_tokens": 20});
        events
    };
    let failed = Reply::failed(ApiError::server_error());
    bench.mock.push(failed.edited(paid));
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("go").await;
    let used = seen.assert_completed().outcome().usage.unwrap();
    assert_eq!(seen.count("retry"), 1);
    assert_eq!(seen.count("usage 120"), 2, "{:#?}", seen.lines);
    assert_eq!((used.input_tokens, used.output_tokens), (200, 40));
}

#[tokio::test]
async fn an_answer_that_was_cut_off_runs_its_call_once_in_all() {
    let bench = Bench::with(&json!({"mock": {"stream_max_retries": 1}}), &json!({})).await;
    let cmd = json!({"cmd": "echo ran >> log"});
    let call = Reply::function_call("exec_command", cmd);
    bench.mock.push(call.clone().without_end());
    bench.mock.push(call);
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("go").await;
    seen.assert_completed();
    let log = std::fs::read_to_string(bench.cwd.path().join("log")).unwrap();
    assert_eq!(log, "ran\n");
}

#[tokio::test]
async fn silence_is_tried_again_and_comments_are_none() {
    let limits = json!({"mock": {"stream_max_retries": 1, "stream_idle_timeout_ms": 1000}});
    let bench = Bench::with(&limits, &json!({})).await;
    let (silent, gate) = Reply::text("never said").gated(At::AfterEvents(1));
    bench.mock.push(silent);
    bench.mock.push(Reply::text("heard"));
    let seen = bench.turn("go").await;
    gate.release();
    let last = &seen.assert_completed().outcome().last_agent_message;
    assert_eq!(last.as_deref(), Some("heard"));
    assert_eq!(seen.count("retry Reconnecting... 1/1"), 1);
    assert_eq!(bench.mock.take_requests().len(), 2);

    // Longer than the limit in all, and never silent for as long.
    let mut alive = Reply::text("alive");
    for _ in 0..130 {
        alive = alive
            .pause(At::AfterEvents(2), Duration::from_millis(10))
            .insert(At::AfterEvents(2), Noise::Comment);
    }
    bench.mock.push(alive);
    let seen = bench.turn("go").await;
    seen.assert_completed();
    assert_eq!(seen.count("retry"), 0);
    assert_eq!(bench.mock.requests().len(), 1);
}
