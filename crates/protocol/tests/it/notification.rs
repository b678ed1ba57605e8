//! Every notification: read, written, stamped, and passed on when we do not know it.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use turnlane_protocol::envelope::{Message, ReceivedStamp, Stamp, decode};
use turnlane_protocol::notification::{
    DeltaKind, ItemPlace, ServerNotification, encode_delta, method,
};

use crate::approval::approval;
use crate::example::with;
use crate::fanout;
use crate::item::item;
use crate::method::settings;
use crate::methods_threads::goal;
use crate::queue;
use crate::thread::{THREAD, thread};
use crate::turn::{TURN, token_usage, turn, turn_error};

fn read(name: &str, params: &Value) -> ServerNotification {
    let raw = RawValue::from_string(params.to_string()).unwrap();
    match ServerNotification::read(name, Some(&raw)) {
        Ok(notification) => notification,
        Err(why) => panic!("{name}: {why}: {params}"),
    }
}

fn about_threads() -> Vec<(&'static str, Value)> {
    let gone = json!({"threadId": THREAD});
    vec![
        (method::THREAD_STARTED, json!({"thread": thread(json!({}))})),
        (
            method::THREAD_STATUS_CHANGED,
            json!({"threadId": THREAD, "status": {"type": "active", "activeFlags": []}}),
        ),
        (
            method::THREAD_NAME_UPDATED,
            json!({"threadId": THREAD, "threadName": "n"}),
        ),
        (
            method::THREAD_NAME_UPDATED,
            json!({"threadId": THREAD, "threadName": null}),
        ),
        (
            method::THREAD_SETTINGS_UPDATED,
            json!({"threadId": THREAD, "threadSettings": settings()}),
        ),
        // All that Codex says, and all that we do.
        (method::THREAD_QUEUE_CHANGED, gone.clone()),
        (
            method::THREAD_QUEUE_CHANGED,
            with(
                queue::state(),
                json!({"threadId": THREAD, "queuedTurns": [queue::row(json!({}))],
                    "truncated": false}),
            ),
        ),
        (
            method::THREAD_TOKEN_USAGE_UPDATED,
            json!({"threadId": THREAD, "turnId": TURN, "tokenUsage":
                {"total": token_usage(), "last": token_usage(), "modelContextWindow": 1000}}),
        ),
        (method::THREAD_ARCHIVED, gone.clone()),
        (method::THREAD_UNARCHIVED, gone.clone()),
        (method::THREAD_DELETED, gone.clone()),
        (method::THREAD_CLOSED, gone.clone()),
        (method::THREAD_REVERTED, gone.clone()),
        (
            method::THREAD_READ_STATE_CHANGED,
            json!({"threadId": THREAD, "readState": {"revision": "1",
                "firstUnread": {"type": "turn", "turnId": TURN}}}),
        ),
        (
            method::THREAD_GOAL_UPDATED,
            json!({"threadId": THREAD, "turnId": null, "goal": goal()}),
        ),
        (method::THREAD_GOAL_CLEARED, gone),
    ]
}

fn about_turns() -> Vec<(&'static str, Value)> {
    let place = json!({"threadId": THREAD, "turnId": TURN});
    vec![
        (
            method::TURN_STARTED,
            json!({"threadId": THREAD, "turn": turn(json!({}))}),
        ),
        (
            method::TURN_COMPLETED,
            json!({"threadId": THREAD, "turn": turn(json!({}))}),
        ),
        (
            method::TURN_COMPLETED,
            json!({"threadId": THREAD, "turn": turn(json!({})), "outputValid": true}),
        ),
        (
            method::TURN_PLAN_UPDATED,
            with(
                place.clone(),
                json!({"explanation": null, "plan": [
                {"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"},
                {"step": "c", "status": "pending"}, {"step": "d", "status": "skipped"}]}),
            ),
        ),
        (
            method::TURN_DIFF_UPDATED,
            with(place.clone(), json!({"diff": "diff"})),
        ),
        (
            method::ERROR,
            with(
                place.clone(),
                json!({"error": turn_error(json!({})), "willRetry": true}),
            ),
        ),
        (
            method::HOOK_STARTED,
            with(place, json!({"run": {"id": "r", "status": "running"}})),
        ),
        (
            method::HOOK_COMPLETED,
            json!({"threadId": null, "turnId": null, "run": {"id": "r"}}),
        ),
    ]
}

