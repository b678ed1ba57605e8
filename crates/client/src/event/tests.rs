//! Notifications in the shapes that Codex 0.166 and Turnlane send, and in shapes that nobody sends.

mod fuzzed;

use serde_json::{Value, json};

use super::*;
use crate::outcome::ErrorKind;

fn decode(method: &str, params: &Value) -> Event {
    Event::decode(method.to_owned(), params.to_string().as_bytes(), Some(7))
}

fn of_turn() -> Value {
    json!({"threadId": "t", "turnId": "u"})
}

/// `params` and the ids of [`of_turn`].
fn in_turn(mut params: Value) -> Value {
    let Value::Object(ids) = of_turn() else {
        unreachable!("an object was written")
    };
    params.as_object_mut().unwrap().extend(ids);
    params
}

#[test]
fn turns_are_told_with_their_thread_and_their_id() {
    let turn = json!({
        "id": "u", "rootTurnId": "u", "items": [], "itemsView": "notLoaded", "status": "inProgress",
        "error": null, "startedAt": 1_794_769_729, "completedAt": null, "durationMs": null,
    });
    let event = decode("turn/started", &json!({"threadId": "t", "turn": turn}));
    assert_eq!(event.thread, Some(ThreadId::from("t")));
    assert_eq!(event.turn, Some(TurnId::from("u")));
    assert_eq!(event.seq, Some(7));
    assert!(!event.is_progress());
    let EventBody::TurnStarted(turn) = event.body else {
        panic!("{event:?}");
    };
    assert_eq!(turn.status, TurnStatus::InProgress);

    let turn = json!({
        "id": "u", "itemsView": "summary", "status": "completed", "error": null, "durationMs": 1_121,
        "items": [{"type": "agentMessage", "id": "msg_4", "text": "done", "phase": null}],
    });
    let event = decode("turn/completed", &json!({"threadId": "t", "turn": turn}));
    let EventBody::TurnCompleted(turn) = event.body else {
        panic!("{event:?}");
    };
    assert_eq!(turn.items[0].id.as_str(), "msg_4");
}

#[test]
fn items_of_every_kind_are_kept_with_their_ids() {
    let items = [
        json!({"type": "userMessage", "id": "1", "clientId": null,
            "content": [{"type": "text", "text": "hi", "text_elements": []}]}),
        json!({"type": "commandExecution", "id": "call_2", "command": "/bin/bash -lc 'touch a'",
            "cwd": "/w", "processId": null, "source": "agent", "status": "inProgress",
            "commandActions": [{"type": "unknown", "command": "touch a"}],
            "aggregatedOutput": null, "exitCode": null, "durationMs": null}),
        json!({"type": "fileChange", "id": "call_22", "status": "completed",
            "changes": [{"path": "/w/f", "kind": {"type": "add"}, "diff": "hi\n"}]}),
        json!({"type": "reasoning", "id": "rs_6", "summary": ["thinking"], "content": []}),
        json!({"type": "contextCompaction", "id": "c"}),
    ];
    for item in items {
        for method in ["item/started", "item/completed"] {
            let event = decode(method, &in_turn(json!({"item": item, "startedAtMs": 1})));
            assert_eq!(event.turn, Some(TurnId::from("u")));
            let (EventBody::ItemStarted(read) | EventBody::ItemCompleted(read)) = event.body else {
                panic!("{event:?}");
            };
            assert_eq!(read.id.as_str(), item["id"]);
            assert_eq!(read.type_word(), item["type"]);
            assert!(!matches!(read.body, ItemBody::Other(_)), "{item}");
        }
    }
}

#[test]
fn an_odd_item_is_kept_whole_and_so_is_its_event() {
    let odd = [
        (
            json!({"type": "dream", "id": "d", "depth": 3}),
            "d",
            "dream",
        ),
        (
            json!({"type": "agentMessage", "id": "m", "text": 3}),
            "m",
            "agentMessage",
        ),
        (
            json!({"type": "userMessage", "id": "m", "content": [{"type": "smell"}]}),
            "m",
            "userMessage",
        ),
        (
            json!({"type": "agentMessage", "id": 12, "text": "x"}),
            "12",
            "agentMessage",
        ),
        (json!({"id": "no type"}), "no type", ""),
        (json!({"type": "sleep", "startedAtMs": "noon"}), "", "sleep"),
        (json!({}), "", ""),
    ];
    for (item, id, word) in odd {
        let event = decode("item/completed", &in_turn(json!({"item": item})));
        let EventBody::ItemCompleted(read) = event.body else {
            panic!("{event:?}");
        };
        assert_eq!((read.id.as_str(), read.type_word()), (id, word));
        let ItemBody::Other(members) = &read.body else {
            panic!("{read:?}");
        };
        for (name, value) in item.as_object().unwrap() {
            assert!(
                members.get(name) == Some(value) || name == "id",
                "{name} of {item}"
            );
        }
    }
    let event = decode("item/completed", &in_turn(json!({"item": "none"})));
    assert!(matches!(event.body, EventBody::Unknown(_)));
    assert_eq!(event.turn, Some(TurnId::from("u")));
}

