//! What holds a queue and what lets it go: pauses, failed heads, limits, times, restarts.

use serde_json::{Value, json};
use turnlane_runtime::{Drain, Options};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::queue::{HOLD, input, said, whole};
use crate::support::{Client, ECHO, World};

/// Fails by a limit or by the model the first time it is tried.
const SCRIPT: &str = "version: 1
turns:
  - match: limit
    times: 1
    steps:
      - error: {info: rateLimitExceeded, message: slow down, retry_after_ms: 60000}
  - match: effect
    times: 1
    steps:
      - exec: {cmd: touch x, output: \"\", exit: 0}
      - error: {info: rateLimitExceeded, message: slow down, retry_after_ms: 60000}
  - match: key
    times: 1
    steps:
      - error: {info: unauthorized, message: no key}
  - match: broken
    times: 1
    steps:
      - error: {info: badRequest, message: no such thing}
  - match: hold
    steps:
      - await: {gate: go}
fallback: {say: \"You said: {input}\"}
";

fn of(thread: &str) -> Value {
    json!({"threadId": thread})
}

/// A thread whose head has failed with two rows behind it; thread and the failed row.
async fn held(client: &mut Client) -> (String, Value) {
    let thread = client.thread().await;
    let mut broken = whole(&thread, "broken");
    broken["onError"] = json!("block");
    let row = client.ok("thread/queue/add", broken).await["queuedTurn"].clone();
    for text in ["a", "b"] {
        client.add(&thread, text).await;
    }
    let held = json!({"threadId": thread, "depth": 3, "blocked": {"queuedTurnId": row["id"]}});
    let told = client.told("thread/queue/changed", held).await;
    let shown = told["params"]["queuedTurns"][0].clone();
    assert_eq!(shown["id"], row["id"], "it keeps its place and its id");
    assert_eq!(shown["status"]["type"], "failed");
    assert_eq!(shown["status"]["error"]["message"], "no such thing");
    assert_eq!(told["params"]["blocked"]["message"], "no such thing");
    assert_eq!(shown["lastTurnId"], row["turnId"]);
    assert_ne!(
        shown["turnId"], row["turnId"],
        "the next try is another turn"
    );
    assert_eq!(shown["attempts"], 1);
    (thread, shown)
}

/// The turns of a thread once its queue is empty and nothing runs.
async fn drained(client: &mut Client, thread: &str) -> Vec<String> {
    eventually(
        "the queue is empty and nothing runs",
        DEADLINE,
        async || {
            let state = client.queue(thread).await;
            state["depth"] == 0 && state["running"].is_null()
        },
    )
    .await
    .unwrap();
    client.history(thread).await
}

#[tokio::test]
async fn a_pause_stops_claims_only_and_is_shown_everywhere() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut pause = of(&thread);
    pause["reason"] = json!("lunch");
    let state = client.ok("thread/queue/pause", pause).await;
    let paused = state["paused"].clone();
    assert_eq!(
        (&paused["reason"], &paused["by"]),
        (&json!("lunch"), &json!("test"))
    );
    assert_eq!(state["running"]["turnId"], running.as_str());
    // The first pause stays.
    let again = client.ok("thread/queue/pause", of(&thread)).await;
    assert_eq!(again["paused"], paused);

    let row = client.add(&thread, "waits").await;
    world.gates.open("go");
    assert_eq!(client.ended(&running).await["status"], "completed");
    let direct = client.turn(&thread, "past it").await;
    assert_eq!(client.ended(&direct).await["status"], "completed");
    let told = json!({"depth": 1, "paused": {"reason": "lunch"}});
    client.told("thread/queue/changed", told).await;
    let listed = client.queue(&thread).await;
    assert_eq!(listed["paused"], paused);
    let read = client.ok("thread/read", of(&thread)).await;
    assert_eq!(read["thread"]["queue"]["paused"], paused);

    let world = world.restart(HOLD).await;
    let mut client = world.client().await;
    client.ok("thread/resume", of(&thread)).await;
    assert_eq!(client.queue(&thread).await["paused"], paused, "it survives");
    let state = client.ok("thread/queue/resume", of(&thread)).await;
    assert_eq!(state["paused"], Value::Null);
    client.ok("thread/queue/resume", of(&thread)).await;
    let ended = client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(client.history(&thread).await, ["hold", "past it", "waits"]);
}

#[tokio::test]
async fn an_interrupt_pauses_the_queue_or_lets_it_go_on() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let next = client.add(&thread, "last").await;
    let after = client.add(&thread, "after").await;
    let go_on = json!({"threadId": thread, "turnId": running, "queue": "continue"});
    client.ok("turn/interrupt", go_on).await;
    let next = next["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": next}}))
        .await;
    let pause = json!({"threadId": thread, "turnId": next, "queue": "pause"});
    client.ok("turn/interrupt", pause).await;
    client.ended(&next).await;
    let told = json!({"paused": {"reason": "interrupt", "by": "test"}, "depth": 1});
    client.told("thread/queue/changed", told).await;
    assert_eq!(client.waiting(&thread).await, ["after"]);
    // Starting the head ends the pause.
    let answer = client.ok("thread/queue/start", of(&thread)).await;
    assert_eq!(answer["turn"]["id"], after["turnId"]);
    assert_eq!(answer["turn"]["queuedTurnId"], after["id"]);
    client.ended(after["turnId"].as_str().unwrap()).await;
    assert_eq!(client.queue(&thread).await["paused"], Value::Null);
}

