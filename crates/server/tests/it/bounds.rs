//! Texts that are too long, params that are no object, and what was stored before there were bounds.

use serde_json::{Value, json};

use crate::support::{ECHO, World, turn};

/// Far above every bound of a stored text, far below the limit of a frame.
const LONG: usize = 2 * 1024 * 1024;

/// An error text of ours repeats at most a few words of the caller's.
const ERROR_BYTES_MAX: usize = 400;

fn with(mut params: Value, member: &str, value: Value) -> Value {
    params[member] = value;
    params
}

/// Members of params with their bounds in bytes.
type Members = Vec<(&'static str, usize)>;

fn of_overrides() -> Members {
    vec![
        ("model", 1024),
        ("modelProvider", 1024),
        ("cwd", 4096),
        ("permissions", 1024),
        ("serviceTier", 1024),
    ]
}

fn of_start() -> Members {
    let own = vec![
        ("threadSource", 1024),
        ("serviceName", 1024),
        ("engine", 1024),
        ("binding", 1024),
        ("supersedes", 1024),
    ];
    [of_overrides(), own].concat()
}

fn of_turn() -> Members {
    vec![
        ("cwd", 4096),
        ("model", 1024),
        ("effort", 1024),
        ("permissions", 1024),
        ("serviceTier", 1024),
        ("serviceTierForTurn", 1024),
        ("clientUserMessageId", 1024),
        ("idempotencyKey", 1024),
        ("turnTrigger", 1024),
        ("parentTurnId", 1024),
        ("rootTurnId", 1024),
    ]
}

/// Every method that stores or repeats a text: its params, and the members with their bounds.
fn texts(thread: &str) -> Vec<(&'static str, Value, Members)> {
    let named = json!({"threadId": thread});
    let fork = vec![("lastTurnId", 1024), ("beforeTurnId", 1024)];
    let page = || vec![("cursor", 1024)];
    vec![
        ("thread/start", json!({}), of_start()),
        (
            "thread/resume",
            named.clone(),
            [of_overrides(), vec![("epoch", 1024)]].concat(),
        ),
        (
            "thread/fork",
            named.clone(),
            [of_overrides(), fork].concat(),
        ),
        ("thread/name/set", named.clone(), vec![("name", 1024)]),
        ("thread/read", json!({}), vec![("threadId", 1024)]),
        (
            "thread/list",
            json!({}),
            [page(), vec![("searchTerm", 1024), ("cwd", 4096)]].concat(),
        ),
        ("thread/turns/list", named.clone(), page()),
        (
            "thread/items/list",
            named.clone(),
            [page(), vec![("turnId", 1024)]].concat(),
        ),
        ("thread/loaded/list", json!({}), page()),
        (
            "thread/settings/update",
            named.clone(),
            vec![("cwd", 4096), ("model", 1024)],
        ),
        ("turn/start", turn(thread, "hi"), of_turn()),
        (
            "turn/steer",
            turn(thread, "hi"),
            vec![("expectedTurnId", 1024)],
        ),
        ("turn/interrupt", named.clone(), vec![("turnId", 1024)]),
        (
            "approval/respond",
            json!({"decision": "accept"}),
            vec![("approvalId", 1024)],
        ),
        (
            "thread/queue/add",
            with(named.clone(), "input", json!([])),
            vec![("clientUserMessageId", 1024), ("idempotencyKey", 1024)],
        ),
        ("thread/queue/list", named.clone(), page()),
        (
            "thread/queue/delete",
            named.clone(),
            vec![("queuedTurnId", 1024)],
        ),
        ("thread/queue/pause", named.clone(), vec![("reason", 4096)]),
        ("model/list", json!({}), page()),
        ("config/read", json!({}), vec![("cwd", 4096)]),
        (
            "command/exec",
            json!({"command": ["true"]}),
            vec![
                ("processId", 1024),
                ("cwd", 4096),
                ("permissionProfile", 1024),
            ],
        ),
        ("process/kill", json!({}), vec![("processHandle", 1024)]),
    ]
}

#[tokio::test]
async fn a_text_above_its_bound_is_refused_by_name_and_not_repeated() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let thread = client.thread().await;
    let long = "x".repeat(LONG);
    for (method, params, members) in texts(&thread) {
        for (member, bytes_max) in members {
            let params = with(params.clone(), member, json!(long));
            let error = client.err(method, params).await;
            let shown = error.to_string();
            assert!(
                shown.len() < ERROR_BYTES_MAX,
                "{method} {member}: {} bytes",
                shown.len()
            );
            assert_eq!(error["code"], -32600, "{method} {member}: {shown}");
            assert_eq!(
                error["data"]["reason"], "invalidParams",
                "{method} {member}: {shown}"
            );
            let text = format!(
                "Invalid request: `{member}` has {LONG} bytes; at most {bytes_max} are allowed"
            );
            assert_eq!(error["message"], text.as_str(), "{method}");
        }
    }
    // The client itself is as bounded as its requests, and nothing of all this was kept.
    let mut stranger = world.stranger();
    for member in ["name", "version", "title"] {
        let info = with(json!({"name": "n", "version": "1"}), member, json!(long));
        let error = stranger
            .err("initialize", json!({"clientInfo": info}))
            .await;
        assert!(error.to_string().len() < ERROR_BYTES_MAX, "{member}");
    }
    assert_eq!(
        client.thread().await.len(),
        thread.len(),
        "the connection works"
    );
}

