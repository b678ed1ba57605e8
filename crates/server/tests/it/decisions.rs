//! What each answer to an approval does, from the model's call to the file on disk.
//!
//! The native engine runs real commands for a mock of a model; the scripted one plays its steps.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_runtime::Options;

use crate::rights_native::{Stage, answer, thread};
use crate::support::{Client, World};

const METHOD: &str = "item/commandExecution/requestApproval";

fn exec(cmd: &str) -> (&'static str, Value) {
    (
        "exec_command",
        json!({"cmd": cmd, "prefix_rule": ["touch"]}),
    )
}

/// A thread of the native engine that asks before every command, and runs it without a sandbox.
async fn asking(client: &mut Client) -> String {
    let more = json!({"approvalPolicy": "untrusted", "sandbox": "danger-full-access"});
    thread(client, more).await
}

/// Runs a turn, answers every question alike; how it ended and what was asked.
async fn decided(client: &mut Client, thread: &str, decision: &Value) -> (Value, Vec<Value>) {
    let from = client.0.received().len();
    let turn = client.turn(thread, "go").await;
    let mut answered = 0;
    loop {
        let is_next = |message: &Value| {
            let ended = message["method"] == "turn/completed";
            ended || message["method"] == METHOD
        };
        let came: Vec<_> = client.0.received()[from..]
            .iter()
            .filter(|m| is_next(m))
            .cloned()
            .collect();
        let questions: Vec<_> = came
            .iter()
            .filter(|m| m["method"] == METHOD)
            .cloned()
            .collect();
        if let Some(question) = questions.get(answered) {
            answered += 1;
            answer(client, question, decision.clone()).await;
            continue;
        }
        if came
            .iter()
            .any(|message| message["method"] == "turn/completed")
        {
            let ended = client.ended(&turn).await;
            return (ended, questions);
        }
        client.0.next().await.unwrap();
    }
}

fn amended(prefix: &[&str]) -> Value {
    json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": prefix}})
}

#[tokio::test]
async fn an_accept_counts_for_one_call_of_the_native_engine() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    let touch = stage.touch("a");
    stage.model_calls(&[exec(&touch), exec(&touch)]);
    let (ended, asked) = decided(&mut client, &thread, &json!("accept")).await;
    assert_eq!((&ended["status"], asked.len()), (&json!("completed"), 2));
    assert!(stage.file("a").exists());
    assert_eq!(asked[0]["params"]["expiresAtMs"], Value::Null);
}

#[tokio::test]
async fn an_accept_for_the_session_covers_the_same_command_of_the_native_engine() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    let (a, b) = (stage.touch("a"), stage.touch("b"));
    stage.model_calls(&[exec(&a), exec(&a), exec(&b)]);
    let (ended, asked) = decided(&mut client, &thread, &json!("acceptForSession")).await;
    assert_eq!(ended["status"], "completed");
    let commands: Vec<_> = asked
        .iter()
        .map(|one| one["params"]["command"].to_string())
        .collect();
    assert_eq!(asked.len(), 2, "{commands:?}");
    assert!(stage.file("a").exists() && stage.file("b").exists());
}

#[tokio::test]
async fn an_accepted_rule_covers_the_commands_of_the_native_engine_that_begin_like_it() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    let (a, b) = (stage.touch("a"), stage.touch("b"));
    stage.model_calls(&[exec(&a), exec(&b)]);
    let (ended, asked) = decided(&mut client, &thread, &amended(&["touch"])).await;
    assert_eq!((&ended["status"], asked.len()), (&json!("completed"), 1));
    let proposed = &asked[0]["params"]["proposedExecpolicyAmendment"];
    assert_eq!(proposed, &json!(["touch"]));
    assert!(stage.file("a").exists() && stage.file("b").exists());

    // Not what only begins like it: another command behind it is asked about.
    let (both, c) = (
        format!("{}; rm -f {}", stage.touch("c"), stage.file("a").display()),
        "c",
    );
    stage.model_calls(&[exec(&both)]);
    let (_, asked) = decided(&mut client, &thread, &json!("decline")).await;
    assert_eq!(asked.len(), 1);
    assert!(!stage.file(c).exists() && stage.file("a").exists());
}

#[tokio::test]
async fn a_declined_command_of_the_native_engine_does_not_run_and_the_turn_goes_on() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    stage.model_calls(&[exec(&stage.touch("a"))]);
    let (ended, asked) = decided(&mut client, &thread, &json!("decline")).await;
    assert_eq!((&ended["status"], asked.len()), (&json!("completed"), 1));
    assert!(
        stage
            .last_output()
            .contains("exec command rejected by user")
    );
    assert!(!stage.file("a").exists());
}

#[tokio::test]
async fn a_cancelled_command_of_the_native_engine_does_not_run_and_ends_the_turn() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    stage.model_calls(&[exec(&stage.touch("a"))]);
    let (ended, asked) = decided(&mut client, &thread, &json!("cancel")).await;
    assert_eq!((&ended["status"], asked.len()), (&json!("interrupted"), 1));
    assert!(!stage.file("a").exists());
}

#[tokio::test]
async fn a_limit_that_passes_fails_the_turn_of_the_native_engine() {
    let stage = Stage::with(Options {
        approval_timeout: Some(Duration::ZERO),
        ..Options::default()
    })
    .await;
    let mut client = stage.world.client().await;
    let thread = asking(&mut client).await;
    stage.model_calls(&[exec(&stage.touch("a"))]);
    let turn = client.turn(&thread, "go").await;
    let ended = client.ended(&turn).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["kind"], "approvalTimeout");
    assert_eq!(ended["error"]["codexErrorInfo"], "other");
    let declined = json!({"item": {"type": "commandExecution", "status": "declined"}});
    client.told("item/completed", declined).await;
    assert!(!stage.file("a").exists());
    let queue = client
        .ok("thread/queue/list", json!({"threadId": thread}))
        .await;
    assert_eq!(queue["paused"]["reason"], "approvalTimeout");
}

const SCRIPT: &str = "version: 1
turns:
  - steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
";

#[tokio::test]
async fn each_answer_to_a_scripted_question_does_what_it_says() {
    for (decision, status, asked, said) in [
        (json!("accept"), "completed", 2, "did it"),
        (json!("acceptForSession"), "completed", 1, "did it"),
        // The script proposes no rule, so that accepting one is no answer.
        (amended(&["touch"]), "completed", 2, "left it"),
        (json!("decline"), "completed", 2, "left it"),
        (json!("cancel"), "interrupted", 1, ""),
    ] {
        let world = World::start(SCRIPT).await;
        let mut client = world.client().await;
        let thread = client.thread().await;
        let (ended, questions) = decided(&mut client, &thread, &decision).await;
        assert_eq!(ended["status"], status, "{decision}");
        assert_eq!(questions.len(), asked, "{decision}");
        let text = ended["items"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(text, said, "{decision}");
    }
}
