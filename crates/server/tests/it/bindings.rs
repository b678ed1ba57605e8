//! `thread/start` with `binding` and `supersedes`, and `thread/queue/resume` with a reason.

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::queue::{HOLD, whole};
use crate::support::{Client, ECHO, World};

const KEY: &str = "shim:dev@/project";

fn bound() -> Value {
    json!({"binding": KEY})
}

fn successor(old: &str) -> Value {
    json!({"binding": KEY, "supersedes": old})
}

fn id(answer: &Value) -> String {
    answer["thread"]["id"].as_str().unwrap().to_owned()
}

/// Starts until another connection has let go of the binding.
async fn start_when_free(client: &mut Client, params: Value) -> Value {
    let mut started = Value::Null;
    eventually("the binding to be free", DEADLINE, async || {
        let answer = client.0.call("thread/start", params.clone()).await.unwrap();
        if answer.get("result").is_none() {
            assert_eq!(
                answer["error"]["data"]["reason"], "bindingInUse",
                "{answer}"
            );
            return false;
        }
        started = answer["result"].clone();
        true
    })
    .await
    .unwrap();
    started
}

#[tokio::test]
async fn a_binding_leads_to_the_same_thread_for_the_connection_that_holds_it() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let first = client.ok("thread/start", bound()).await;
    assert!(first.get("existing").is_none(), "{first}");
    assert_eq!(first["thread"]["binding"], KEY);
    client
        .told("thread/started", json!({"thread": {"binding": KEY}}))
        .await;
    let again = client.ok("thread/start", bound()).await;
    assert_eq!(again["existing"], true);
    assert_eq!(id(&again), id(&first));
    client.settle().await;
    let begun = client.words(0);
    let begun = begun
        .iter()
        .filter(|word| *word == "thread/started")
        .count();
    assert_eq!(begun, 1, "an existing thread does not start");
    let unbound = client.ok("thread/start", json!({})).await;
    assert_ne!(id(&unbound), id(&first));
}

#[tokio::test]
async fn a_binding_leads_to_the_same_thread_after_a_restart() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let first = id(&client.ok("thread/start", bound()).await);
    let turn = client.turn(&first, "hello").await;
    client.ended(&turn).await;
    drop(client);
    let world = world.restart(ECHO).await;
    let mut client = world.client().await;
    let again = client.ok("thread/start", bound()).await;
    assert_eq!(
        (id(&again), &again["existing"]),
        (first.clone(), &json!(true))
    );
    assert_eq!(client.history(&first).await, ["hello"]);
    // The connection follows it.
    let turn = client.add(&first, "more").await["turnId"].clone();
    client.ended(turn.as_str().unwrap()).await;
}

#[tokio::test]
async fn a_binding_has_one_holder_until_its_connection_ends() {
    let world = World::start(ECHO).await;
    let (mut first, mut second) = (world.client().await, world.client().await);
    let thread = id(&first.ok("thread/start", bound()).await);
    for params in [bound(), successor(&thread)] {
        let error = second.err("thread/start", params).await;
        assert_eq!(error["code"], -32600);
        assert_eq!(error["message"], format!("binding is in use: {KEY}"));
        assert_eq!(error["data"]["reason"], "bindingInUse");
    }
    // Another binding is free, and the thread itself may be followed.
    second.ok("thread/start", json!({"binding": "other"})).await;
    let lane = json!({"threadId": thread});
    second.ok("thread/resume", lane).await;
    drop(first);
    let found = start_when_free(&mut second, bound()).await;
    assert_eq!((id(&found), &found["existing"]), (thread, &json!(true)));
}

#[tokio::test]
async fn a_refused_start_holds_nothing() {
    let world = World::start(ECHO).await;
    let (mut first, mut second) = (world.client().await, world.client().await);
    let unbound = first.thread().await;
    let error = first.err("thread/start", successor(&unbound)).await;
    let message = format!("thread {unbound} does not hold binding {KEY}");
    assert_eq!(error["message"], message);
    assert_eq!(error["data"]["reason"], "invalidParams");
    second.ok("thread/start", bound()).await;
}