fn about_items() -> Vec<(&'static str, Value)> {
    let turn = json!({"threadId": THREAD, "turnId": TURN});
    let place = with(turn.clone(), json!({"itemId": "i"}));
    let delta = with(place.clone(), json!({"delta": "é\n"}));
    let started = json!({"item": item("plan", json!({"text": "a"})), "startedAtMs": 5});
    let completed = json!({"item": item("hologram", json!({"a": 1})), "completedAtMs": 6});
    vec![
        (method::ITEM_STARTED, with(turn.clone(), started)),
        (method::ITEM_COMPLETED, with(turn, completed)),
        (method::AGENT_MESSAGE_DELTA, delta.clone()),
        (method::PLAN_DELTA, delta.clone()),
        (method::COMMAND_OUTPUT_DELTA, delta.clone()),
        (
            method::REASONING_SUMMARY_PART_ADDED,
            with(place.clone(), json!({"summaryIndex": 1})),
        ),
        (
            method::REASONING_SUMMARY_TEXT_DELTA,
            with(delta.clone(), json!({"summaryIndex": 1})),
        ),
        (
            method::REASONING_TEXT_DELTA,
            with(delta, json!({"contentIndex": 0})),
        ),
        (
            method::TERMINAL_INTERACTION,
            with(place.clone(), json!({"processId": "7", "stdin": "y\n"})),
        ),
        (
            method::MCP_TOOL_CALL_PROGRESS,
            with(place, json!({"message": "half"})),
        ),
    ]
}

fn about_the_rest() -> Vec<(&'static str, Value)> {
    let mut examples = vec![
        (
            method::SERVER_REQUEST_RESOLVED,
            json!({"threadId": THREAD, "requestId": 0}),
        ),
        (
            method::SERVER_REQUEST_RESOLVED,
            json!({"threadId": THREAD, "requestId": "a"}),
        ),
        (method::WARNING, json!({"threadId": null, "message": "m"})),
        (method::WARNING, json!({"threadId": THREAD, "message": "m"})),
        (
            method::RATE_LIMITS_UPDATED,
            json!({"rateLimits": {"primary": {"usedPercent": 5}}}),
        ),
        (
            method::CONNECTION_LAGGED,
            json!({"threadId": THREAD, "missed": 12}),
        ),
        (
            method::APPROVAL_CHANGED,
            json!({"change": "requested", "approval": approval(json!({})), "decision": null,
                "by": null, "reason": null}),
        ),
    ];
    for by in ["client", "hook", "policy", "timeout", "interrupt"] {
        let resolved = json!({"change": "resolved", "approval": approval(json!({})),
            "decision": "decline", "by": by, "reason": "no one answered"});
        examples.push((method::APPROVAL_CHANGED, resolved));
    }
    examples
}

fn about_processes() -> Vec<(&'static str, Value)> {
    let delta = json!({"stream": "stdout", "deltaBase64": "aGkK", "capReached": false});
    vec![
        (
            method::COMMAND_EXEC_OUTPUT_DELTA,
            with(delta.clone(), json!({"processId": "p"})),
        ),
        (
            method::PROCESS_OUTPUT_DELTA,
            with(
                delta,
                json!({"processHandle": "h", "stream": "stderr", "capReached": true}),
            ),
        ),
        (
            method::PROCESS_EXITED,
            json!({"processHandle": "h", "exitCode": 124, "outputDrainTimedOut": false,
                "stdout": "o", "stdoutCapReached": true, "stderr": "e",
                "stderrCapReached": false}),
        ),
    ]
}

fn about_jobs() -> Vec<(&'static str, Value)> {
    vec![
        (method::FANOUT_UPDATED, json!({"job": fanout::status()})),
        (
            method::FANOUT_ITEM_UPDATED,
            json!({"jobId": fanout::JOB, "item": fanout::item()}),
        ),
        (
            method::FANOUT_ITEM_UPDATED,
            json!({"jobId": fanout::JOB, "dropped": 7}),
        ),
        (method::FANOUT_ENDED, json!({"job": fanout::job()})),
    ]
}