#[test]
fn every_text_that_grows_is_a_delta() {
    let deltas = [
        (
            "item/agentMessage/delta",
            json!({}),
            DeltaKind::Message,
            None,
        ),
        ("item/plan/delta", json!({}), DeltaKind::Plan, None),
        (
            "item/commandExecution/outputDelta",
            json!({}),
            DeltaKind::CommandOutput,
            None,
        ),
        (
            "item/reasoning/summaryTextDelta",
            json!({"summaryIndex": 2}),
            DeltaKind::ReasoningSummary,
            Some(2),
        ),
        (
            "item/reasoning/textDelta",
            json!({"contentIndex": 0}),
            DeltaKind::Reasoning,
            Some(0),
        ),
    ];
    for (method, mut params, kind, part) in deltas {
        params["itemId"] = json!("i");
        params["delta"] = json!("a \"quoted\" \u{1f600}\n");
        let event = decode(method, &in_turn(params));
        assert!(event.is_progress());
        assert_eq!(event.turn, Some(TurnId::from("u")));
        let EventBody::Delta(delta) = event.body else {
            panic!("{event:?}");
        };
        let text = "a \"quoted\" \u{1f600}\n".to_owned();
        assert_eq!(
            delta,
            Delta {
                item: "i".to_owned(),
                kind,
                part,
                text
            }
        );
    }
}

#[test]
fn progress_that_is_no_text_is_progress_too() {
    let plan = json!({"explanation": null, "plan": [{"step": "a", "status": "inProgress"}, {"step": "b", "status": "stuck"}]});
    let event = decode("turn/plan/updated", &in_turn(plan));
    assert!(event.is_progress());
    assert!(matches!(event.body, EventBody::Plan(plan) if plan.steps.len() == 2));

    let event = decode("turn/diff/updated", &in_turn(json!({"diff": "--- a"})));
    assert!(event.is_progress());
    assert!(matches!(event.body, EventBody::Diff(diff) if diff == "--- a"));

    let counts = json!({"totalTokens": 11, "inputTokens": 10, "cachedInputTokens": 0,
        "cacheWriteInputTokens": 0, "outputTokens": 1, "reasoningOutputTokens": 0});
    let usage =
        json!({"tokenUsage": {"total": counts, "last": counts, "modelContextWindow": 258_400}});
    let event = decode("thread/tokenUsage/updated", &in_turn(usage));
    assert!(event.is_progress());
    assert_eq!(event.turn, Some(TurnId::from("u")));
    assert!(matches!(event.body, EventBody::Usage(usage) if usage.context_window == Some(258_400)));

    for method in ["item/mcpToolCall/progress", "item/fileChange/outputDelta"] {
        assert!(decode(method, &of_turn()).is_progress(), "{method}");
    }
    // Told only here, so it may not be left out.
    for method in [
        "command/exec/outputDelta",
        "process/outputDelta",
        "item/reasoning/summaryPartAdded",
    ] {
        assert!(!decode(method, &json!({})).is_progress(), "{method}");
    }
}

#[test]
fn a_failed_model_call_says_whether_the_turn_goes_on() {
    let error = json!({"message": "stream closed", "additionalDetails": "d",
        "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": null}}});
    for (told, goes_on) in [
        (json!(true), true),
        (json!(false), false),
        (json!("true"), false),
    ] {
        let params = in_turn(json!({"error": error, "willRetry": told}));
        let EventBody::Error(read) = decode("error", &params).body else {
            panic!("{params}");
        };
        assert_eq!(read.will_retry, goes_on);
        assert_eq!(read.kind, ErrorKind::Network);
        assert_eq!(read.details.as_deref(), Some("d"));
    }
}

