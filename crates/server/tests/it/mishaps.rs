//! What goes wrong in us is answered, and threads that nobody needs are let go aloud.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{ECHO, World};

#[tokio::test]
async fn a_handler_that_panics_is_answered_and_the_connection_goes_on() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let bug = json!({"config": {"bug": "a mistake of ours"}});
    // Among other requests, none of which is lost.
    let before = client.0.request("thread/start", json!({})).await.unwrap();
    let first = client.0.request("thread/start", bug.clone()).await.unwrap();
    let second = client.0.request("thread/start", bug).await.unwrap();
    let after = client.0.request("thread/start", json!({})).await.unwrap();
    for id in [first, second] {
        let answer = client.0.answer(id).await.unwrap();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(answer["error"]["data"]["reason"].is_string(), "{answer}");
        let text = answer.to_string();
        assert!(!text.contains("a mistake of ours"), "{text}");
    }
    for id in [before, after] {
        let answer = client.0.answer(id).await.unwrap();
        assert!(answer["result"]["thread"]["id"].is_string(), "{answer}");
    }
    let thread = client.thread().await;
    let id = client.turn(&thread, "still here").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
    let metrics = world.server.metrics().await;
    let counted = metrics
        .lines()
        .any(|line| line.contains("panic") && line.ends_with(" 2"));
    assert!(counted, "{metrics}");
}

#[tokio::test]
async fn a_thread_that_nobody_needs_is_unloaded_and_everybody_is_told() {
    let options = turnlane_runtime::Options {
        unload_after: Duration::from_millis(20),
        ..turnlane_runtime::Options::default()
    };
    let world = World::start_with(ECHO, options).await;
    let mut client = world.client().await;
    let mut bystander = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hello").await;
    client.ended(&id).await;
    let named = json!({"threadId": thread});
    client.ok("thread/unsubscribe", named.clone()).await;
    for who in [&mut client, &mut bystander] {
        who.told("thread/closed", named.clone()).await;
        let about = |message: &&Value| message["params"]["threadId"] == thread.as_str();
        let all = who.0.received().iter().filter(about);
        let all: Vec<_> = all.cloned().collect();
        let [.., status, closed] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!(status["method"], "thread/status/changed");
        assert_eq!(status["params"]["status"], json!({"type": "notLoaded"}));
        assert_eq!(closed["method"], "thread/closed");
    }
    let loaded = client.ok("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([]));
    let answer = client.ok("thread/unsubscribe", named).await;
    assert_eq!(answer["status"], "notLoaded");
    // It is loaded again unseen, with numbers of their own.
    let id = client.turn(&thread, "again").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_lost_client_keeps_no_thread_loaded() {
    let options = turnlane_runtime::Options {
        unload_after: Duration::from_millis(20),
        ..turnlane_runtime::Options::default()
    };
    let world = World::start_with(ECHO, options).await;
    let mut client = world.client().await;
    let mut bystander = world.client().await;
    let thread = client.thread().await;
    bystander.settle().await;
    drop(client);
    let named = json!({"threadId": thread});
    bystander.told("thread/closed", named).await;
}
