//! Adding again after a lost answer: one row, one turn, whatever has become of it.

use serde_json::{Value, json};

use crate::queue::{HOLD, input, submission, whole};
use crate::support::{Client, World};

const SCRIPT: &str = "version: 1
turns:
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
  - match: broken
    steps:
      - error: {info: badRequest, message: no such thing}
fallback: {say: \"You said: {input}\"}
";

fn keyed(thread: &str, text: &str, key: &str) -> Value {
    let mut params = whole(thread, text);
    params["idempotencyKey"] = json!(key);
    params
}

/// Adds again what is there; where it stands.
async fn again(client: &mut Client, params: Value, row: &Value) -> String {
    let answer = client.ok("thread/queue/add", params).await;
    assert_eq!(answer["deduplicated"], true, "{answer}");
    assert_eq!(answer["queuedTurn"]["id"], row["id"]);
    assert_eq!(answer["queuedTurn"]["status"], json!({"type": "pending"}));
    assert_eq!(answer["queuedTurn"], answer["queuedSubmission"]);
    assert_eq!(answer["turnId"], answer["queuedTurn"]["turnId"]);
    answer["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_repeated_key_finds_its_row_wherever_it_stands() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let (thread, first) = client.busy().await;
    let params = keyed(&thread, "hold too", "k");
    let row = client.ok("thread/queue/add", params.clone()).await["queuedTurn"].clone();
    assert_eq!(again(&mut client, params.clone(), &row).await, "pending");
    assert_eq!(client.waiting(&thread).await, ["hold too"]);

    // An interrupt lets the next one begin.
    let interrupt = json!({"threadId": thread, "turnId": first});
    client.ok("turn/interrupt", interrupt).await;
    let turn = row["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": turn}}))
        .await;
    assert_eq!(again(&mut client, params.clone(), &row).await, "running");
    world.gates.open("go");
    client.ended(&turn).await;
    assert_eq!(again(&mut client, params.clone(), &row).await, "completed");
    assert_eq!(client.history(&thread).await, ["hold", "hold too"]);

    let broken = keyed(&thread, "broken", "b");
    let row = client.ok("thread/queue/add", broken.clone()).await["queuedTurn"].clone();
    let ended = client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "failed");
    assert_eq!(again(&mut client, broken, &row).await, "failedTurn");
    let mut blocking = keyed(&thread, "broken again", "bb");
    blocking["onError"] = json!("block");
    let row = client.ok("thread/queue/add", blocking.clone()).await["queuedTurn"].clone();
    let held = json!({"blocked": {"queuedTurnId": row["id"]}});
    client.told("thread/queue/changed", held).await;
    assert_eq!(again(&mut client, blocking, &row).await, "failed");
}

#[tokio::test]
async fn an_interrupted_turn_is_found_as_such() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let params = keyed(&thread, "hold", "k");
    let row = client.ok("thread/queue/add", params.clone()).await["queuedTurn"].clone();
    let turn = row["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": turn}}))
        .await;
    let interrupt = json!({"threadId": thread, "turnId": turn});
    client.ok("turn/interrupt", interrupt).await;
    client.ended(&turn).await;
    assert_eq!(again(&mut client, params, &row).await, "interrupted");
}

#[tokio::test]
async fn the_clients_id_is_the_key_where_there_is_no_other_in_both_dialects() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let codex = submission(&thread, "x", "c-1");
    let row = client.ok("thread/queue/add", codex.clone()).await["queuedTurn"].clone();
    assert_eq!(again(&mut client, codex.clone(), &row).await, "pending");
    // The same in the other dialect is the same content.
    let mut ours = whole(&thread, "x");
    ours["turnStartParams"]["clientUserMessageId"] = json!("c-1");
    assert_eq!(again(&mut client, ours.clone(), &row).await, "pending");
    // With a key of its own the client's id tells nothing apart.
    ours["idempotencyKey"] = json!("k");
    let other = client.ok("thread/queue/add", ours).await;
    assert_eq!(other["deduplicated"], false);
    assert_ne!(other["queuedTurn"]["id"], row["id"]);
    // Without any, each is a row of its own.
    let one = client.add(&thread, "y").await;
    let two = client.add(&thread, "y").await;
    assert_ne!(one["id"], two["id"]);
    assert_eq!(client.waiting(&thread).await, ["x", "x", "y", "y"]);
}

#[tokio::test]
async fn a_key_with_other_content_is_refused_and_another_thread_has_its_own_keys() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let row = client
        .ok("thread/queue/add", keyed(&thread, "x", "k"))
        .await["queuedTurn"]
        .clone();
    for other in [keyed(&thread, "y", "k"), submission(&thread, "y", "k")] {
        let error = client.err("thread/queue/add", other).await;
        let text = "clientUserMessageId already used for a different queued turn: k";
        assert_eq!(error["message"], text);
        assert_eq!(error["data"]["reason"], "idempotencyConflict");
    }
    // The key stands for what was first sent.
    let update = json!({"threadId": thread, "queuedTurnId": row["id"], "input": input("z")});
    client.ok("thread/queue/update", update).await;
    assert_eq!(
        again(&mut client, keyed(&thread, "x", "k"), &row).await,
        "pending"
    );
    let (elsewhere, _) = client.busy().await;
    let answer = client
        .ok("thread/queue/add", keyed(&elsewhere, "y", "k"))
        .await;
    assert_eq!(answer["deduplicated"], false);
    // A deleted row frees its key.
    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    client.ok("thread/queue/delete", named).await;
    let answer = client
        .ok("thread/queue/add", keyed(&thread, "y", "k"))
        .await;
    assert_eq!(answer["deduplicated"], false);
    assert_ne!(answer["queuedTurn"]["id"], row["id"]);
}

#[tokio::test]
async fn a_key_outlives_the_connection_and_the_server() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client
        .ok("thread/queue/pause", json!({"threadId": thread}))
        .await;
    let params = keyed(&thread, "x", "k");
    // Whoever asked never sees the answer.
    client
        .0
        .request("thread/queue/add", params.clone())
        .await
        .unwrap();
    client.0.finish().await.unwrap();
    client.0.ending().await.unwrap();
    let mut client = world.client().await;
    let row = client.queue(&thread).await["data"][0].clone();
    assert_eq!(again(&mut client, params.clone(), &row).await, "pending");
    let world = world.restart(HOLD).await;
    let mut client = world.client().await;
    assert_eq!(again(&mut client, params, &row).await, "pending");
    assert_eq!(client.waiting(&thread).await, ["x"]);
}
