//! Pause, resume, cancel, stop, retry, delete.

use std::time::Duration;

use turnlane_runtime::fanout::input::InputSpec;
use turnlane_runtime::fanout::jobs::spec::KeepThreads;
use turnlane_runtime::fanout::jobs::{
    DeleteWork, JobError, JobEvent, JobSpec, Owner, PauseJob, RetryJob, Watch, Watched,
};
use turnlane_store::fanout::{AttemptOutcome, ItemState, JobRow, JobState};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::support::{Floor, REPORTS, call_step, reporting};
use crate::support::{Home, settings};

const WAITS: &str = "{version: 1, fallback: [{say: first}, {await: {gate: go}}]}";

/// The job whose end is told next.
async fn told_end(jobs: &mut Watch<JobEvent>) -> Box<JobRow> {
    loop {
        match jobs.recv().await {
            Some(Watched::Event(JobEvent::Ended(row))) => return row,
            Some(_) => {}
            None => panic!("the runtime is gone"),
        }
    }
}

fn state_of(refused: &JobError) -> JobState {
    match refused {
        JobError::WrongState(state) => *state,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_pause_lets_running_items_finish_and_a_resume_goes_on() {
    let home = Home::new();
    let turns = "  - {match: 'Slow', times: 2, steps: [{await: {gate: go}}, {end: failed}]}";
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor
        .run(10, |spec| {
            spec.instruction = "Slow {n}".to_owned();
            spec.limits.concurrency = 2;
        })
        .await;
    floor.asks(2).await;
    let drain = PauseJob::Drain;
    floor.jobs.pause(&job, drain).await.unwrap();
    let again = floor.jobs.pause(&job, drain).await.unwrap();
    assert_eq!(again.row.state, JobState::Paused);
    assert_eq!(again.row.counts.running, 2);
    floor.world.gates.open("go");
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("user"));
    assert_eq!(floor.asked().len(), 2, "nothing is claimed while paused");
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    floor.rests_in_time(&home, &job, JobState::Succeeded).await;
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn a_pause_now_puts_running_items_back_without_a_retry() {
    let home = Home::new();
    let floor = Floor::start(&home, WAITS).await;
    let job = floor.run(3, |spec| spec.limits.concurrency = 3).await;
    floor.asks(3).await;
    let now = PauseJob::Now {
        grace: Some(Duration::ZERO),
    };
    floor.jobs.pause(&job, now).await.unwrap();
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.pending(), 3);
    for item in floor.items(&job).await {
        assert_eq!((item.retries_used, item.losses), (0, 0));
        assert!(item.same_thread, "the model had answered");
    }
    let attempt = &floor.item(&job, "row-1").await.attempts[0];
    assert_eq!(attempt.outcome, Some(AttemptOutcome::Interrupted));
    floor.world.gates.open("go");
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    floor.asks(6).await;
    let asked = floor.asked();
    assert!(
        asked[3].contains("was interrupted before it had a result"),
        "{}",
        asked[3]
    );
    floor.jobs.cancel(&job).await.unwrap();
    floor.rests(&job, JobState::Cancelled).await;
    floor.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_stops_its_items_and_cancels_the_rest() {
    let home = Home::new();
    let floor = Floor::start(&home, WAITS).await;
    let job = floor.run(1_000, |spec| spec.limits.concurrency = 2).await;
    floor.asks(2).await;
    floor.jobs.cancel(&job).await.unwrap();
    let ended = floor.rests(&job, JobState::Cancelled).await;
    assert_eq!(ended.row.counts.cancelled, 1_000);
    floor.jobs.cancel(&job).await.unwrap();
    let refused = floor.jobs.pause(&job, PauseJob::Drain).await.unwrap_err();
    assert_eq!(state_of(&refused), JobState::Cancelled);
    let refused = floor.jobs.resume(&job, Owner::Detached).await.unwrap_err();
    assert_eq!(state_of(&refused), JobState::Cancelled);
    floor.stop().await;
}

#[tokio::test]
async fn a_job_that_is_not_started_is_neither_paused_nor_lost_when_it_is_cancelled() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor.job(3, |_| ()).await;
    let refused = floor.jobs.pause(&job, PauseJob::Drain).await.unwrap_err();
    assert_eq!(state_of(&refused), JobState::Ready);
    floor.jobs.cancel(&job).await.unwrap();
    let ended = floor.rests(&job, JobState::Cancelled).await;
    assert_eq!(ended.row.counts.cancelled, 3);
    assert_eq!(floor.asked().len(), 0);
    floor.stop().await;
}

#[tokio::test]
async fn a_report_with_stop_cancels_the_rows_that_have_not_started() {
    let ids = r#""job_id":"{line:Job ID: }","item_id":"{line:Item ID: }""#;
    let stop = call_step(&format!(r#"{{{ids},"result":{{"ok":1}},"stop":true}}"#));
    let home = Home::new();
    let floor = Floor::start(&home, &format!("version: 1\nfallback: [{stop}]")).await;
    let output = home.database().with_file_name("out.csv");
    let mut jobs = floor.jobs.watch();
    let job = floor
        .run(3, |spec| {
            spec.limits.concurrency = 1;
            spec.export_path = Some(output.to_string_lossy().into_owned());
        })
        .await;
    let ended = floor.rests(&job, JobState::Cancelled).await;
    assert_eq!(
        (ended.row.counts.succeeded, ended.row.counts.cancelled),
        (1, 2)
    );
    assert_eq!(floor.asked().len(), 1);
    within("the end of the job", DEADLINE, told_end(&mut jobs))
        .await
        .unwrap();
    let text = std::fs::read_to_string(&output).unwrap();
    let rows: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert!(rows[0].contains(",completed,"), "{text}");
    assert!(rows[1].contains(",cancelled,"), "{text}");
    assert!(rows[2].contains(",cancelled,"), "{text}");
    let error = floor.item(&job, "row-3").await.item.error.unwrap();
    assert_eq!(error.message, "cancelled by worker request");
    floor.stop().await;
}

#[tokio::test]
async fn failed_items_run_again_when_they_are_retried() {
    let turns = "  - {match: 'Bad', times: 2, steps: [{error: {kind: bad_request}}]}";
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor
        .run(2, |spec| spec.instruction = "Bad {n}".to_owned())
        .await;
    floor.rests(&job, JobState::FinishedWithFailures).await;
    let bad = RetryJob {
        instruction: Some("Now {nope}".to_owned()),
        ..RetryJob::default()
    };
    let refused = floor.jobs.retry(&job, bad).await.unwrap_err();
    assert_eq!(refused.reason(), Some("badTemplate"));
    let retry = RetryJob {
        states: vec![ItemState::Failed],
        item_ids: Vec::new(),
        instruction: Some("Now {n}".to_owned()),
    };
    let (_, retried) = floor.jobs.retry(&job, retry).await.unwrap();
    assert_eq!(retried, 2);
    floor.rests(&job, JobState::Succeeded).await;
    let asked = floor.asked();
    assert!(asked[2].contains("Instruction:\nNow "), "{}", asked[2]);
    assert_eq!(floor.item(&job, "row-1").await.attempts.len(), 2);
    floor.stop().await;
}

#[tokio::test]
async fn threads_of_items_are_deleted_with_their_job_unless_they_are_kept() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor
        .run(3, |spec| {
            spec.options.keep_threads = Some(KeepThreads::None);
        })
        .await;
    floor.rests(&job, JobState::Succeeded).await;
    let thread = floor.item(&job, "row-1").await.item.thread.unwrap();
    let gone = async || floor.store().thread(thread).await.unwrap().is_none();
    eventually("the thread to be deleted", DEADLINE, gone)
        .await
        .unwrap();
    floor.jobs.delete(&job, DeleteWork::Refuse).await.unwrap();
    let refused = floor.jobs.read(&job).await.unwrap_err();
    assert_eq!(refused.reason(), Some("jobNotFound"));
    floor.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_deletes_every_thread_that_its_jobs_do_not_keep() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor
        .run(150, |spec| {
            spec.options.keep_threads = Some(KeepThreads::None);
            spec.limits.concurrency = 100;
        })
        .await;
    floor.rests(&job, JobState::Succeeded).await;
    let items = floor.items(&job).await;
    assert_eq!(items.len(), 150);
    floor.stop().await;
    let store: std::sync::Arc<dyn turnlane_store::Store> = home.store();
    for item in items {
        let thread = store.thread(item.thread.unwrap()).await.unwrap();
        assert!(thread.is_none(), "{} has its thread", item.item_id);
    }
}

#[tokio::test]
async fn a_running_job_is_not_deleted() {
    let home = Home::new();
    let floor = Floor::start(&home, WAITS).await;
    let job = floor.run(1, |_| ()).await;
    floor.asks(1).await;
    let refused = floor
        .jobs
        .delete(&job, DeleteWork::Refuse)
        .await
        .unwrap_err();
    assert_eq!(refused.reason(), Some("wrongState"));
    floor.stop().await;
}

#[tokio::test]
async fn the_end_of_a_job_whose_input_cannot_be_read_is_told() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let spec = JobSpec::new("Handle {n}", "scripted", settings());
    let job = floor.jobs.create(spec).await.unwrap().row.made.id;
    let mut jobs = floor.jobs.watch();
    let missing = home.database().with_file_name("missing.csv");
    let spec = InputSpec::default();
    let refused = floor.jobs.import_path(&job, &missing, spec.clone()).await;
    assert_eq!(refused.unwrap_err().reason(), Some("badInput"));
    let told = within("the end of the job", DEADLINE, told_end(&mut jobs));
    let row = told.await.unwrap();
    assert_eq!(
        (row.made.id.as_str(), row.state),
        (job.as_str(), JobState::Failed)
    );
    // A second import finds a job that has ended, which is no further end.
    let again = floor.jobs.import_path(&job, &missing, spec).await;
    assert_eq!(again.unwrap_err().reason(), Some("wrongState"));
    floor.jobs.delete(&job, DeleteWork::Refuse).await.unwrap();
    let next = within("the next event", DEADLINE, jobs.recv()).await;
    assert!(
        matches!(next, Ok(Some(Watched::Event(JobEvent::Deleted { .. })))),
        "{next:?}"
    );
    floor.stop().await;
}

#[tokio::test]
async fn watchers_are_told_counts_and_the_end_of_a_job_and_the_ends_of_its_items() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let mut jobs = floor.jobs.watch();
    let mut items = floor.jobs.watch_items();
    let job = floor.run(20, |spec| spec.limits.concurrency = 2).await;
    floor.rests(&job, JobState::Succeeded).await;
    let told = within("the end of the job", DEADLINE, told_end(&mut jobs));
    assert_eq!(told.await.unwrap().counts.succeeded, 20);
    let mut succeeded = std::collections::BTreeSet::new();
    let told = async {
        while succeeded.len() < 20 {
            if let Some(Watched::Event(event)) = items.recv().await
                && event.item.state == ItemState::Succeeded
            {
                succeeded.insert(event.item.seq);
            }
        }
    };
    within("the ends of all items", DEADLINE, told)
        .await
        .unwrap();
    floor.stop().await;
}
