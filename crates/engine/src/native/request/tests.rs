//! Bodies, compared with the contract field by field and with each other byte by byte.
//!
//! How long a large one takes is printed, not asserted: it depends on the machine.

use serde_json::{Value, json};
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::input::UserInput;

use super::*;
use crate::native::history::{Answer, Load, Pictures, Produced, compacted};

fn thread() -> ThreadId {
    ThreadId::at(7, [7; 10])
}

fn author(turn: u64) -> Author {
    Author {
        turn_id: TurnId::at(turn, [1; 10]),
        provider: "p".to_owned(),
        model: "m-1".to_owned(),
    }
}

fn view() -> View {
    View {
        provider: "p".to_owned(),
        reasoning: Reasoning::Encrypted,
        pictures: Pictures::Sent,
    }
}

fn plain<'a>() -> Fields<'a> {
    Fields {
        model: "m-1",
        instructions: "be \"good\"",
        tools: &[],
        effort: None,
        summary: None,
        verbosity: None,
        output_schema: None,
        service_tier: None,
        max_output_tokens: None,
        thread_id: thread(),
        drop: &[],
    }
}

fn exec(parameters: Value) -> RuntimeTool {
    RuntimeTool {
        name: "exec_command".to_owned(),
        description: "runs".to_owned(),
        parameters,
    }
}

fn user(turn: u64, text: &str) -> Entry {
    let input = [UserInput::text(text)];
    author(turn).user(&ItemId::from("i"), &input).unwrap()
}

