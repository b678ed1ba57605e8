//! Answers that come to their end.

use turnlane_protocol::notification::DeltaKind;
use turnlane_testkit::mock_model::{At, Usage};
use turnlane_testkit::mock_model::{Chunks, Cut, Item, LineEnd, MockModel, Noise, Reply};

use super::*;
use crate::native::history::Produced;

#[tokio::test]
async fn an_answer_is_told_as_it_comes() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::streamed(["he", "llo", " there"]));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    let mut told = Vec::new();
    for event in &played.events {
        told.push(match event {
            Event::ItemStarted(item) => format!("started {:?}", text(item)),
            Event::Delta {
                text,
                kind: DeltaKind::AgentMessage,
                ..
            } => format!("delta {text:?}"),
            Event::ItemCompleted(item) => format!("completed {:?}", text(item)),
            Event::Usage {
                last,
                context_window,
            } => format!("usage {} {context_window:?}", last.total_tokens),
            other => panic!("{other:?}"),
        });
    }
    let expected = [
        "started \"\"",
        "delta \"he\"",
        "delta \"llo\"",
        "delta \" there\"",
        "completed \"hello there\"",
        "usage 120 Some(1000)",
    ];
    assert_eq!(told, expected);
    let response = played.response();
    let (item_id, last) = response.last_message.clone().unwrap();
    assert_eq!(last, "hello there");
    let message = Produced::Message {
        item_id,
        text: last,
        phase: None,
    };
    assert_eq!(response.produced, [message]);
    assert_eq!(response.usage.unwrap().cached_input_tokens, 40);
    assert!(response.calls.is_empty() && !response.goes_on);
}

#[tokio::test]
async fn a_request_has_the_headers_of_the_contract_and_its_own_id() {
    let mock = MockModel::start().await.unwrap();
    let reply = Reply::http_error(turnlane_testkit::mock_model::ApiError::server_error());
    mock.push(reply).push(Reply::text("ok"));
    let played = Stage::of(&mock).play().await;
    played.response();
    let requests = mock.requests();
    let header = |nth: usize, name: &str| requests[nth].header(name).map(str::to_owned);
    let version = concat!("turnlane/", env!("CARGO_PKG_VERSION"));
    let bearer = format!("Bearer {KEY}");
    for (name, value) in [
        ("accept", "text/event-stream"),
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
        ("user-agent", version),
        ("originator", "turnlane"),
        ("authorization", &bearer),
    ] {
        assert_eq!(header(0, name).as_deref(), Some(value), "{name}");
    }
    assert!(header(0, "content-length").is_some());
    let ids = [0, 1].map(|nth| header(nth, "x-client-request-id").unwrap());
    assert_ne!(ids[0], ids[1]);
    assert_eq!(requests[0].bytes, requests[1].bytes);
    assert_eq!(requests[0].body["model"], MODEL);
}

/// Everything an answer can hold.
fn everything() -> Reply {
    Reply::of([
        Item::reasoning("Look — first").and_summary("then act"),
        Item::reasoning_text(["raw ", "thought"]),
        Item::streamed(["naïve ", "✓ ", "done"]).phase("commentary"),
        Item::function_call("exec_command", json!({"cmd": "make test"})).call_id("call_1"),
        Item::function_call("exec_command", json!({"cmd": "ls"})).call_id("call_2"),
    ])
}

/// What came of an answer, without ids.
fn shape(played: &Played) -> Vec<String> {
    played.adds_up();
    let response = played.response();
    let mut shape: Vec<String> = Vec::new();
    for made in &response.produced {
        shape.push(match made {
            Produced::Message { text, phase, .. } => format!("{text} {phase:?}"),
            Produced::Reasoning(item) => item["summary"].to_string(),
            call @ Produced::Call { .. } => format!("{call:?}"),
        });
    }
    shape.extend(response.calls.iter().map(|call| call.arguments.clone()));
    shape.extend(played.ended().0);
    shape
}

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_are_cut() {
    let mock = MockModel::start().await.unwrap();
    let stage = Stage::of(&mock);
    mock.push(everything());
    let whole = stage.play().await;
    let expected = shape(&whole);
    assert_eq!(whole.response().produced.len(), 4);
    for reply in [
        everything().chunks(Chunks::OfBytes(1)),
        everything()
            .chunks(Chunks::OfBytes(7))
            .line_end(LineEnd::CrLf),
        everything().chunks(Chunks::Joined).line_end(LineEnd::Cr),
        everything()
            .insert(At::AfterEvents(2), Noise::BadJson)
            .insert(At::AfterEvents(3), Noise::UnknownType)
            .insert(At::End, Noise::DoneMarker),
    ] {
        mock.push(reply);
        assert_eq!(shape(&stage.play().await), expected);
    }
}

#[tokio::test]
async fn a_response_that_comes_whole_is_told_like_a_stream() {
    let mock = MockModel::start().await.unwrap();
    let response = json!({"id": "r", "object": "response", "status": "completed", "output": [
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "all at once", "annotations": []}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
        "usage": {"input_tokens": 3, "output_tokens": 4}});
    mock.push(Reply::json(200, &response));
    let played = Stage::of(&mock).play().await;
    played.adds_up();
    assert_eq!(played.ended().0, ["all at once"]);
    assert_eq!(played.response().calls[0].call_id, "c");
    assert_eq!(played.response().usage.unwrap().total_tokens, 7);
}

#[tokio::test]
async fn a_cut_behind_the_terminal_event_is_no_failure() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::text("all of it").cut(Cut::AtByte(usize::MAX)));
    let played = Stage::of(&mock).play().await;
    assert_eq!(
        played.response().last_message.as_ref().unwrap().1,
        "all of it"
    );
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn a_compaction_shows_nothing_but_its_usage() {
    let mock = MockModel::start().await.unwrap();
    let summary = Reply::reasoning("hm").and(Item::text("the summary"));
    mock.push(summary.usage(Usage::SAMPLE));
    let mut stage = Stage::of(&mock);
    stage.show = Show::Nothing;
    let played = stage.play().await;
    assert!(matches!(played.events[..], [Event::Usage { .. }]));
    let last = played.response().last_message.as_ref();
    assert_eq!(last.unwrap().1, "the summary");
}

#[tokio::test]
async fn a_response_may_want_another_call() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::text("wait").without_usage().edited(|mut events| {
        events.last_mut().unwrap()["response"]["end_turn"] = json!(false);
        events
    }));
    let played = Stage::of(&mock).play().await;
    assert!(played.response().goes_on);
    assert_eq!(played.response().usage, None);
    let usage = |event: &Event| matches!(event, Event::Usage { .. });
    assert!(!played.events.iter().any(usage));
}
