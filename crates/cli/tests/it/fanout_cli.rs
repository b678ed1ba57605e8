//! `turnlane fanout`: whole jobs in one process, their outputs, exit codes and what comes after a signal.

mod choices;
mod daemon;

use std::path::PathBuf;

use serde_json::Value;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{Output, ProcessSpec, TempHome, TestProcess};

use crate::run;

/// Workers report at once; those whose task has `fail-me` fail, those with `stall-me` never end.
const SCRIPT: &str = r#"
version: 1
turns:
  - match: "fail-me"
    steps: [{error: {info: badRequest, message: "the provider refused it"}}]
  - match: "stall-me"
    steps: [{await: {gate: never}}]
fallback:
  - call:
      tool: report_agent_job_result
      arguments: '{"job_id":"{line:Job ID: }","item_id":"{line:Item ID: }","result":{"ok":true}}'
"#;

/// The same without what hangs.
fn healed() -> String {
    SCRIPT.replace("match: \"stall-me\"", "match: \"no such task\"")
}

struct Desk {
    home: TempHome,
}

impl Desk {
    fn new() -> Self {
        let home = TempHome::new().unwrap();
        std::fs::write(home.path().join("script.yaml"), SCRIPT).unwrap();
        std::fs::write(home.path().join("healed.yaml"), healed()).unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.workspace().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        crate::turnlane(&["fanout"])
            .args(arguments.iter().copied())
            .envs(self.home.env())
            .current_dir(self.home.workspace())
    }

    /// A run with the scripted engine.
    fn running(&self, script: &str, arguments: &[&str]) -> ProcessSpec {
        let script = self.home.path().join(script);
        self.spec(&["run"])
            .args(arguments.iter().copied())
            .args(["--script", script.to_str().unwrap()])
    }

    async fn runs(&self, arguments: &[&str]) -> Output {
        run(self.running("script.yaml", arguments)).await
    }

    async fn types(&self, arguments: &[&str]) -> Output {
        run(self.spec(arguments)).await
    }

    async fn jobs(&self) -> Vec<Value> {
        let listed = self.types(&["list", "--json"]).await;
        assert_eq!(listed.status.code(), Some(0), "{}", listed.stderr_tail);
        lines(&listed)
    }
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let read = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(read).collect()
}

#[tokio::test]
async fn a_job_runs_from_a_table_to_a_table() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nb\nc\n");
    let ran = desk
        .runs(&["in.csv", "--instruction", "do {name}", "-o", "out.csv"])
        .await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    let text = desk.read("out.csv");
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.starts_with("name,job_id,item_id,"), "{text}");
    assert!(
        ran.stderr_tail.contains("in  3/3 ok"),
        "{}",
        ran.stderr_tail
    );
    let jobs = desk.jobs().await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["state"], "succeeded");
    let id = jobs[0]["id"].as_str().unwrap();
    for arguments in [
        &["list"][..],
        &["show", "in"],
        &["watch", id],
        &["items", "in", "--state", "succeeded"],
        &["logs", "in", "row-2"],
        &["cost", "in"],
        &["export", "in", "-o", "again.jsonl"],
        &["export", "in", "-o", "-"],
        &["cancel", "in"],
    ] {
        let told = desk.types(arguments).await;
        let expected = i32::from(arguments[0] == "cancel");
        let code = told.status.code();
        assert_eq!(code, Some(expected), "{arguments:?}: {}", told.stderr_tail);
    }
    assert_eq!(desk.read("again.jsonl").lines().count(), 3);
    let removed = desk.types(&["rm", &id[id.len() - 8..]]).await;
    assert_eq!(removed.status.code(), Some(0), "{}", removed.stderr_tail);
    assert!(desk.jobs().await.is_empty());
}

#[tokio::test]
async fn json_lines_tell_every_item_once_and_the_end_last() {
    let desk = Desk::new();
    let rows: Vec<_> = (0..20).map(|row| format!("n{row}")).collect();
    desk.write("in.csv", format!("name\n{}\n", rows.join("\n")));
    let ran = desk
        .runs(&["in.csv", "--instruction", "do {name}", "--json", "--items"])
        .await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    let told = lines(&ran);
    assert_eq!(told[0]["type"], "fanout.started");
    assert_eq!(told[0]["total"], 20);
    assert_eq!(told[0]["resumed"], false);
    let last = told.last().unwrap();
    assert_eq!(last["type"], "fanout.ended");
    assert_eq!(last["state"], "succeeded");
    assert_eq!(last["counts"]["succeeded"], 20);
    let items = told.iter().filter(|line| line["type"] == "fanout.item");
    let mut items: Vec<_> = items.map(|item| item["item_id"].to_string()).collect();
    assert_eq!(items.len(), 20);
    items.sort();
    items.dedup();
    assert_eq!(items.len(), 20);
}

