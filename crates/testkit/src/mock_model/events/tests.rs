//! The rules that hold for every rendered answer.

use super::*;

fn context() -> Context {
    Context {
        number: 3,
        model: "mock-model".to_owned(),
    }
}

fn everything() -> Vec<Item> {
    vec![
        Item::reasoning("first").and_summary("second"),
        Item::reasoning_text(["raw ", "thought"]),
        Item::streamed(["he", "llo"]).phase("commentary"),
        Item::refusal("no"),
        Item::function_call("exec_command", json!({"cmd": "echo a long enough command"})),
        Item::custom_tool_call("apply_patch", "*** Begin Patch\n*** End Patch\n"),
        Item::local_shell_call(["ls", "-l"]).call_id("mine"),
        Item::web_search_call("weather"),
        Item::raw(json!({"type": "image_generation_call", "id": "ig_1"})),
    ]
}

#[test]
fn every_item_is_announced_and_done_at_its_index_and_repeated_at_the_end() {
    let items = everything();
    let events = render(&items, &End::Completed, Some(Usage::SAMPLE), &context());
    let of = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    let added = of("response.output_item.added");
    let done = of("response.output_item.done");
    assert_eq!((added.len(), done.len()), (items.len(), items.len()));
    let output = &events.last().unwrap()["response"]["output"];
    for (index, (added, done)) in added.iter().zip(&done).enumerate() {
        assert_eq!(added["output_index"], index);
        assert_eq!(done["output_index"], index);
        assert_eq!(added["item"]["id"], done["item"]["id"]);
        assert_eq!(output[index], done["item"]);
    }
    assert_eq!(output[6]["call_id"], "mine");
    assert_eq!(output[4]["call_id"], "call_3_4");
}

#[test]
fn sequence_numbers_count_without_gap() {
    let events = render(&everything(), &End::Missing, None, &context());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
}

#[test]
fn deltas_joined_are_what_the_done_event_says() {
    let events = render(&everything(), &End::Completed, None, &context());
    for (delta, done, member) in [
        (
            "response.output_text.delta",
            "response.output_text.done",
            "text",
        ),
        (
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "text",
        ),
        ("response.refusal.delta", "response.refusal.done", "refusal"),
        (
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "arguments",
        ),
        (
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "input",
        ),
    ] {
        let joined: String = events
            .iter()
            .filter(|event| event["type"] == delta)
            .filter_map(|event| event["delta"].as_str())
            .collect();
        let done = events.iter().find(|event| event["type"] == done).unwrap();
        assert!(!joined.is_empty(), "{delta}");
        assert_eq!(done[member], joined.as_str(), "{delta}");
    }
}

#[test]
fn each_end_is_the_last_event_and_carries_its_reason() {
    let last = |end: End| {
        render(&[], &end, Some(Usage::SAMPLE), &context())
            .pop()
            .unwrap()
    };
    assert_eq!(
        last(End::Completed)["response"]["usage"],
        json!({
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 7},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 120,
        })
    );
    let incomplete = last(End::Incomplete {
        reason: "content_filter".to_owned(),
    });
    assert_eq!(
        incomplete["response"]["incomplete_details"]["reason"],
        "content_filter"
    );
    let failed = last(End::Failed(ApiError::context_length_exceeded()));
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(
        failed["response"]["error"]["code"],
        "context_length_exceeded"
    );
    let error = last(End::ErrorEvent(ApiError::server_error()));
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("error"), &json!("server_error"))
    );
    assert_eq!(last(End::Missing)["type"], "response.in_progress");
}