#[tokio::test]
async fn a_failed_head_holds_the_queue_until_it_is_deleted() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, row) = held(&mut client).await;
    let direct = client.turn(&thread, "direct").await;
    client.ended(&direct).await;
    assert_eq!(client.waiting(&thread).await, ["broken", "a", "b"]);
    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    assert_eq!(
        client.ok("thread/queue/delete", named).await["deleted"],
        true
    );
    assert_eq!(
        drained(&mut client, &thread).await,
        ["broken", "direct", "a", "b"]
    );
}

#[tokio::test]
async fn a_failed_head_is_retried_in_its_place() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, row) = held(&mut client).await;
    let answer = client.ok("thread/queue/retry", of(&thread)).await;
    assert_eq!(answer["queuedTurn"]["id"], row["id"]);
    assert_eq!(answer["queuedTurn"]["status"]["type"], "pending");
    assert_eq!(answer["queuedTurn"]["position"], 0);
    assert_eq!(
        drained(&mut client, &thread).await,
        ["broken", "broken", "a", "b"]
    );
    let again = row["turnId"].as_str().unwrap();
    assert_eq!(client.ended(again).await["attempt"], 2);
}

#[tokio::test]
async fn a_failed_head_is_changed_and_retried() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, row) = held(&mut client).await;
    let mut update = json!({"threadId": thread, "queuedTurnId": row["id"]});
    update["input"] = input("mended");
    let answer = client.ok("thread/queue/update", update).await;
    assert_eq!(
        answer["queuedTurn"]["status"]["type"], "failed",
        "until it is retried"
    );
    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    client.ok("thread/queue/retry", named).await;
    assert_eq!(
        drained(&mut client, &thread).await,
        ["broken", "mended", "a", "b"]
    );
}

#[tokio::test]
async fn another_row_is_started_past_a_failed_head_which_goes_on_holding() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, row) = held(&mut client).await;
    let last = client.queue(&thread).await["data"][2].clone();
    let named = json!({"threadId": thread, "queuedSubmissionId": last["id"]});
    let answer = client.ok("thread/queue/start", named).await;
    assert_eq!(answer["turn"]["id"], last["turnId"]);
    client.ended(last["turnId"].as_str().unwrap()).await;
    assert_eq!(client.waiting(&thread).await, ["broken", "a"]);
    assert_eq!(client.history(&thread).await, ["broken", "b"]);
    // The failed one can be started itself; then the rest follows.
    let named = json!({"threadId": thread, "queuedSubmissionId": row["id"]});
    let answer = client.ok("thread/queue/start", named).await;
    assert_eq!(answer["turn"]["id"], row["turnId"]);
    assert_eq!(
        drained(&mut client, &thread).await,
        ["broken", "b", "broken", "a"]
    );
}

#[tokio::test]
async fn a_failed_row_that_is_moved_back_holds_when_it_becomes_the_head() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, row) = held(&mut client).await;
    let next = client.queue(&thread).await["data"][1].clone();
    let to = json!({"threadId": thread, "queuedTurnId": row["id"], "position": 1});
    client.ok("thread/queue/move", to).await;
    client.ended(next["turnId"].as_str().unwrap()).await;
    let listed = client.queue(&thread).await;
    assert_eq!(listed["blocked"]["queuedTurnId"], row["id"]);
    assert_eq!(client.waiting(&thread).await, ["broken", "b"]);
}

