//! The tool `spawn_agents_on_csv`: schemas, paths, the reference run in small, pauses, interrupts.

use std::path::Path;

use serde_json::{Value, json};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_runtime::fanout::jobs::{JobsQuery, Owner};
use turnlane_runtime::store::fanout::JobState;
use turnlane_runtime::store::turn::TurnStatus;
use turnlane_runtime::{AddTurn, AfterInterrupt, CreateThread, FanoutOptions, Options, Settings};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, report_step};
use crate::support::{Home, params, settings};

/// Workers report; the parent calls the tool with these arguments.
fn script(arguments: &Value, worker: &str) -> String {
    format!(
        "version: 1\nturns:\n  - {{match: 'Job ID: ', steps: [{worker}]}}\n  \
         - {{match: 'of job ', steps: [{}]}}\n\
         fallback: [{{call: {{tool: spawn_agents_on_csv, arguments: '{arguments}'}}}}, {{say: done}}]\n",
        report_step(r#"{"ok":true}"#),
    )
}

fn with_tools() -> Options {
    Options {
        fanout: FanoutOptions {
            agent_tools: true,
            ..FanoutOptions::default()
        },
        ..Options::default()
    }
}

fn in_directory(directory: &Path, sandbox_policy: SandboxPolicy) -> Settings {
    Settings {
        cwd: directory.to_string_lossy().into_owned(),
        sandbox_policy,
        ..settings()
    }
}

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly {
        network_access: false,
    }
}

/// A directory with a table of so many rows.
fn table(rows: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..rows).map(|row| format!("n{row}\n")).collect();
    let text = format!("name\n{}", names.concat());
    std::fs::write(directory.path().join("in.csv"), text).unwrap();
    directory
}

/// A thread whose only turn calls the tool.
async fn parent(floor: &Floor, settings: Settings) -> ThreadId {
    let create = CreateThread::new("scripted", settings);
    let row = floor.handle().create_thread(create).await.unwrap();
    let thread = ThreadId::from_uuid(row.id.as_uuid());
    floor
        .world
        .add_with(thread, AddTurn::new(params("go")))
        .await;
    thread
}

/// The answer of the tool, as text and whether it is a success.
async fn answer(floor: &Floor, thread: ThreadId) -> (String, bool) {
    floor.world.ended(thread, 1).await;
    let items = floor.world.items(thread).await;
    let call = items.iter().find(|item| item.kind == "dynamicToolCall");
    let body: Value = serde_json::from_str(call.unwrap().body.as_str()).unwrap();
    let text = body["contentItems"][0]["text"].as_str().unwrap().to_owned();
    (text, body["success"] == json!(true))
}

