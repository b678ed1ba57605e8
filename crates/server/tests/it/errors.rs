//! Every error a caller can cause: its code, its text and its word.

use serde_json::{Value, json};

use crate::support::{ECHO, World, turn};

const NOBODY: &str = "0198c0de-0000-7000-8000-000000000002";

struct Row {
    method: &'static str,
    params: Value,
    code: i64,
    message: String,
    reason: &'static str,
}

fn row(
    method: &'static str,
    params: Value,
    message: impl Into<String>,
    reason: &'static str,
) -> Row {
    Row {
        method,
        params,
        code: -32600,
        message: message.into(),
        reason,
    }
}

fn about_ids() -> Vec<Row> {
    let bad_id = "x".parse::<turnlane_protocol::ids::ThreadId>();
    let why = bad_id.unwrap_err().why;
    let bad = json!({"threadId": "x"});
    let gone = json!({"threadId": NOBODY});
    let id = format!("invalid thread id: {why}");
    let not_found = format!("thread not found: {NOBODY}");
    let not_loaded = format!("thread not loaded: {NOBODY}");
    let no_rollout = format!("no rollout found for thread id {NOBODY}");
    let mut rows = vec![
        row(
            "thread/resume",
            bad.clone(),
            format!("invalid session id: {why}"),
            "invalidThreadId",
        ),
        row(
            "thread/unarchive",
            gone.clone(),
            format!("no archived rollout found for thread id {NOBODY}"),
            "threadNotFound",
        ),
        row(
            "turn/start",
            turn(NOBODY, "x"),
            not_found.clone(),
            "threadNotFound",
        ),
        row(
            "turn/interrupt",
            json!({"threadId": NOBODY, "turnId": ""}),
            not_found.clone(),
            "threadNotFound",
        ),
        row(
            "thread/name/set",
            json!({"threadId": NOBODY, "name": "n"}),
            not_found.clone(),
            "threadNotFound",
        ),
        row(
            "thread/compact/start",
            gone.clone(),
            not_found,
            "threadNotFound",
        ),
    ];
    for method in ["thread/read", "thread/turns/list", "thread/items/list"] {
        rows.push(row(method, bad.clone(), id.clone(), "invalidThreadId"));
        rows.push(row(
            method,
            gone.clone(),
            not_loaded.clone(),
            "threadNotFound",
        ));
    }
    for method in ["thread/fork", "thread/archive", "thread/delete"] {
        rows.push(row(method, bad.clone(), id.clone(), "invalidThreadId"));
        rows.push(row(
            method,
            gone.clone(),
            no_rollout.clone(),
            "threadNotFound",
        ));
    }
    rows.push(row("thread/resume", gone, no_rollout, "threadNotFound"));
    rows
}

#[rustfmt::skip] // One line each, so that it reads as a table.
fn about_params(thread: &str) -> Vec<Row> {
    let with = |members: Value| {
        let mut params = turn(thread, "x");
        for (key, value) in members.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    };
    let both = json!({"sandbox": "read-only", "sandboxPolicy": {"type": "dangerFullAccess"}});
    let disagree = "sandbox and sandboxPolicy disagree";
    let image = json!([{"type": "image", "url": "https://example.org/x.png"}]);
    vec![
        row("no/such", json!({}), "Invalid request: unknown variant `no/such`", "unknownMethod"),
        row("thread/read", json!({}), "Invalid request: missing field `threadId`", "invalidParams"),
        row("thread/read", json!({"threadId": 5}), "Invalid request: invalid type: integer `5`, expected a string", "invalidParams"),
        row("thread/start", both.clone(), disagree, "invalidParams"),
        row("turn/start", with(both), disagree, "invalidParams"),
        row("thread/start", json!({"permissions": "p", "sandbox": "danger-full-access"}), "`permissions` cannot be combined with `sandbox`", "invalidParams"),
        row("turn/start", with(json!({"permissions": "p", "sandboxPolicy": "danger-full-access"})), "`permissions` cannot be combined with `sandboxPolicy`", "invalidParams"),
        row("thread/start", json!({"supersedes": thread}), "`supersedes` needs `binding`", "invalidParams"),
        row("thread/start", json!({"binding": "b", "supersedes": thread}), format!("thread {thread} does not hold binding b"), "invalidParams"),
        row("thread/start", json!({"config": {"unfit": "k"}}), "config key does not fit: k", "invalidParams"),
        row("thread/start", json!({"engine": "none"}), "unknown engine: none", "invalidParams"),
        row("thread/start", json!({"environments": [{"environmentId": "e", "cwd": "/"}]}), "unknown turn environment id `e`", "invalidParams"),
        row("turn/start", with(json!({"environments": [{"environmentId": "e", "cwd": "/"}]})), "unknown turn environment id `e`", "invalidParams"),
        row("turn/start", with(json!({"outputSchema": 5})), "invalid outputSchema: expected an object", "invalidParams"),
        row("turn/start", with(json!({"input": image})), "remote image URLs are not supported; use an inline data URL instead", "invalidInput"),
        row("thread/resume", json!({"threadId": thread, "history": []}), "history is not supported", "invalidParams"),
        row("thread/resume", json!({"threadId": thread, "path": "/x"}), "history is not supported", "invalidParams"),
        row("thread/list", json!({"cursor": "rubbish"}), "invalid cursor: rubbish", "invalidCursor"),
        row("thread/loaded/list", json!({"cursor": "rubbish"}), "invalid cursor: rubbish", "invalidCursor"),
        row("thread/turns/list", json!({"threadId": thread, "cursor": "rubbish"}), "invalid cursor: rubbish", "invalidCursor"),
        row("thread/items/list", json!({"threadId": thread, "turnId": NOBODY}), format!("turn not found: {NOBODY}"), "turnNotFound"),
        row("thread/fork", json!({"threadId": thread, "lastTurnId": NOBODY}), format!("turn not found: {NOBODY}"), "turnNotFound"),
        row("thread/revert", json!({"threadId": thread, "beforeTurnId": NOBODY}), format!("turn not found: {NOBODY}"), "turnNotFound"),
    ]
}