#[tokio::test]
async fn a_limit_puts_the_row_back_and_the_queue_waits_until_it_is_resumed() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let row = client.add(&thread, "limit").await;
    client.add(&thread, "after").await;
    let first = client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(first["status"], "failed");
    assert_eq!(first["error"]["kind"], "rate_limited");
    let told = json!({"threadId": thread, "depth": 2, "waiting": {"kind": "rate_limited"}});
    let told = client.told("thread/queue/changed", told).await["params"].clone();
    assert_eq!(said(&told["queuedTurns"]), ["limit", "after"]);
    let back = &told["queuedTurns"][0];
    assert_eq!(back["id"], row["id"]);
    assert_eq!(back["status"]["type"], "pending");
    assert_eq!(back["lastTurnId"], row["turnId"]);
    let waiting = &told["waiting"];
    assert_eq!(back["notBeforeMs"], waiting["untilMs"]);
    assert_eq!(waiting["message"], "slow down");
    assert_eq!(client.queue(&thread).await["waiting"], *waiting);
    let read = client.ok("thread/read", of(&thread)).await;
    assert_eq!(read["thread"]["queue"]["waiting"], *waiting);

    let world = world.restart(ECHO).await;
    let mut client = world.client().await;
    client.ok("thread/resume", of(&thread)).await;
    assert_eq!(
        client.queue(&thread).await["waiting"],
        *waiting,
        "it survives"
    );
    let state = client.ok("thread/queue/resume", of(&thread)).await;
    assert_eq!(state["waiting"], Value::Null);
    assert_eq!(
        drained(&mut client, &thread).await,
        ["limit", "limit", "after"]
    );
}

#[tokio::test]
async fn a_limit_after_an_effect_ends_the_row_and_the_rest_waits() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client.add(&thread, "effect").await;
    client.add(&thread, "after").await;
    let told = json!({"threadId": thread, "depth": 1, "waiting": {"kind": "rate_limited"}});
    let told = client.told("thread/queue/changed", told).await;
    assert_eq!(said(&told["params"]["queuedTurns"]), ["after"]);
    client.ok("thread/queue/resume", of(&thread)).await;
    assert_eq!(drained(&mut client, &thread).await, ["effect", "after"]);
}

#[tokio::test]
async fn a_row_that_does_not_wait_for_limits_fails_and_the_next_one_runs() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let mut params = whole(&thread, "limit");
    params["onLimit"] = json!("fail");
    client.ok("thread/queue/add", params).await;
    client.add(&thread, "after").await;
    assert_eq!(drained(&mut client, &thread).await, ["limit", "after"]);
}

#[tokio::test]
async fn a_missing_key_waits_for_a_person_who_starts_the_row() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client.add(&thread, "key").await;
    let told = json!({"threadId": thread, "depth": 1, "waiting": {"kind": "auth"}});
    let told = client.told("thread/queue/changed", told).await;
    assert_eq!(told["params"]["waiting"]["untilMs"], Value::Null);
    client.ok("thread/queue/start", of(&thread)).await;
    assert_eq!(drained(&mut client, &thread).await, ["key", "key"]);
    assert_eq!(client.queue(&thread).await["waiting"], Value::Null);
}

#[tokio::test]
async fn a_row_that_may_be_tried_again_is_and_then_goes_by_its_policy() {
    let world = World::start(&SCRIPT.replace("times: 1", "times: 2")).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let mut params = whole(&thread, "broken");
    params["retry"] = json!({"maxAttempts": 3, "baseMs": 1, "capMs": 1});
    params["onError"] = json!("block");
    client.ok("thread/queue/add", params).await;
    assert_eq!(
        drained(&mut client, &thread).await,
        ["broken", "broken", "broken"]
    );
}

#[tokio::test]
async fn a_row_with_a_time_holds_the_queue_until_it_is_started() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let now_ms = client.add(&thread, "now").await["createdAtMs"]
        .as_i64()
        .unwrap();
    let mut params = whole(&thread, "later");
    params["notBeforeMs"] = json!(now_ms + 3_600_000);
    client.ok("thread/queue/add", params).await;
    client.add(&thread, "behind it").await;
    client
        .told("thread/queue/changed", json!({"depth": 2}))
        .await;
    assert_eq!(client.waiting(&thread).await, ["later", "behind it"]);
    client.ok("thread/queue/start", of(&thread)).await;
    assert_eq!(
        drained(&mut client, &thread).await,
        ["now", "later", "behind it"]
    );
}

