//! A daemon whose disk becomes full while it serves.

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::disk;
use crate::app_server::{Served, ok, refused, thread};
use crate::serve::{Daemon, add, drained, get, turns};

/// More adds than fit into what the log of the database may still have room for.
const ADDS_MAX: usize = 2_000;

/// A text that takes a page of the database.
fn long(number: usize) -> String {
    format!("{number} {}", "x".repeat(4_000))
}

fn row(thread: &str, text: &str) -> Value {
    let input = json!([{"type": "text", "text": text}]);
    let turn = json!({"threadId": thread, "input": input});
    // A key is shorter than these texts, which differ at their beginning.
    let key = text.get(..64).unwrap_or(text);
    json!({"threadId": thread, "turnStartParams": turn, "idempotencyKey": key})
}

/// Adds until one is refused: the texts that were answered for, the one that was not, and the error.
async fn add_until_full(client: &mut TestClient, thread: &str) -> (Vec<String>, String, Value) {
    let mut added = Vec::new();
    for number in 0..ADDS_MAX {
        let text = long(number);
        let answer = client.call("thread/queue/add", row(thread, &text)).await;
        let answer = answer.unwrap();
        if answer.get("error").is_some() {
            return (added, text, answer["error"].clone());
        }
        added.push(text);
    }
    panic!("the disk is never full");
}

/// The texts of all rows that wait, in their order.
async fn waiting(client: &mut TestClient, thread: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({"threadId": thread, "limit": 100, "cursor": cursor});
        let page = ok(client, "thread/queue/list", params).await;
        for row in page["data"].as_array().unwrap() {
            assert_eq!(row["status"]["type"], "pending", "{row}");
            texts.push(row["input"][0]["text"].as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            assert_eq!(page["depth"], texts.len());
            return texts;
        }
    }
}

fn all(texts: &[&str], status: &str) -> Vec<(String, String)> {
    let pair = |text: &&str| ((*text).to_owned(), status.to_owned());
    texts.iter().map(pair).collect()
}

async fn refuses_all_that_is_new(client: &mut TestClient, thread: &str, error: &Value) {
    let input = json!([{"type": "text", "text": "direct"}]);
    let direct = json!({"threadId": thread, "input": input});
    for (method, params) in [("thread/start", json!({})), ("turn/start", direct)] {
        let refusal = refused(client, method, params).await;
        assert_eq!(refusal, *error, "{method}");
    }
}

async fn warned(client: &mut TestClient, text: &str) {
    let is_it =
        |message: &Value| message["method"] == "warning" && message["params"]["message"] == text;
    client.find(text, is_it).await.unwrap();
}

const FULL: &str =
    "the disk is full: what runs is recorded, and nothing new is taken in until 8 MiB are free";
const ROOM: &str = "there is room on the disk again: queued turns go on";

