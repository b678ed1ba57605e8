//! The answers of the testkit's mock model.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnlane_testkit::mock_model::{At, Chunks, Item, LineEnd, MockModel, Noise, Reply};

use super::*;

/// What the mock streams; HTTP/1.0, so that the body is all bytes up to the end.
async fn streamed(reply: Reply) -> Vec<u8> {
    let mock = MockModel::start().await.unwrap();
    mock.push(reply);
    let mut socket = TcpStream::connect(mock.address()).await.unwrap();
    let body = json!({"model": "m", "stream": true, "input": []}).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/responses HTTP/1.0\r\nHost: mock\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    assert!(
        head.contains(" 200 ") && !head.contains("chunked"),
        "{head}"
    );
    answer.split_off(end + 4)
}

fn everything() -> Reply {
    Reply::of([
        Item::reasoning("first").and_summary("second"),
        Item::reasoning_text(["raw ", "thought"]),
        Item::streamed(["he", "llo"]).phase("commentary"),
        Item::refusal("no"),
        Item::function_call("exec_command", json!({"cmd": "echo a long enough command"})),
        Item::custom_tool_call("apply_patch", "*** Begin Patch\n"),
        Item::web_search_call("weather"),
        Item::raw(json!({"type": "image_generation_call", "id": "ig_1"})),
    ])
}

#[tokio::test]
async fn everything_the_mock_can_say_is_understood() {
    let plain = told(&[&streamed(everything()).await]);
    let completed: Vec<&str> = plain
        .iter()
        .filter(|line| line.contains(" completed at ") || !line.starts_with('i'))
        .map(String::as_str)
        .collect();
    assert_eq!(
        completed,
        [
            "i1 completed at 0, replayed: reasoning [\"first\", \"second\"] []",
            "i2 completed at 1, not replayed: reasoning [] [\"raw thought\"]",
            "i3 completed at 2, replayed: message \"hello\" Commentary",
            "i4 completed at 3, replayed: message \"no\"",
            "i5 completed at 6, replayed: search \"weather\"",
            "warning: the provider ran image_generation_call, which was not offered; it is left out",
            "call call_1_4 at 4: exec_command({\"cmd\":\"echo a long enough command\"})",
            "call call_1_5 at 5: apply_patch(*** Begin Patch\n)",
            "usage 120 = 100 (40 cached, 7 written) + 20 (5 reasoning)",
            "completed",
        ]
    );
    assert!(plain.contains(&"i1 summary part 1".to_owned()));

    for line_end in [LineEnd::CrLf, LineEnd::Cr] {
        let reply = everything()
            .line_end(line_end)
            .chunks(Chunks::OfBytes(7))
            .without_event_names();
        assert_eq!(told(&[&streamed(reply).await]), plain);
    }
}

#[tokio::test]
async fn noise_of_the_mock_changes_nothing() {
    let plain = told(&[&streamed(everything()).await]);
    for noise in [
        Noise::Comment,
        Noise::BadJson,
        Noise::UnknownType,
        Noise::MissingFields,
        Noise::BadUtf8,
        Noise::DoneMarker,
    ] {
        let reply = everything().insert(At::AfterEvents(5), noise);
        assert_eq!(told(&[&streamed(reply).await]), plain, "{noise:?}");
    }
    let marked = everything().insert(At::AfterEvents(0), Noise::ByteOrderMark);
    assert_eq!(told(&[&streamed(marked).await]), plain);
}