#[tokio::test]
async fn whoever_starts_a_row_follows_the_thread() {
    let world = World::start(ECHO).await;
    let mut owner = world.client().await;
    let thread = owner.thread().await;
    owner.ok("thread/queue/pause", of(&thread)).await;
    let row = owner.add(&thread, "x").await;
    let mut guest = world.client().await;
    let from = guest.0.received().len();
    guest.ok("thread/queue/start", of(&thread)).await;
    guest.ended(row["turnId"].as_str().unwrap()).await;
    let words = guest.words(from);
    let answer = words.iter().position(|word| word == "answer");
    let begun = words.iter().position(|word| word == "turn/started");
    assert!(answer < begun, "{words:?}");
    let mine = |word: &&String| word.starts_with("item/") || word.starts_with("turn/");
    assert!(words.iter().filter(mine).count() >= 6, "{words:?}");
}

#[tokio::test]
async fn after_a_restart_a_server_that_drains_what_it_has_loaded_waits_for_a_resume() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client.ok("thread/queue/pause", of(&thread)).await;
    let mut rows = Vec::new();
    for text in ["a", "b", "c"] {
        rows.push(client.add(&thread, text).await);
    }
    let options = Options {
        drain: Drain::Loaded,
        ..Options::default()
    };
    let world = world.restart_with(ECHO, options).await;
    let mut client = world.client().await;
    // None of these is a reason to load it.
    let named = json!({"threadId": thread, "queuedTurnId": rows[1]["id"]});
    client.ok("thread/queue/delete", named).await;
    let mut to = json!({"threadId": thread, "queuedTurnId": rows[2]["id"]});
    to["position"] = json!(0);
    client.ok("thread/queue/move", to).await;
    let order = json!({"threadId": thread, "queuedTurnIds": [rows[0]["id"], rows[2]["id"]]});
    client.ok("thread/queue/reorder", order).await;
    client.ok("thread/queue/pause", of(&thread)).await;
    assert_eq!(client.waiting(&thread).await, ["a", "c"]);
    let loaded = client.ok("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([]));
    // To let it go on is one.
    client.ok("thread/queue/resume", of(&thread)).await;
    client.ok("thread/resume", of(&thread)).await;
    assert_eq!(drained(&mut client, &thread).await, ["a", "c"]);
}

#[tokio::test]
async fn a_row_is_started_before_its_head_on_a_thread_that_this_loads() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    for text in ["a", "b", "last"] {
        client.add(&thread, text).await;
    }
    let loaded = Options {
        drain: Drain::Loaded,
        ..Options::default()
    };
    let world = world.restart_with(HOLD, loaded).await;
    let mut client = world.client().await;
    let rows = client.queue(&thread).await["data"].clone();
    let named = json!({"threadId": thread, "queuedTurnId": rows[2]["id"]});
    let answer = client.ok("thread/queue/start", named).await;
    assert_eq!(answer["turn"]["id"], rows[2]["turnId"]);
    let started = json!({"turn": {"id": rows[2]["turnId"]}});
    client.told("turn/started", started).await;
    // Refused is whoever asks for more, and follows no more for it.
    let mut other = world.client().await;
    let error = other.err("thread/queue/start", of(&thread)).await;
    let busy = "thread already has an active or pending turn";
    assert_eq!(error["message"], busy);
    world.gates.open("end");
    client.ended(rows[1]["turnId"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await, ["hold", "last", "a", "b"]);
    other.settle().await;
    let followed = |word: &String| word.starts_with("turn/") || word.starts_with("item/");
    assert!(!other.words(0).iter().any(followed));
}

#[tokio::test]
async fn a_server_that_drains_everything_goes_on_after_a_restart_without_a_client() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let row = client.add(&thread, "after the restart").await;
    // Nothing of the running turn is done twice: it is direct, so it is history.
    let world = world.restart(ECHO).await;
    let mut client = world.client().await;
    client.ok("thread/resume", of(&thread)).await;
    assert_eq!(
        drained(&mut client, &thread).await,
        ["hold", "after the restart"]
    );
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    let turns = &read["thread"]["turns"];
    assert_eq!(turns[0]["status"], "interrupted");
    assert_eq!(turns[1]["id"], row["turnId"]);
}

