//! Turns of words: what is told, what is sent, and what cannot start.

use serde_json::{Value, json};
use turnlane_engine::{Engine as _, OutcomeStatus};
use turnlane_protocol::method::ReasoningSummary;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_testkit::mock_model::{ApiError, Item, Reply, Usage};

use super::support::{Bench, KEY, thread};

#[tokio::test]
async fn a_turn_of_words_is_told_in_order() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::streamed(["Hel", "lo", "!"]));
    let seen = bench.turn("hi").await;
    let expected = [
        "record user",
        "started agentMessage",
        "delta \"Hel\"",
        "delta \"lo\"",
        "delta \"!\"",
        "completed agentMessage",
        "usage ",
        "record output",
        "close steer",
        "ended Completed",
    ];
    for (line, expected) in seen.lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}, not {expected}");
    }
    assert_eq!(seen.lines.len(), expected.len(), "{:#?}", seen.lines);
    assert_eq!(seen.items("agentMessage")[0]["text"], "Hello!");
    let outcome = seen.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("Hello!"));
    let sample = Usage::SAMPLE;
    let used = outcome.usage.unwrap();
    assert_eq!(used.input_tokens, i64::try_from(sample.input).unwrap());
    assert_eq!(used.output_tokens, i64::try_from(sample.output).unwrap());
}

#[tokio::test]
async fn the_request_is_the_contracts_field_by_field() {
    let shared = json!({
        "model_verbosity": "low", "model_reasoning_effort": "low", "service_tier": "flex",
    });
    let bench = Bench::with(&shared, &json!({})).await;
    bench.mock.push(Reply::text("ok"));
    let mut request = bench.request(1, "run the tests", vec![]);
    request.settings.effort = Some("medium".to_owned());
    request.settings.summary = Some(ReasoningSummary::Auto);
    request.settings.output_schema = Some(json!({"type": "object"}));
    bench.start(request).finish().await;

    let request = bench.mock.requests().remove(0);
    assert_eq!(request.bearer_key(), Some(KEY));
    let body = request.body.as_object().unwrap();
    let names: Vec<&str> = body.keys().map(String::as_str).collect();
    let mut expected = [
        "model",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "store",
        "stream",
        "include",
        "prompt_cache_key",
        "service_tier",
        "text",
        "input",
    ];
    expected.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(body["model"], "m-1");
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["parallel_tool_calls"], true);
    assert_eq!(
        body["reasoning"],
        json!({"effort": "medium", "summary": "auto"})
    );
    assert_eq!(
        (&body["store"], &body["stream"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["prompt_cache_key"], thread().to_string());
    assert_eq!(body["service_tier"], "flex");
    assert_eq!(body["text"]["verbosity"], "low");
    assert_eq!(body["text"]["format"]["type"], "json_schema");
    assert_eq!(body["text"]["format"]["name"], "codex_output_schema");
    let message = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "run the tests"}]});
    assert_eq!(body["input"], json!([message]));
    let tools = [
        "exec_command",
        "write_stdin",
        "apply_patch",
        "update_plan",
        "view_image",
    ];
    let offered = request.tool_names();
    assert!(
        tools.iter().all(|tool| offered.contains(tool)),
        "{offered:?}"
    );
    for tool in body["tools"].as_array().unwrap() {
        assert_eq!(tool["type"], "function");
        assert_eq!(tool["parameters"]["type"], "object");
        assert!(tool["parameters"]["properties"].is_object());
    }
}

#[tokio::test]
async fn two_calls_of_a_turn_and_the_next_turn_share_their_prefix_to_the_byte() {
    let bench = Bench::new().await;
    let call = Item::function_call("exec_command", json!({"cmd": "echo one"})).call_id("c1");
    bench.mock.push(
        Reply::reasoning("Look.")
            .and(Item::text("Running."))
            .and(call),
    );
    bench.mock.push(Reply::text("done"));
    bench.mock.push(Reply::text("again"));
    let first = bench.turn("go").await;
    let next = bench.request(2, "more", first.assert_completed().entries.clone());
    bench.start(next).finish().await.assert_completed();

    let requests = bench.mock.requests();
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0].bytes, &pair[1].bytes);
        // All but the brackets that end it.
        let prefix = &before[..before.len() - 2];
        assert!(after.starts_with(prefix), "the prefix changed");
    }
    assert_eq!(requests.len(), 3);
    let kinds = |request: usize| -> Vec<Value> {
        let input = requests[request].input().iter();
        input.map(|item| item["type"].clone()).collect()
    };
    let round = [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ];
    assert_eq!(kinds(1), round);
    assert_eq!(kinds(2)[5..], ["message", "message"]);
}

type Change = fn(&mut turnlane_engine::TurnSettings);

#[tokio::test]
async fn what_cannot_start_makes_no_request_and_leaves_no_trace() {
    let bench = Bench::with(&json!({"model_providers": {"keyless": {
        "base_url": "http://127.0.0.1:1/v1", "env_key": "NOT_SET", "env_key_instructions": "Buy one.",
    }}}), &json!({})).await;
    let cases: [(Change, _, _, &str); 4] = [
        (
            |s| s.provider = "nobody".to_owned(),
            CodexErrorInfo::BadRequest,
            ErrorKind::BadRequest,
            "Model provider `nobody` not found",
        ),
        (
            |s| s.provider = "keyless".to_owned(),
            CodexErrorInfo::Unauthorized,
            ErrorKind::Auth,
            "Missing environment variable: `NOT_SET`. Buy one.",
        ),
        (
            |s| s.cwd = "/does/not/exist".to_owned(),
            CodexErrorInfo::BadRequest,
            ErrorKind::BadRequest,
            "cwd is not a directory: /does/not/exist",
        ),
        (
            |s| {
                let value = json!("many");
                s.config.insert("model_context_window".to_owned(), value);
            },
            CodexErrorInfo::BadRequest,
            ErrorKind::BadRequest,
            "model_context_window: must be a whole number, 1 or more",
        ),
    ];
    for (change, info, kind, message) in cases {
        let mut request = bench.request(1, "go", vec![]);
        change(&mut request.settings);
        let status = bench.engine.check(&request.settings).await;
        assert_eq!(
            (status.ok, status.reason.as_deref()),
            (false, Some(message))
        );
        let seen = bench.start(request).finish().await;
        assert_eq!(seen.lines, ["ended Failed"]);
        let outcome = seen.outcome();
        assert!(!outcome.begun);
        let error = outcome.error.as_ref().unwrap();
        assert_eq!((&error.message[..], &error.kind), (message, &Some(kind)));
        assert_eq!(error.codex_error_info, Some(info));
    }
    assert!(bench.mock.requests().is_empty());
    let status = bench.engine.check(&bench.settings()).await;
    assert!(status.ok, "{status:?}");
}

#[tokio::test]
async fn a_failed_call_fails_the_turn_and_the_thread_goes_on() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::http_error(ApiError::bad_request(
        "input",
        "no such thing",
    )));
    bench.mock.push(Reply::text("fine"));
    let seen = bench.turn("go").await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Failed);
    assert!(seen.outcome().begun);
    let next = bench.request(2, "again", seen.entries.clone());
    bench.start(next).finish().await.assert_completed();
    let request = &bench.mock.requests()[1];
    assert_eq!(request.input().len(), 2, "both messages are there");
}
