//! Real clients, unchanged, against our binary and a mock model.
//!
//! What they need is installed by `tests/interop/install`, which says in the environment where it is;
//! without it these tests say that they were skipped.

mod batty;
mod exec_sdk;
mod sdk;
mod tui;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::{Gate, Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::{TempHome, skipped};

/// Other people's programs take seconds to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program that was installed for these tests.
fn installed(variable: &str, what: &str) -> Option<String> {
    let program = std::env::var(variable).ok();
    let program = program.filter(|program| Path::new(program).exists());
    if program.is_none() {
        skipped(format_args!("{what}: {variable} does not name it"));
    }
    program
}

/// A home whose model is the mock, and a model that does what it is told.
async fn model_and_home() -> (MockModel, TempHome) {
    let mock = MockModel::start().await.unwrap();
    mock.choose_with(|request| Some(obey(request)));
    let home = TempHome::new().unwrap();
    home.use_model(&mock.base_url()).unwrap();
    (mock, home)
}

/// What the model answers to the last thing that was said.
fn obey(request: &RecordedRequest) -> Reply {
    let said = request.last_user_text();
    let call = |cmd: &str| {
        // Another name for each command: a thread has many.
        let id = format!("call_{}", request.input().len());
        let arguments = json!({"cmd": cmd, "yield_time_ms": 30_000});
        Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
    };
    let answered = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "function_call_output");
    if answered {
        return Reply::text("the command is done");
    }
    if let Some(file) = said.strip_prefix("ask to touch ") {
        let arguments = json!({
            "cmd": format!("touch {file}"),
            "sandbox_permissions": "require_escalated",
            "justification": "it was asked for",
        });
        return Reply::of([Item::function_call("exec_command", arguments).call_id("asked")]);
    }
    if let Some(file) = said.strip_prefix("patch ") {
        let input = format!("*** Begin Patch\n*** Add File: {file}\n+new\n*** End Patch\n");
        let arguments = json!({"input": input});
        return Reply::of([Item::function_call("apply_patch", arguments).call_id("patched")]);
    }
    if let Some(file) = said.strip_prefix("touch ") {
        return call(&format!("touch {file}"));
    }
    match said.as_str() {
        "say it in pieces" => Reply::streamed(["one ", "two ", "three"]),
        "answer as json" => Reply::text("{\"answer\":42}"),
        "run slowly" => call("sleep 1000"),
        "wait" => Reply::streamed(["still ", "here"])
            .gated_by(turnlane_testkit::mock_model::At::LastEvent, &Gate::new()),
        _ => Reply::text("hello from the model"),
    }
}
