//! Two processes on one store run one job.
//!
//! Each process runs at most [`PLACES`] items, the job at most [`CONCURRENCY`], which is more: while as
//! many requests as the job allows wait for their answers, both processes are at work. The answers are
//! given one at a time, so that a request beyond the limit is seen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{Output, TestProcess};

use super::{World, ends_with, line_of, report, worker_prompt};

const CONCURRENCY: usize = 4;
const PLACES: usize = 3;

/// The requests that wait for their answers, and how many waited at most.
#[derive(Default)]
struct Waiting {
    requests: VecDeque<(String, Gate)>,
    most: usize,
}

struct Floor {
    world: World,
    waiting: Arc<Mutex<Waiting>>,
}

impl Floor {
    async fn new(rows: usize) -> Self {
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let world = {
            let waiting = Arc::clone(&waiting);
            World::new(move |request| {
                let gate = Gate::new();
                let item = line_of(&worker_prompt(request).unwrap(), "Item ID: ");
                let mut waiting = waiting.lock().unwrap();
                waiting.requests.push_back((item, gate.clone()));
                waiting.most = waiting.most.max(waiting.requests.len());
                Reply::of([report(request)]).gated_by(At::Request, &gate)
            })
            .await
        };
        world.write_rows("in.csv", rows);
        world.configure(&format!("[fanout]\nmax_running = {PLACES}"));
        Self { world, waiting }
    }

    fn start(&self) -> TestProcess {
        let concurrency = CONCURRENCY.to_string();
        self.world.start(&["-j", &concurrency])
    }

    /// Another process that goes on with the job.
    fn join(&self) -> TestProcess {
        TestProcess::start(self.world.spec(&["fanout", "resume", "in"])).unwrap()
    }

    fn count(&self) -> usize {
        self.waiting.lock().unwrap().requests.len()
    }

    /// Waits until so many requests wait for their answers.
    async fn wait_for(&self, count: usize) {
        let what = format!("{count} requests");
        let arrived = async || self.count() >= count;
        let arrived = eventually(&what, DEADLINE, arrived).await;
        let most = self.waiting.lock().unwrap().most;
        arrived.unwrap_or_else(|error| panic!("{error}: {} wait", self.count()));
        assert!(most <= CONCURRENCY, "{most} items ran at once");
    }

    /// Answers the oldest request. It no longer counts once its answer can be sent.
    fn answer(&self) {
        let oldest = self.waiting.lock().unwrap().requests.pop_front();
        oldest.unwrap().1.release();
    }

    /// Forgets requests whose process was killed.
    fn forget(&self, item: &str) {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.requests.retain(|(waits, _)| waits != item);
    }

    async fn running(&self) -> Vec<String> {
        let items = self.world.items().await;
        let running = items.iter().filter(|item| item["state"] == "running");
        running
            .map(|item| item["itemId"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn is_done(&self, rows: usize) -> bool {
        self.world.job().await["counts"]["succeeded"] == rows
    }
}

async fn ends_well(mut process: TestProcess) {
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.stderr_tail());
}

#[tokio::test]
async fn two_processes_share_a_job_within_its_limit() {
    const ROWS: usize = 24;
    let floor = Floor::new(ROWS).await;
    let first = floor.start();
    floor.wait_for(PLACES).await;
    let second = floor.join();
    for left in (0..ROWS).rev() {
        // Four wait only while both processes have some.
        floor.wait_for(CONCURRENCY.min(left + 1)).await;
        floor.answer();
    }
    ends_well(first).await;
    ends_well(second).await;
    let counts = floor.world.requests_by_item();
    assert_eq!(counts.len(), ROWS);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let text = floor.world.read("out.csv");
    assert_eq!(text.matches(",completed,").count(), ROWS, "{text}");
}

#[tokio::test]
async fn the_items_of_a_killed_process_go_on_in_the_other_one() {
    const ROWS: usize = 12;
    let floor = Floor::new(ROWS).await;
    let mut first = floor.start();
    floor.wait_for(PLACES).await;
    let before = floor.running().await;
    let second = floor.join();
    floor.wait_for(CONCURRENCY).await;
    first.kill9().await.unwrap();
    for item in &before {
        floor.forget(item);
    }
    // The lost items are asked for again, and nothing else is asked for twice.
    for left in (0..ROWS).rev() {
        floor.wait_for(PLACES.min(left + 1)).await;
        floor.answer();
    }
    ends_well(second).await;
    for (item, count) in floor.world.requests_by_item() {
        let expected = 1 + usize::from(before.contains(&item));
        assert_eq!(count, expected, "{item}");
    }
    assert!(floor.is_done(ROWS).await);
    let text = floor.world.read("out.csv");
    assert_eq!(text.matches(",completed,").count(), ROWS, "{text}");
}

/// SQLite has no lease: a process that stands still keeps its items, since its lock proves that it lives.
#[tokio::test]
async fn a_process_that_stands_still_keeps_its_items_and_reports_them_once() {
    const ROWS: usize = 12;
    let floor = Floor::new(ROWS).await;
    let mut first = floor.start();
    floor.wait_for(PLACES).await;
    let kept = floor.running().await;
    first.stop().unwrap();
    let second = floor.join();
    // The second process has one place, as long as the first one has its three items.
    floor.wait_for(CONCURRENCY).await;
    let answers: Vec<Gate> = {
        let mut waiting = floor.waiting.lock().unwrap();
        let kept = waiting.requests.drain(..PLACES);
        kept.map(|(_, gate)| gate).collect()
    };
    for _ in 0..ROWS - PLACES {
        floor.wait_for(1).await;
        floor.answer();
    }
    let rest = async || floor.is_done(ROWS - PLACES).await;
    eventually("the items of the second process", DEADLINE, rest)
        .await
        .unwrap();
    assert_eq!(floor.running().await, kept);
    first.cont().unwrap();
    for answer in answers {
        answer.release();
    }
    ends_well(first).await;
    ends_well(second).await;
    let counts = floor.world.requests_by_item();
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let shown: Output = floor.world.fanout(&["show", "in", "--json"]).await;
    ends_with(&shown, 0);
    let job = floor.world.job().await;
    assert_eq!(job["usage"]["attempts"], ROWS, "{job}");
    assert!(floor.is_done(ROWS).await, "{job}");
}
