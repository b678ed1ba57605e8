//! The official Python SDK drives our binary as if it were Codex.

use turnlane_testkit::{ProcessSpec, TestProcess};

use super::{PATIENCE, installed, model_and_home};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/sdk.py");
const DEFAULTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/interop/sdk_defaults.py"
);

#[tokio::test]
async fn the_python_sdk_works_unchanged() {
    let Some(python) = installed("TURNLANE_TEST_PYTHON", "the official Python SDK") else {
        return;
    };
    let (_mock, home) = model_and_home().await;
    let spec = ProcessSpec::new(python)
        .args([SCRIPT])
        .envs(home.env())
        .env("TURNLANE", env!("CARGO_BIN_EXE_turnlane"))
        .env("TURNLANE_WORK", home.workspace())
        .current_dir(home.workspace());
    let output = TestProcess::run(spec, PATIENCE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", output.stderr_tail);
    for what in [
        "start",
        "run",
        "read",
        "stream",
        "structured output",
        "steer",
        "interrupt",
        "list",
        "fork",
        "name",
        "archive",
        "models",
        "resume after a restart",
        "approvals",
        "a product version in its place would be refused",
    ] {
        let line = format!("works: {what}");
        assert!(said.lines().any(|said| said == line), "{what}: {said}");
    }
}

#[tokio::test]
async fn the_python_sdk_at_its_defaults_lets_nothing_out() {
    let Some(python) = installed("TURNLANE_TEST_PYTHON", "the official Python SDK") else {
        return;
    };
    let (mock, home) = model_and_home().await;
    // Not in `/tmp`, which a workspace may write to.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let spec = ProcessSpec::new(python)
        .args([DEFAULTS])
        .envs(home.env())
        .env("TURNLANE", env!("CARGO_BIN_EXE_turnlane"))
        .env("TURNLANE_WORK", home.workspace())
        .env("TURNLANE_OUTSIDE", outside.path())
        .current_dir(home.workspace());
    let output = TestProcess::run(spec, PATIENCE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", output.stderr_tail);
    let turns = said.lines().filter(|line| line.starts_with("turn: "));
    assert_eq!(turns.count(), 9, "{said}");
    let asked = mock.requests().len();
    assert!(asked >= 9, "the model was asked {asked} times: {said}");
    let written: Vec<_> = std::fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(written.is_empty(), "{written:?}: {said}");
}
