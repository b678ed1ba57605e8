//! Runs that are repeated with other flags, names that several jobs have, rows that are chosen.

use serde_json::Value;
use turnlane_testkit::wait::DEADLINE;

use super::{Desk, hanging, lines};
use crate::run;
use crate::serve::Daemon;

const TASK: [&str; 5] = ["in.csv", "--instruction", "do {name}", "-o", "out.csv"];

#[tokio::test]
async fn a_refused_import_leaves_no_job_and_several_of_one_name_are_listed() {
    let desk = Desk::new();
    desk.write("in.csv", "name,x\na\n");
    let refused = desk.runs(&TASK).await;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr_tail);
    assert!(desk.jobs().await.is_empty());
    desk.write("in.csv", "name\na\n");
    let ran = desk.runs(&TASK).await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    assert_eq!(desk.types(&["show", "in"]).await.status.code(), Some(0));
    let other = desk.runs(&["in.csv", "--instruction", "other"]).await;
    assert_eq!(other.status.code(), Some(0), "{}", other.stderr_tail);
    let told = desk.types(&["show", "in"]).await.stderr_tail;
    assert!(told.contains("several jobs fit in: "), "{told}");
    for job in desk.jobs().await {
        let id = job["id"].as_str().unwrap();
        assert!(told.contains(&id[24..]), "{id}: {told}");
        let shown = desk.types(&["show", &id[24..], "--json"]).await;
        assert_eq!(lines(&shown)[0]["id"], id);
    }
    let none = desk.types(&["show", "none"]).await.stderr_tail;
    assert!(none.contains("job not found: none"), "{none}");
}

#[tokio::test]
async fn a_finished_run_says_what_to_do_about_its_results() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nfail-me\n");
    assert_eq!(desk.runs(&TASK).await.status.code(), Some(3));
    let id = desk.jobs().await[0]["id"].as_str().unwrap().to_owned();
    let again = desk.runs(&TASK).await;
    let told = &again.stderr_tail;
    assert_eq!(again.status.code(), Some(2), "{told}");
    for part in [
        "--force replaces it",
        &format!("job in ({id}) has finished the same run with 1/2 ok"),
        &format!("turnlane fanout retry {}`", &id[28..]),
        &format!("turnlane fanout export {} -o FILE", &id[28..]),
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(desk.jobs().await.len(), 1);
    // Without the file in the way it is run again, and the command says so.
    let again = desk.runs(&["in.csv", "--instruction", "do {name}"]).await;
    assert_eq!(again.status.code(), Some(3), "{}", again.stderr_tail);
    let told = &again.stderr_tail;
    assert!(told.contains("has finished the same run"), "{told}");
    assert!(told.contains("this is a new job"), "{told}");
    assert_eq!(desk.jobs().await.len(), 2);
}

#[tokio::test]
async fn flags_that_a_continued_job_does_not_take_over_are_named() {
    let desk = Desk::new();
    let mut process = hanging(&desk).await;
    process.terminate().unwrap();
    process.wait(DEADLINE).await.unwrap();
    let flags = ["--on-crash", "restart", "--keep-threads", "none"];
    let more = ["--on-duplicate", "skip", "--retries", "7", "--dedupe"];
    let arguments = [&TASK[..], &flags, &more].concat();
    let again = run(desk.running("healed.yaml", &arguments)).await;
    let told = &again.stderr_tail;
    assert_eq!(again.status.code(), Some(0), "{told}");
    for part in [
        "continuing job in",
        "onCrash continue (not restart)",
        "keepThreads by size (not none)",
        "onDuplicate error (not skip)",
        "retries 2 (not 7)",
        "dedupe false (not true)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(desk.jobs().await.len(), 1);
}

#[tokio::test]
async fn flags_of_this_process_are_named_beside_a_daemon_and_refused_for_a_named_server() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\n");
    let script = desk.home.path().join("script.yaml");
    let script = script.to_str().unwrap();
    let daemon = Daemon::start(&desk.home, &["--script", script]).await;
    let ran = desk.runs(&TASK).await;
    let told = &ran.stderr_tail;
    assert_eq!(ran.status.code(), Some(0), "{told}");
    assert!(
        told.contains("--script does not reach the daemon"),
        "{told}"
    );
    assert_eq!(desk.jobs().await[0]["owner"], "connection");
    let detached = desk.runs(&[&TASK[..], &["--detach"]].concat()).await;
    let told = &detached.stderr_tail;
    assert_eq!(detached.status.code(), Some(2), "{told}");
    assert!(
        told.contains("which --script and -c do not reach"),
        "{told}"
    );
    let server = ["--server", &daemon.url];
    let named = desk.runs(&[&TASK[..], &server].concat()).await;
    let told = &named.stderr_tail;
    assert_eq!(named.status.code(), Some(2), "{told}");
    assert!(told.contains("--script has no effect"), "{told}");
    let named = [&["run"], &TASK[..], &server, &["-c", "model=x"]].concat();
    let named = desk.types(&named).await;
    assert!(named.stderr_tail.contains("-c has no effect"));
    assert_eq!(desk.jobs().await.len(), 1);
}

