//! Every request is answered, however many are written before one answer is read.

use std::collections::HashMap;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::Reply;

use super::{Served, thread};

/// Sends `count` requests, then reads as many answers; how often each id was answered.
async fn burst(client: &mut TestClient, thread: &str, count: usize) -> HashMap<i64, Value> {
    let mut asked = Vec::new();
    for _ in 0..count {
        let params = json!({"threadId": thread});
        asked.push(client.request("thread/read", params).await.unwrap());
    }
    let mut answers = HashMap::new();
    while answers.len() < count {
        let message = client.next().await.unwrap();
        if message.get("method").is_some() {
            continue;
        }
        let id = message["id"].as_i64().unwrap();
        assert!(answers.insert(id, message).is_none(), "answered twice");
    }
    assert!(asked.iter().all(|id| answers.contains_key(id)));
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_before_one_answer_is_read() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut stdio = served.stdio().await;
    let id = thread(&mut stdio.client, &served.work(), json!({})).await;
    let answers = burst(&mut stdio.client, &id, 1000).await;
    assert!(
        answers
            .values()
            .all(|answer| answer.get("result").is_some())
    );
    drop(stdio);
    let sockets = served.sockets().await;
    for mut client in [sockets.websocket().await, sockets.unix().await] {
        let answers = burst(&mut client, &id, 1000).await;
        assert!(
            answers
                .values()
                .all(|answer| answer.get("result").is_some())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_at_once_over_eight_connections() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let sockets = served.sockets().await;
    let mut first = sockets.unix().await;
    let id = thread(&mut first, &served.work(), json!({})).await;
    let mut bursts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (mut client, id) = (sockets.unix().await, id.clone());
        bursts.spawn(async move { burst(&mut client, &id, 2500).await });
    }
    for answers in bursts.join_all().await {
        for answer in answers.values() {
            let refused = answer["error"]["code"] == -32001;
            assert!(answer.get("result").is_some() || refused, "{answer}");
        }
    }
}
