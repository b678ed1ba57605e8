//! What a dead or stopped worker left: settled by the next one, with no result lost or asked for twice.

use std::sync::Arc;
use std::time::Duration;

use turnlane_runtime::fanout::jobs::spec::OnCrash;
use turnlane_runtime::fanout::jobs::{JobSpec, Owner};
use turnlane_runtime::store::fanout::{
    AttemptOutcome, FanoutStore as _, ItemState, JobKey, JobState,
};
use turnlane_runtime::{Notice, Options, Subscriber};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, REPORTS, reporting};
use crate::support::Home;

/// Runs something in a worker that then ends as a killed process does: its tasks and its store are
/// dropped where they stand.
fn killed<T: Send>(home: &Home, script: &str, until: impl AsyncFnOnce(&Floor) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let (result, floor) = runtime.block_on(async {
                let floor = Floor::start(home, script).await;
                (until(&floor).await, floor)
            });
            runtime.shutdown_background();
            drop(floor);
            result
        });
        worker.join().unwrap()
    })
}

fn slow(spec: &mut JobSpec) {
    spec.limits.concurrency = 64;
}

/// Says something and then waits for ever.
const HANGS: &str = "{version: 1, fallback: [{say: first}, {await: {gate: never}}]}";

async fn said_something(floor: &Floor, job: &str, item: &str) {
    let thread = floor.thread_of(job, item).await;
    let said = async || {
        let items = floor.world.items(thread).await;
        items.iter().any(|item| item.kind == "agentMessage")
    };
    eventually("the item to say something", DEADLINE, said)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_detached_job_goes_on_in_the_next_serving_worker() {
    let home = Home::new();
    let job = killed(&home, HANGS, async |floor| {
        let job = floor.run(5, slow).await;
        floor.asks(5).await;
        said_something(floor, &job, "row-1").await;
        job
    });
    let floor = Floor::start(&home, REPORTS).await;
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 5);
    let item = floor.item(&job, "row-1").await;
    assert_eq!(item.item.losses, 1);
    assert_eq!(item.attempts[0].outcome, Some(AttemptOutcome::Lost));
    assert_eq!(item.attempts[0].thread, item.attempts[1].thread);
    let asked = floor.asked();
    let continued = asked
        .iter()
        .filter(|text| text.contains("item row-1 of job"));
    assert_eq!(
        continued.count(),
        1,
        "the prompt says that the work was interrupted"
    );
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn a_lost_item_restarts_or_fails_where_the_job_says_so() {
    for (on_crash, state) in [
        (OnCrash::Restart, JobState::Succeeded),
        (OnCrash::Fail, JobState::FinishedWithFailures),
    ] {
        let home = Home::new();
        let job = killed(&home, HANGS, async |floor| {
            let job = floor.run(1, |spec| spec.options.on_crash = on_crash).await;
            said_something(floor, &job, "row-1").await;
            job
        });
        let floor = Floor::start(&home, REPORTS).await;
        floor.rests(&job, state).await;
        let item = floor.item(&job, "row-1").await;
        if on_crash == OnCrash::Restart {
            assert_ne!(item.attempts[0].thread, item.attempts[1].thread);
        } else {
            assert_eq!(item.item.error.unwrap().kind, "worker_lost");
        }
        floor.stop().await;
    }
}

#[tokio::test]
async fn a_result_that_was_accepted_is_never_asked_for_again() {
    let home = Home::new();
    let job = killed(&home, REPORTS, async |floor| {
        let job = floor.run(200, |spec| spec.limits.concurrency = 8).await;
        floor.asks(40).await;
        job
    });
    let before = home.store();
    let key = JobKey::Id(job.clone());
    let reported = before.job(key).await.unwrap().unwrap().counts.succeeded;
    drop(before);
    assert!(reported > 0);
    let floor = Floor::start(&home, REPORTS).await;
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 200);
    let asked_again = i64::try_from(floor.asked().len()).unwrap();
    // A report that was under way may have been committed behind the look.
    assert!(asked_again <= 200 - reported, "{asked_again} asked again");
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn a_worker_killed_again_and_again_leaves_one_result_per_item() {
    let home = Home::new();
    let rounds = 10;
    let mut job = String::new();
    for round in 1..=rounds {
        let known = job.clone();
        job = killed(&home, REPORTS, async |floor| {
            let id = if known.is_empty() {
                floor.run(100, |spec| spec.limits.concurrency = 8).await
            } else {
                known
            };
            // Each worker dies somewhere else in its life; some progress keeps items from losing three.
            let before = floor.jobs.read(&id).await.unwrap().row.counts.succeeded;
            let enough = async || {
                let row = floor.jobs.read(&id).await.unwrap().row;
                row.state.is_terminal() || row.counts.succeeded >= before + 5 + round
            };
            eventually("some turns", DEADLINE, enough).await.unwrap();
            id
        });
    }
    let floor = Floor::start(&home, REPORTS).await;
    floor.rests_in_time(&home, &job, JobState::Succeeded).await;
    let items = floor.items(&job).await;
    assert!(items.iter().all(|item| item.state == ItemState::Succeeded));
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn an_item_that_kills_its_worker_fails_alone_and_the_others_succeed() {
    let home = Home::new();
    let turns = "  - {match: 'Item ID: row-3', steps: [{say: first}, {await: {gate: never}}]}
  - {match: 'item row-3 of', steps: [{say: again}, {await: {gate: never}}]}";
    let script = reporting(turns);
    let mut job = String::new();
    for loss in 1..=3 {
        let known = job.clone();
        job = killed(&home, &script, async |floor| {
            let id = if known.is_empty() {
                floor.run(9, slow).await
            } else {
                known
            };
            let poisoned = async || {
                let item = floor.item(&id, "row-3").await.item;
                item.state == ItemState::Running && item.attempt == loss
            };
            eventually("the poisoned item to run", DEADLINE, poisoned)
                .await
                .unwrap();
            if loss == 3 {
                assert_eq!(floor.jobs.running_items(), 1, "it runs alone");
            }
            id
        });
    }
    let floor = Floor::start(&home, &script).await;
    let ended = floor.rests(&job, JobState::FinishedWithFailures).await;
    assert_eq!(
        (ended.row.counts.succeeded, ended.row.counts.failed),
        (8, 1)
    );
    let error = floor.item(&job, "row-3").await.item.error.unwrap();
    assert_eq!(error.kind, "worker_lost");
    floor.stop().await;
}

#[tokio::test]
async fn items_that_run_alone_follow_each_other_without_a_poll() {
    const ITEMS: u32 = 20;
    let home = Home::new();
    let mut job = String::new();
    for _ in 1..=2 {
        let known = job.clone();
        job = killed(&home, HANGS, async |floor| {
            let id = if known.is_empty() {
                floor.run(ITEMS.into(), slow).await
            } else {
                known
            };
            floor.asks(ITEMS as usize).await;
            id
        });
    }
    let floor = Floor::start(&home, REPORTS).await;
    let before = tokio::time::Instant::now();
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, i64::from(ITEMS));
    // The runner polls once a second.
    let polled = Duration::from_secs(1) * (ITEMS - 1);
    assert!(before.elapsed() < polled, "{:?}", before.elapsed());
    assert_eq!(floor.item(&job, "row-1").await.item.losses, 2);
    floor.stop().await;
}

#[tokio::test]
async fn a_job_that_belongs_to_a_process_is_orphaned_with_it() {
    let home = Home::new();
    let job = killed(&home, HANGS, async |floor| {
        let job = floor.run(2, |spec| spec.owner = Owner::Connection).await;
        floor.asks(2).await;
        job
    });
    let floor = Floor::start(&home, REPORTS).await;
    // The dropped store gives up its lock in a thread of its own, so that this worker may find the
    // other one alive at first.
    let is_orphaned = async || floor.jobs.read(&job).await.unwrap().row.state == JobState::Paused;
    let orphaned = eventually("the job to be orphaned", DEADLINE, is_orphaned).await;
    orphaned.unwrap();
    let shown = floor.jobs.read(&job).await.unwrap().row;
    assert_eq!(shown.reason.as_deref(), Some("orphaned"));
    assert_eq!(floor.asked().len(), 0, "a look starts nothing");
    floor.jobs.resume(&job, Owner::Connection).await.unwrap();
    floor.rests(&job, JobState::Succeeded).await;
    floor.stop().await;
}

#[tokio::test]
async fn an_orderly_stop_counts_no_loss() {
    let home = Home::new();
    let floor = Floor::start(&home, HANGS).await;
    let job = floor.run(4, slow).await;
    floor.asks(4).await;
    said_something(&floor, &job, "row-1").await;
    floor.stop().await;
    let floor = Floor::start(&home, REPORTS).await;
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 4);
    for item in floor.items(&job).await {
        assert_eq!((item.losses, item.retries_used), (0, 0));
    }
    floor.stop().await;
}