#[tokio::test]
async fn rows_are_sampled_repeated_tasks_run_once_and_models_come_from_the_table() {
    let desk = Desk::new();
    desk.write("in.csv", "name,m\na,one\nb,\na,one\na,two\n");
    let arguments = ["--dedupe", "--model-col", "m", "--json", "--name", "all"];
    let ran = desk.runs(&[&TASK[..], &arguments].concat()).await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    let counts = lines(&ran).pop().unwrap()["counts"].clone();
    assert_eq!(
        (&counts["succeeded"], &counts["skipped"]),
        (&3.into(), &1.into())
    );
    let text = desk.read("out.csv");
    let skipped = text
        .lines()
        .find(|line| line.contains(",skipped,"))
        .unwrap();
    assert!(
        skipped.contains("duplicate: row 1 has the same task"),
        "{text}"
    );
    assert!(skipped.contains("ok"), "it has the result of row 1: {text}");
    let rows: Vec<_> = (0..50).map(|row| format!("n{row}")).collect();
    desk.write("many.csv", format!("name\n{}\n", rows.join("\n")));
    let sample = async |key: &str| -> Vec<Value> {
        let shown = desk
            .types(&[
                "run",
                "many.csv",
                "--instruction",
                "do {name}",
                "--sample",
                "3",
                "--sample-key",
                key,
                "--dry-run",
                "--json",
            ])
            .await;
        assert_eq!(shown.status.code(), Some(0), "{}", shown.stderr_tail);
        let report = lines(&shown).remove(0);
        assert_eq!(report["total"], 3);
        report["prompts"].as_array().unwrap().clone()
    };
    assert_eq!(sample("x").await, sample("x").await);
    assert_ne!(sample("x").await, sample("y").await);
    let wrong = desk
        .runs(&["in.csv", "--instruction", "i", "--model-col", "X"])
        .await;
    let told = &wrong.stderr_tail;
    assert_eq!(wrong.status.code(), Some(2), "{told}");
    assert!(told.contains("model_column X was not found"), "{told}");
}

#[tokio::test]
async fn a_job_is_not_continued_where_its_engine_is_missing() {
    let desk = Desk::new();
    let mut process = hanging(&desk).await;
    process.terminate().unwrap();
    process.wait(DEADLINE).await.unwrap();
    let before = desk.jobs().await.remove(0);
    let resumed = desk.types(&["resume", "in"]).await;
    let told = &resumed.stderr_tail;
    assert_eq!(resumed.status.code(), Some(2), "{told}");
    assert!(told.contains("there is no engine `scripted`"), "{told}");
    let after = desk.jobs().await.remove(0);
    assert_eq!(after["usage"]["attempts"], before["usage"]["attempts"]);
    assert_eq!(after["state"], "paused");
}

#[tokio::test]
async fn a_silent_engine_is_stopped_and_its_item_fails_with_the_cause() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nstall-me\n");
    let limits = ["--idle-timeout", "1s", "--retries", "0"];
    let ran = desk.runs(&[&TASK[..], &limits].concat()).await;
    assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr_tail);
    let text = desk.read("out.csv");
    let cause = "idle_timeout: no event from the engine and no running command for 1s";
    assert!(text.contains(cause), "{text}");
}
