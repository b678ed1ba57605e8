//! The official TypeScript SDK drives `turnlane exec` as if it were `codex exec`.
//!
//! The same script runs on the real Codex as well: what it expects is what Codex does.

use serde_json::json;
use turnlane_testkit::mock_model::{ApiError, At, Gate, Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

use super::{PATIENCE, installed};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/interop/exec_sdk.mjs"
);

#[tokio::test]
async fn the_typescript_sdk_works_on_our_binary() {
    all_works_on(env!("CARGO_BIN_EXE_turnlane")).await;
}

#[tokio::test]
async fn the_typescript_sdk_works_the_same_on_codex() {
    let Some(codex) = installed("TURNLANE_TEST_CODEX", "the TypeScript SDK on Codex") else {
        return;
    };
    all_works_on(&codex).await;
}

async fn all_works_on(program: &str) {
    let Some(sdk) = installed("TURNLANE_TEST_TS_SDK", "the official TypeScript SDK") else {
        return;
    };
    let mock = MockModel::start().await.unwrap();
    mock.choose_with(|request| Some(obey(request)));
    let home = TempHome::new().unwrap();
    home.use_model(&mock.base_url()).unwrap();
    let spec = ProcessSpec::new("node")
        .args([SCRIPT])
        .envs(home.env())
        .env("SDK", sdk)
        .env("TURNLANE", program)
        .env("TURNLANE_WORK", home.workspace())
        .current_dir(home.workspace());
    let output = TestProcess::run(spec, PATIENCE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", output.stderr_tail);
    for what in [
        "start and run",
        "run twice",
        "resume from a new client",
        "the exact sequence of events",
        "schema",
        "images on the first and a resumed turn",
        "abort",
        "break out of the loop",
        "a prompt of 200 kB",
        "an answer of 300 kB with U+2028",
        "failures",
        "four threads at once",
    ] {
        let line = format!("works: {what}");
        assert!(said.lines().any(|said| said == line), "{what}: {said}");
    }
}

/// What the model answers to the last thing that was said.
fn obey(request: &RecordedRequest) -> Reply {
    let said = request.last_user_text();
    let answered = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "function_call_output");
    if answered {
        return Reply::text("the command is done");
    }
    if let Some(command) = said.strip_prefix("run ") {
        let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
        return Reply::of([Item::function_call("exec_command", arguments)]);
    }
    if let Some(long) = said.strip_prefix("measure ") {
        return Reply::text(format!("{} bytes", long.len()));
    }
    match said.as_str() {
        "answer as json" => Reply::text("{\"answer\":42}"),
        // Codex puts words about a picture before the text.
        said if said.ends_with("count the pictures") => {
            let sent = request.body.to_string();
            Reply::text(format!("{} pictures", sent.matches("input_image").count()))
        }
        "wait" => Reply::streamed(["still ", "here"]).gated_by(At::LastEvent, &Gate::new()),
        "answer at length" => Reply::text("line\u{2028}".repeat(50_000)),
        "fail" => Reply::failed(ApiError::invalid_prompt()),
        said => Reply::text(format!("you said {said}")),
    }
}
