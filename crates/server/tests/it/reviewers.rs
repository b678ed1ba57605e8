//! The reviewer of approvals is kept and echoed, and under `auto_review` no client is asked.

use serde_json::{Value, json};

use crate::support::{Client, World, turn};

const ASKING: &str = "version: 1
turns:
  - match: ask
    steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
fallback: {say: hello}
";

async fn started(client: &mut Client, params: Value) -> (String, Value) {
    let answer = client.ok("thread/start", params).await;
    let id = answer["thread"]["id"].as_str().unwrap().to_owned();
    (id, answer["approvalsReviewer"].clone())
}

async fn reviewer(client: &mut Client, thread: &str) -> Value {
    let resumed = client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    resumed["approvalsReviewer"].clone()
}

#[tokio::test]
async fn the_reviewer_is_kept_and_echoed_at_every_door() {
    let world = World::start(ASKING).await;
    let mut client = world.client().await;
    for (said, kept) in [
        (json!({}), "user"),
        (json!({"approvalsReviewer": "user"}), "user"),
        (json!({"approvalsReviewer": "auto_review"}), "auto_review"),
        (
            json!({"approvalsReviewer": "guardian_subagent"}),
            "auto_review",
        ),
    ] {
        let (thread, echoed) = started(&mut client, said.clone()).await;
        assert_eq!(echoed, kept, "{said}");
        assert_eq!(reviewer(&mut client, &thread).await, kept, "{said}");
        let forked = client.ok("thread/fork", json!({"threadId": thread})).await;
        assert_eq!(forked["approvalsReviewer"], kept, "{said}");
    }
    let (thread, _) = started(&mut client, json!({})).await;
    let auto = json!({"approvalsReviewer": "auto_review"});
    let user = json!({"approvalsReviewer": "user"});
    let with = |mut params: Value, more: &Value| {
        let more = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(more);
        params
    };
    let named = json!({"threadId": thread});
    client.ok("thread/resume", with(named.clone(), &auto)).await;
    assert_eq!(reviewer(&mut client, &thread).await, "auto_review");
    let start = with(turn(&thread, "hello"), &user);
    let turn = client.ok("turn/start", start).await["turn"]["id"].clone();
    client.ended(turn.as_str().unwrap()).await;
    assert_eq!(reviewer(&mut client, &thread).await, "user");
    client
        .ok("thread/settings/update", with(named.clone(), &auto))
        .await;
    let updated = json!({"threadSettings": {"approvalsReviewer": "auto_review"}});
    client.told("thread/settings/updated", updated).await;
    assert_eq!(reviewer(&mut client, &thread).await, "auto_review");
    let forked = client.ok("thread/fork", with(named, &user)).await;
    assert_eq!(forked["approvalsReviewer"], "user");
}

#[tokio::test]
async fn a_reviewer_nobody_knows_is_refused_at_every_door() {
    let world = World::start(ASKING).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    for method in [
        "thread/start",
        "thread/resume",
        "thread/fork",
        "thread/settings/update",
        "turn/start",
    ] {
        let mut params = turn(&thread, "hello");
        params["approvalsReviewer"] = json!("nobody");
        let error = client.err(method, params).await;
        assert_eq!(
            error["data"]["reason"], "invalidParams",
            "{method}: {error}"
        );
    }
}

#[tokio::test]
async fn under_auto_review_nobody_is_asked_and_everything_is_declined() {
    let world = World::start(ASKING).await;
    let mut client = world.client().await;
    let mut watcher = world.knowing_client().await;
    let auto = json!({"approvalsReviewer": "auto_review"});
    let (thread, _) = started(&mut client, auto).await;
    for _ in 0..2 {
        let turn = client.turn(&thread, "ask").await;
        let ended = client.ended(&turn).await;
        assert_eq!(ended["status"], "completed", "the turn goes on");
        assert_eq!(ended["items"][0]["text"], "left it");
        let resolved = json!({"change": "resolved", "approval": {"turnId": turn}});
        let changed = watcher.told("approval/changed", resolved).await;
        assert_eq!(changed["params"]["by"], "policy");
        assert_eq!(changed["params"]["decision"], "decline");
        let open = watcher.ok("approval/list", json!({})).await;
        assert_eq!(open["data"], json!([]));
        let id = &changed["params"]["approval"]["approvalId"];
        let accept = json!({"approvalId": id, "decision": "accept"});
        let error = watcher.err("approval/respond", accept).await;
        assert_eq!(error["data"]["reason"], "approvalResolved");
        assert_eq!(error["data"]["by"], "policy");
    }
    client.settle().await;
    let words = client.words(0);
    let count = |word: &str| words.iter().filter(|found| *found == word).count();
    assert_eq!(count("item/commandExecution/requestApproval"), 0);
    assert_eq!(count("serverRequest/resolved"), 0);
    assert_eq!(count("warning"), 1, "one per thread");
    let warned = client.told("warning", json!({"threadId": thread})).await;
    let text = warned["params"]["message"].as_str().unwrap();
    assert!(text.contains("`user`"), "{text}");
    let items = json!({"threadId": thread});
    let items = client.ok("thread/items/list", items).await;
    let declined = items["data"].as_array().unwrap().iter();
    let declined = declined.filter(|entry| entry.to_string().contains("\"declined\""));
    assert_eq!(declined.count(), 2, "{items}");
    let requested = watcher.words(0);
    assert!(!requested.is_empty());
    let asked = watcher.0.received().iter().any(|message| {
        message["method"] == "approval/changed" && message["params"]["change"] == "requested"
    });
    assert!(!asked, "nothing was ever open");
}

#[tokio::test]
async fn a_thread_that_goes_back_to_user_asks_again() {
    let world = World::start(ASKING).await;
    let mut client = world.client().await;
    let auto = json!({"approvalsReviewer": "auto_review"});
    let (thread, _) = started(&mut client, auto).await;
    let declined = client.turn(&thread, "ask").await;
    client.ended(&declined).await;
    let user = json!({"threadId": thread, "approvalsReviewer": "user"});
    client.ok("thread/settings/update", user).await;
    let asked = client.turn(&thread, "ask").await;
    let method = "item/commandExecution/requestApproval";
    let request = client.told(method, json!({"turnId": asked})).await;
    let accept = json!({"id": request["id"], "result": {"decision": "accept"}});
    client.0.send(&accept).await.unwrap();
    assert_eq!(client.ended(&asked).await["items"][0]["text"], "did it");
}
