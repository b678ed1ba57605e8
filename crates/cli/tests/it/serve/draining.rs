//! Queues are drained from the start on, with nobody connected, and lanes of the dead go on elsewhere.

use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Daemon, add, drained, turns};
use crate::app_server::{Served, ok, thread};

/// A model whose first answer to a text with `hold` waits at a gate.
async fn gated() -> (Served, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(format!("ok: {text}"));
        if text.starts_with("hold") {
            reply.gated_by(At::Request, &held)
        } else {
            reply
        }
    })
    .await;
    (served, gate)
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
    add(&mut other.client, &id, "behind", json!({})).await;
    gate.reached().await;
    other.process.kill9().await.unwrap();
    gate.release();
    let mut client = daemon.unix().await;
    drained(&mut client, &id).await;
    let expected = [
        ("hold", "interrupted"),
        ("hold", "completed"),
        ("behind", "completed"),
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