#[tokio::test]
async fn failed_items_are_exit_code_3_and_never_0() {
    let desk = Desk::new();
    desk.write("in.csv", "name\nfail-me\na\n");
    let some = desk.runs(&["in.csv", "--instruction", "do {name}"]).await;
    assert_eq!(some.status.code(), Some(3), "{}", some.stderr_tail);
    desk.write("all.csv", "name\nfail-me 1\nfail-me 2\n");
    let all = desk
        .runs(&["all.csv", "--instruction", "do {name}", "-o", "all_out.csv"])
        .await;
    assert_eq!(all.status.code(), Some(3), "{}", all.stderr_tail);
    let text = desk.read("all_out.csv");
    assert!(text.contains("the provider refused it"), "{text}");
    // More failures than allowed pause the job.
    let rows = "fail-me\n".repeat(30);
    desk.write("many.csv", format!("name\n{rows}"));
    let paused = desk
        .runs(&[
            "many.csv",
            "--instruction",
            "do {name}",
            "--max-failures",
            "5",
        ])
        .await;
    assert_eq!(paused.status.code(), Some(4), "{}", paused.stderr_tail);
}

#[tokio::test]
async fn bad_input_is_exit_code_2_with_its_line_and_starts_nothing() {
    let desk = Desk::new();
    for (content, told) in [
        ("", "csv input must include a header row"),
        ("x,x\n1,2\n", "csv header x is duplicated"),
        ("x,\n1,2\n", "csv header column 2 has no name"),
        (
            "name,b\n\"a\nb\",1\nc\n",
            "csv row 3 has 1 fields but header has 2 (line 4)",
        ),
        ("name\n\"a\n", "unclosed quote, opened at line 2"),
    ] {
        desk.write("in.csv", content);
        let ran = desk
            .runs(&["in.csv", "--instruction", "do", "--allow-missing"])
            .await;
        let told_here = &ran.stderr_tail;
        assert_eq!(ran.status.code(), Some(2), "{content:?}: {told_here}");
        assert!(told_here.contains(told), "{content:?}: {told_here}");
    }
    desk.write("good.csv", "name\na\n");
    for (arguments, told) in [
        (
            &["good.csv", "--instruction", "do {nope}"][..],
            "unknown placeholder {nope}; columns: name",
        ),
        (
            &["good.csv", "--instruction", " "],
            "instruction must be non-empty",
        ),
        (
            &["good.csv", "--instruction", "i", "--id", "X"],
            "id_column X was not found in csv headers",
        ),
        (
            &["none.csv", "--instruction", "i"],
            "failed to read csv input none.csv",
        ),
        (
            &["good.csv", "--instruction", "i", "-j", "0"],
            "concurrency",
        ),
        (
            &["good.csv", "--instruction", "i", "-o", "good.csv"],
            "output file is the input file",
        ),
        (
            &["good.csv", "--instruction", "i", "-o", "."],
            "cannot write .",
        ),
        (&["good.csv"], "required arguments were not provided"),
    ] {
        let ran = desk.runs(arguments).await;
        let told_here = &ran.stderr_tail;
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {told_here}");
        assert!(told_here.contains(told), "{arguments:?}: {told_here}");
    }
    for job in desk.jobs().await {
        assert_eq!(job["usage"]["attempts"], 0, "{job}");
    }
}

#[tokio::test]
async fn an_existing_output_is_replaced_only_by_force() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\n");
    desk.write("out.csv", "mine\n");
    let arguments = ["in.csv", "--instruction", "do {name}", "-o", "out.csv"];
    let refused = desk.runs(&arguments).await;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr_tail);
    assert_eq!(desk.read("out.csv"), "mine\n");
    for job in desk.jobs().await {
        assert_eq!(job["usage"]["attempts"], 0, "{job}");
    }
    let forced = desk.runs(&[&arguments[..], &["--force"]].concat()).await;
    assert_eq!(forced.status.code(), Some(0), "{}", forced.stderr_tail);
    assert_eq!(desk.read("out.csv").lines().count(), 2);
}

#[tokio::test]
async fn a_header_alone_is_a_job_without_items_and_another_delimiter_is_guessed() {
    let desk = Desk::new();
    desk.write("in.csv", "name\n");
    let ran = desk.runs(&["in.csv", "--instruction", "do {name}"]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    let told = &ran.stderr_tail;
    assert!(told.contains("warning: input has no data rows"), "{told}");
    desk.write("semi.csv", "name;other\na;b\n");
    let ran = desk.runs(&["semi.csv", "--instruction", "do"]).await;
    let told = &ran.stderr_tail;
    assert!(told.contains("did you mean --delimiter ';'?"), "{told}");
}

#[tokio::test]
async fn a_dry_run_shows_prompts_and_stores_nothing() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nb\nc\nd\n");
    let shown = desk
        .types(&["run", "in.csv", "--instruction", "do {name}", "--dry-run"])
        .await;
    assert_eq!(shown.status.code(), Some(0), "{}", shown.stderr_tail);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(text.matches("\nInstruction:\n").count(), 3, "{text}");
    assert!(text.contains("4 rows"), "{text}");
    assert!(desk.jobs().await.is_empty());
    let wrong = desk
        .types(&["run", "in.csv", "--instruction", "{nope}", "--dry-run"])
        .await;
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.stderr_tail);
}

