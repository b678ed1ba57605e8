//! A lane that holds says so: one `warning` per hold, to those who follow the thread and to each that
//! comes later, with what to type.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_runtime::Options;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Client, World};

const SCRIPT: &str = "version: 1
turns:
  - match: hold
    steps:
      - say: working
      - await: {gate: go}
  - match: broken
    steps:
      - error: {info: badRequest, message: this is broken}
  - match: limited
    steps:
      - error: {info: usageLimitExceeded, message: all used up, retry_after_ms: 3600000}
  - match: ask
    steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
fallback: {say: \"You said: {input}\"}
";

fn warnings(client: &Client) -> Vec<String> {
    let messages = client.0.received().iter();
    let warned = messages.filter(|message| message["method"] == "warning");
    let text = |message: &Value| message["params"]["message"].as_str().unwrap().to_owned();
    warned.map(text).collect()
}

async fn add(client: &mut Client, thread: &str, text: &str, more: Value) -> String {
    let mut params = json!({"threadId": thread, "input": [{"type": "text", "text": text}]});
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    let added = client.ok("thread/queue/add", params).await;
    added["queuedTurn"]["id"].as_str().unwrap().to_owned()
}

/// Whoever follows the thread from now on; what it is warned of.
async fn newcomer(world: &World, thread: &str) -> Vec<String> {
    let mut client = world.client().await;
    client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    client.0.message("warning").await.unwrap();
    client.settle().await;
    warnings(&client)
}

#[tokio::test]
async fn a_pause_is_told_once_to_each() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let named = json!({"threadId": thread, "reason": "lunch"});
    client.ok("thread/queue/pause", named.clone()).await;
    client.0.message("warning").await.unwrap();
    add(&mut client, &thread, "waits", json!({})).await;
    add(&mut client, &thread, "waits too", json!({})).await;
    client.settle().await;
    let told = warnings(&client);
    assert_eq!(told.len(), 1, "{told:?}");
    let resume = format!("turnlane queue resume {thread}");
    assert!(
        told[0].contains("paused (lunch") && told[0].contains(&resume),
        "{told:?}"
    );
    assert_eq!(newcomer(&world, &thread).await, told);

    // The next pause is another one.
    client
        .ok("thread/queue/resume", json!({"threadId": thread}))
        .await;
    client.told("turn/completed", json!({})).await;
    client.ok("thread/queue/pause", named).await;
    let twice = async || {
        client.settle().await;
        warnings(&client).len() == 2
    };
    eventually("the second warning", DEADLINE, twice)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_interrupt_pauses_what_waits_and_says_so_and_nothing_where_nothing_waits() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let interrupt = json!({"threadId": thread, "turnId": "", "queue": "pause"});
    client.turn(&thread, "hold").await;
    client
        .told("item/completed", json!({"item": {"text": "working"}}))
        .await;
    client.ok("turn/interrupt", interrupt.clone()).await;
    let list = json!({"threadId": thread});
    let queue = client.ok("thread/queue/list", list.clone()).await;
    assert_eq!(queue["paused"], Value::Null, "nothing waits");
    assert!(warnings(&client).is_empty());

    client.turn(&thread, "hold").await;
    add(&mut client, &thread, "waits", json!({})).await;
    client.ok("turn/interrupt", interrupt).await;
    client.0.message("warning").await.unwrap();
    let queue = client.ok("thread/queue/list", list.clone()).await;
    assert_eq!(queue["paused"]["reason"], "interrupt");
    let read = client.ok("thread/read", list.clone()).await;
    assert_eq!(read["thread"]["queue"]["paused"]["reason"], "interrupt");

    // An add does not end it; a direct turn that completes does.
    add(&mut client, &thread, "waits too", json!({})).await;
    let queue = client.ok("thread/queue/list", list.clone()).await;
    assert_eq!(queue["paused"]["reason"], "interrupt");
    let turn = client.turn(&thread, "go on").await;
    client.ended(&turn).await;
    let queue = client.ok("thread/queue/list", list).await;
    assert_eq!(queue["paused"], Value::Null);
}

#[tokio::test]
async fn a_failed_head_is_told_and_is_not_started_unless_it_is_named() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let row = add(&mut client, &thread, "broken", json!({"onError": "block"})).await;
    client.0.message("warning").await.unwrap();
    client.settle().await;
    let told = warnings(&client);
    assert_eq!(told.len(), 1, "{told:?}");
    for part in [
        "this is broken".to_owned(),
        format!("turnlane queue retry {thread}"),
        format!("turnlane queue rm {thread} {row}"),
    ] {
        assert!(told[0].contains(&part), "{part}: {told:?}");
    }
    assert_eq!(newcomer(&world, &thread).await, told);

    let refused = client
        .err("thread/queue/start", json!({"threadId": thread}))
        .await;
    assert_eq!(
        refused["message"],
        "the head of the queue failed: this is broken; name it in queuedSubmissionId to run it \
         again, or delete it"
    );
    assert_eq!(refused["data"]["reason"], "headFailed");
    assert_eq!(refused["data"]["queuedTurnId"], row.as_str());
    let named = json!({"threadId": thread, "queuedSubmissionId": row});
    client.ok("thread/queue/start", named).await;
}

#[tokio::test]
async fn a_wait_is_told_with_its_end() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    add(&mut client, &thread, "limited", json!({})).await;
    client.0.message("warning").await.unwrap();
    let told = warnings(&client);
    assert!(told[0].contains("waits until 20"), "{told:?}");
    assert!(told[0].contains("Z: all used up; "), "{told:?}");
    assert!(
        told[0].ends_with(&format!("turnlane queue resume {thread}")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_question_that_no_attached_client_can_answer_is_told() {
    let world = World::start_with(SCRIPT, Options::default()).await;
    let opts_out = json!({"optOutNotificationMethods":
        ["item/commandExecution/requestApproval", "item/fileChange/requestApproval"]});
    let mut logger = world.client_with(opts_out.clone()).await;
    let thread = logger.thread().await;
    logger.turn(&thread, "ask").await;
    logger.0.message("warning").await.unwrap();
    let told = warnings(&logger);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("turnlane approvals accept "), "{told:?}");
    assert!(told[0].contains("waits without a time limit"), "{told:?}");
    let mut other = world.client_with(opts_out).await;
    other.ok("thread/resume", json!({"threadId": thread})).await;
    other.0.message("warning").await.unwrap();
    assert_eq!(warnings(&other), told);
    // A client that can answer is asked instead.
    let mut person = world.client().await;
    person
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    person
        .0
        .message("item/commandExecution/requestApproval")
        .await
        .unwrap();
    person.settle().await;
    assert!(warnings(&person).is_empty());
}

#[tokio::test]
async fn an_unanswered_question_of_a_queued_turn_holds_the_queue_and_says_so() {
    let world = World::start_with(
        SCRIPT,
        Options {
            approval_timeout: Some(Duration::ZERO),
            ..Options::default()
        },
    )
    .await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let row = add(&mut client, &thread, "ask", json!({})).await;
    add(&mut client, &thread, "behind", json!({})).await;
    client.0.message("warning").await.unwrap();
    let queue = client
        .ok("thread/queue/list", json!({"threadId": thread}))
        .await;
    assert_eq!(queue["blocked"]["queuedTurnId"], row.as_str());
    assert_eq!(
        queue["data"][0]["status"]["error"]["kind"],
        "approvalTimeout"
    );
    assert_eq!(queue["depth"], 2, "what follows does not run");
    let resolved = json!({"requestId": 0});
    client.told("serverRequest/resolved", resolved).await;
}
