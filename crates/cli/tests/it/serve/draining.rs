//! Queues are drained from the start on, with nobody connected, and lanes of the dead go on elsewhere.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::Gate;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{Daemon, add, drained, turns};
use crate::app_server::{Served, held_by, ok, thread};

async fn gated() -> (Served, Gate) {
    let gate = Gate::new();
    (Served::new(held_by(&gate)).await, gate)
}

#[tokio::test]
async fn after_a_kill_it_drains_with_nobody_connected() {
    let (served, gate) = gated().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let mut threads = Vec::new();
    for _ in 0..3 {
        let id = thread(&mut client, &served.work(), json!({})).await;
        add(&mut client, &id, "hold", json!({"onCrash": "continue"})).await;
        for text in ["one", "two", "three"] {
            add(&mut client, &id, text, json!({})).await;
        }
        threads.push(id);
    }
    gate.reached_by(3).await;
    daemon.process.kill9().await.unwrap();
    drop(client);
    gate.release();
    served.mock.take_requests();

    let daemon = Daemon::start(&served.home, &[]).await;
    // Nobody has connected when the model has been asked everything; a scrape is no client.
    served.mock.wait_for_requests(9, DEADLINE).await.unwrap();
    let empty = async || daemon.metric("turnlane_queue_depth").await == 0;
    eventually("an empty queue", DEADLINE, empty).await.unwrap();
    assert_eq!(daemon.metric("turnlane_connections_total").await, 0);
    let mut client = daemon.unix().await;
    for id in &threads {
        drained(&mut client, id).await;
        let expected = [
            ("hold", "interrupted"),
            ("one", "completed"),
            ("two", "completed"),
            ("three", "completed"),
        ];
        let expected = expected.map(|(text, status)| (text.to_owned(), status.to_owned()));
        assert_eq!(turns(&mut client, id).await, expected);
    }
    assert_eq!(served.mock.requests().len(), 9, "nothing ran twice");
}

#[tokio::test]
async fn what_was_queued_without_it_waits_for_it_and_a_pause_holds() {
    let (served, _gate) = gated().await;
    let mut other = served.stdio().await;
    let id = thread(&mut other.client, &served.work(), json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut other.client, "thread/queue/pause", lane.clone()).await;
    add(&mut other.client, &id, "later", json!({})).await;
    other.process.kill9().await.unwrap();

    let daemon = Daemon::start(&served.home, &[]).await;
    let said = daemon.process.stderr_tail();
    assert!(said.contains("ready; 1 turn is queued\n"), "{said}");
    let paused = daemon.metric("turnlane_lanes{state=\"paused\"}").await;
    assert_eq!((paused, served.mock.requests().len()), (1, 0));
    let mut client = daemon.websocket().await;
    ok(&mut client, "thread/queue/resume", lane).await;
    drained(&mut client, &id).await;
    let later = [("later".to_owned(), "completed".to_owned())];
    assert_eq!(turns(&mut client, &id).await, later);
}

#[tokio::test]
async fn lanes_of_a_worker_that_dies_are_taken_over_while_it_serves() {
    let (served, gate) = gated().await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut other = served.stdio().await;
    let id = thread(&mut other.client, &served.work(), json!({})).await;
    add(&mut other.client, &id, "hold", json!({"onCrash": "retry"})).await;
    for text in ["behind", "last"] {
        add(&mut other.client, &id, text, json!({})).await;
    }
    gate.reached().await;
    let mut client = daemon.unix().await;
    other.process.kill9().await.unwrap();
    gate.release();
    // No client asks for it: a dead worker is noticed within half a second.
    let soon = Duration::from_secs(10);
    let taken = within("the takeover", soon, drained(&mut client, &id));
    taken.await.unwrap();
    let expected = [
        ("hold", "interrupted"),
        ("hold", "completed"),
        ("behind", "completed"),
        ("last", "completed"),
    ];
    let expected = expected.map(|(text, status)| (text.to_owned(), status.to_owned()));
    assert_eq!(turns(&mut client, &id).await, expected);
    let told = |line: &str| line.contains("a dead worker's lane was taken over");
    daemon
        .process
        .wait_for_stderr_line(told, DEADLINE)
        .await
        .unwrap();
}

/// What three places say of a pause: the list, the thread, and what is told to whoever subscribes.
async fn paused(client: &mut TestClient, thread: &str) -> [Value; 3] {
    let lane = json!({"threadId": thread});
    let list = ok(client, "thread/queue/list", lane.clone()).await;
    let read = ok(client, "thread/read", lane.clone()).await;
    ok(client, "thread/resume", lane).await;
    let changed = client.message("thread/queue/changed").await.unwrap();
    [
        list["paused"].clone(),
        read["thread"]["queue"]["paused"].clone(),
        changed["params"]["paused"].clone(),
    ]
}

#[tokio::test]
async fn a_pause_outlives_kills_and_ends_by_resume_alone() {
    let (served, gate) = gated().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &id, "hold", json!({"onCrash": "continue"})).await;
    add(&mut client, &id, "later", json!({})).await;
    gate.reached().await;
    // It stops claims only: what runs goes on, until the kill.
    let pause = json!({"threadId": id, "reason": "lunch"});
    let state = ok(&mut client, "thread/queue/pause", pause).await;
    assert_eq!(state["paused"]["reason"], "lunch", "{state}");
    let since = state["paused"].clone();
    for text in ["one more", "and one"] {
        daemon.process.kill9().await.unwrap();
        daemon = Daemon::start(&served.home, &[]).await;
        client = daemon.unix().await;
        for shown in paused(&mut client, &id).await {
            assert_eq!(shown, since);
        }
        add(&mut client, &id, text, json!({})).await;
        let changed = |told: &Value| {
            let rows = told["params"]["queuedTurns"].as_array();
            let has = |row: &Value| row["input"][0]["text"] == text;
            rows.is_some_and(|rows| rows.iter().any(has))
        };
        let told = client.find("the row", changed).await.unwrap();
        assert_eq!(told["params"]["paused"], since, "an add does not end it");
        assert_eq!(daemon.metric("turnlane_turns_running").await, 0);
    }
    assert_eq!(served.mock.requests().len(), 1, "nothing was claimed");
    let lane = json!({"threadId": id});
    let state = ok(&mut client, "thread/queue/resume", lane).await;
    assert_eq!(state["paused"], Value::Null);
    gate.release();
    drained(&mut client, &id).await;
    let expected = [
        ("hold", "interrupted"),
        ("later", "completed"),
        ("one more", "completed"),
        ("and one", "completed"),
    ];
    let expected = expected.map(|(text, status)| (text.to_owned(), status.to_owned()));
    assert_eq!(turns(&mut client, &id).await, expected);
}
