//! The queue and `kill -9`: what was answered is there, and runs once.

use std::collections::HashMap;

use serde_json::{Value, json};
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::app_server::{Served, ok, thread};

/// How many rows a round adds.
const ROWS: usize = 6;

/// The full number takes minutes.
fn rounds() -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 200,
        None => 7,
    }
}

fn row(thread: &str, text: &str) -> Value {
    let input = json!([{"type": "text", "text": text}]);
    // A turn that the kill interrupts is history, so that every text stands there once.
    json!({"threadId": thread, "turnStartParams": {"threadId": thread, "input": input},
        "idempotencyKey": text, "onCrash": "continue"})
}

#[tokio::test]
async fn rows_that_were_answered_outlive_a_kill_and_run_once() {
    let served = Served::new(|_| Reply::text("done")).await;
    for round in 0..rounds() {
        let mut server = served.stdio().await;
        let client = &mut server.client;
        let thread = thread(client, &served.work(), json!({})).await;
        let mut asked = Vec::new();
        for number in 0..ROWS {
            let params = row(&thread, &format!("row {number}"));
            asked.push(client.request("thread/queue/add", params).await.unwrap());
        }
        // The kill comes after none, one, … or all of the answers.
        for id in &asked[..round % (ROWS + 1)] {
            let answer = client.answer(*id).await.unwrap();
            assert!(answer.get("result").is_some(), "{answer}");
        }
        server.process.kill9().await.unwrap();

        let mut server = served.stdio().await;
        let client = &mut server.client;
        ok(client, "thread/resume", json!({"threadId": thread})).await;
        // Whoever did not see an answer asks again.
        for number in 0..ROWS {
            let params = row(&thread, &format!("row {number}"));
            ok(client, "thread/queue/add", params).await;
        }
        eventually("the queue to be empty", DEADLINE, async || {
            let params = json!({"threadId": thread});
            let state = ok(client, "thread/queue/list", params).await;
            assert_eq!(state["blocked"], Value::Null, "{state}");
            state["depth"] == 0 && state["running"].is_null()
        })
        .await
        .unwrap();
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = ok(client, "thread/read", params).await;
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for turn in read["thread"]["turns"].as_array().unwrap() {
            let text = turn["items"][0]["content"][0]["text"].as_str().unwrap();
            *counts.entry(text).or_default() += 1;
        }
        assert_eq!(counts.len(), ROWS, "{counts:?}");
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        server.process.kill9().await.unwrap();
    }
}