/// A message, a call and its answer.
fn round(turn: u64, call_id: &str) -> Vec<Entry> {
    let thought = json!({"id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "Look first."}]});
    let message = Produced::Message {
        item_id: ItemId::from("0f3a"),
        text: "Running.".to_owned(),
        phase: None,
    };
    let call = Produced::Call {
        call_id: call_id.to_owned(),
        name: "exec_command".to_owned(),
        arguments: "{\"cmd\":\"make test\"}".to_owned(),
    };
    let answer = Answer {
        call_id: call_id.to_owned(),
        text: "Output:\nok\n".to_owned(),
    };
    let output = author(turn).output(&[Produced::Reasoning(thought), message, call]);
    vec![output.unwrap(), author(turn).answers(&[answer]).unwrap()]
}

fn json_of(body: &Body) -> Value {
    serde_json::from_slice(body.as_bytes()).unwrap()
}

fn input(body: &Body) -> Vec<Value> {
    json_of(body)["input"].as_array().unwrap().clone()
}

#[test]
fn the_body_is_the_contracts() {
    let tools = [exec(json!({"type": "object", "properties": {}}))];
    let schema = json!({});
    let fields = Fields {
        tools: &tools,
        effort: Some("medium"),
        summary: Some(ReasoningSummary::Auto),
        verbosity: Some("low"),
        output_schema: Some(&schema),
        ..plain()
    };
    let history = [vec![user(1, "run the tests")], round(1, "call_7")].concat();
    let body = Body::new(&fields, view(), &history);
    let expected = json!({"model": "m-1", "instructions": "be \"good\"", "input": [
        {"type": "message", "role": "user",
         "content": [{"type": "input_text", "text": "run the tests"}]},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
         "summary": [{"type": "summary_text", "text": "Look first."}]},
        {"type": "message", "id": "msg_0f3a", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Running.", "annotations": []}]},
        {"type": "function_call", "call_id": "call_7", "name": "exec_command",
         "arguments": "{\"cmd\":\"make test\"}"},
        {"type": "function_call_output", "call_id": "call_7", "output": "Output:\nok\n"}],
        "tools": [{"type": "function", "name": "exec_command", "description": "runs",
            "strict": false, "parameters": {"type": "object", "properties": {}}}],
        "tool_choice": "auto", "parallel_tool_calls": true,
        "reasoning": {"effort": "medium", "summary": "auto"}, "store": false, "stream": true,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": thread().to_string(),
        "text": {"verbosity": "low", "format": {"type": "json_schema",
            "name": "codex_output_schema", "strict": true, "schema": {}}}});
    assert_eq!(json_of(&body), expected);
    let text = str::from_utf8(body.as_bytes()).unwrap();
    let (_, last) = text.split_once(",\"input\":[{\"content\"").unwrap();
    assert!(last.ends_with("]}") && !last.contains("\"prompt_cache_key\""));
}

#[test]
fn what_nobody_set_is_not_sent() {
    let body = json_of(&Body::new(&plain(), view(), &[]));
    let expected = json!({"model": "m-1", "instructions": "be \"good\"", "store": false,
        "stream": true, "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": thread().to_string(), "input": []});
    assert_eq!(body, expected);
    let silent = Fields {
        summary: Some(ReasoningSummary::None),
        service_tier: Some("flex"),
        max_output_tokens: Some(9),
        ..plain()
    };
    let body = json_of(&Body::new(&silent, view(), &[]));
    assert_eq!(body.get("reasoning"), None);
    assert_eq!(
        (&body["service_tier"], &body["max_output_tokens"]),
        (&json!("flex"), &json!(9))
    );
    let without = View {
        reasoning: Reasoning::LeftOut,
        ..view()
    };
    assert_eq!(
        json_of(&Body::new(&plain(), without, &[])).get("include"),
        None
    );
}

#[test]
fn dropped_fields_and_parts_are_not_sent() {
    let tools = [exec(json!({}))];
    let schema = json!({"type": "object"});
    let full = Fields {
        tools: &tools,
        effort: Some("high"),
        summary: Some(ReasoningSummary::Detailed),
        verbosity: Some("low"),
        output_schema: Some(&schema),
        service_tier: Some("flex"),
        ..plain()
    };
    let all = json_of(&Body::new(&full, view(), &[]));
    for (drop, gone) in [
        (vec!["include"], vec!["/include"]),
        (vec!["prompt_cache_key"], vec!["/prompt_cache_key"]),
        (
            vec!["store", "service_tier"],
            vec!["/store", "/service_tier"],
        ),
        (vec!["parallel_tool_calls"], vec!["/parallel_tool_calls"]),
        (
            vec!["tools"],
            vec!["/tools", "/tool_choice", "/parallel_tool_calls"],
        ),
        (vec!["reasoning.effort"], vec!["/reasoning/effort"]),
        (
            vec!["reasoning.effort", "reasoning.summary"],
            vec!["/reasoning"],
        ),
        (vec!["reasoning"], vec!["/reasoning"]),
        (vec!["text.verbosity"], vec!["/text/verbosity"]),
        (vec!["text.format", "text.verbosity"], vec!["/text"]),
        (vec!["model", "input", "stream"], vec![]),
    ] {
        let drop: Vec<String> = drop.into_iter().map(str::to_owned).collect();
        let fields = Fields {
            drop: &drop,
            ..full
        };
        let mut expected = all.clone();
        for pointer in gone {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let parent = expected.pointer_mut(parent).unwrap();
            parent.as_object_mut().unwrap().remove(name).unwrap();
        }
        assert_eq!(
            json_of(&Body::new(&fields, view(), &[])),
            expected,
            "{drop:?}"
        );
        // Learned in the middle of a turn, it is the same.
        let mut body = Body::new(&full, view(), &[]);
        body.change(&fields, Reasoning::Encrypted);
        assert_eq!(json_of(&body), expected, "{drop:?}");
    }
}

#[test]
fn parameters_are_always_an_object_with_properties() {
    for given in [
        json!({}),
        json!(null),
        json!({"properties": null}),
        json!({"type": "object"}),
    ] {
        let tools = [exec(given)];
        let fields = Fields {
            tools: &tools,
            ..plain()
        };
        let body = json_of(&Body::new(&fields, view(), &[]));
        let expected = json!({"type": "object", "properties": {}});
        assert_eq!(body["tools"][0]["parameters"], expected);
    }
}

#[test]
fn two_calls_of_a_turn_share_every_byte_before_the_new_entries() {
    let mut body = Body::new(&plain(), view(), &[user(1, "run the tests")]);
    let mut recorded = vec![user(1, "run the tests")];
    for id in ["a", "b", "c"] {
        let before = body.as_bytes().to_vec();
        body.append(&round(1, id));
        recorded.extend(round(1, id));
        let kept = before.strip_suffix(b"]}").unwrap();
        assert!(body.as_bytes().starts_with(kept));
        // A restart sends the same bytes.
        assert_eq!(
            body.as_bytes(),
            Body::new(&plain(), view(), &recorded).as_bytes()
        );
    }
}

#[test]
fn a_fork_differs_in_its_key_alone() {
    let history = [vec![user(1, "a")], round(1, "x"), vec![user(2, "b")]].concat();
    let whole = json_of(&Body::new(&plain(), view(), &history[..3]));
    let forked = Fields {
        thread_id: ThreadId::at(8, [8; 10]),
        ..plain()
    };
    let mut fork = json_of(&Body::new(&forked, view(), &history[..3]));
    assert_ne!(fork, whole);
    fork["prompt_cache_key"] = thread().to_string().into();
    assert_eq!(fork, whole);
}

#[test]
fn reverting_a_turn_undoes_its_compaction() {
    let mut history = [vec![user(1, "a")], round(1, "x"), vec![user(2, "b")]].concat();
    let before = Body::new(&plain(), view(), &history);
    let summary = compacted(&author(3), &history, "short");
    history.extend([user(3, "c"), summary, user(3, "d")]);
    let after = Body::new(&plain(), view(), &history);
    let texts: Vec<_> = input(&after)
        .iter()
        .map(|item| item["content"][0]["text"].as_str().unwrap().len())
        .collect();
    assert_eq!((texts.len(), texts[0], texts[3]), (4, 1, 1));
    history.retain(|entry| entry.turn_id != author(3).turn_id);
    assert_eq!(
        Body::new(&plain(), view(), &history).as_bytes(),
        before.as_bytes()
    );
}

#[test]
fn another_provider_gets_the_same_without_reasoning() {
    let history = [vec![user(1, "a")], round(1, "x")].concat();
    let other = View {
        provider: "q".to_owned(),
        ..view()
    };
    let mut expected = input(&Body::new(&plain(), view(), &history));
    expected.remove(1);
    assert_eq!(input(&Body::new(&plain(), other, &history)), expected);
}

#[test]
fn a_compacting_request_asks_last_and_offers_nothing() {
    let tools = [exec(json!({}))];
    let schema = json!({"type": "object"});
    let fields = Fields {
        tools: &tools,
        output_schema: Some(&schema),
        ..plain()
    };
    let history = [vec![user(1, "a")], round(1, "x")].concat();
    let body = Body::compacting(&fields, view(), &history, (&author(2), "sum up"));
    assert_eq!(json_of(&body).get("tools"), None);
    assert_eq!(json_of(&body).get("text"), None);
    let items = input(&body);
    assert_eq!(items.len(), 6);
    assert_eq!(items[5]["content"][0]["text"], "sum up");
    // Without its oldest entries: the answer goes with its call.
    let shorter = Body::compacting(&fields, view(), &history[2..], (&author(2), "sum up"));
    assert_eq!(input(&shorter).len(), 1);
}

#[test]
fn compaction_makes_room_at_the_threshold() {
    let mut history = vec![user(1, "a")];
    let mut body = Body::new(&plain(), view(), &history);
    let load = Load::default();
    for id in 0.. {
        if load.is_due(body.estimated_tokens(), 1_000) {
            break;
        }
        let more = round(1, &id.to_string());
        body.append(&more);
        history.extend(more);
    }
    assert!(body.as_bytes().len() >= 3_996);
    let entry = compacted(&author(1), &history, "short");
    body.append(&[entry]);
    assert!(!load.is_due(body.estimated_tokens(), 1_000));
    assert_eq!(input(&body).len(), 2);
}

#[test]
fn a_picture_counts_as_a_picture() {
    let mut bytes = b"GIF89a".to_vec();
    bytes.resize(1_000_000, 0);
    let picture = crate::native::history::Image::new(&bytes, None).unwrap();
    let bare = Body::new(&plain(), view(), &[]).estimated_tokens();
    let seen = [author(1).pictures(&[picture]).unwrap()];
    let body = Body::new(&plain(), view(), &seen);
    let tokens = body.estimated_tokens() - bare;
    assert!(
        (PICTURE_TOKENS..PICTURE_TOKENS + 100).contains(&tokens),
        "{tokens}"
    );
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a figure for people")]
async fn ten_thousand_entries_are_joined() {
    let text = "word ".repeat(570);
    let mut history = Vec::new();
    for turn in 0..3_333 {
        history.push(user(turn, &text));
        history.extend(round(turn, "x"));
    }
    history.push(user(4_000, "last"));
    let bytes: usize = history.iter().map(|entry| entry.items.len()).sum();
    let started = tokio::time::Instant::now();
    let body = Body::new(&plain(), view(), &history);
    let took = started.elapsed();
    eprintln!("{} entries, {bytes} bytes: {took:?}", history.len());
    assert!(body.as_bytes().len() >= bytes - 2 * history.len());
    assert_eq!(input(&body).len(), 3_333 * 5 + 1);
}
