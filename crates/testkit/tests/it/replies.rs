//! The answers a model gives when all is well.

use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::{Chunks, Item, LineEnd, Usage};
use turnlane_testkit::{MockModel, Reply};

use crate::http::{End, ask, send};

#[tokio::test]
async fn a_text_is_streamed_in_the_events_of_the_api() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::streamed(["he", "llo"]));
    let answer = ask(&model, "hi").await;
    assert_eq!((answer.status, answer.end), (200, End::Proper));
    assert_eq!(
        answer.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert_eq!(
        answer.kinds(),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    assert_eq!(answer.message(), "hello");
    assert_eq!(answer.chunks.len(), 10, "each event is a chunk");
    let response = &answer.event("response.completed")["response"];
    assert_eq!(response["model"], "mock-model");
    assert_eq!(response["output"][0]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn one_answer_may_hold_reasoning_text_and_several_calls() {
    let model = MockModel::start().await.unwrap();
    let reply = Reply::reasoning("Look first.")
        .and(Item::text("Running."))
        .and(Item::function_call("exec_command", json!({"cmd": "make"})).call_id("call_7"))
        .and(Item::function_call("exec_command", json!({"cmd": "true"})))
        .and(Item::custom_tool_call(
            "apply_patch",
            "*** Begin Patch\n*** End Patch\n",
        ));
    model.push(reply);
    let answer = ask(&model, "go").await;
    let output = answer.event("response.completed")["response"]["output"].clone();
    let kinds: Vec<_> = output
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "custom_tool_call"
        ]
    );
    assert_eq!(output[2]["call_id"], "call_7");
    assert_eq!(output[2]["arguments"], r#"{"cmd":"make"}"#);
    assert_ne!(output[3]["call_id"], output[4]["call_id"]);
    let summary = answer.event("response.reasoning_summary_text.delta");
    assert_eq!(summary["delta"], "Look first.");
}

#[tokio::test]
async fn usage_is_what_the_test_says_or_absent() {
    let model = MockModel::start().await.unwrap();
    let usage = Usage {
        input: 1000,
        cached_input: 800,
        cache_write_input: 120,
        output: 50,
        reasoning_output: 30,
    };
    model
        .push(Reply::text("a").usage(usage))
        .push(Reply::text("b").without_usage());
    let usage = &ask(&model, "").await.event("response.completed")["response"]["usage"];
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 800);
    assert_eq!(usage["total_tokens"], 1050);
    let usage = &ask(&model, "").await.event("response.completed")["response"]["usage"];
    assert_eq!(usage, &json!(null));
}

#[tokio::test]
async fn line_ends_and_chunks_change_nothing_but_themselves() {
    let model = MockModel::start().await.unwrap();
    let reply = || Reply::streamed(["grüße ", "aus ", "übersee"]);
    for line_end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
        for chunks in [Chunks::PerEvent, Chunks::OfBytes(3), Chunks::Joined] {
            model.push(reply().line_end(line_end).chunks(chunks));
            let answer = ask(&model, "").await;
            assert_eq!(answer.message(), "grüße aus übersee");
            assert_eq!(answer.text().contains("\r\n"), line_end == LineEnd::CrLf);
            match chunks {
                Chunks::PerEvent => assert_eq!(answer.chunks.len(), 11),
                Chunks::OfBytes(size) => {
                    assert!(answer.chunks.iter().all(|chunk| chunk.len() <= size));
                }
                Chunks::Joined => assert_eq!(answer.chunks.len(), 1),
            }
        }
    }
    model.push(reply().without_event_names());
    assert!(!ask(&model, "").await.text().contains("event:"));
}

#[tokio::test]
async fn a_huge_answer_arrives_whole() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::huge_text(1));
    let answer = ask(&model, "").await;
    assert_eq!(answer.message().len(), 1 << 20);
    assert_eq!(answer.end, End::Proper);
}

#[tokio::test]
async fn a_slow_answer_waits_before_every_event_on_tokios_clock() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("s").slow(Duration::from_millis(2)));
    let before = tokio::time::Instant::now();
    let events = ask(&model, "").await.events().len();
    let least = Duration::from_millis(2) * u32::try_from(events).unwrap();
    assert!(before.elapsed() >= least, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_makes_a_slow_answer_fast() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("s").slow(Duration::from_hours(1)));
    // No deadlines here: on a paused clock they would pass while the sockets work.
    let body = crate::http::prompt("").to_string();
    let stream = crate::http::write(&model, "POST", "/responses", &body).await;
    let mut reader = tokio::io::BufReader::new(stream);
    let mut seen = Vec::new();
    while !seen.ends_with(b"0\r\n\r\n") {
        let count = tokio::io::AsyncBufReadExt::read_until(&mut reader, b'\n', &mut seen).await;
        assert!(count.unwrap() > 0, "the answer has its end");
    }
    assert!(String::from_utf8_lossy(&seen).contains("response.completed"));
}

#[tokio::test]
async fn models_are_listed_and_other_paths_are_not_served() {
    let model = MockModel::start().await.unwrap();
    let list = send(&model, "GET", "/v1/models?client_version=1", "")
        .await
        .whole()
        .await;
    assert_eq!(list.json()["data"][0]["id"], "mock-model");
    let unknown = send(&model, "GET", "/v1/elsewhere", "").await.whole().await;
    assert_eq!(unknown.status, 404);
    let paths: Vec<_> = model
        .other_requests()
        .iter()
        .map(|r| r.path.clone())
        .collect();
    assert_eq!(paths, ["/v1/models", "/v1/elsewhere"]);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn an_edited_answer_can_be_as_odd_as_any_server() {
    let model = MockModel::start().await.unwrap();
    let reply = Reply::text("odd").edited(|mut events| {
        events.retain(|event| event["type"] != "response.output_item.done");
        for event in &mut events {
            event.as_object_mut().unwrap().remove("output_index");
        }
        events
    });
    model.push(reply);
    let answer = ask(&model, "").await;
    assert!(!answer.text().contains("output_index"));
    assert!(!answer.kinds().contains(&"output_item.done".to_owned()));
    assert_eq!(answer.message(), "odd");
}
