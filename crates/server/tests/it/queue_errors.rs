//! Every refusal of the queue: code, text and word, in both dialects where they differ.
//!
//! Not here, since what causes it is not built yet: `blockedByHook` at `QueueAdmit`. `diskFull` is in
//! `full_disk`, as for every other write.

use serde_json::{Value, json};

use crate::queue::{HOLD, input, submission, whole};
use crate::support::{Client, ECHO, World};

const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

/// Calls, and compares the refusal with this code, text and word.
#[track_caller]
fn refusal(error: &Value, (code, text, reason): (i64, &str, &str)) {
    assert_eq!(error["message"], text, "{error}");
    assert_eq!(error["code"], code, "{error}");
    assert_eq!(error["data"]["reason"], reason, "{error}");
}

impl Client {
    async fn refused(&mut self, method: &str, params: Value, (text, reason): (&str, &str)) {
        let error = self.err(method, params).await;
        refusal(&error, (-32600, text, reason));
    }
}

/// Every method with params that are right but for the thread and the row.
fn calls(thread: &str, row: &str) -> Vec<(&'static str, Value)> {
    let named = json!({"threadId": thread, "queuedTurnId": row});
    let with = |member: &str, value: Value| {
        let mut params = named.clone();
        params[member] = value;
        params
    };
    vec![
        ("thread/queue/add", whole(thread, "x")),
        ("thread/queue/add", submission(thread, "x", "c")),
        ("thread/queue/list", json!({"threadId": thread})),
        ("thread/queue/update", with("input", input("x"))),
        ("thread/queue/delete", named.clone()),
        (
            "thread/queue/reorder",
            json!({"threadId": thread, "queuedTurnIds": []}),
        ),
        ("thread/queue/start", json!({"threadId": thread})),
        ("thread/queue/retry", named.clone()),
        ("thread/queue/move", with("position", json!(0))),
        ("thread/queue/pause", json!({"threadId": thread})),
        ("thread/queue/resume", json!({"threadId": thread})),
    ]
}

#[tokio::test]
async fn params_that_do_not_fit_are_named() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    for (method, mut params) in calls(&thread, NOBODY) {
        params.as_object_mut().unwrap().remove("threadId");
        let text = "Invalid request: missing field `threadId`";
        client
            .refused(method, params, (text, "invalidParams"))
            .await;
    }
    let bare = json!({"threadId": thread});
    for (method, member) in [
        ("add", "input"),
        ("update", "queuedTurnId"),
        ("delete", "queuedTurnId"),
        ("move", "queuedTurnId"),
        ("reorder", "queuedTurnIds"),
    ] {
        let method = format!("thread/queue/{method}");
        let text = format!("Invalid request: missing field `{member}`");
        let expected = (text.as_str(), "invalidParams");
        client.refused(&method, bare.clone(), expected).await;
    }
    let update = json!({"threadId": thread, "queuedTurnId": NOBODY});
    let text = "Invalid request: missing field `input`";
    client
        .refused("thread/queue/update", update, (text, "invalidParams"))
        .await;

    let mut both = whole(&thread, "x");
    both["input"] = input("x");
    let text = "Invalid request: pass either turnStartParams or input";
    client
        .refused("thread/queue/add", both.clone(), (text, "invalidParams"))
        .await;
    both["queuedTurnId"] = json!(NOBODY);
    client
        .refused("thread/queue/update", both, (text, "invalidParams"))
        .await;
    let mut wrong = whole(&thread, "x");
    wrong["onCrash"] = json!("guess");
    let error = client.err("thread/queue/add", wrong).await;
    let text = error["message"].as_str().unwrap();
    assert!(
        text.starts_with("Invalid request: unknown variant `guess`"),
        "{text}"
    );

    let move_to = |targets: Value| {
        let mut params = targets;
        params["threadId"] = json!(thread);
        params["queuedTurnId"] = json!(NOBODY);
        params
    };
    let text = "move needs exactly one of beforeId, afterId, position";
    for targets in [json!({}), json!({"beforeId": NOBODY, "position": 0})] {
        let params = move_to(targets);
        client
            .refused("thread/queue/move", params, (text, "invalidParams"))
            .await;
    }
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_refused_before_anything_else() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    for (method, params) in calls("not-a-uuid", NOBODY) {
        let error = client.err(method, params).await;
        let text = error["message"].as_str().unwrap();
        assert!(
            text.starts_with("invalid thread id: invalid character"),
            "{method}: {text}"
        );
        assert_eq!(error["data"]["reason"], "invalidThreadId", "{method}");
    }
    let text = format!("thread not found: {NOBODY}");
    let expected = (text.as_str(), "threadNotFound");
    for (method, params) in calls(NOBODY, NOBODY) {
        client.refused(method, params, expected).await;
    }
    // Also before what is wrong with the content.
    let mut empty = whole(NOBODY, "x");
    empty["turnStartParams"]["input"] = json!([]);
    client.refused("thread/queue/add", empty, expected).await;
    let thread = client.thread().await;
    let mut other = whole(&thread, "x");
    other["turnStartParams"]["threadId"] = json!(NOBODY);
    let text = "`threadId` must match `turnStartParams.threadId`";
    client
        .refused("thread/queue/add", other, (text, "invalidParams"))
        .await;
}

