//! Models by row, results of repeated tasks, and jobs that are found by a name.

use serde_json::Value;
use turnlane_runtime::fanout::input::InputSpec;
use turnlane_runtime::fanout::jobs::{DeleteWork, JobError, JobSpec};
use turnlane_store::fanout::{ItemState, JobState};

use super::support::{Floor, REPORTS};
use crate::support::{Home, settings};

impl Floor {
    /// Makes a job of this table.
    async fn of_table(&self, table: &str, change: impl FnOnce(&mut JobSpec)) -> String {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("in.csv");
        std::fs::write(&path, table).unwrap();
        let mut spec = JobSpec::new("do {n}", "scripted", settings());
        change(&mut spec);
        let job = self.jobs.create(spec).await.unwrap().row.made.id;
        let imported = self.jobs.import_path(&job, &path, InputSpec::default());
        imported.await.unwrap();
        job
    }
}

#[tokio::test]
async fn a_row_has_the_model_and_effort_of_its_cells_and_a_blank_cell_those_of_the_job() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor
        .of_table("n,m,e\na,big,high\nb,,low\nc, ,\n", |spec| {
            spec.options.model_column = Some("m".to_owned());
            spec.options.effort_column = Some("e".to_owned());
            spec.settings.effort = Some("medium".to_owned());
        })
        .await;
    floor.jobs.start(&job).await.unwrap();
    floor.rests(&job, JobState::Succeeded).await;
    let usual = settings().model;
    for (item, model, effort) in [
        ("row-1", "big", "high"),
        ("row-2", usual.as_str(), "low"),
        ("row-3", usual.as_str(), "medium"),
    ] {
        let thread = floor.item(&job, item).await.item.thread.unwrap();
        let thread = floor.store().thread(thread).await.unwrap().unwrap();
        let stored: Value = serde_json::from_str(thread.settings.as_str()).unwrap();
        assert_eq!(
            (&stored["model"], &stored["effort"]),
            (&model.into(), &effort.into())
        );
    }
    floor.stop().await;
}

#[tokio::test]
async fn a_repeated_task_has_the_result_of_the_first_one_and_is_asked_once() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor
        .of_table("n,id\na,1\na,2\nb,3\n", |spec| {
            spec.options.dedupe = true;
        })
        .await;
    floor.jobs.start(&job).await.unwrap();
    floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(floor.asked().len(), 2);
    let (first, second) = (
        floor.item(&job, "row-1").await,
        floor.item(&job, "row-2").await,
    );
    assert_eq!(second.item.state, ItemState::Skipped);
    assert_eq!(second.item.dup_of, Some(0));
    assert!(first.result.is_some());
    assert_eq!(first.result, second.result);
    floor.stop().await;
}

#[tokio::test]
async fn a_name_that_several_jobs_have_is_ambiguous_and_failed_imports_give_way() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let named = |spec: &mut JobSpec| spec.name = Some("in".to_owned());
    let first = floor.job(1, named).await;
    let mut spec = JobSpec::new("do {n}", "scripted", settings());
    named(&mut spec);
    let failed = floor.jobs.create(spec).await.unwrap().row.made.id;
    let files = tempfile::tempdir().unwrap();
    let missing = files.path().join("none.csv");
    let refused = floor
        .jobs
        .import_path(&failed, &missing, InputSpec::default());
    assert_eq!(refused.await.unwrap_err().reason(), Some("badInput"));
    assert_eq!(floor.jobs.read("in").await.unwrap().row.made.id, first);
    let second = floor.job(1, named).await;
    let error = floor.jobs.read("in").await.unwrap_err();
    assert_eq!(error.reason(), Some("ambiguousJob"));
    let JobError::Ambiguous { jobs, .. } = error else {
        panic!("{error}");
    };
    let ids: Vec<_> = jobs.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&first.as_str()) && ids.contains(&second.as_str()));
    assert_eq!(
        floor.jobs.read(&first[24..]).await.unwrap().row.made.id,
        first
    );
    floor.jobs.delete(&first, DeleteWork::Refuse).await.unwrap();
    floor
        .jobs
        .delete(&second, DeleteWork::Refuse)
        .await
        .unwrap();
    // The failed one alone still has its name.
    assert_eq!(floor.jobs.read("in").await.unwrap().row.made.id, failed);
    floor.stop().await;
}

#[tokio::test]
async fn a_silent_engine_is_stopped_and_its_item_is_tried_again() {
    let home = Home::new();
    let script = super::support::reporting(
        "  - match: \"Attempt 1 ended: idle_timeout\"\n    steps: [REPORT]\n  - match: \"do a\"\n    steps: [{await: {gate: never}}]",
    );
    let report = super::support::report_step(r#"{"ok":true}"#);
    let floor = Floor::start(&home, &script.replace("REPORT", &report)).await;
    let job = floor
        .of_table("n\na\nb\n", |spec| {
            spec.limits.idle_timeout_ms = 50;
            // A loaded machine may keep an engine silent for longer than that.
            spec.limits.retries = 1_000;
        })
        .await;
    floor.jobs.start(&job).await.unwrap();
    floor.rests_in_time(&home, &job, JobState::Succeeded).await;
    let item = floor.item(&job, "row-1").await;
    assert!(item.item.attempt >= 2);
    let error = item.attempts[0].error.clone().unwrap();
    assert_eq!(error.kind, "idle_timeout");
    floor.stop().await;
}
