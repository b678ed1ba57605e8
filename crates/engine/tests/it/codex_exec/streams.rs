//! The streams between the engine and its child.

use serde_json::json;
use turnlane_engine::{Accepted, CancelReason, OutcomeStatus};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::support::{Fake, FakeOptions, THREAD};

#[tokio::test]
async fn a_turn_is_handed_over_then_taken_then_counted() {
    let fake = Fake::new(
        "printf '%s\\n' \"$@\" > args; cat > prompt; begin; \
         echo '{\"type\":\"item.started\",\"item\":{\"id\":\"item_1\",\"type\":\"command_execution\",\
         \"command\":\"ls\",\"status\":\"in_progress\"}}'; done_with hello",
    );
    let mut request = fake.request("do it\n");
    request.context = vec!["mind the gap".to_owned()];
    let seen = fake.start(request).finish().await;
    let zero = r#"{"inputTokens":0,"cachedInputTokens":0,"cacheWriteInputTokens":0,"outputTokens":0,"reasoningOutputTokens":0}"#;
    let total = r#"{"inputTokens":100,"cachedInputTokens":40,"cacheWriteInputTokens":0,"outputTokens":20,"reasoningOutputTokens":5}"#;
    let state = |total| format!(r#"state {{"v":1,"threadId":"{THREAD}","total":{total}}}"#);
    assert_eq!(
        seen.lines,
        [
            "handing over",
            &state(zero),
            "accepted",
            "started commandExecution",
            "started agentMessage",
            "completed agentMessage",
            "completed commandExecution",
            "usage 120",
            &state(total),
            "ended Completed",
        ]
    );
    assert_eq!(seen.completed[1]["status"], "failed");
    let outcome = seen.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("hello"));
    assert_eq!(outcome.usage.unwrap().input_tokens, 100);
    assert_eq!(outcome.accepted, Accepted::Yes);
    assert_eq!(fake.text("prompt"), "mind the gap\n\ndo it\n");
    let args = fake.text("args");
    assert!(args.ends_with("--skip-git-repo-check\n-\n"), "{args}");
}

#[tokio::test]
async fn a_later_turn_resumes_its_thread_and_counts_its_own_tokens() {
    let fake = Fake::new("printf '%s\\n' \"$@\" > args; cat > prompt; begin; usage 1100");
    let mut request = fake.resumed("again");
    let state = json!({"v": 1, "threadId": THREAD, "total": {"inputTokens": 100,
        "cachedInputTokens": 40, "cacheWriteInputTokens": 0, "outputTokens": 0,
        "reasoningOutputTokens": 0}});
    request.engine_state = Some(serde_json::value::to_raw_value(&state).unwrap());
    let seen = fake.start(request).finish().await;
    let usage = seen.assert_completed().outcome().usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cached_input_tokens), (1000, 0));
    assert!(
        fake.text("args")
            .ends_with(&format!("resume\n{THREAD}\n-\n"))
    );
    // An unknown past makes the usage unknown once, and the total is known from then on.
    let seen = fake.start(fake.resumed("again")).finish().await;
    assert_eq!(seen.assert_completed().outcome().usage, None);
    assert_eq!(seen.count("usage"), 0);
    assert!(seen.state.unwrap().get().contains("\"inputTokens\":1100"));
}

#[tokio::test]
async fn a_long_prompt_and_a_chatty_child_do_not_wait_for_each_other() {
    // Five megabytes are written before anything is read, and five more while it is. Descriptor 3,
    // because a background command of a script has an empty standard input.
    let fake = Fake::new(
        "begin; yes '{\"type\":\"later\"}' | head -c 5000000; echo; \
         exec 3<&0; wc -c <&3 > count & yes '{\"type\":\"later\"}' | head -c 5000000; echo; wait; done_with ok",
    );
    let prompt = "x".repeat(5_000_000);
    let seen = fake.start(fake.request(&prompt)).finish().await;
    seen.assert_completed();
    assert_eq!(fake.text("count").trim(), "5000000");
}

#[tokio::test]
async fn a_flood_on_standard_error_is_drained_and_means_nothing() {
    let fake = Fake::new("begin; yes 'Error: only noise' | head -c 30000000 >&2; done_with ok");
    let seen = fake.turn("x").await;
    assert_eq!(seen.assert_completed().count("warning"), 0);
}

/// What memory may grow by, whatever a child prints.
const GROWN_BYTES_MAX: u64 = 64 * 1_048_576;
/// Set in the process that runs the one test that measures its own memory.
const ALONE: &str = "TURNLANE_TEST_ALONE";