#[tokio::test]
async fn an_archived_thread_keeps_its_rows_and_takes_no_call() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client
        .ok("thread/queue/pause", json!({"threadId": thread}))
        .await;
    let row = client.add(&thread, "kept").await;
    let id = row["id"].as_str().unwrap();
    client
        .ok("thread/archive", json!({"threadId": thread}))
        .await;
    let text = format!(
        "session {thread} is archived. Run `turnlane unarchive {thread}` to unarchive it first."
    );
    for (method, params) in calls(&thread, id) {
        client.refused(method, params, (&text, "archived")).await;
    }
    client
        .ok("thread/unarchive", json!({"threadId": thread}))
        .await;
    assert_eq!(client.waiting(&thread).await, ["kept"]);
    client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    client
        .ok("thread/queue/resume", json!({"threadId": thread}))
        .await;
    let ended = client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "completed");
}

#[tokio::test]
async fn an_ephemeral_thread_has_no_queue() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let answer = client.ok("thread/start", json!({"ephemeral": true})).await;
    let thread = answer["thread"]["id"].as_str().unwrap().to_owned();
    for (method, params) in calls(&thread, NOBODY) {
        let error = client.err(method, params.clone()).await;
        let ours = params.get("turnStartParams").is_some() || params.get("queuedTurnIds").is_some();
        let ours = ours
            || ["retry", "pause", "resume"]
                .iter()
                .any(|name| method.ends_with(name));
        let what = if ours {
            "queued turns"
        } else {
            "queued submissions"
        };
        let text = format!("ephemeral thread does not support {what}: {thread}");
        refusal(&error, (-32600, &text, "ephemeral"));
    }
}

#[tokio::test]
async fn content_that_can_never_be_run_is_refused_at_once() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let row = client.add(&thread, "there").await;
    let image = |url: &str| json!([{"type": "image", "url": url}]);
    let local = |path: &str| json!([{"type": "localImage", "path": path}]);
    let empty = "only user input can be added to the user-message queue";
    let remote = "remote image URLs are not supported; use an inline data URL instead";
    let missing = "local queued attachment is invalid: No such file or directory (os error 2)";
    for (content, text) in [
        (json!([]), empty),
        (image("https://example.invalid/x.png"), remote),
        (local("/nowhere/at/all.png"), missing),
    ] {
        let mut params = whole(&thread, "x");
        params["turnStartParams"]["input"] = content.clone();
        client
            .refused("thread/queue/add", params, (text, "invalidInput"))
            .await;
        let mut params = submission(&thread, "x", "c");
        params["input"] = content.clone();
        client
            .refused("thread/queue/add", params, (text, "invalidInput"))
            .await;
        let params = json!({"threadId": thread, "queuedTurnId": row["id"], "input": content});
        client
            .refused("thread/queue/update", params, (text, "invalidInput"))
            .await;
    }
    // A folder is no file, and a pipe would never end.
    let folder = world.folder.path().display().to_string();
    let mut params = submission(&thread, "x", "c");
    params["input"] = local(&folder);
    let text = "local queued attachment is invalid: not a file";
    client
        .refused("thread/queue/add", params, (text, "invalidInput"))
        .await;

    let long = "x".repeat(1_048_577);
    let error = client
        .err("thread/queue/add", submission(&thread, &long, "c"))
        .await;
    let text = "Input exceeds the maximum length of 1048576 characters.";
    refusal(&error, (-32602, text, "inputTooLarge"));
    assert_eq!(error["data"]["actual_chars"], 1_048_577);
    let mut big = whole(&thread, "x");
    let picture = "A".repeat(16 * 1024 * 1024);
    big["turnStartParams"]["input"] = image(&format!("data:image/png;base64,{picture}"));
    let error = client.err("thread/queue/add", big).await;
    let text = error["message"].as_str().unwrap();
    assert!(text.starts_with("queued turn is too large: 167"), "{text}");
    assert!(text.ends_with(" bytes (max 16777216)"), "{text}");
    assert_eq!(error["data"]["reason"], "tooLarge");

    assert_eq!(
        client.waiting(&thread).await,
        ["there"],
        "nothing was added or changed"
    );
    client.add(&thread, "").await;
    assert_eq!(
        client.waiting(&thread).await,
        ["there", ""],
        "no words are words"
    );
}