#[test]
fn what_happens_to_threads_requests_hooks_and_people_is_typed() {
    let thread = json!({"threadId": "t"});
    let status = json!({"threadId": "t", "status": {"type": "active", "activeFlags": []}});
    let event = decode("thread/status/changed", &status);
    assert!(matches!(event.body, EventBody::Status(word) if word == "active"));
    for method in ["thread/archived", "thread/deleted", "thread/closed"] {
        let event = decode(method, &thread);
        assert!(matches!(event.body, EventBody::ThreadGone), "{method}");
        assert_eq!(event.thread, Some(ThreadId::from("t")));
    }
    let queue = json!({"threadId": "t", "queuedTurns": [], "truncated": false});
    let event = decode("thread/queue/changed", &queue);
    assert!(matches!(event.body, EventBody::Queue(told) if *told == queue));
    let resolved = decode(
        "serverRequest/resolved",
        &json!({"threadId": "t", "requestId": 0}),
    );
    assert!(matches!(resolved.body, EventBody::RequestResolved(id) if id == json!(0)));
    let run = json!({"id": "h", "status": "running"});
    let event = decode("hook/started", &in_turn(json!({"run": run})));
    assert!(matches!(event.body, EventBody::Hook(told) if told == run));
    let lagged = decode("connection/lagged", &json!({"threadId": "t", "missed": 12}));
    assert!(matches!(lagged.body, EventBody::Lagged { missed: 12 }));

    let warning = |method: &str, params: Value| match decode(method, &params).body {
        EventBody::Warning(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        warning("warning", json!({"threadId": "t", "message": "m"})),
        "m"
    );
    assert_eq!(
        warning("configWarning", json!({"summary": "s", "details": null})),
        "s"
    );
    assert_eq!(
        warning("deprecationNotice", json!({"summary": "s", "details": "d"})),
        "s\nd"
    );
}

#[test]
fn what_has_no_type_is_kept_to_the_byte_and_finds_its_thread() {
    let raw = br#"{ "threadId":"t",  "threadName": "my name", "n": 1e400 }"#;
    let event = Event::decode("thread/name/updated".to_owned(), raw, None);
    let EventBody::Unknown(kept) = &event.body else {
        panic!("{event:?}");
    };
    assert_eq!(kept.params.get().as_bytes(), raw);
    assert_eq!(kept.method, "thread/name/updated");

    let started = decode(
        "thread/started",
        &json!({"thread": {"id": "t", "turns": []}}),
    );
    assert_eq!(started.thread, Some(ThreadId::from("t")));
    let approval = json!({"change": "requested", "approval": {"threadId": "t", "turnId": "u"}});
    let asked = decode("approval/changed", &approval);
    assert_eq!(asked.thread, Some(ThreadId::from("t")));
    assert_eq!(asked.turn, Some(TurnId::from("u")));
}

#[test]
fn a_listed_method_with_other_params_is_kept_as_it_came() {
    for method in turnlane_protocol::notification::method::ALL {
        for params in [
            "{}",
            "null",
            "[]",
            "\"x\"",
            "7",
            r#"{"threadId":7,"turn":[],"item":null}"#,
        ] {
            let event = Event::decode((*method).to_owned(), params.as_bytes(), None);
            let EventBody::Unknown(kept) = &event.body else {
                panic!("{method} {params}: {event:?}");
            };
            assert_eq!(kept.params.get(), params);
            assert_eq!((&event.thread, &event.turn), (&None, &None));
        }
    }
}

#[test]
fn depth_length_and_bytes_that_are_no_json_do_no_harm() {
    let deep = format!(
        "{{\"threadId\":\"t\",\"x\":{}{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let event = Event::decode("warning".to_owned(), deep.as_bytes(), None);
    assert!(matches!(event.body, EventBody::Unknown(kept) if kept.params.get() == deep));

    let long = "i".repeat(1 << 20);
    let params = json!({"threadId": long, "turnId": long, "itemId": long, "delta": "x"});
    let event = decode("item/agentMessage/delta", &params);
    assert_eq!(event.turn.map(|turn| turn.as_str().len()), Some(1 << 20));
    assert!(event.bytes > 3 << 20);

    for bytes in [&b""[..], b"{", b"\xff\xfe", b"nul"] {
        let event = Event::decode("turn/started".to_owned(), bytes, None);
        assert!(matches!(event.body, EventBody::Unknown(_)));
    }
}
