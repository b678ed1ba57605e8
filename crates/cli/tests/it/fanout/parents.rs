//! The turn that waits for a fan-out job: its daemon, its interrupt, its end by `kill -9`, a quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use turnlane_testkit::mock_model::{ApiError, At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{Output, ProcessSpec, TestProcess};

use super::{CALL, World, ends_with, lines, parent_reply, report, worker_prompt};
use crate::run;

const ROWS: usize = 12;
const ENABLED: &str = "features.enable_fanout=true";

/// `turnlane exec` with the task.
fn exec(world: &World, flags: &[&str]) -> ProcessSpec {
    let spec = world.spec(&["exec", "--skip-git-repo-check"]);
    spec.args(flags.iter().copied()).args([world.task()])
}

/// The answer of the tool that the parent got.
fn told(world: &World) -> Value {
    let requests = world.mock.requests();
    let told = requests
        .iter()
        .find_map(|request| request.tool_output(CALL));
    serde_json::from_str(&told.unwrap()).unwrap()
}

/// A world of workers that wait at a gate.
async fn gated() -> (World, Gate) {
    let gate = Gate::new();
    let world = {
        let gate = gate.clone();
        World::new(move |request| match worker_prompt(request) {
            Some(_) => Reply::of([report(request)]).gated_by(At::Request, &gate),
            None => parent_reply(request),
        })
        .await
    };
    world.write_rows("in.csv", ROWS);
    (world, gate)
}

/// The job has to be left to a person, who resumes it: every row has one result then.
async fn is_resumed(world: &World, gate: &Gate) {
    let job = world.job().await;
    assert_eq!(job["state"], "paused", "{job}");
    assert_eq!(job["reason"], "orphaned", "{job}");
    assert_eq!(job["counts"]["succeeded"], 0, "{job}");
    assert_eq!(job["counts"]["failed"], 0, "{job}");
    gate.release();
    let id = job["id"].as_str().unwrap();
    let resumed: Output = world.fanout(&["resume", id]).await;
    ends_with(&resumed, 0);
    assert_eq!(world.read("out.csv").matches(",completed,").count(), ROWS);
}

#[tokio::test]
async fn the_tools_are_offered_only_where_they_are_enabled() {
    let world = World::new(|_| Reply::text("no tool")).await;
    ends_with(&run(exec(&world, &[])).await, 0);
    ends_with(&run(exec(&world, &["-c", ENABLED])).await, 0);
    let offers = |request: usize| {
        let requests = world.mock.requests();
        let names = requests[request].tool_names();
        assert!(!names.contains(&"report_agent_job_result"), "{names:?}");
        names.contains(&"spawn_agents_on_csv")
    };
    assert!(!offers(0));
    assert!(offers(1));
}

#[tokio::test]
async fn a_turn_of_the_daemon_fans_out_and_lists_no_item_thread() {
    let world = World::new(|request| match worker_prompt(request) {
        Some(_) => Reply::of([report(request)]),
        None => parent_reply(request),
    })
    .await;
    world.write_rows("in.csv", ROWS);
    world.configure("[features]\nenable_fanout = true");
    let mut serve = world.serve().await;
    let ran = run(exec(&world, &["--json"])).await;
    ends_with(&ran, 0);
    assert_eq!(world.read("out.csv").matches(",completed,").count(), ROWS);
    let items = lines(&ran)
        .into_iter()
        .filter(|line| line["type"] == "item.completed");
    assert_eq!(items.count(), 1, "{ran:?}");
    let threads = run(world.spec(&["thread", "list", "--json"])).await;
    ends_with(&threads, 0);
    assert_eq!(lines(&threads).len(), 1, "{threads:?}");
    serve.terminate().unwrap();
    serve.wait(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_interrupted_parent_leaves_a_job_that_can_be_resumed() {
    let (world, gate) = gated().await;
    let mut parent = TestProcess::start(exec(&world, &["-c", ENABLED])).unwrap();
    drop(parent.take_stdin());
    within("the workers", DEADLINE, gate.reached_by(ROWS))
        .await
        .unwrap();
    parent.terminate().unwrap();
    let status = parent.wait(DEADLINE).await.unwrap();
    assert!(!status.success(), "{status} {}", parent.stderr_tail());
    is_resumed(&world, &gate).await;
}

#[tokio::test]
async fn a_killed_parent_leaves_a_job_that_can_be_resumed() {
    let (world, gate) = gated().await;
    let mut parent = TestProcess::start(exec(&world, &["-c", ENABLED])).unwrap();
    drop(parent.take_stdin());
    within("the workers", DEADLINE, gate.reached_by(ROWS))
        .await
        .unwrap();
    parent.kill9().await.unwrap();
    is_resumed(&world, &gate).await;
}

#[tokio::test]
async fn a_quota_tells_the_model_of_a_pause_and_the_turn_ends() {
    let is_refilled = Arc::new(AtomicBool::new(false));
    let world = {
        let is_refilled = Arc::clone(&is_refilled);
        World::new(move |request| match worker_prompt(request) {
            None => parent_reply(request),
            Some(_) if is_refilled.load(Ordering::SeqCst) => Reply::of([report(request)]),
            Some(_) => Reply::http_error(ApiError::insufficient_quota()),
        })
        .await
    };
    world.write_rows("in.csv", ROWS);
    let ran = run(exec(&world, &["-c", ENABLED])).await;
    ends_with(&ran, 0);
    let told = told(&world);
    assert_eq!(told["status"], "paused", "{told}");
    assert_eq!(told["pending_items"], ROWS, "{told}");
    let error = told["job_error"].as_str().unwrap();
    let id = told["job_id"].as_str().unwrap();
    assert!(
        error.contains(&format!("turnlane fanout resume {id}")),
        "{told}"
    );
    is_refilled.store(true, Ordering::SeqCst);
    ends_with(&world.fanout(&["resume", id]).await, 0);
    assert_eq!(world.read("out.csv").matches(",completed,").count(), ROWS);
}
