//! Every named point of fan-out at which a worker may die, one at a time.
//!
//! The child is this test binary, run again with one test: it makes a job and runs it until it is
//! killed at the point. The next worker must bring the job to its end, without asking for a result that
//! was on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnlane_runtime::fanout::jobs::{JobSpec, JobsQuery};
use turnlane_runtime::{ManualClock, Options, Runtime};
use turnlane_store::Store;
use turnlane_store::fanout::{FanoutStore as _, ItemState, JobQuery, JobState};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::support::{Floor, REPORTS, fill};
use crate::support::{Home, NOW_MS, open, scripted, settings};

/// Set in the child only: the database it serves.
const DATABASE: &str = "TURNLANE_FANOUT_CRASH_DATABASE";
const ROWS: i64 = 6;

const POINTS: [&str; 20] = [
    "fanout:change:before-commit",
    "fanout:change:after-commit",
    "fanout:claim:before-submit",
    "fanout:claim:before-commit",
    "fanout:claim:after-commit",
    "fanout:claim:before-run",
    "engine:before-run",
    "fanout:report:before-commit",
    "fanout:report:after-commit",
    "fanout:report:before-answer",
    "turn:ended",
    "complete:after-commit",
    "fanout:settle:before-submit",
    "fanout:settle:before-commit",
    "fanout:settle:after-commit",
    "fanout:export:before-write",
    "fanout:export:before-rename",
    "fanout:export:after-rename",
    "fanout:export:after-write",
    "fanout:end:before-submit",
];

/// The file of the job, beside the database.
fn results_of(database: &Path) -> PathBuf {
    database.with_file_name("results.csv")
}

/// The file is whole, and nothing else is left beside it.
fn is_exported(home: &Home, point: &str) {
    let output = results_of(&home.database());
    let text = std::fs::read_to_string(&output).unwrap();
    let completed = i64::try_from(text.matches(",completed,").count()).unwrap();
    assert_eq!(completed, ROWS, "{point}: {text}");
    let beside = std::fs::read_dir(output.parent().unwrap()).unwrap();
    let names = beside.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name.contains("export")).collect();
    assert_eq!(left, Vec::<String>::new(), "{point}");
}

/// Does nothing unless it is the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_runs_a_job() {
    let Some(database) = std::env::var_os(DATABASE) else {
        return;
    };
    let clock = ManualClock::at(NOW_MS);
    let store: Arc<dyn Store> = open(Path::new(&database), &clock);
    let engine = Arc::new(scripted(REPORTS, &clock));
    let options = Options::default();
    let runtime = Runtime::start(store, vec![engine], Arc::new(clock), options);
    let runtime = runtime.await.unwrap();
    let jobs = runtime.jobs();
    let mut spec = JobSpec::new("Handle {n}", "scripted", settings());
    spec.limits.concurrency = 2;
    spec.export_path = Some(results_of(Path::new(&database)).display().to_string());
    let job = jobs.create(spec).await.unwrap();
    fill(runtime.handle().store().as_ref(), &job.row, ROWS).await;
    let id = job.row.made.id;
    jobs.start(&id).await.unwrap();
    let ended = async || jobs.read(&id).await.unwrap().row.state.is_terminal();
    eventually("the end of the job", DEADLINE, ended)
        .await
        .unwrap();
    runtime.stop(std::time::Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn after_every_crash_point_the_next_worker_brings_the_job_to_its_end() {
    for point in POINTS {
        let home = Home::new();
        let child = ProcessSpec::new(std::env::current_exe().unwrap())
            .args(["--exact", "fanout::crashes::the_child_runs_a_job"])
            .env(DATABASE, home.database())
            .env("TURNLANE_CRASH_AT", point);
        let output = TestProcess::run(child, DEADLINE).await.unwrap();
        assert!(!output.status.success(), "{point} was never reached");
        let store = home.store();
        let query = JobQuery {
            after: None,
            states: Vec::new(),
            parent: None,
            limit: 1,
        };
        let left = store.jobs(query).await.unwrap().jobs.remove(0);
        drop(store);
        let floor = Floor::start(&home, REPORTS).await;
        let query = JobsQuery {
            limit: 1,
            ..JobsQuery::default()
        };
        let job = floor.jobs.list(query).await.unwrap().jobs.remove(0).row;
        if job.state == JobState::Ready {
            floor.jobs.start(&job.made.id).await.unwrap();
        }
        let ended = floor.rests(&job.made.id, JobState::Succeeded).await;
        assert_eq!(ended.row.counts.succeeded, ROWS, "{point}");
        let usage = ended.row.counts.usage.total_tokens;
        assert!(
            usage >= left.counts.usage.total_tokens,
            "{point}: usage fell"
        );
        let asked = i64::try_from(floor.asked().len()).unwrap();
        assert_eq!(asked, ROWS - left.counts.succeeded, "{point}: {left:?}");
        for item in floor.items(&job.made.id).await {
            assert_eq!(item.state, ItemState::Succeeded, "{point}");
        }
        floor.assert_counts(&job.made.id).await;
        assert_eq!(ended.row.export_error, None, "{point}");
        is_exported(&home, point);
        floor.stop().await;
    }
}
