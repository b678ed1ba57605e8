//! Answers that come as one object.

use serde_json::json;

use super::*;

fn whole(body: &str) -> Vec<String> {
    let (head, tail) = body.as_bytes().split_at(body.len() / 2);
    told_of(ResponseStream::new(Body::Json, counting()), &[head, tail])
}

#[test]
fn the_content_type_tells_the_form() {
    let form = Body::of_content_type;
    assert_eq!(form("text/event-stream; charset=utf-8"), Some(Body::Events));
    assert_eq!(form("Application/JSON"), Some(Body::Json));
    assert_eq!(form("text/html"), None);
    assert_eq!(form(""), None);
}

#[test]
fn a_whole_response_is_opened_and_completed_item_by_item() {
    let body = json!({"id": "resp_1", "object": "response", "status": "completed", "error": null,
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}], "encrypted_content": "gA"},
            {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"},
            {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}],
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}});
    let lines = [
        "i1 opened: reasoning [\"why\"] []",
        "i1 completed at 0, replayed: reasoning [\"why\"] []",
        "i2 opened: message \"hello\"",
        "i2 completed at 2, replayed: message \"hello\"",
        "call c at 1: exec({})",
        "usage 7 = 3 (0 cached, 0 written) + 4 (0 reasoning)",
        "completed",
    ];
    assert_eq!(whole(&body.to_string()), lines);
}

#[test]
fn a_whole_response_may_have_failed_or_be_incomplete() {
    assert_eq!(whole(r#"{"error":{"code":1}}"#), [r#"failed: {"code":1}"#]);
    assert_eq!(
        whole(r#"{"status":"failed"}"#),
        [r#"failed: {"status":"failed"}"#]
    );
    let body = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#;
    assert_eq!(
        whole(body),
        ["incomplete: max_output_tokens, 0 calls dropped"]
    );
}

#[test]
fn a_whole_answer_that_is_no_finished_response_is_an_error() {
    let no_response = ["error: the answer is not a response"];
    for body in [
        "",
        "<html>",
        "[]",
        "{}",
        "{\"id\":\"x\"",
        "{\"object\":\"list\"}",
    ] {
        assert_eq!(whole(body), no_response, "{body}");
    }
    let cut = ["error: stream closed before response.completed"];
    assert_eq!(whole(r#"{"status":"in_progress","output":[]}"#), cut);
}

#[test]
fn a_whole_answer_has_a_limit() {
    let limits = crate::native::sse::Limits {
        event_bytes_max: 1,
        response_bytes_max: 13,
    };
    let reader = || ResponseStream::with_limits(Body::Json, limits, counting());
    assert_eq!(told_of(reader(), &[b"{\"output\":[]}"]), ["completed"]);
    let large = ["error: the response is larger than 13 bytes"];
    assert_eq!(told_of(reader(), &[b"{\"output\":[]}", b" "]), large);
}

#[test]
fn what_is_replayed_is_what_the_provider_wrote_or_what_arrived() {
    let mut assembler = Assembler::new(counting());
    let mut steps = Vec::new();
    let body =
        r#"{"output":[{"type":"message","content":[{"type":"output_text", "text":"\u0061"}]}]}"#;
    assembler.whole(body, &mut steps).unwrap();
    let raw = |steps: &[Step]| {
        let raw = steps.iter().find_map(|step| match step {
            Step::Completed(done) => done.raw.clone(),
            Step::Call(call) => Some(call.raw.clone()),
            _ => None,
        });
        raw.unwrap().get().to_owned()
    };
    let written = r#"{"type":"message","content":[{"type":"output_text", "text":"\u0061"}]}"#;
    assert_eq!(raw(&steps), written);

    let built = |stream: &[String]| -> Value {
        let mut reader = ResponseStream::new(Body::Events, counting());
        let mut steps = Vec::new();
        reader.push(stream.concat().as_bytes(), &mut steps).unwrap();
        serde_json::from_str(&raw(&steps)).unwrap()
    };
    let item = json!({"type": "message", "phase": "commentary", "content": []});
    let message = built(&[
        event(
            "response.output_item.added",
            json!({"output_index": 0, "item": item}),
        ),
        event(
            "response.output_text.delta",
            json!({"output_index": 0, "delta": "hi"}),
        ),
        event(
            "response.output_item.done",
            json!({"output_index": 0, "item": item}),
        ),
        event("response.completed", json!({})),
    ]);
    let expected = json!({"type": "message", "role": "assistant", "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}]});
    assert_eq!(message, expected);

    let item = json!({"type": "function_call", "call_id": "c", "name": "exec"});
    let call = built(&[
        event(
            "response.output_item.added",
            json!({"output_index": 0, "item": item}),
        ),
        event("response.completed", json!({})),
    ]);
    let expected =
        json!({"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"});
    assert_eq!(call, expected);
}