#[tokio::test]
async fn of_many_clients_that_start_at_once_one_holds_the_binding() {
    let world = World::start(ECHO).await;
    let mut starts = Vec::new();
    for _ in 0..8 {
        let mut client = world.client().await;
        starts.push(tokio::spawn(async move {
            let answer = client.0.call("thread/start", bound()).await.unwrap();
            // A client that left would let go of the binding.
            (client, answer)
        }));
    }
    let (mut clients, mut answers) = (Vec::new(), Vec::new());
    for start in starts {
        let (client, answer) = start.await.unwrap();
        clients.push(client);
        answers.push(answer);
    }
    let refused = |answer: &Value| answer["error"]["data"]["reason"] == "bindingInUse";
    assert_eq!(answers.iter().filter(|answer| refused(answer)).count(), 7);
    let made = answers.iter().find(|answer| !refused(answer)).unwrap();
    assert!(made["result"].get("existing").is_none(), "{made}");
}

#[tokio::test]
async fn a_lane_of_another_process_is_not_bound_here() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let thread = id(&client.ok("thread/start", bound()).await);
    client.turn(&thread, "hold").await;
    let beside = world.beside(ECHO).await;
    let mut other = beside.client().await;
    for params in [bound(), successor(&thread)] {
        let error = other.err("thread/start", params).await;
        assert_eq!(error["data"]["reason"], "ownedElsewhere", "{error}");
    }
    world.gates.open("go");
}

#[tokio::test]
async fn what_the_caller_says_counts_from_the_next_turn_on() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let first = client.ok("thread/start", bound()).await;
    assert_eq!(first["model"], "test-model");
    let params = json!({"binding": KEY, "model": "other", "sandbox": "read-only"});
    let again = client.ok("thread/start", params).await;
    assert_eq!(again["model"], "other");
    assert_eq!(again["sandbox"]["type"], "readOnly");
    let kept = client.ok("thread/start", bound()).await;
    assert_eq!(kept["model"], "other", "what is not said stays");
}

#[tokio::test]
async fn an_archived_thread_gives_its_binding_up() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let first = id(&client.ok("thread/start", bound()).await);
    let turn = client.turn(&first, "hello").await;
    client.ended(&turn).await;
    let lane = json!({"threadId": first});
    client.ok("thread/archive", lane.clone()).await;
    let second = client.ok("thread/start", bound()).await;
    assert_ne!(id(&second), first);
    assert!(second.get("existing").is_none());
    let error = client.err("thread/start", successor(&first)).await;
    let message = format!("thread {first} does not hold binding {KEY}");
    assert_eq!(error["message"], message);
    let back = client.ok("thread/unarchive", lane).await;
    assert_eq!(back["thread"]["binding"], Value::Null);
    let again = client.ok("thread/start", bound()).await;
    assert_eq!(id(&again), id(&second));
}

#[tokio::test]
async fn a_successor_takes_over_what_waits_and_both_queues_are_told() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let mut watcher = world.client().await;
    let old = id(&client.ok("thread/start", bound()).await);
    watcher.ok("thread/resume", json!({"threadId": old})).await;
    let running = client.turn(&old, "hold").await;
    let mut rows = Vec::new();
    for text in ["one", "two", "three"] {
        rows.push(client.add(&old, text).await);
    }
    watcher
        .told("thread/queue/changed", json!({"threadId": old, "depth": 3}))
        .await;
    client
        .ok(
            "thread/queue/pause",
            json!({"threadId": old, "reason": "shim"}),
        )
        .await;
    let answer = client.ok("thread/start", successor(&old)).await;
    let new = id(&answer);
    assert!(new != old && answer.get("existing").is_none(), "{answer}");
    assert_eq!(answer["thread"]["binding"], KEY);
    assert_eq!(answer["thread"]["queue"]["depth"], 3);
    assert_eq!(answer["thread"]["queue"]["paused"]["reason"], "shim");

    // Ids, order and texts are kept; the turn that runs stays where it is.
    let queue = client.queue(&new).await;
    let moved = queue["data"].as_array().unwrap();
    let ids = |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["id"].clone()).collect() };
    assert_eq!(ids(moved), ids(&rows));
    for row in moved {
        assert_eq!(row["turnStartParams"]["threadId"], new.as_str());
    }
    assert_eq!(client.waiting(&new).await, ["one", "two", "three"]);
    assert!(client.waiting(&old).await.is_empty());
    assert_eq!(
        client.queue(&old).await["running"]["turnId"],
        running.as_str()
    );
    // Only the takeover empties the queue behind the pause.
    let emptied = json!({"threadId": old, "depth": 0, "paused": {"reason": "shim"}});
    watcher.told("thread/queue/changed", emptied).await;
    client
        .told("thread/queue/changed", json!({"threadId": new, "depth": 3}))
        .await;

    world.gates.open("go");
    client.ended(&running).await;
    let resumed = json!({"threadId": new, "reason": "shim"});
    client.ok("thread/queue/resume", resumed).await;
    let last = rows[2]["turnId"].as_str().unwrap();
    client.ended(last).await;
    assert_eq!(client.history(&new).await, ["one", "two", "three"]);
    assert_eq!(client.history(&old).await, ["hold"]);
    let read = json!({"threadId": old});
    let read = client.ok("thread/read", read).await;
    assert_eq!(read["thread"]["binding"], Value::Null);
    let found = client.ok("thread/start", bound()).await;
    assert_eq!((id(&found), &found["existing"]), (new, &json!(true)));
}

