//! Approvals on the wire: who is asked, whose answer counts, and that nothing unclear is a yes.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_runtime::Options;

use crate::support::{Client, World};

const ASKING: &str = "version: 1
turns:
  - steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
";
const METHOD: &str = "item/commandExecution/requestApproval";

async fn asked(client: &mut Client) -> Value {
    client.0.message(METHOD).await.unwrap()
}

async fn answer(client: &mut Client, id: &Value, result: Value) {
    let message = json!({"id": id, "result": result});
    client.0.send(&message).await.unwrap();
}

/// What the agent said at the end of the turn.
async fn said(client: &mut Client, turn: &str) -> String {
    let turn = client.ended(turn).await;
    turn["items"][0]["text"].as_str().unwrap_or("").to_owned()
}

#[tokio::test]
async fn two_clients_are_asked_with_one_id_and_the_first_answer_counts() {
    let world = World::start(ASKING).await;
    let mut one = world.client().await;
    let mut two = world.client().await;
    let thread = one.thread().await;
    let named = json!({"threadId": thread});
    two.ok("thread/resume", named.clone()).await;
    let from = one.0.received().len();
    let turn = one.turn(&thread, "go").await;
    let (first, second) = (asked(&mut one).await, asked(&mut two).await);
    assert_eq!(first, second, "the same request");
    assert_eq!(first["id"], 0, "ids count from 0");
    let params = &first["params"];
    assert_eq!(params["command"], "touch x");
    assert_eq!(params["threadId"], thread.as_str());
    assert_eq!(params["kind"], "command");
    assert!(
        params["expiresAtMs"].is_null(),
        "there is no limit by default"
    );

    answer(&mut two, &second["id"], json!({"decision": "accept"})).await;
    two.told("serverRequest/resolved", json!({"requestId": 0}))
        .await;
    answer(&mut one, &first["id"], json!({"decision": "decline"})).await;
    assert_eq!(said(&mut one, &turn).await, "did it");
    one.told("serverRequest/resolved", json!({"requestId": 0}))
        .await;
    let words = one.words(from);
    let place = |word: &str| words.iter().position(|found| found == word).unwrap();
    let flags = |message: &Value| message["params"]["status"]["activeFlags"][0].clone();
    let waits = one.0.received()[from..]
        .iter()
        .position(|message| flags(message) == "waitingOnApproval");
    assert!(waits.unwrap() < place(METHOD), "status, then request");
    assert!(place(METHOD) < place("serverRequest/resolved"));
    assert!(place("serverRequest/resolved") < place("turn/completed"));
}

#[tokio::test]
async fn errors_and_nonsense_put_a_client_out_and_are_never_a_yes() {
    let world = World::start(ASKING).await;
    let mut one = world.client().await;
    let mut two = world.client().await;
    let thread = one.thread().await;
    let named = json!({"threadId": thread});
    two.ok("thread/resume", named).await;
    let turn = one.turn(&thread, "go").await;
    let id = asked(&mut one).await["id"].clone();
    asked(&mut two).await;
    answer(&mut one, &id, json!({"decision": "yes please"})).await;
    // Another thread's client has no say, whatever it sends.
    let mut stranger = world.client().await;
    answer(&mut stranger, &id, json!({"decision": "accept"})).await;
    stranger.settle().await;
    one.settle().await;
    assert!(!one.words(0).contains(&"serverRequest/resolved".to_owned()));
    let error = json!({"id": id, "error": {"code": -1, "message": "no"}});
    two.0.send(&error).await.unwrap();
    assert_eq!(said(&mut one, &turn).await, "left it");
}

