//! What models are told besides the conversation, and what nobody is told.

use serde_json::json;
use turnlane_engine::{Engine as _, OutcomeStatus};
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_protocol::turn_error::CodexErrorInfo;
use turnlane_testkit::mock_model::{ApiError, Item, Reply};

use super::support::{Bench, KEY};

async fn instructions(bench: &Bench) -> String {
    bench.mock.push(Reply::text("ok"));
    bench.turn("go").await.assert_completed();
    let request = bench.mock.requests().pop().unwrap();
    request.body["instructions"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn documents_of_the_user_and_the_project_reach_the_instructions_in_order() {
    let bench = Bench::new().await;
    std::fs::write(bench.home.path().join("AGENTS.md"), "Be brief.").unwrap();
    std::fs::write(bench.cwd.path().join("AGENTS.md"), "Use make.").unwrap();
    let text = instructions(&bench).await;
    let place = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(place("# Environment") < place("Be brief."));
    assert!(place("Be brief.") < place("Use make."));
    assert!(text.contains(&format!("- working directory: {}", bench.cwd())));
    assert!(text.contains("- date: 2026-01-01"));

    std::fs::write(bench.cwd.path().join("AGENTS.override.md"), "Use ninja.").unwrap();
    let text = instructions(&bench).await;
    assert!(text.contains("Use ninja.") && !text.contains("Use make."));
}

#[tokio::test]
async fn an_untrusted_project_says_nothing() {
    let bench = Bench::new().await;
    std::fs::write(bench.cwd.path().join("AGENTS.md"), "Use make.").unwrap();
    bench.mock.push(Reply::text("ok"));
    let mut request = bench.request(1, "go", vec![]);
    let level = json!({bench.cwd(): {"trust_level": "untrusted"}});
    request.settings.config.insert("projects".to_owned(), level);
    bench.start(request).finish().await.assert_completed();
    let request = bench.mock.requests().pop().unwrap();
    assert!(!request.body.to_string().contains("Use make."));
}

#[tokio::test]
async fn a_document_over_the_limit_or_out_of_the_project_warns() {
    let bench = Bench::with(&json!({"project_doc_max_bytes": 8}), &json!({})).await;
    std::fs::write(bench.cwd.path().join("AGENTS.md"), "123456789").unwrap();
    bench.mock.push(Reply::text("ok"));
    let seen = bench.turn("go").await;
    assert_eq!(
        seen.assert_completed().warnings.len(),
        1,
        "{:?}",
        seen.warnings
    );

    let bench = Bench::new().await;
    // The project ends here, also where the directory of temporary files lies in a work tree.
    std::fs::create_dir(bench.cwd.path().join(".git")).unwrap();
    std::fs::write(bench.home.path().join("secret"), "quokka").unwrap();
    let link = bench.cwd.path().join("AGENTS.md");
    std::os::unix::fs::symlink(bench.home.path().join("secret"), link).unwrap();
    let text = instructions(&bench).await;
    assert!(!text.contains("quokka"));
}

#[tokio::test]
async fn base_and_developer_texts_take_their_places() {
    let bench = Bench::with(&json!({"model_instructions_file": "base.md"}), &json!({})).await;
    std::fs::write(bench.home.path().join("base.md"), "From the file.").unwrap();
    assert!(instructions(&bench).await.starts_with("From the file."));
    bench.mock.push(Reply::text("ok"));
    let mut request = bench.request(1, "go", vec![]);
    request.settings.base_instructions = Some("From the thread.".to_owned());
    request.settings.developer_instructions = Some("And this.".to_owned());
    bench.start(request).finish().await.assert_completed();
    let request = bench.mock.requests().pop().unwrap();
    let text = request.body["instructions"].as_str().unwrap();
    assert!(text.starts_with("From the thread.") && text.contains("And this."));
}

#[tokio::test]
async fn a_turn_without_environments_offers_neither_commands_nor_files() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "touch ran"});
    let call = Item::function_call("exec_command", cmd).call_id("c");
    bench.mock.push(Reply::of([call]));
    bench.mock.push(Reply::text("ok"));
    let mut request = bench.request(1, "go", vec![]);
    request.settings.environments = Some(vec![]);
    bench.start(request).finish().await.assert_completed();
    let requests = bench.mock.requests();
    assert_eq!(requests[0].tool_names(), ["update_plan"]);
    assert_eq!(
        requests[1].tool_output("c").unwrap(),
        "No usable execution environment is available."
    );
    assert!(!bench.cwd.path().join("ran").exists());
}

#[tokio::test]
async fn the_key_appears_nowhere() {
    let bench = Bench::new().await;
    std::fs::write(bench.cwd.path().join("leak"), format!("key={KEY}\n")).unwrap();
    let call = |id: &str, name: &str, arguments| Item::function_call(name, arguments).call_id(id);
    let patch = "*** Begin Patch\n*** Update File: leak\n@@\n-key=KEY\n+other\n*** End Patch";
    bench.mock.push(Reply::of([
        Item::text(format!("your key is {KEY}")),
        call("c0", "exec_command", json!({"cmd": "cat leak"})),
        call("c1", "slow", json!({"text": KEY})),
        call(
            "c2",
            "apply_patch",
            json!({"input": patch.replace("KEY", KEY)}),
        ),
        call("c3", KEY, json!({})),
    ]));
    let refusal = ApiError::bad_request("input", &format!("bad key {KEY}"));
    bench.mock.push(Reply::http_error(refusal));
    let mut request = bench.request(1, &format!("my key is {KEY}"), vec![]);
    request.context = vec![format!("hook says {KEY}")];
    request.runtime_tools = vec![super::support::tool("slow")];
    let mut lane = bench.start(request);
    lane.answer = Box::new(|_| turnlane_engine::ToolAnswer {
        text: format!("found {KEY}"),
        success: true,
        end_turn: false,
    });
    lane.steer("s1").unwrap();
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Failed);
    let everything = seen.everything();
    assert!(!everything.contains(KEY), "{everything}");
    assert!(
        everything.matches("[redacted]").count() >= 6,
        "{everything}"
    );
    for request in bench.mock.requests() {
        assert!(!request.body.to_string().contains(KEY));
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_enforced_fails_the_turn_without_a_call() {
    let bench = Bench::new().await;
    let mut request = bench.request(1, "go", vec![]);
    // No machine can keep a turn inside of everything.
    request.settings.sandbox_policy = serde_json::from_value::<SandboxPolicy>(json!({
        "type": "workspaceWrite", "writableRoots": ["/"],
    }))
    .unwrap();
    let status = bench.engine.check(&request.settings).await;
    assert!(!status.ok);
    let seen = bench.start(request).finish().await;
    assert_eq!(seen.lines, ["ended Failed"]);
    let outcome = seen.outcome();
    assert!(!outcome.begun);
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(error.codex_error_info, Some(CodexErrorInfo::SandboxError));
    assert_eq!(status.reason.as_deref(), Some(error.message.as_str()));
    assert!(bench.mock.requests().is_empty());
}