/// A number of bytes of this process, as the system counts them.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

/// The memory of a process that runs other tests besides says nothing, so the test runs once more by itself.
#[tokio::test]
async fn a_line_of_a_hundred_megabytes_costs_little_memory() {
    if std::env::var_os(ALONE).is_none() {
        let name = "codex_exec::streams::a_line_of_a_hundred_megabytes_costs_little_memory";
        let spec = ProcessSpec::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(ALONE, "1");
        let output = TestProcess::run(spec, DEADLINE).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}\n{}",
            output.stderr_tail
        );
        return;
    }
    let fake = Fake::new("begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; done_with ok");
    let before = memory("VmRSS:");
    let seen = fake.turn("x").await;
    seen.assert_completed();
    let grown = memory("VmHWM:").saturating_sub(before);
    assert!(grown < GROWN_BYTES_MAX, "{grown} bytes");
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_skipped() {
    let fake = Fake::new(
        "begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo nonsense; done_with ok",
    );
    let seen = fake.turn("x").await;
    assert_eq!(
        seen.assert_completed()
            .count("warning a line of Codex's output was skipped"),
        2
    );
    assert_eq!(seen.outcome().last_agent_message.as_deref(), Some("ok"));
}

#[tokio::test]
async fn the_last_line_needs_no_newline_and_a_bad_exit_is_a_warning() {
    let fake = Fake::new("begin; printf '%s' \"$(done_with ok)\"; exit 3");
    let seen = fake.turn("x").await;
    let warning = "warning Codex completed the turn and ended with code 3";
    assert_eq!(seen.assert_completed().count(warning), 1);
}

#[tokio::test]
async fn the_child_gets_the_environment_without_our_variables() {
    let pairs = [
        ("TURNLANE_HOME", "/h"),
        ("OPENAI_API_KEY", "sk-planted-1"),
        ("RUST_BACKTRACE", "1"),
    ];
    let environment = pairs
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let options = FakeOptions {
        environment,
        ..FakeOptions::default()
    };
    let fake = Fake::with(
        "env > env; echo \"Error: key sk-planted-1 is bad\" >&2; exit 1",
        options,
    );
    let seen = fake.turn("x").await;
    let env = fake.text("env");
    assert!(env.contains("OPENAI_API_KEY=sk-planted-1\n"));
    assert!(!env.contains("TURNLANE_HOME") && !env.contains("RUST_BACKTRACE"));
    let error = seen
        .assert_failed(ErrorKind::EngineRefused)
        .error
        .as_ref()
        .unwrap();
    assert_eq!(error.message, "key [redacted] is bad");
}

#[tokio::test]
async fn the_schema_is_private_and_lives_as_long_as_the_child() {
    let fake = Fake::new(
        "for arg; do case \"$last\" in --output-schema) stat -c %a \"$arg\" > mode; cp \"$arg\" schema;; \
         esac; last=$arg; done; cat > /dev/null; begin; done_with ok",
    );
    let mut request = fake.request("x");
    request.settings.output_schema = Some(json!({"type": "object"}));
    fake.start(request).finish().await.assert_completed();
    assert_eq!(fake.text("mode").trim(), "600");
    assert_eq!(fake.text("schema"), r#"{"type":"object"}"#);
    let left = std::fs::read_dir(fake.directory.path()).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().starts_with("turnlane-codex")),
        "{names:?}"
    );
}

#[tokio::test]
async fn a_prompt_does_not_leave_before_its_mark_is_durable() {
    let fake = Fake::new("echo $$ > pid; cat > prompt; begin; done_with ok");
    let mut lane = fake.start(fake.request("secret"));
    lane.fence = Err(turnlane_engine::Fenced);
    let seen = lane.finish().await;
    assert_eq!(seen.lines, ["handing over", "ended Interrupted"]);
    let prompt = std::fs::read_to_string(fake.path("prompt")).unwrap_or_default();
    assert_eq!(prompt, "");
    // The script may have been ended before its first line.
    if fake.path("pid").exists() && !fake.text("pid").is_empty() {
        fake.assert_gone("pid").await;
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_its_child_starts_is_not_begun() {
    let fake = Fake::new("echo ran > ran");
    let lane = fake.start(fake.request("x"));
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    if seen.count("handing over") == 0 {
        assert_eq!(seen.outcome().accepted, Accepted::No);
        assert!(!fake.path("ran").exists());
    }
}
