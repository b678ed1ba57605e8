//! Rules about commands: which files hold for a turn, and what stops it.

use std::fs;

use serde_json::json;
use turnlane_engine::{Engine, OutcomeStatus};
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::mock_model::{Item, Reply};

use super::support::{Bench, Seen};

const NO_TOUCH: &str = "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\")\n";

fn exec(script: &str) -> Reply {
    let arguments = json!({"cmd": script}).to_string();
    Reply::of([Item::function_call("exec_command", arguments).call_id("c1")])
}

/// Runs a turn of one command with full access and nobody to ask.
async fn run(bench: &Bench, number: u8, script: &str) -> Seen {
    bench.mock.push(exec(script));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(number, "go", vec![]);
    request.settings.approval_policy = ApprovalPolicy::Never;
    bench.start(request).finish().await
}

#[tokio::test]
async fn a_rule_of_the_home_holds_from_the_next_turn_on() {
    let bench = Bench::new().await;
    let made = bench.cwd.path().join("made");
    fs::create_dir(bench.home.path().join("rules")).unwrap();
    let file = bench.home.path().join("rules/mine.rules");
    fs::write(&file, NO_TOUCH).unwrap();
    let seen = run(&bench, 1, "touch made").await;
    seen.assert_completed();
    assert!(!made.exists());
    let output = bench.mock.requests()[1].input().last().cloned().unwrap();
    let told = output["output"].as_str().unwrap();
    assert!(
        told.ends_with("policy forbids commands starting with `touch`"),
        "{told}"
    );
    fs::write(
        &file,
        "prefix_rule(pattern=[\"rm\"], decision=\"forbidden\")",
    )
    .unwrap();
    run(&bench, 2, "touch made").await.assert_completed();
    assert!(made.exists(), "the changed file is read again");
}

#[tokio::test]
async fn no_turn_starts_with_rules_that_cannot_be_loaded() {
    let bench = Bench::new().await;
    fs::create_dir(bench.home.path().join("rules")).unwrap();
    let file = bench.home.path().join("rules/mine.rules");
    fs::write(&file, format!("{NO_TOUCH}if True:\n")).unwrap();
    let seen = bench.turn("go").await;
    let outcome = seen.outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert!(!outcome.begun);
    let text = format!(
        "failed to load rules: {}:2: only calls with literal arguments are understood",
        file.display()
    );
    assert_eq!(outcome.error.as_ref().unwrap().message, text);
    assert!(bench.mock.requests().is_empty());
    let status = bench.engine.check(&bench.settings()).await;
    assert_eq!(status.reason.as_deref(), Some(text.as_str()));
    assert_eq!(bench.engine.check_rules(Some(&bench.cwd())), Err(text));
}

#[tokio::test]
async fn rules_of_a_project_hold_where_the_configuration_trusts_it() {
    for (trust, of_client, runs) in [
        (Some("trusted"), None, false),
        (Some("untrusted"), Some("trusted"), true),
        (None, Some("trusted"), true),
    ] {
        let cwd = tempfile::tempdir().unwrap();
        let root = cwd.path().canonicalize().unwrap();
        let path = root.to_str().unwrap();
        let projects = trust.map(|level| json!({path: {"trust_level": level}}));
        let shared = json!({"projects": projects.unwrap_or_else(|| json!({}))});
        let bench = Bench::with(&shared, &json!({})).await;
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join(".codex/rules")).unwrap();
        fs::write(root.join(".codex/rules/a.rules"), NO_TOUCH).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        bench.mock.push(exec("touch made"));
        bench.mock.push(Reply::text("done"));
        let mut request = bench.request(1, "go", vec![]);
        request.settings.cwd = root.join("sub").display().to_string();
        if let Some(level) = of_client {
            let projects = json!({path: {"trust_level": level}});
            request
                .settings
                .config
                .insert("projects".to_owned(), projects);
        }
        bench.start(request).finish().await.assert_completed();
        assert_eq!(root.join("sub/made").exists(), runs, "{trust:?}");
    }
}

#[tokio::test]
async fn a_rule_about_a_host_closes_the_network_and_is_named() {
    let bench = Bench::new().await;
    fs::create_dir(bench.home.path().join("rules")).unwrap();
    let rule = "network_rule(host=\"a.example\", protocol=\"https\", decision=\"deny\")";
    fs::write(bench.home.path().join("rules/net.rules"), rule).unwrap();
    let request = bench.request(1, "go", vec![]);
    assert_eq!(
        request.settings.sandbox_policy,
        SandboxPolicy::DangerFullAccess
    );
    // A socket pair is not the network; a socket of the internet is.
    let probe =
        "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 0))' && touch open";
    let seen = run(&bench, 1, probe).await;
    if let Some(error) = &seen.outcome().error {
        turnlane_testkit::skipped(&error.message);
        return;
    }
    assert!(!bench.cwd.path().join("open").exists());
    let output = bench.mock.requests()[1].input().last().cloned().unwrap();
    let told = output["output"].as_str().unwrap();
    assert!(
        told.contains("PermissionError") || told.contains("not found"),
        "{told}"
    );
    let [warning] = seen.warnings.as_slice() else {
        panic!("one warning: {:?}", seen.warnings);
    };
    assert!(
        warning.starts_with("the network is closed for this thread"),
        "{warning}"
    );
}
