//! Members whose agent is a program that is signed out, or dies.

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::rig::{Member, Rig, names, of};

/// A fake Codex: refused without the right login; killed where the message says so.
const FAKE: &str = r#"#!/bin/sh
case "$1" in
  --version) echo 'codex-cli 0.166.0'; exit 0;;
  exec) ;;
  *) exit 1;;
esac
prompt=$(cat)
echo '{"type":"thread.started","thread_id":"01a1e099-a4bd-7e00-8ac9-0161f278d518"}'
echo '{"type":"turn.started"}'
case "$prompt" in
  *'dies'*) echo changed > work; kill -9 $$;;
esac
if ! grep -q good "$CODEX_HOME/auth.json"; then
  message='unexpected status 401 Unauthorized: token expired'
  echo '{"type":"error","message":"'"$message"'"}'
  echo '{"type":"turn.failed","error":{"message":"'"$message"'"}}'
  exit 1
fi
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"ok"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":1,"reasoning_output_tokens":0}}'
"#;

async fn sh(rig: &Rig, script: &str, arguments: &[&str]) -> String {
    let spec = ProcessSpec::new("/bin/sh")
        .args(["-ec", script, "sh"])
        .args(arguments.iter().copied())
        .envs(rig.home.env())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(rig.home.workspace());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes the fake by a process of its own: a descriptor of ours that another test's child inherits would
/// make its start fail with "text file busy".
async fn member(rig: &Rig, login: &str) -> Member {
    let path = rig.home.path().join("codex-fake");
    let path = path.to_str().unwrap();
    let script = "printf '%s' \"$2\" > \"$1.new\"; chmod 755 \"$1.new\"; mv \"$1.new\" \"$1\"";
    sh(rig, script, &[path, FAKE]).await;
    log_in(rig, login);
    rig.member_of(&[
        "--agent-type",
        "codex-exec",
        "--cmd",
        path,
        "-s",
        "danger-full-access",
    ])
}

fn log_in(rig: &Rig, login: &str) {
    std::fs::create_dir_all(rig.home.codex()).unwrap();
    std::fs::write(rig.home.codex().join("auth.json"), login).unwrap();
}

#[tokio::test]
async fn a_member_that_was_signed_out_goes_on_after_the_login() {
    let rig = Rig::new();
    let mut member = member(&rig, "expired").await;
    member.event("Ready").await;
    member.message("m", "hello").await;
    let required = member.event("AuthRequired").await;
    assert_eq!(
        (&required["message_id"], &required["will_retry"]),
        (&json!("m"), &json!(true))
    );
    member.message("n", "hello").await;
    member.event("Warning").await;

    log_in(&rig, "good as new");
    let events = member.until("Completion").await;
    assert!(of(&events, "DeliveryFailed").is_empty(), "{events:?}");
    assert_eq!(events.last().unwrap()["message_id"], "m");
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_turn_whose_engine_died_has_an_unknown_outcome_and_its_work_is_preserved() {
    let rig = Rig::new();
    let commit = "git init -q .; echo first > work; git add work; \
                  git -c user.name=t -c user.email=t@t commit -qm first";
    sh(&rig, commit, &[]).await;
    let mut member = member(&rig, "good").await;
    member.event("Ready").await;
    member.send(json!({"cmd": "Hello", "version": 2})).await;
    member.event("Welcome").await;
    member.message("m", "dies").await;
    let events = member.until("Preserved").await;
    let failed = of(&events, "DeliveryFailed");
    assert_eq!(failed.len(), 1, "{events:?}");
    assert_eq!(
        (&failed[0]["code"], &failed[0]["kind"]),
        (&json!("outcome_unknown"), &json!("engine_crashed"))
    );
    let finished = of(&events, "TurnFinished");
    assert_eq!(finished[0]["outcome"], "unknown");
    let preserved = events.last().unwrap();
    let reference = preserved["ref"].as_str().unwrap();
    let kept = sh(&rig, "git show \"$1:work\"", &[reference]).await;
    assert_eq!(kept, "changed\n");
    // What clients of v1 cannot be told stands on standard error.
    eventually("the line about the work", DEADLINE, async || {
        let said = member.process.stderr_tail();
        said.lines()
            .any(|line| line.starts_with("[shim eng-1] ") && line.contains(reference))
    })
    .await
    .unwrap();
    member.message("n", "hello").await;
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_start_that_fails_is_told_before_the_end_of_the_channel() {
    let rig = Rig::new();
    let database = rig.home.turnlane().join("turnlane.db");
    std::fs::write(&database, "no database".repeat(1_000)).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&database, private).unwrap();
    let mut member = rig.member(&[]);
    member.send(json!({"cmd": "Ping"})).await;
    let events = member.rest().await;
    let told: Vec<&str> = names(&events)
        .into_iter()
        .filter(|name| *name != "Pong")
        .collect();
    assert_eq!(told, ["StateChanged", "Died"]);
    let changed = of(&events, "StateChanged")[0];
    assert_eq!(
        (&changed["from"], &changed["to"]),
        (&json!("starting"), &json!("dead"))
    );
    assert_ne!(of(&events, "Died")[0]["reason"], Value::from(""));
    assert_eq!(member.exit().await.code(), Some(3));
}