/// Panics in the task of the lane that tells it anything.
struct Panics;

impl Subscriber for Panics {
    fn tell(&self, _: &Arc<Notice>) {
        panic!("a subscriber of a test panics");
    }
}

#[tokio::test]
async fn a_lane_whose_task_panics_loses_its_item_and_the_job_goes_on() {
    let turns =
        "  - {match: 'Item ID: row-2', steps: [{say: first}, {await: {gate: go}}, {say: on}]}";
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor.run(3, slow).await;
    said_something(&floor, &job, "row-2").await;
    let thread = floor.thread_of(&job, "row-2").await;
    let joined = floor
        .handle()
        .subscribe(thread, Arc::new(Panics), None)
        .await;
    joined.unwrap();
    floor.world.gates.open("go");
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 3);
    let item = floor.item(&job, "row-2").await;
    assert_eq!(item.item.losses, 1);
    assert_eq!(item.attempts[0].outcome, Some(AttemptOutcome::Lost));
    floor.stop().await;
}

#[tokio::test]
async fn a_desk_runs_nothing() {
    let home = Home::new();
    let options = Options {
        max_running: 0,
        ..Options::default()
    };
    let floor = Floor::start_with(&home, REPORTS, options).await;
    let job = floor.run(2, |_| ()).await;
    tokio::time::timeout(Duration::from_millis(300), std::future::pending::<()>())
        .await
        .unwrap_err();
    assert_eq!(floor.asked().len(), 0);
    assert_eq!(
        floor.jobs.read(&job).await.unwrap().row.state,
        JobState::Running
    );
    floor.stop().await;
}
