//! Two workers on one store run one job.

use std::time::Duration;

use turnlane_runtime::fanout::jobs::{Owner, PauseJob};
use turnlane_runtime::{FanoutOptions, Options};
use turnlane_store::fanout::{AttemptOutcome, JobState};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, REPORTS};
use crate::support::Home;

const WAITS: &str = "{version: 1, fallback: [{say: first}, {await: {gate: never}}]}";

/// A worker that runs two items at most.
fn small() -> Options {
    Options {
        fanout: FanoutOptions {
            max_running: 2,
            ..FanoutOptions::default()
        },
        ..Options::default()
    }
}

/// Two workers that run two items each of a job of four.
async fn both_at_work(home: &Home) -> (Floor, Floor, String) {
    let first = Floor::start_with(home, WAITS, small()).await;
    let second = Floor::start_with(home, WAITS, small()).await;
    let job = first.run(4, |spec| spec.limits.concurrency = 4).await;
    second.jobs.resume(&job, Owner::Detached).await.unwrap();
    first.asks(2).await;
    second.asks(2).await;
    (first, second, job)
}

#[tokio::test]
async fn a_pause_now_interrupts_the_items_of_every_worker() {
    let home = Home::new();
    let (first, second, job) = both_at_work(&home).await;
    let now = PauseJob::Now {
        grace: Some(Duration::ZERO),
    };
    first.jobs.pause(&job, now).await.unwrap();
    for floor in [&first, &second] {
        let paused = floor.rests(&job, JobState::Paused).await;
        assert_eq!(paused.row.pending(), 4);
    }
    for item in ["row-1", "row-2", "row-3", "row-4"] {
        let item = first.item(&job, item).await;
        let outcome = item.attempts[0].outcome;
        assert_eq!(outcome, Some(AttemptOutcome::Interrupted));
        assert_eq!((item.item.retries_used, item.item.losses), (0, 0));
    }
    first.assert_counts(&job).await;
    first.stop().await;
    second.stop().await;
    let floor = Floor::start(&home, REPORTS).await;
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 4);
    floor.stop().await;
}

#[tokio::test]
async fn a_cancellation_by_one_worker_stops_the_items_of_the_other() {
    let home = Home::new();
    let (first, second, job) = both_at_work(&home).await;
    second.jobs.cancel(&job).await.unwrap();
    let cancelled = async || {
        let row = first.jobs.read(&job).await.unwrap().row;
        row.state == JobState::Cancelled && row.counts.cancelled == 4
    };
    eventually("the end of the job", DEADLINE, cancelled)
        .await
        .unwrap();
    first.stop().await;
    second.stop().await;
}
