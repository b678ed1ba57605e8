//! The real Codex and our queue: its own command adds a row, and its schema takes our answers.
//!
//! Needs the Codex CLI of the pinned version: `TURNLANE_TEST_CODEX` names its program; without it
//! these tests say that they were skipped.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::{ProcessSpec, TestProcess, skipped};

use crate::queue::{HOLD, input, said, submission};
use crate::support::World;

/// How long its program may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Codex's program, if it is there.
fn codex() -> Option<String> {
    let program = std::env::var("TURNLANE_TEST_CODEX").ok();
    if program.is_none() {
        skipped("the real Codex and our queue: TURNLANE_TEST_CODEX does not name the Codex CLI");
    }
    program
}

/// Runs Codex's program in a home of its own; what it said.
async fn run(program: &str, home: &Path, arguments: &[&str]) -> String {
    let spec = ProcessSpec::new(program)
        .args(arguments.iter().copied())
        .env("CODEX_HOME", home)
        .current_dir(home);
    let output = TestProcess::run(spec, PATIENCE).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", output.stderr_tail);
    said
}

#[tokio::test]
async fn codexs_own_command_adds_rows_that_run_in_their_order() {
    let Some(program) = codex() else { return };
    let world = World::start(HOLD).await;
    let path = world.listen().await;
    let mut client = World::unix_client(&path).await;
    let (thread, running) = client.busy().await;
    let remote = format!("unix://{}", path.display());
    let home = tempfile::tempdir().unwrap();
    for text in ["from the command", "and again"] {
        let arguments = [
            "queue",
            "--thread",
            &thread,
            "--message",
            text,
            "--remote",
            &remote,
        ];
        run(&program, home.path(), &arguments).await;
    }
    let listed = client.queue(&thread).await;
    assert_eq!(said(&listed["data"]), ["from the command", "and again"]);
    world.gates.open("go");
    client.ended(&running).await;
    let last = listed["data"][1]["turnId"].as_str().unwrap();
    assert_eq!(client.ended(last).await["status"], "completed");
    let history = client.history(&thread).await;
    assert_eq!(history, ["hold", "from the command", "and again"]);
}

#[tokio::test]
async fn codexs_schema_takes_what_we_answer_and_we_take_what_it_sends() {
    let Some(program) = codex() else { return };
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("schema");
    let out = folder.display().to_string();
    let arguments = [
        "app-server",
        "generate-json-schema",
        "--experimental",
        "--out",
        &out,
    ];
    run(&program, home.path(), &arguments).await;
    let valid = |name: &str, value: &Value| {
        let path = folder.join(format!("v2/ThreadQueue{name}.json"));
        let schema = std::fs::read_to_string(&path).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let validator = jsonschema::draft7::new(&schema).unwrap();
        if let Err(why) = validator.validate(value) {
            panic!("{name} does not take {value}: {why}");
        }
    };
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut call = async |name: &str, method: &str, params: Value| {
        valid(&format!("{name}Params"), &params);
        let answer = client.ok(method, params).await;
        valid(&format!("{name}Response"), &answer);
        answer
    };
    let add = submission(&thread, "one", "c-1");
    let one = call("Add", "thread/queue/add", add).await["queuedSubmission"]["id"].clone();
    let add = submission(&thread, "two", "c-2");
    let two = call("Add", "thread/queue/add", add).await["queuedSubmission"]["id"].clone();
    let list = json!({"threadId": thread, "cursor": null, "limit": 1});
    call("List", "thread/queue/list", list).await;
    let update = json!({"threadId": thread, "queuedSubmissionId": one, "input": input("new")});
    call("Update", "thread/queue/update", update).await;
    let order = json!({"threadId": thread, "queuedSubmissionIds": [two, one]});
    call("Reorder", "thread/queue/reorder", order).await;
    let delete = json!({"threadId": thread, "queuedSubmissionId": two});
    call("Delete", "thread/queue/delete", delete).await;
    let pause = json!({"threadId": thread, "turnId": running, "queue": "pause"});
    client.ok("turn/interrupt", pause).await;
    let start = json!({"threadId": thread, "queuedSubmissionId": one});
    valid("StartParams", &start);
    let answer = client.ok("thread/queue/start", start).await;
    valid("StartResponse", &answer);
    for told in client.0.received() {
        if told["method"] == "thread/queue/changed" {
            valid("ChangedNotification", &told["params"]);
        }
    }
}