/// Starts a run whose second row hangs, and waits until the others are done.
async fn hanging(desk: &Desk) -> TestProcess {
    desk.write("in.csv", "name\na\nstall-me\nc\n");
    let arguments = ["in.csv", "--instruction", "do {name}", "-o", "out.csv"];
    let spec = desk.running("script.yaml", &arguments);
    let process = TestProcess::start(spec).unwrap();
    eventually("two results", DEADLINE, async || {
        let jobs = desk.jobs().await;
        let counts = jobs.first().map(|job| job["counts"].clone());
        counts.is_some_and(|counts| counts["succeeded"] == 2)
    })
    .await
    .unwrap();
    process
}

#[tokio::test]
async fn the_same_command_continues_after_a_signal_and_new_makes_another_job() {
    let desk = Desk::new();
    let mut process = hanging(&desk).await;
    process.terminate().unwrap();
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(143), "{}", process.stderr_tail());
    assert!(process.stderr_tail().contains("turnlane fanout resume"));
    let jobs = desk.jobs().await;
    assert_eq!(jobs[0]["state"], "paused");
    assert_eq!(jobs[0]["counts"]["pending"], 1);
    let arguments = ["in.csv", "--instruction", "do {name}", "-o", "out.csv"];
    let again = run(desk.running("healed.yaml", &arguments)).await;
    assert_eq!(again.status.code(), Some(0), "{}", again.stderr_tail);
    assert!(again.stderr_tail.contains("continuing job"));
    let jobs = desk.jobs().await;
    assert_eq!(jobs.len(), 1);
    // Three items, and one that was interrupted once.
    assert_eq!(jobs[0]["usage"]["attempts"], 4, "{}", jobs[0]);
    assert_eq!(desk.read("out.csv").lines().count(), 4);
    let new = ["in.csv", "--instruction", "do {name}", "--new"];
    let other = run(desk.running("healed.yaml", &new)).await;
    assert_eq!(other.status.code(), Some(0), "{}", other.stderr_tail);
    assert_eq!(desk.jobs().await.len(), 2);
}

#[tokio::test]
async fn a_killed_run_is_shown_as_orphaned_and_looking_starts_nothing() {
    let desk = Desk::new();
    let mut process = hanging(&desk).await;
    process.kill9().await.unwrap();
    eventually("the orphaned job", DEADLINE, async || {
        desk.jobs().await[0]["reason"] == "orphaned"
    })
    .await
    .unwrap();
    let orphaned = desk.jobs().await.remove(0);
    assert_eq!(orphaned["state"], "paused");
    let attempts = orphaned["usage"]["attempts"].clone();
    desk.types(&["show", "in"]).await;
    desk.types(&["items", "in"]).await;
    assert_eq!(desk.jobs().await[0]["usage"]["attempts"], attempts);
    let script = desk.home.path().join("healed.yaml");
    let script = script.to_str().unwrap();
    let resumed = desk.types(&["resume", "in", "--script", script]).await;
    assert_eq!(resumed.status.code(), Some(0), "{}", resumed.stderr_tail);
    assert_eq!(desk.jobs().await[0]["state"], "succeeded");
}

#[tokio::test]
async fn every_command_about_a_job_writes_json_for_programs() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nfail-me\n");
    let ran = desk
        .runs(&["in.csv", "--instruction", "do {name}", "--json"])
        .await;
    assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr_tail);
    let script = desk.home.path().join("script.yaml");
    let script = script.to_str().unwrap();
    for (arguments, code, has_lines) in [
        (&["list"][..], 0, true),
        (&["show", "in"], 0, true),
        (&["watch", "in"], 3, true),
        (&["items", "in"], 0, true),
        (&["logs", "in", "row-1"], 0, true),
        (&["cost", "in"], 0, true),
        (&["export", "in", "-o", "out.csv"], 0, true),
        (&["retry", "in", "--script", script], 3, true),
        (&["resume", "in", "--script", script], 1, false),
        (&["pause", "in"], 1, false),
        (&["cancel", "in"], 1, false),
        (&["rm", "in"], 0, true),
    ] {
        let told = run(desk.spec(arguments).args(["--json"])).await;
        let context = format!("{arguments:?}: {}", told.stderr_tail);
        assert_eq!(told.status.code(), Some(code), "{context}");
        assert_eq!(!lines(&told).is_empty(), has_lines, "{context}");
    }
}
