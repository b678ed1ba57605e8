//! The crash points of fan-out jobs: each operation is there whole or not at all.

use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::fanout::{FanoutStore, JobKey};
use crate::sqlite::tests::faults::fanout_act::fan_out;
use crate::sqlite::tests::faults::player::Player;
use crate::sqlite::tests::*;

/// Set in the child: the directory of the database.
const DIRECTORY: &str = "TURNLANE_FANOUT_CRASH_DIRECTORY";

/// Does nothing unless it is the child.
#[tokio::test]
async fn the_child_runs_a_fanout_job() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let store = open(Path::new(&directory), 1).await;
    fan_out(&mut Player::sure(&store)).await;
}

/// The job after a child died at a point: its state, rows and counts.
async fn after(point: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::crashes::fanout::the_child_runs_a_fanout_job"])
        .args(["--exact"])
        .env(DIRECTORY, directory.path())
        .env("TURNLANE_CRASH_AT", point);
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let killed = Some(Signal::KILL.as_raw());
    assert_eq!(output.status.signal(), killed, "{point} was not reached");
    let store = open(directory.path(), 2).await;
    let Some(job) = store.job(JobKey::Id("job".to_owned())).await.unwrap() else {
        return "none".to_owned();
    };
    let counts = &job.counts;
    format!(
        "{:?} {} rows: {} running, {} succeeded, {} failed, {} cancelled, {} attempts",
        job.state,
        job.total,
        counts.running,
        counts.succeeded,
        counts.failed,
        counts.cancelled,
        counts.attempts,
    )
}

#[tokio::test]
async fn an_operation_of_a_fanout_job_is_absent_before_and_there_after_its_commit() {
    let nothing = "0 running, 0 succeeded, 0 failed, 0 cancelled, 0 attempts";
    let claimed = "2 running, 0 succeeded, 0 failed, 0 cancelled, 2 attempts";
    let reported = "1 running, 1 succeeded, 0 failed, 0 cancelled, 2 attempts";
    let settled = "0 running, 1 succeeded, 0 failed, 0 cancelled, 2 attempts";
    let failed = "0 running, 1 succeeded, 2 failed, 0 cancelled, 4 attempts";
    let cancelled = "0 running, 1 succeeded, 2 failed, 1 cancelled, 4 attempts";
    let retried = "0 running, 1 succeeded, 0 failed, 1 cancelled, 4 attempts";
    let again = "0 running, 1 succeeded, 0 failed, 3 cancelled, 4 attempts";
    let with = |state: &str, rows: u32, counts: &str| format!("{state} {rows} rows: {counts}");
    let table = [
        (
            "create",
            1,
            "none".to_owned(),
            with("Importing", 0, nothing),
        ),
        (
            "import",
            1,
            with("Importing", 0, nothing),
            with("Importing", 2, nothing),
        ),
        (
            "import",
            2,
            with("Importing", 2, nothing),
            with("Importing", 4, nothing),
        ),
        (
            "seal",
            1,
            with("Importing", 4, nothing),
            with("Ready", 4, nothing),
        ),
        (
            "change",
            1,
            with("Ready", 4, nothing),
            with("Running", 4, nothing),
        ),
        (
            "claim",
            1,
            with("Running", 4, nothing),
            with("Running", 4, claimed),
        ),
        (
            "report",
            1,
            with("Running", 4, claimed),
            with("Running", 4, reported),
        ),
        (
            "settle",
            1,
            with("Running", 4, reported),
            with("Running", 4, settled),
        ),
        (
            "change",
            2,
            with("Running", 4, failed),
            with("Cancelled", 4, cancelled),
        ),
        (
            "retry",
            1,
            with("Cancelled", 4, cancelled),
            with("Running", 4, retried),
        ),
        ("delete", 1, with("Cancelled", 4, again), "none".to_owned()),
    ];
    for (verb, nth, before_commit, after_commit) in table {
        let before = format!("fanout:{verb}:before-commit:{nth}");
        assert_eq!(after(&before).await, before_commit, "{before}");
        let behind = format!("fanout:{verb}:after-commit:{nth}");
        assert_eq!(after(&behind).await, after_commit, "{behind}");
    }
}