#[tokio::test]
async fn words_that_fit_nothing_are_not_repeated_at_length() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let thread = client.thread().await;
    let long = "x".repeat(LONG);
    let named = |member: &str, value: Value| with(json!({"threadId": thread}), member, value);
    for (method, params) in [
        ("no/such/method", json!({})),
        (long.as_str(), json!({})),
        ("thread/start", json!({"approvalPolicy": long})),
        ("thread/start", json!({"sandbox": long})),
        ("thread/start", json!({"sandbox": {"type": long}})),
        ("thread/start", json!({"personality": long})),
        ("thread/start", json!({"config": {long.as_str(): 1}})),
        (
            "thread/start",
            json!({"config": {"unfit": "x".repeat(60_000)}}),
        ),
        ("thread/start", json!({"queueMaxDepth": long})),
        (
            "turn/start",
            with(turn(&thread, "hi"), "whenBusy", json!(long)),
        ),
        ("turn/start", named("input", json!([{"type": long}]))),
        ("turn/start", named("input", json!(long))),
        ("thread/list", json!({"sortKey": long})),
        ("thread/resume", named("sinceSeq", json!(long))),
    ] {
        let error = client.err(method, params).await.to_string();
        assert!(error.len() < 800, "{method:.40}: {} bytes", error.len());
    }
    let request = json!({"id": long, "method": "thread/list"});
    client.0.send(&request).await.unwrap();
    let answer = client.0.next().await.unwrap();
    assert_eq!(answer["id"], Value::Null);
    assert_eq!(
        answer["error"]["message"],
        "Invalid request: `id` has more than 1024 bytes"
    );
}

#[tokio::test]
async fn lists_are_bounded_in_number() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let many = |count: usize| vec!["/w"; count];
    let roots =
        |count: usize| json!({"sandbox": {"type": "workspaceWrite", "writableRoots": many(count)}});
    client.ok("thread/start", roots(256)).await;
    for (member, params) in [
        ("writableRoots", roots(257)),
        (
            "runtimeWorkspaceRoots",
            json!({"runtimeWorkspaceRoots": many(257)}),
        ),
    ] {
        let error = client.err("thread/start", params).await;
        let text = format!("Invalid request: `{member}` has more than 256 elements");
        assert_eq!(error["message"], text.as_str());
    }
}

#[tokio::test]
async fn params_are_an_object() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let thread = client.thread().await;
    for (method, params) in [
        ("thread/name/set", json!([thread, "by position"])),
        ("thread/archive", json!([thread])),
        ("thread/read", json!([thread, false])),
        ("thread/list", json!([])),
        ("thread/start", json!([])),
        ("turn/interrupt", json!([thread, "t", "pause"])),
        ("thread/queue/pause", json!([thread, "by position"])),
        (
            "thread/queue/add",
            json!({"threadId": thread, "turnStartParams": [thread, []]}),
        ),
        ("approval/respond", json!(["a", "accept"])),
        ("command/exec", json!([["true"]])),
        ("account/read", json!([true])),
    ] {
        let error = client.err(method, params).await;
        assert_eq!(
            error["data"]["reason"], "invalidParams",
            "{method}: {error}"
        );
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("invalid type: sequence"),
            "{method}: {message}"
        );
    }
    let read = client.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["thread"]["name"], Value::Null);
    let mut stranger = world.stranger();
    let info = json!([["n", null, "1"], null]);
    stranger.err("initialize", info).await;
}

#[tokio::test]
async fn a_name_stored_without_a_bound_does_not_spoil_the_list() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let thread = client.thread().await;
    // A thread without a turn is not listed.
    let turn = client.turn(&thread, "hi").await;
    client.ended(&turn).await;
    // What an earlier version took from its clients.
    let id = thread.parse().unwrap();
    let long = "ü".repeat(LONG);
    world.handle().rename(id, Some(long.clone())).await.unwrap();
    let listed = client.ok("thread/list", json!({})).await;
    let name = listed["data"][0]["name"].as_str().unwrap();
    assert_eq!(name.len(), 1024 + "…".len());
    assert!(name.ends_with("ü…"), "cut between characters, and marked");
    let read = client.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["thread"]["name"], long.as_str(), "stored as it was");
}