#[tokio::test]
async fn settings_that_can_never_be_had_are_refused_at_once() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let mut disagreeing = whole(&thread, "x");
    disagreeing["turnStartParams"]["sandbox"] = json!("read-only");
    disagreeing["turnStartParams"]["sandboxPolicy"] = json!({"type": "dangerFullAccess"});
    let text = "sandbox and sandboxPolicy disagree";
    client
        .refused("thread/queue/add", disagreeing, (text, "invalidParams"))
        .await;
    let mut schema = whole(&thread, "x");
    schema["turnStartParams"]["outputSchema"] = json!(5);
    let error = client.err("thread/queue/add", schema).await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("invalid outputSchema: ")
    );
    let mut nowhere = whole(&thread, "x");
    let place = json!([{"environmentId": "mars", "cwd": "/"}]);
    nowhere["turnStartParams"]["environments"] = place;
    let text = "unknown turn environment id `mars`";
    client
        .refused("thread/queue/add", nowhere, (text, "invalidParams"))
        .await;

    assert!(client.waiting(&thread).await.is_empty());
}

#[tokio::test]
async fn numbers_out_of_range_are_refused() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let day_ms = 86_400_000_i64;
    let row = client.add(&thread, "tells the time").await;
    let now_ms = row["createdAtMs"].as_i64().unwrap();
    for (member, value, name) in [
        ("notBeforeMs", json!(1), "notBeforeMs"),
        ("notBeforeMs", json!(now_ms - day_ms), "notBeforeMs"),
        ("notBeforeMs", json!(now_ms + 367 * day_ms), "notBeforeMs"),
        ("retry", json!({"maxAttempts": 0}), "retry.maxAttempts"),
        ("retry", json!({"maxAttempts": 11}), "retry.maxAttempts"),
        ("retry", json!({"baseMs": u64::MAX}), "retry.baseMs"),
        ("retry", json!({"capMs": 2 * day_ms}), "retry.capMs"),
    ] {
        let mut params = whole(&thread, "x");
        params[member] = value;
        let text = format!("{name} out of range");
        client
            .refused("thread/queue/add", params, (&text, "invalidParams"))
            .await;
    }
    for (member, value) in [
        ("notBeforeMs", json!(now_ms + 365 * day_ms)),
        ("retry", json!({"maxAttempts": 10, "baseMs": 0, "capMs": 5})),
        ("retry", json!({})),
    ] {
        let mut params = whole(&thread, "x");
        params[member] = value.clone();
        let answer = client.ok("thread/queue/add", params).await;
        if member == "notBeforeMs" {
            assert_eq!(answer["queuedTurn"]["notBeforeMs"], value);
        }
    }
}

