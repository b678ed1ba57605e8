//! `initialize`, capabilities, opt-outs, and what nobody without a capability ever sees.

use serde_json::json;

use crate::support::{ECHO, World};

#[tokio::test]
async fn a_client_says_who_it_is_before_anything_else_and_once() {
    let world = World::start(ECHO).await;
    let mut client = world.stranger();
    let error = client.err("thread/list", json!({})).await;
    assert_eq!(error["message"], "Not initialized");
    assert_eq!(error["data"]["reason"], "notInitialized");
    let id = 77;
    client
        .0
        .send(&json!({"id": id, "method": "initialize"}))
        .await
        .unwrap();
    let answer = client.0.answer(id).await.unwrap();
    let message = &answer["error"]["message"];
    assert_eq!(message, "Invalid request: missing field `params`");

    let info = json!({"clientInfo": {"name": "my-tool", "title": null, "version": "1.2.0"}});
    let answer = client.ok("initialize", info.clone()).await;
    let agent = answer["userAgent"].as_str().unwrap();
    assert!(agent.starts_with("turnlane/0.166.0 ("), "{agent}");
    assert!(agent.ends_with("unknown (my-tool; 1.2.0)"), "{agent}");
    assert_eq!(
        answer["serverInfo"],
        json!({"name": "turnlane", "version": "0.166.0"})
    );
    assert_eq!(answer["platformOs"], std::env::consts::OS);
    assert_eq!(
        answer["codexHome"],
        world.folder.path().display().to_string()
    );
    assert_eq!(
        answer["turnlane"]["features"],
        json!(["queue", "approval", "replay", "fanout"])
    );
    assert_eq!(answer["turnlane"]["protocol"], 1);
    let error = client.err("initialize", info).await;
    assert_eq!(error["message"], "Already initialized");
    client.ok("thread/list", json!({})).await;
}

#[tokio::test]
async fn a_method_behind_a_gate_is_refused_without_the_capability() {
    let world = World::start(ECHO).await;
    let mut plain = world.client_with(json!({})).await;
    let error = plain.err("process/spawn", json!({})).await;
    assert_eq!(
        error["message"],
        "process/spawn requires experimentalApi capability"
    );
    assert_eq!(error["data"]["reason"], "experimental");
    for method in ["approval/list", "approval/respond"] {
        let error = plain.err(method, json!({})).await;
        let message = format!("{method} requires turnlane.events capability");
        assert_eq!(error["message"], message);
        assert_eq!(error["data"]["reason"], "capability");
    }
    let quiet = json!({"turnlane": {"version": 1, "events": 0}});
    let mut quiet = world.client_with(quiet).await;
    quiet.err("approval/list", json!({})).await;
    let mut knowing = world.knowing_client().await;
    let answer = knowing.ok("approval/list", json!({})).await;
    assert_eq!(answer, json!({"data": [], "nextCursor": null}));
}

#[tokio::test]
async fn what_a_client_opts_out_of_does_not_come() {
    let world = World::start(ECHO).await;
    let silent = [
        "item/agentMessage/delta",
        "thread/started",
        "turn/started",
        "nobody/knows",
    ];
    let silent = json!({"optOutNotificationMethods": silent});
    let mut client = world.client_with(silent).await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hello").await;
    client.ended(&id).await;
    let words = client.words(0);
    for method in ["item/agentMessage/delta", "thread/started", "turn/started"] {
        assert!(!words.contains(&method.to_owned()), "{words:?}");
    }
    assert!(words.contains(&"item/completed".to_owned()), "{words:?}");
}