async fn called(arguments: Value, rows: usize, sandbox: SandboxPolicy) -> (String, bool, usize) {
    let directory = table(rows);
    let home = Home::new();
    let script = script(&arguments, &report_step(r#"{"ok":true}"#));
    let floor = Floor::start_with(&home, &script, with_tools()).await;
    let thread = parent(&floor, in_directory(directory.path(), sandbox)).await;
    let (text, success) = answer(&floor, thread).await;
    let workers = floor.asked().len() - 1;
    floor.stop().await;
    (text, success, workers)
}

#[tokio::test]
async fn the_reference_run_writes_one_line_per_row_and_returns_its_counts() {
    let directory = table(100);
    let output = directory.path().join("out.csv");
    let arguments = json!({
        "csv_path": directory.path().join("in.csv"),
        "instruction": "Greet {name}",
        "output_csv_path": output,
        "max_concurrency": 64,
    });
    let home = Home::new();
    let script = script(&arguments, &report_step(r#"{"ok":true}"#));
    let floor = Floor::start_with(&home, &script, with_tools()).await;
    let ear = std::sync::Arc::new(crate::support::Ear::default());
    floor.handle().watch(ear.clone());
    let thread = parent(&floor, in_directory(directory.path(), read_only())).await;
    let (text, success) = answer(&floor, thread).await;
    assert!(success, "{text}");
    let lines = std::fs::read_to_string(&output).unwrap();
    assert_eq!(lines.lines().count(), 101);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["status"], json!("completed"));
    assert_eq!(told["completed_items"], json!(100));
    assert_eq!(told["state"], json!("succeeded"));
    let expected_order = "\"job_id\":";
    assert!(text.starts_with(&format!("{{{expected_order}")), "{text}");
    assert!(
        text.ends_with("\"usage\":{\"total_tokens\":1200}}"),
        "{text}"
    );
    assert_eq!(
        floor.asked().len(),
        101,
        "one turn per row and the parent's own"
    );
    let statuses = ear
        .words()
        .iter()
        .filter(|word| *word == "status active")
        .count();
    assert_eq!(
        statuses, 1,
        "no item is told to those who watch all threads"
    );
    floor.stop().await;
}

#[tokio::test]
async fn a_call_as_codex_makes_it_works_with_the_default_output_beside_the_input() {
    let arguments = json!({
        "csv_path": "in.csv", "instruction": "Greet {name}", "max_workers": 64.0,
        "id_column": "name",
    });
    let (text, success, workers) = called(arguments, 3, read_only()).await;
    assert!(success, "{text}");
    assert_eq!(workers, 3);
    let told: Value = serde_json::from_str(&text).unwrap();
    let path = told["output_csv_path"].as_str().unwrap();
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("in.agent-job-"), "{name}");
}

#[tokio::test]
async fn an_output_that_the_sandbox_does_not_allow_is_refused_before_any_worker() {
    for output in [
        "../out.csv",
        "in.csv",
        ".git/x.csv",
        "link/x.csv",
        "out.txt",
        "old.csv",
    ] {
        let directory = table(2);
        for name in [".git", "real"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("old.csv"), "old").unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
        let arguments = json!({
            "csv_path": "in.csv", "instruction": "Greet {name}", "output_csv_path": output,
        });
        let home = Home::new();
        let script = script(&arguments, &report_step(r#"{"ok":true}"#));
        let floor = Floor::start_with(&home, &script, with_tools()).await;
        let thread = parent(&floor, in_directory(directory.path(), read_only())).await;
        let (text, success) = answer(&floor, thread).await;
        assert!(
            !success && text.starts_with("cannot write "),
            "{output}: {text}"
        );
        assert_eq!(floor.asked().len(), 1, "{output}");
        let jobs = floor
            .jobs
            .list(JobsQuery {
                limit: 10,
                ..JobsQuery::default()
            })
            .await;
        assert_eq!(jobs.unwrap().jobs.len(), 0, "{output}");
        floor.stop().await;
    }
}

#[tokio::test]
async fn problems_of_the_call_are_told_as_text_and_start_nothing() {
    let cases = [
        (
            json!({"csv_path": "none.csv", "instruction": "x"}),
            "failed to read csv input ",
        ),
        (
            json!({"csv_path": "in.csv", "instruction": "{nope}"}),
            "unknown placeholder {nope}",
        ),
        (
            json!({"csv_path": "in.csv"}),
            "failed to parse function arguments: ",
        ),
        (
            json!({"csv_path": "in.csv", "instruction": "x", "max_runtime_seconds": 0}),
            "max_runtime_seconds must be >= 1",
        ),
        (
            json!({"csv_path": "in.csv", "instruction": "x", "id_column": "id"}),
            "id_column id was not found in csv headers",
        ),
    ];
    for (arguments, expected) in cases {
        let (text, success, workers) = called(arguments, 2, read_only()).await;
        assert!(!success && text.starts_with(expected), "{text}");
        assert_eq!(workers, 0, "{text}");
    }
}

#[tokio::test]
async fn a_used_up_quota_is_told_to_the_model_as_a_pause() {
    let directory = table(10);
    let arguments = json!({"csv_path": "in.csv", "instruction": "Greet {name}"});
    let home = Home::new();
    let script = script(&arguments, "{error: {kind: quota, message: 'no more'}}");
    let floor = Floor::start_with(&home, &script, with_tools()).await;
    let thread = parent(&floor, in_directory(directory.path(), read_only())).await;
    let (text, success) = answer(&floor, thread).await;
    assert!(success, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["status"], json!("paused"));
    let error = told["job_error"].as_str().unwrap();
    let id = told["job_id"].as_str().unwrap();
    assert!(error.starts_with("quota: no more"), "{error}");
    assert!(
        error.ends_with(&format!("turnlane fanout resume {id}")),
        "{error}"
    );
    floor.stop().await;
}

#[tokio::test]
async fn an_interrupted_parent_leaves_an_orphaned_job_that_a_resume_completes() {
    let directory = table(4);
    let arguments = json!({"csv_path": "in.csv", "instruction": "Greet {name}"});
    let home = Home::new();
    let waiting = format!(
        "{{say: first}}, {{await: {{gate: go}}}}, {}",
        report_step("{}")
    );
    let script = script(&arguments, &waiting);
    let floor = Floor::start_with(&home, &script, with_tools()).await;
    let thread = parent(&floor, in_directory(directory.path(), read_only())).await;
    floor.asks(5).await;
    floor
        .handle()
        .interrupt(thread, None, AfterInterrupt::Continue, None)
        .await
        .unwrap();
    // The items wait at their gate, so the end of the turn does not wait for them.
    floor.world.ended(thread, 1).await;
    let turns = floor.world.turns(thread).await;
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
    let query = JobsQuery {
        limit: 10,
        ..JobsQuery::default()
    };
    let job = floor.jobs.list(query).await.unwrap().jobs.remove(0);
    let id = job.row.made.id;
    let paused = floor.rests(&id, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("orphaned"));
    assert_eq!(paused.row.pending(), 4);
    floor.world.gates.open("go");
    floor.jobs.resume(&id, Owner::Detached).await.unwrap();
    floor.rests(&id, JobState::Succeeded).await;
    floor.stop().await;
}

#[tokio::test]
async fn forty_turns_that_each_wait_for_a_job_all_end() {
    let directory = table(2);
    let arguments = json!({"csv_path": "in.csv", "instruction": "Greet {name}"});
    let home = Home::new();
    let script = script(&arguments, &report_step(r#"{"ok":true}"#));
    // The turns that wait hold every slot of the lanes.
    let options = Options {
        max_running: 4,
        ..with_tools()
    };
    let floor = Floor::start_with(&home, &script, options).await;
    let mut threads = Vec::new();
    for _ in 0..40 {
        threads.push(parent(&floor, in_directory(directory.path(), read_only())).await);
    }
    for thread in threads {
        let (text, success) = answer(&floor, thread).await;
        assert!(success, "{text}");
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["completed_items"], json!(2), "{told}");
    }
    floor.stop().await;
}

#[tokio::test]
async fn without_the_feature_there_is_no_tool_and_a_threads_own_setting_turns_it_on() {
    for enabled in [false, true] {
        let directory = table(1);
        let arguments = json!({"csv_path": "in.csv", "instruction": "Greet {name}"});
        let home = Home::new();
        let script = script(&arguments, &report_step("{}"));
        let floor = Floor::start(&home, &script).await;
        let mut settings = in_directory(directory.path(), read_only());
        settings
            .config
            .insert("features".to_owned(), json!({"enable_fanout": enabled}));
        let thread = parent(&floor, settings).await;
        let (text, success) = answer(&floor, thread).await;
        assert_eq!(success, enabled, "{text}");
        if !enabled {
            assert_eq!(text, "there is no tool spawn_agents_on_csv");
        }
        floor.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_does_not_wait_returns_at_once_and_its_job_is_detached() {
    let arguments = json!({"csv_path": "in.csv", "instruction": "Greet {name}", "wait": false});
    let directory = table(3);
    let home = Home::new();
    let script = script(&arguments, &report_step(r#"{"ok":true}"#));
    let floor = Floor::start_with(&home, &script, with_tools()).await;
    let thread = parent(&floor, in_directory(directory.path(), read_only())).await;
    let (text, success) = answer(&floor, thread).await;
    assert!(success, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["status"], json!("running"));
    let id = told["job_id"].as_str().unwrap();
    floor.rests(id, JobState::Succeeded).await;
    let written = async || Path::new(told["output_csv_path"].as_str().unwrap()).exists();
    eventually("the output", DEADLINE, written).await.unwrap();
    floor.stop().await;
}