#[tokio::test]
async fn a_repeated_message_finds_its_row_in_the_lane_of_the_successor() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let old = id(&client.ok("thread/start", bound()).await);
    client.turn(&old, "hold").await;
    let message = |thread: &str, timeout: u64| {
        let mut params = whole(thread, "once");
        params["turnStartParams"]["timeoutMs"] = json!(timeout);
        params["idempotencyKey"] = json!("m1");
        params
    };
    let row = client.ok("thread/queue/add", message(&old, 1_000)).await;
    let new = id(&client.ok("thread/start", successor(&old)).await);
    // Neither another thread nor another time limit is other content.
    let again = client.ok("thread/queue/add", message(&new, 7_000)).await;
    assert_eq!(again["deduplicated"], true, "{again}");
    assert_eq!(again["queuedTurn"]["id"], row["queuedTurn"]["id"]);
    world.gates.open("go");
}

#[tokio::test]
async fn the_files_of_a_moved_row_outlive_the_old_thread() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let old = id(&client.ok("thread/start", bound()).await);
    client
        .ok("thread/queue/pause", json!({"threadId": old}))
        .await;
    let file = world.folder.path().join("shot.png");
    std::fs::write(&file, "as it was").unwrap();
    let params = json!({"threadId": old, "clientUserMessageId": "m",
        "input": [{"type": "localImage", "path": file}]});
    let row = client.ok("thread/queue/add", params).await["queuedTurn"].clone();
    let copy = std::path::PathBuf::from(row["input"][0]["path"].as_str().unwrap());
    let new = id(&client.ok("thread/start", successor(&old)).await);
    client.ok("thread/delete", json!({"threadId": old})).await;
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "as it was");
    assert_eq!(client.queue(&new).await["depth"], 1);
}

#[tokio::test]
async fn bindings_that_cannot_be_meant_are_refused() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let nobody = "01890000-0000-7000-8000-000000000001";
    for (params, message) in [
        (
            json!({"binding": ""}),
            "binding must have 1 to 512 bytes".to_owned(),
        ),
        (
            json!({"binding": "x".repeat(513)}),
            "binding must have 1 to 512 bytes".to_owned(),
        ),
        (
            json!({"supersedes": thread}),
            "`supersedes` needs `binding`".to_owned(),
        ),
        (
            json!({"binding": "b", "ephemeral": true}),
            "binding cannot name an ephemeral thread".to_owned(),
        ),
        (
            json!({"binding": "b", "idempotencyKey": "k"}),
            "`binding` cannot be combined with `idempotencyKey`".to_owned(),
        ),
        (
            json!({"binding": "b", "supersedes": nobody}),
            format!("thread not found: {nobody}"),
        ),
    ] {
        let error = client.err("thread/start", params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32600), &json!(message))
        );
    }
    let bad = json!({"binding": "b", "supersedes": "rubbish"});
    let error = client.err("thread/start", bad).await;
    assert_eq!(error["data"]["reason"], "invalidThreadId");
    // The longest one is fine.
    client
        .ok("thread/start", json!({"binding": "x".repeat(512)}))
        .await;
}

#[tokio::test]
async fn a_resume_with_a_reason_ends_no_other_pause() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let with = |reason: &str| json!({"threadId": thread, "reason": reason});
    let paused = client.ok("thread/queue/pause", with("lunch")).await;
    assert_eq!(paused["paused"]["reason"], "lunch");
    let still = client.ok("thread/queue/resume", with("shim")).await;
    assert_eq!(still["paused"]["reason"], "lunch");
    let row = client.add(&thread, "hello").await;
    assert_eq!(client.waiting(&thread).await, ["hello"]);
    let ended = client.ok("thread/queue/resume", with("lunch")).await;
    assert_eq!(ended["paused"], Value::Null);
    client.ended(row["turnId"].as_str().unwrap()).await;
}