#[tokio::test]
async fn on_a_full_disk_nothing_is_lost_ends_are_recorded_and_work_goes_on_by_itself() {
    let test = "on_a_full_disk_nothing_is_lost_ends_are_recorded_and_work_goes_on_by_itself";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |request| match request.last_user_text().as_str() {
        "hold" => Reply::text("held").gated_by(At::Request, &held),
        _ => Reply::text("ok"),
    })
    .await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.websocket().await;
    let busy = thread(&mut client, &served.work(), json!({})).await;
    for text in ["hold", "one", "two"] {
        add(&mut client, &busy, text, json!({})).await;
    }
    gate.reached().await;
    let paused = thread(&mut client, &served.work(), json!({})).await;
    let lane = json!({"threadId": paused});
    ok(&mut client, "thread/queue/pause", lane.clone()).await;
    disk.fill().unwrap();

    // What is refused is not there, what was answered is, and whoever may know is told.
    let (mut added, not_added, error) = add_until_full(&mut client, &paused).await;
    let text = "store is full: No space left on device (os error 28); 8 MiB must be free";
    let exact = json!({"code": -32603, "message": text, "data": {"reason": "diskFull"}});
    assert_eq!(error, exact);
    assert_eq!(waiting(&mut client, &paused).await, added);
    assert_eq!(waiting(&mut client, &busy).await, ["one", "two"]);
    refuses_all_that_is_new(&mut client, &paused, &error).await;
    warned(&mut client, FULL).await;
    let said = |line: &str| line.contains(FULL);
    let said = daemon.process.wait_for_stderr_line(said, DEADLINE);
    said.await.unwrap();
    let full = (
        503,
        "not ready: the disk is full; 8 MiB must be free".to_owned(),
    );
    assert_eq!(get(&daemon.url, "/readyz", "").await, full);

    // What only makes the queue smaller works, and the turn that runs ends as it would.
    if let Some(first) = added.first().cloned() {
        let list = ok(&mut client, "thread/queue/list", lane.clone()).await;
        let params = json!({"threadId": paused, "queuedTurnId": list["data"][0]["id"]});
        let deleted = ok(&mut client, "thread/queue/delete", params).await;
        assert_eq!(deleted["deleted"], true, "{first}");
        added.remove(0);
    }
    gate.release();
    let end = client.message("turn/completed").await.unwrap();
    assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
    assert_eq!(turns(&mut client, &busy).await, all(&["hold"], "completed"));
    assert_eq!(waiting(&mut client, &busy).await, ["one", "two"]);

    // One that is started on the full disk finds all of it, and says so.
    daemon.process.kill9().await.unwrap();
    drop(client);
    let daemon = Daemon::start(&served.home, &[]).await;
    let said = |line: &str| line == FULL;
    let said = daemon.process.wait_for_stderr_line(said, DEADLINE);
    said.await.unwrap();
    assert_eq!(get(&daemon.url, "/readyz", "").await, full);
    let mut client = daemon.unix().await;
    assert_eq!(turns(&mut client, &busy).await, all(&["hold"], "completed"));
    assert_eq!(waiting(&mut client, &busy).await, ["one", "two"]);
    assert_eq!(waiting(&mut client, &paused).await, added);
    let params = row(&paused, &not_added);
    let again = refused(&mut client, "thread/queue/add", params.clone()).await;
    assert_eq!(again, error);

    // Nobody has to do anything but make room.
    disk.free().unwrap();
    warned(&mut client, ROOM).await;
    assert_eq!(get(&daemon.url, "/readyz", "").await.0, 200);
    drained(&mut client, &busy).await;
    let ran = all(&["hold", "one", "two"], "completed");
    assert_eq!(turns(&mut client, &busy).await, ran);
    let answer = ok(&mut client, "thread/queue/add", params).await;
    assert_eq!(answer["deduplicated"], false, "{answer}");
    added.push(not_added);
    ok(&mut client, "thread/queue/resume", lane).await;
    drained(&mut client, &paused).await;
    let texts: Vec<&str> = added.iter().map(String::as_str).collect();
    assert_eq!(turns(&mut client, &paused).await, all(&texts, "completed"));
    let requests = served.mock.requests();
    assert_eq!(requests.len(), 3 + added.len(), "nothing ran twice");
}

#[tokio::test]
async fn a_server_on_stdio_refuses_new_work_on_a_full_disk_until_there_is_room() {
    let test = "a_server_on_stdio_refuses_new_work_on_a_full_disk_until_there_is_room";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let served = Served::new(|_| Reply::text("ok")).await;
    let mut server = served.stdio().await;
    let id = thread(&mut server.client, &served.work(), json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut server.client, "thread/queue/pause", lane.clone()).await;
    add(&mut server.client, &id, "kept", json!({})).await;
    disk.fill().unwrap();
    let (mut added, not_added, error) = add_until_full(&mut server.client, &id).await;
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    added.insert(0, "kept".to_owned());
    server.process.kill9().await.unwrap();

    // The next one is the only one who knows the thread.
    let mut server = served.stdio().await;
    let client = &mut server.client;
    assert_eq!(waiting(client, &id).await, added);
    ok(client, "thread/resume", lane.clone()).await;
    refused(client, "thread/queue/add", row(&id, &not_added)).await;
    disk.free().unwrap();
    let taken = async || {
        let answer = client.call("thread/queue/add", row(&id, &not_added)).await;
        answer.unwrap().get("result").is_some()
    };
    eventually("room", DEADLINE, taken).await.unwrap();
    added.push(not_added);
    ok(client, "thread/queue/resume", lane).await;
    drained(client, &id).await;
    let texts: Vec<&str> = added.iter().map(String::as_str).collect();
    assert_eq!(turns(client, &id).await, all(&texts, "completed"));
}

#[tokio::test]
async fn work_goes_on_as_soon_as_the_room_that_the_warning_names_is_free() {
    let test = "work_goes_on_as_soon_as_the_room_that_the_warning_names_is_free";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let served = Served::new(|_| Reply::text("ok")).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut client, "thread/queue/pause", lane.clone()).await;
    disk.fill().unwrap();
    let (mut added, not_added, error) = add_until_full(&mut client, &id).await;
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    warned(&mut client, FULL).await;
    disk.fill().unwrap();
    disk.free_bytes(12 << 20).unwrap();
    warned(&mut client, ROOM).await;
    assert_eq!(get(&daemon.url, "/readyz", "").await.0, 200);
    ok(&mut client, "thread/queue/add", row(&id, &not_added)).await;
    added.push(not_added);
    ok(&mut client, "thread/queue/resume", lane).await;
    drained(&mut client, &id).await;
    let texts: Vec<&str> = added.iter().map(String::as_str).collect();
    assert_eq!(turns(&mut client, &id).await, all(&texts, "completed"));
}
