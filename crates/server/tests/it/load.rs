//! Bursts: every request is answered, once.

use std::collections::HashMap;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;

use crate::support::{Client, ECHO, World};

/// Sends `count` reads without reading, then counts the answers by id.
async fn burst(mut client: Client, count: i64) -> HashMap<i64, Value> {
    for id in 0..count {
        let request = json!({"id": 10_000 + id, "method": "thread/list", "params": {"limit": 1}});
        client.0.send(&request).await.unwrap();
    }
    let mut answers = HashMap::new();
    while answers.len() < usize::try_from(count).unwrap() {
        let message = client.0.next().await.unwrap();
        if let Some(id) = message["id"].as_i64() {
            let before = answers.insert(id, message);
            assert!(before.is_none(), "request {id} was answered twice");
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_before_one_answer_is_read_are_all_answered() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let far = World::unix_client(&path).await;
    let (near_side, far_side) = tokio::io::duplex(64 * 1024);
    let (reads, writes) = tokio::io::split(far_side);
    let (client_reads, client_writes) = tokio::io::split(near_side);
    let server = world.server.clone();
    tokio::spawn(async move {
        let duplex = turnlane_rpc::Duplex::lines(reads, writes);
        server.serve(duplex, turnlane_server::PeerKind::Stdio).await
    });
    let lines = turnlane_rpc::Duplex::lines(client_reads, client_writes);
    let mut lines = Client(TestClient::new(lines));
    let info = json!({"clientInfo": {"name": "lines", "title": null, "version": "1"}});
    lines.ok("initialize", info).await;
    let (on_unix, on_lines) = tokio::join!(
        tokio::spawn(burst(far, 1_000)),
        tokio::spawn(burst(lines, 1_000))
    );
    for answers in [on_unix.unwrap(), on_lines.unwrap()] {
        assert!(answers.values().all(|answer| answer["result"].is_object()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_over_eight_connections_are_answered_once_each() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let mut bursts = Vec::new();
    for _ in 0..8 {
        let client = World::unix_client(&path).await;
        bursts.push(tokio::spawn(burst(client, 2_500)));
    }
    for answers in bursts {
        for answer in answers.await.unwrap().values() {
            let overloaded = answer["error"]["code"] == -32001;
            assert!(overloaded || answer["result"].is_object(), "{answer}");
        }
    }
    let text = world.server.metrics().await;
    assert!(text.contains("turnlane_connections "), "{text}");
    assert!(world.server.ready());
}