#[tokio::test]
async fn a_row_that_is_to_hold_after_a_stop_comes_back_failed_and_is_not_run_again() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let mut hold = whole(&thread, "hold");
    hold["onStop"] = json!("block");
    let row = client.ok("thread/queue/add", hold).await["queuedTurn"].clone();
    let turn = row["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": turn}}))
        .await;
    client.add(&thread, "behind it").await;
    let world = world.restart(ECHO).await;
    let mut client = world.client().await;
    client.ok("thread/resume", of(&thread)).await;
    let listed = client.queue(&thread).await;
    assert_eq!(said(&listed["data"]), ["hold", "behind it"]);
    assert_eq!(listed["data"][0]["id"], row["id"]);
    assert_eq!(listed["data"][0]["lastTurnId"], row["turnId"]);
    let text = "queued turn was interrupted because its worker stopped";
    assert_eq!(listed["blocked"]["message"], text);
    assert_eq!(listed["data"][0]["status"]["error"]["message"], text);
    client.ok("thread/queue/retry", of(&thread)).await;
    assert_eq!(
        drained(&mut client, &thread).await,
        ["hold", "hold", "behind it"]
    );
}

/// A worker that is gone from one moment to the next: its tasks, its store and its lock.
#[test]
fn rows_outlive_a_worker_that_is_gone_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let before = tokio::runtime::Runtime::new().unwrap();
    let (thread, row) = before.block_on(async {
        let store = crate::support::open(&place.join("turnlane.db"));
        let engine = std::sync::Arc::new(crate::support::scripted(HOLD));
        let own = tempfile::tempdir().unwrap();
        let world = World::start_on(own, store, vec![engine], Options::default()).await;
        let mut client = world.client().await;
        let thread = client.thread().await;
        let row = client.add(&thread, "hold").await;
        let turn = row["turnId"].clone();
        client
            .told("turn/started", json!({"turn": {"id": turn}}))
            .await;
        for text in ["a", "b"] {
            client.add(&thread, text).await;
        }
        (thread, row)
    });
    drop(before);
    let after = tokio::runtime::Runtime::new().unwrap();
    after.block_on(async {
        let store = crate::support::open(&place.join("turnlane.db"));
        let engine = std::sync::Arc::new(crate::support::scripted(ECHO));
        let own = tempfile::tempdir().unwrap();
        let world = World::start_on(own, store, vec![engine], Options::default()).await;
        let mut client = world.client().await;
        // Its lock may be free a moment later than its tasks.
        eventually("the worker is found dead", DEADLINE, async || {
            client.waiting(&thread).await == ["hold", "a", "b"]
        })
        .await
        .unwrap();
        let listed = client.queue(&thread).await;
        assert_eq!(listed["blocked"]["queuedTurnId"], row["id"]);
        client.ok("thread/resume", of(&thread)).await;
        let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
        client.ok("thread/queue/delete", named).await;
        assert_eq!(drained(&mut client, &thread).await, ["hold", "a", "b"]);
    });
}

#[tokio::test]
async fn another_worker_may_do_everything_to_the_queue_but_start_it() {
    let world = World::start(HOLD).await;
    let mut owner = world.client().await;
    let (thread, running) = owner.busy().await;
    let beside = world.beside(ECHO).await;
    let mut guest = beside.client().await;
    let one = guest.add(&thread, "one").await;
    let two = guest.add(&thread, "two").await;
    assert_eq!(guest.waiting(&thread).await, ["one", "two"]);
    let order = json!({"threadId": thread, "queuedTurnIds": [two["id"], one["id"]]});
    guest.ok("thread/queue/reorder", order).await;
    let error = guest.err("thread/queue/start", of(&thread)).await;
    assert_eq!(error["data"]["reason"], "ownedElsewhere");
    owner
        .told("thread/queue/changed", json!({"depth": 2}))
        .await;
    world.gates.open("go");
    owner.ended(&running).await;
    owner.ended(one["turnId"].as_str().unwrap()).await;
    assert_eq!(owner.history(&thread).await, ["hold", "two", "one"]);
}