#[tokio::test]
async fn a_full_queue_takes_no_more_and_the_running_row_does_not_count() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let answer = client.ok("thread/start", json!({"queueMaxDepth": 2})).await;
    let thread = answer["thread"]["id"].as_str().unwrap().to_owned();
    let running = client.add(&thread, "hold").await;
    let running = running["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": running}}))
        .await;
    client
        .ok("thread/queue/add", submission(&thread, "one", "c-1"))
        .await;
    client.add(&thread, "two").await;
    for params in [whole(&thread, "three"), submission(&thread, "three", "c-3")] {
        let error = client.err("thread/queue/add", params).await;
        let text = "queue cannot contain more than 2 submissions";
        refusal(&error, (-32600, text, "queueFull"));
        assert_eq!(error["data"]["maxDepth"], 2);
    }
    // What is there already can be repeated all the same.
    let again = client
        .ok("thread/queue/add", submission(&thread, "one", "c-1"))
        .await;
    assert_eq!(again["deduplicated"], true);
    world.gates.open("go");
    client.ended(&running).await;
    client
        .told("thread/queue/changed", json!({"depth": 0}))
        .await;
    client.add(&thread, "fits again").await;
}

#[tokio::test]
async fn rows_that_are_not_there_are_named_as_the_caller_named_them() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let (elsewhere, _) = client.busy().await;
    let foreign = client.add(&elsewhere, "x").await;
    let foreign = foreign["id"].as_str().unwrap().to_owned();
    let here = client.add(&thread, "x").await;
    for row in [NOBODY, "no id at all", foreign.as_str()] {
        let text = format!("queued submission not found: {row}");
        let expected = (text.as_str(), "queuedTurnNotFound");
        for member in ["queuedTurnId", "queuedSubmissionId"] {
            let named = json!({"threadId": thread, member: row});
            let answer = client.ok("thread/queue/delete", named.clone()).await;
            assert_eq!(answer, json!({"deleted": false}));
            let mut update = named.clone();
            update["input"] = input("y");
            client
                .refused("thread/queue/update", update, expected)
                .await;
            client
                .refused("thread/queue/retry", named.clone(), expected)
                .await;
            let mut to = named;
            to["position"] = json!(0);
            client.refused("thread/queue/move", to, expected).await;
        }
        let to = json!({"threadId": thread, "queuedTurnId": here["id"], "beforeId": row});
        client.refused("thread/queue/move", to, expected).await;
        for order in [
            json!([]),
            json!([here["id"], row]),
            json!([here["id"], here["id"]]),
        ] {
            let params = json!({"threadId": thread, "queuedTurnIds": order});
            let text = "failed to reorder queued turns: \
                queue reorder must include every visible queued turn exactly once";
            client
                .refused("thread/queue/reorder", params, (text, "staleOrder"))
                .await;
            let params = json!({"threadId": thread, "queuedSubmissionIds": order});
            let text = "queue reorder must include every queued submission exactly once";
            client
                .refused("thread/queue/reorder", params, (text, "staleOrder"))
                .await;
        }
    }
    let id = here["id"].as_str().unwrap();
    let named = json!({"threadId": thread, "queuedTurnId": id});
    let text = format!("queued turn is not failed: {id}");
    client
        .refused("thread/queue/retry", named.clone(), (&text, "notFailed"))
        .await;
    let text = "thread already has an active or pending turn";
    client
        .refused("thread/queue/start", named, (text, "busy"))
        .await;
    for cursor in ["rubbish", "-1", "p", "px", "", "1.5"] {
        let params = json!({"threadId": thread, "cursor": cursor});
        let text = format!("invalid cursor: {cursor}");
        client
            .refused("thread/queue/list", params, (&text, "invalidCursor"))
            .await;
    }
}

#[tokio::test]
async fn an_empty_queue_has_nothing_to_start_or_retry() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let bare = json!({"threadId": thread});
    let expected = ("queue is empty", "queueEmpty");
    client
        .refused("thread/queue/start", bare.clone(), expected)
        .await;
    client
        .refused("thread/queue/retry", bare.clone(), expected)
        .await;
    let text = format!("queued submission not found: {NOBODY}");
    let named = json!({"threadId": thread, "queuedSubmissionId": NOBODY});
    let expected = (text.as_str(), "queuedTurnNotFound");
    client.refused("thread/queue/start", named, expected).await;
    // Whoever was refused follows no more than before, and the thread is as it was.
    let mut guest = world.client().await;
    guest.err("thread/queue/start", bare).await;
    let answer = guest
        .ok("thread/unsubscribe", json!({"threadId": thread}))
        .await;
    assert_eq!(answer["status"], "notSubscribed");
}
