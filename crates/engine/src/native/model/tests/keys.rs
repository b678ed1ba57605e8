//! Keys that come back: in errors, in texts, in calls.

use turnlane_testkit::mock_model::{ApiError, Item, MockModel, Reply};

use super::*;

#[tokio::test]
async fn a_key_in_an_error_is_not_repeated() {
    let planted = format!("your key {KEY} is wrong");
    for error in [
        ApiError::new(401, "x", &planted),
        ApiError::new(500, "x", &planted).header("x-request-id", KEY),
    ] {
        for reply in [
            Reply::http_error(error.clone()),
            Reply::failed(error.clone()),
            Reply::error_event(error),
        ] {
            let mock = MockModel::start().await.unwrap();
            mock.choose_with(move |_| Some(reply.clone()));
            let stage = Stage::of(&mock).limits(|limits| {
                (limits.request_max_retries, limits.stream_max_retries) = (0, 0);
            });
            let played = stage.play().await;
            let message = &played.failure().message;
            assert!(
                message.contains("your key [redacted] is wrong"),
                "{message}"
            );
            assert!(!played.dump().contains(KEY));
        }
    }
}

#[tokio::test]
async fn a_key_is_taken_out_of_texts_wherever_they_are_cut() {
    let text = format!("it is {KEY}, really: s");
    let mock = MockModel::start().await.unwrap();
    let stage = Stage::of(&mock);
    for cut in (0..text.len()).step_by(5) {
        let parts = [text[..cut].to_owned(), text[cut..].to_owned()];
        let reply = Reply::of([Item::reasoning_text(parts.clone()), Item::streamed(parts)]);
        mock.push(reply);
        let played = stage.play().await;
        played.adds_up();
        assert!(!played.dump().contains(KEY));
        let last = played.response().last_message.as_ref().unwrap();
        assert_eq!(last.1, "it is [redacted], really: s");
    }
}

#[tokio::test]
async fn a_text_that_comes_whole_begins_whole() {
    let mock = MockModel::start().await.unwrap();
    // It ends like a key begins, and only its end is announced.
    mock.push(Reply::text("tests pass sk-").edited(|events| {
        let kept = |event: &Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            kind == "response.output_item.done" || kind == "response.completed"
        };
        events.into_iter().filter(kept).collect()
    }));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    let Event::ItemStarted(item) = &played.events[0] else {
        panic!("{:?}", played.events);
    };
    assert_eq!(text(item), "tests pass sk-");
}

#[tokio::test]
async fn a_key_in_a_call_or_in_reasoning_is_taken_out() {
    let mock = MockModel::start().await.unwrap();
    let escaped = KEY.replace('k', "\\u006b");
    let reply = Reply::of([
        Item::reasoning(format!("use {KEY}")),
        Item::function_call("exec_command", json!({"cmd": format!("curl -H {KEY}")})),
        Item::function_call("exec_command", format!("{{\"cmd\": \"echo {escaped}\"}}")),
        Item::function_call("exec_command", format!("no json {KEY}")),
        Item::custom_tool_call("apply_patch", format!("+{KEY}")),
        Item::web_search_call(format!("what is {KEY}")),
    ]);
    mock.push(reply);
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    let arguments: Vec<&str> = played
        .response()
        .calls
        .iter()
        .map(|call| call.arguments.as_str())
        .collect();
    assert_eq!(
        arguments,
        [
            r#"{"cmd":"curl -H [redacted]"}"#,
            r#"{"cmd":"echo [redacted]"}"#,
            "no json [redacted]",
            "+[redacted]",
        ]
    );
    let dump = played.dump();
    assert!(!dump.contains(KEY) && !dump.contains("u006b"), "{dump}");
}