fn about_turns(thread: &str) -> Vec<Row> {
    let words = json!([{"type": "text", "text": "x"}]);
    let steer = |turn: &str, input: &Value| json!({"threadId": thread, "expectedTurnId": turn, "input": input});
    vec![
        row(
            "turn/steer",
            steer(NOBODY, &words),
            "no active turn to steer",
            "noActiveTurn",
        ),
        row(
            "turn/steer",
            steer("", &words),
            "expectedTurnId must not be empty",
            "invalidInput",
        ),
        row(
            "turn/steer",
            steer(NOBODY, &json!([])),
            "input must not be empty",
            "invalidInput",
        ),
        row(
            "turn/interrupt",
            json!({"threadId": thread, "turnId": NOBODY}),
            "no active turn to interrupt",
            "noActiveTurn",
        ),
        Row {
            code: -32602,
            ..row(
                "turn/start",
                turn(thread, &"x".repeat(1_048_577)),
                "Input exceeds the maximum length of 1048576 characters.",
                "inputTooLarge",
            )
        },
    ]
}

#[tokio::test]
async fn every_mistake_has_its_code_its_text_and_its_word() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let rows = about_ids().into_iter();
    let rows = rows
        .chain(about_params(&thread))
        .chain(about_turns(&thread));
    for row in rows {
        let error = client.err(row.method, row.params).await;
        let told = (&error["code"], &error["message"], &error["data"]["reason"]);
        let wanted = (json!(row.code), json!(row.message), json!(row.reason));
        assert_eq!(told, (&wanted.0, &wanted.1, &wanted.2), "{}", row.method);
    }
    let id = client.turn(&thread, "after all of that").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_running_turn_is_named_to_those_who_meant_another() {
    let script = "version: 1\nturns:\n  - steps:\n      - await: {gate: go}\n      - say: done\n";
    let world = World::start(script).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let active = client.turn(&thread, "x").await;
    let input = json!([{"type": "text", "text": "more"}]);
    let steer = json!({"threadId": thread, "expectedTurnId": NOBODY, "input": input});
    let error = client.err("turn/steer", steer).await;
    assert_eq!(
        error["message"],
        format!("expected active turn id `{NOBODY}` but found `{active}`")
    );
    assert_eq!(
        error["data"],
        json!({"reason": "staleTurn", "expected": NOBODY, "actual": active})
    );
    let stop = json!({"threadId": thread, "turnId": NOBODY});
    let error = client.err("turn/interrupt", stop).await;
    assert_eq!(
        error["message"],
        format!("expected active turn id {NOBODY} but found {active}")
    );
    let mut busy = turn(&thread, "y");
    busy["whenBusy"] = json!("reject");
    let error = client.err("turn/start", busy).await;
    assert_eq!(
        error["message"],
        "thread already has an active or pending turn"
    );
    assert_eq!(error["data"], json!({"reason": "busy", "turnId": active}));
    let revert = json!({"threadId": thread, "beforeTurnId": active});
    let error = client.err("thread/revert", revert).await;
    assert_eq!(error["data"]["reason"], "busy");
    let fork = json!({"threadId": thread, "lastTurnId": active});
    let error = client.err("thread/fork", fork).await;
    assert_eq!(error["message"], format!("turn is in progress: {active}"));
    world.gates.open("go");
    client.ended(&active).await;
}
