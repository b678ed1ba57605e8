//! Turns: order on the wire, steering, waiting, keys, and whom a start makes a follower.

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{ECHO, World, turn};

const GATED: &str = "version: 1
turns:
  - match: wait
    steps:
      - await: {gate: go}
      - say: \"waited\"
fallback: {say: \"You said: {input}\"}
";

#[tokio::test]
async fn a_turn_is_told_in_the_order_of_the_contract() {
    let world = World::start(ECHO).await;
    let mut client = world.client_with(json!({})).await;
    let thread = client.thread().await;
    client.told("thread/started", json!({})).await;
    let from = client.0.received().len();
    let id = client.turn(&thread, "hello").await;
    let ended = client.ended(&id).await;
    assert_eq!(ended["itemsView"], "summary");
    assert_eq!(ended["items"][0]["text"], "You said: hello");
    let mut words = client.words(from);
    words.dedup();
    assert_eq!(
        words,
        [
            "answer",
            "thread/status/changed",
            "turn/started",
            "item/started",
            "item/completed",
            "item/started",
            "item/agentMessage/delta",
            "item/completed",
            "thread/tokenUsage/updated",
            "thread/status/changed",
            "turn/completed",
        ]
    );
    let answer = &client.0.received()[from]["result"]["turn"];
    assert_eq!(answer["status"], "inProgress");
    assert_eq!(answer["items"], json!([]));
    assert_eq!(answer["rootTurnId"], id.as_str());
    assert_eq!(answer["startedAt"], Value::Null);
}

#[tokio::test]
async fn a_second_start_steers_waits_or_is_refused_as_it_says() {
    let world = World::start(GATED).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let running = client.turn(&thread, "wait").await;
    let steered = client.turn(&thread, "and this").await;
    assert_eq!(steered, running, "as Codex, the running turn takes it");
    let mut queued = turn(&thread, "later");
    queued["whenBusy"] = json!("queue");
    queued["idempotencyKey"] = json!("k");
    let answer = client.ok("turn/start", queued.clone()).await;
    let later = answer["turn"]["id"].as_str().unwrap().to_owned();
    assert_eq!(answer["queuedTurn"]["turnId"], later.as_str());
    let again = client.ok("turn/start", queued).await;
    assert_eq!(
        again["turn"]["id"],
        later.as_str(),
        "the same key, the same turn"
    );
    let mut other = turn(&thread, "something else");
    other["whenBusy"] = json!("queue");
    other["idempotencyKey"] = json!("k");
    let error = client.err("turn/start", other).await;
    assert_eq!(error["data"]["reason"], "idempotencyConflict");
    let stop = json!({"threadId": thread, "turnId": later});
    let error = client.err("turn/interrupt", stop).await;
    assert_eq!(
        error["message"],
        "turn is queued; remove it with thread/queue/delete"
    );
    world.gates.open("go");
    client.ended(&running).await;
    assert_eq!(client.ended(&later).await["status"], "completed");
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    let texts: Vec<&Value> = read["thread"]["turns"][0]["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "userMessage")
        .map(|item| &item["content"][0]["text"])
        .collect();
    assert_eq!(texts, ["wait", "and this"]);
}

#[tokio::test]
async fn a_row_bound_to_a_connection_goes_with_it() {
    let world = World::start(GATED).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let running = client.turn(&thread, "wait").await;
    let mut fleeting = world.client().await;
    let mut bound = turn(&thread, "never");
    bound["whenBusy"] = json!("queue");
    bound["boundTo"] = json!("connection");
    fleeting.ok("turn/start", bound).await;
    drop(fleeting);
    let gone = json!({"threadId": thread, "depth": 0, "queuedTurns": []});
    client
        .told("thread/queue/changed", json!({"depth": 1}))
        .await;
    client.told("thread/queue/changed", gone).await;
    world.gates.open("go");
    client.ended(&running).await;
    let turns = client
        .ok("thread/turns/list", json!({"threadId": thread}))
        .await;
    assert_eq!(turns["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_row_whose_connection_goes_while_it_is_added_goes_too() {
    let world = World::start(GATED).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let running = client.turn(&thread, "wait").await;
    for n in 0..20 {
        let mut fleeting = world.client().await;
        let mut bound = turn(&thread, &format!("never {n}"));
        bound["whenBusy"] = json!("queue");
        bound["boundTo"] = json!("connection");
        // Nobody waits for the answer.
        fleeting.0.request("turn/start", bound).await.unwrap();
        drop(fleeting);
    }
    // Whoever leaves is heard out first.
    eventually("the others to be gone", DEADLINE, async || {
        let text = world.server.metrics().await;
        let says = |line: &str| text.lines().any(|found| found == line);
        says("turnlane_connections 1") && says("turnlane_requests_unanswered 0")
    })
    .await
    .unwrap();
    let lane = json!({"threadId": thread});
    eventually("an empty queue", DEADLINE, async || {
        let list = client.ok("thread/queue/list", lane.clone()).await;
        list["depth"] == 0
    })
    .await
    .unwrap();
    world.gates.open("go");
    client.ended(&running).await;
    let turns = client.ok("thread/turns/list", lane).await;
    assert_eq!(turns["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_start_makes_its_caller_a_follower_and_a_refused_one_does_not() {
    let world = World::start(GATED).await;
    let mut owner = world.client().await;
    let thread = owner.thread().await;
    let running = owner.turn(&thread, "wait").await;
    let mut refused = world.client().await;
    let mut busy = turn(&thread, "x");
    busy["whenBusy"] = json!("reject");
    refused.err("turn/start", busy).await;
    let status = refused
        .ok("thread/unsubscribe", json!({"threadId": thread}))
        .await;
    assert_eq!(status["status"], "notSubscribed");
    let mut steering = world.client().await;
    let from = steering.0.received().len();
    steering.turn(&thread, "more").await;
    world.gates.open("go");
    steering.ended(&running).await;
    let words = steering.words(from);
    let place = |word: &str| words.iter().position(|found| found == word).unwrap();
    assert!(place("answer") < place("turn/started"), "{words:?}");
    assert!(place("turn/started") < place("turn/completed"));
}

#[tokio::test]
async fn settings_of_a_turn_stay_and_are_told_when_they_change() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let mut params = turn(&thread, "x");
    params["model"] = json!("other");
    let answer = client.ok("turn/start", params).await;
    client.ended(answer["turn"]["id"].as_str().unwrap()).await;
    let changed = json!({"threadId": thread, "threadSettings": {"model": "other"}});
    client.told("thread/settings/updated", changed).await;
    let update = json!({"threadId": thread, "model": "third", "effort": "high"});
    assert_eq!(client.ok("thread/settings/update", update).await, json!({}));
    let resumed = json!({"threadId": thread, "overrides": {"model": "below"}, "cwd": "/flat"});
    let resumed = client.ok("thread/resume", resumed).await;
    assert_eq!(resumed["model"], "below");
    assert_eq!(resumed["cwd"], "/flat");
    assert_eq!(resumed["reasoningEffort"], "high");
}

#[tokio::test]
async fn a_directory_is_absolute_unless_we_were_started_by_the_caller() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let mut far = World::unix_client(&path).await;
    let error = far.err("thread/start", json!({"cwd": "w"})).await;
    assert_eq!(error["message"], "cwd must be absolute: w");
    let mut near = world.client().await;
    let answer = near.ok("thread/start", json!({"cwd": "w"})).await;
    let cwd = world.folder.path().join("w");
    assert_eq!(answer["cwd"], cwd.display().to_string());
}