/// At least one of every method.
fn examples() -> Vec<(&'static str, Value)> {
    [
        about_threads(),
        about_turns(),
        about_items(),
        about_processes(),
        about_the_rest(),
        about_jobs(),
    ]
    .concat()
}

#[test]
fn every_notification_comes_back_whole() {
    let examples = examples();
    for (name, params) in &examples {
        let notification = read(name, params);
        assert!(
            !matches!(notification, ServerNotification::Unlisted(_)),
            "{name}"
        );
        assert_eq!(notification.method(), *name);
        let whole = json!({"method": name, "params": params});
        assert_eq!(serde_json::to_value(&notification).unwrap(), whole);
        #[cfg(feature = "schema")]
        crate::schema::assert_valid::<ServerNotification>(&whole);
    }
    for name in method::ALL {
        assert!(
            examples.iter().any(|(example, _)| example == name),
            "no example of {name}"
        );
    }
}

#[test]
fn frames_carry_the_stamp_and_read_back_equal() {
    let stamp = Stamp {
        emitted_at_ms: 1_767_225_600_123,
        seq: Some(41),
    };
    for (name, params) in examples() {
        let notification = read(name, &params);
        let frame = notification.encode(Some(stamp)).unwrap();
        let Ok(Message::Notification {
            method,
            params: raw,
            stamp: received,
        }) = decode(&frame)
        else {
            panic!("{name} is no notification");
        };
        let expected = ReceivedStamp {
            emitted_at_ms: Some(1_767_225_600_123),
            seq: Some(41),
        };
        assert_eq!(received, expected);
        assert_eq!(
            ServerNotification::read(&method, raw).unwrap(),
            notification
        );
    }
}

#[test]
fn methods_we_do_not_know_are_passed_on() {
    let params = json!({"threadId": "x", "deep": [1, {"a": null}]});
    let notification = read("thread/dreamt", &params);
    assert!(matches!(notification, ServerNotification::Unlisted(_)));
    assert_eq!(notification.method(), "thread/dreamt");
    let whole = json!({"method": "thread/dreamt", "params": params});
    assert_eq!(serde_json::to_value(&notification).unwrap(), whole);
    let frame = notification.encode(None).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&frame).unwrap(), whole);
    let bare = ServerNotification::read("skills/changed", None).unwrap();
    assert_eq!(serde_json::to_value(bare).unwrap()["params"], json!({}));
}

#[test]
fn params_that_do_not_fit_are_an_error_not_an_unknown_method() {
    let raw = RawValue::from_string(r#"{"threadId":"nope"}"#.to_owned()).unwrap();
    assert!(ServerNotification::read(method::THREAD_CLOSED, Some(&raw)).is_err());
    assert!(ServerNotification::read(method::THREAD_CLOSED, None).is_err());
}

#[test]
fn deltas_written_for_merging_are_the_same_notifications() {
    let place = ItemPlace {
        thread_id: THREAD.parse().unwrap(),
        turn_id: TURN.parse().unwrap(),
        item_id: "i".into(),
    };
    let stamp = Stamp {
        emitted_at_ms: 5,
        seq: Some(1),
    };
    let about = json!({"threadId": THREAD, "turnId": TURN, "itemId": "i", "delta": "é\n"});
    for (kind, members) in [
        (DeltaKind::AgentMessage, json!({})),
        (DeltaKind::Plan, json!({})),
        (DeltaKind::CommandOutput, json!({})),
        (
            DeltaKind::ReasoningSummary { summary_index: 2 },
            json!({"summaryIndex": 2}),
        ),
        (
            DeltaKind::ReasoningText { content_index: 3 },
            json!({"contentIndex": 3}),
        ),
    ] {
        let delta = encode_delta(kind, &place, "é\n", stamp).unwrap();
        let notification = read(kind.method(), &with(about.clone(), members));
        let frame = notification.encode(Some(stamp)).unwrap();
        assert_eq!(
            String::from_utf8(delta.frame.clone()),
            String::from_utf8(frame)
        );
        assert_eq!(&delta.frame[delta.text], "é\\n".as_bytes());
    }
}