#[tokio::test]
async fn only_the_exact_words_of_an_answer_are_a_yes() {
    for odd in [
        r#"["accept"]"#,
        r#"[["accept"]]"#,
        r#""accept""#,
        r#"{"decision":["accept"]}"#,
        r#"{"decision":{"accept":null}}"#,
        r#"{"decision":"Accept"}"#,
        r#"{"decision":1}"#,
        r#"{"decision":"decline","decision":"accept"}"#,
        r#"{"decision":"accept","unless":"asked again"}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":["touch"]}}"#,
    ] {
        let world = World::start(ASKING).await;
        let mut client = world.client().await;
        let thread = client.thread().await;
        let turn = client.turn(&thread, "go").await;
        let id = asked(&mut client).await["id"].clone();
        let frame = format!(r#"{{"id":{id},"result":{odd}}}"#);
        client.0.send_raw(frame).await.unwrap();
        assert_eq!(said(&mut client, &turn).await, "left it", "{odd}");
    }
}

#[tokio::test]
async fn whoever_comes_back_is_asked_again_with_the_same_id() {
    let world = World::start(ASKING).await;
    let mut one = world.client().await;
    let thread = one.thread().await;
    let turn = one.turn(&thread, "go").await;
    let id = asked(&mut one).await["id"].clone();
    drop(one);
    let mut two = world.client().await;
    two.ok("thread/resume", json!({"threadId": thread})).await;
    let again = asked(&mut two).await;
    assert_eq!(again["id"], id);
    // Asked again on the same connection, it is still one question.
    let from = two.0.received().len();
    two.ok("thread/resume", json!({"threadId": thread})).await;
    two.settle().await;
    assert!(two.words(from).contains(&METHOD.to_owned()));
    answer(&mut two, &id, json!({"decision": "accept"})).await;
    assert_eq!(said(&mut two, &turn).await, "did it");
}

#[tokio::test]
async fn with_nobody_who_can_answer_a_limit_that_passes_fails_the_turn() {
    let options = Options {
        unattended_timeout: Some(Duration::ZERO),
        ..Options::default()
    };
    let world = World::start_with(ASKING, options).await;
    let opts_out = json!({"optOutNotificationMethods":
        [METHOD, "item/fileChange/requestApproval"]});
    let mut logger = world.client_with(opts_out).await;
    let thread = logger.thread().await;
    let turn = logger.turn(&thread, "go").await;
    let ended = logger.ended(&turn).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["kind"], "approvalTimeout");
    assert!(!logger.words(0).contains(&METHOD.to_owned()));
}

#[tokio::test]
async fn somebody_who_follows_nothing_lists_and_decides() {
    let world = World::start(ASKING).await;
    let mut client = world.client().await;
    let mut watcher = world.knowing_client().await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "go").await;
    asked(&mut client).await;
    let requested = json!({"change": "requested"});
    let changed = watcher.told("approval/changed", requested).await;
    let listed = watcher.ok("approval/list", json!({})).await;
    assert_eq!(listed["data"][0], changed["params"]["approval"]);
    let other = json!({"threadId": "0198c0de-0000-7000-8000-000000000002"});
    let none = watcher.ok("approval/list", other).await;
    assert_eq!(none["data"], json!([]));
    let id = listed["data"][0]["approvalId"].as_str().unwrap().to_owned();
    let decide = json!({"approvalId": id, "decision": "accept"});
    assert_eq!(watcher.ok("approval/respond", decide).await, json!({}));
    assert_eq!(said(&mut client, &turn).await, "did it");
    client.told("serverRequest/resolved", json!({})).await;
    let resolved = json!({"change": "resolved", "by": "client", "decision": "accept"});
    watcher.told("approval/changed", resolved).await;
    let late = json!({"approvalId": id, "decision": "decline"});
    let error = watcher.err("approval/respond", late).await;
    assert_eq!(error["message"], format!("approval already resolved: {id}"));
    assert_eq!(error["data"]["reason"], "approvalResolved");
    assert_eq!(error["data"]["decision"], "accept");
    assert_eq!(error["data"]["by"], "client");
    let unknown = json!({"approvalId": "nope", "decision": "accept"});
    let error = watcher.err("approval/respond", unknown).await;
    assert_eq!(error["message"], "approval not found: nope");
}
