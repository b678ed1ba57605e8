//! The reference run: a model in `turnlane exec` fans out over 100 rows with one tool call.

use std::time::Duration;

use serde_json::Value;
use turnlane_testkit::mock_model::{At, Gate, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{Output, ProcessSpec, TestProcess};

use super::{CALL, World, ends_with, lines, parent_reply, report, worker_prompt};
use crate::exec::kills::is_full;
use crate::run;

const ROWS: usize = 100;

/// Repetitions of the reference run: the contract's number when `TURNLANE_TEST_FULL` is set.
fn repetitions() -> usize {
    if is_full() { 20 } else { 2 }
}

/// The events that the reference model streams; all others are left out.
const EVENTS: [&str; 3] = [
    "response.created",
    "response.output_item.done",
    "response.completed",
];

fn sparse(reply: Reply) -> Reply {
    reply.edited(|events| {
        let is_kept = |event: &Value| EVENTS.iter().any(|kept| event["type"] == *kept);
        events.into_iter().filter(is_kept).collect()
    })
}

/// Workers report once; the parent calls the tool, then says nothing.
fn reply(request: &RecordedRequest) -> Reply {
    if worker_prompt(request).is_some() {
        return sparse(Reply::of([report(request)]));
    }
    sparse(parent_reply(request))
}

async fn reference(flags: &[&str]) -> (World, Output) {
    let world = World::new(reply).await;
    let ran = run(spec(&world, ROWS, flags)).await;
    ends_with(&ran, 0);
    (world, ran)
}

/// The command of the reference run.
fn spec(world: &World, rows: usize, flags: &[&str]) -> ProcessSpec {
    world.write_rows("in.csv", rows);
    let prompt = world.task();
    world
        .spec(&["exec"])
        .args(flags.iter().copied())
        .args(["-c", "features.enable_fanout=true"])
        .args(["-c", "agents.max_threads=64", "--skip-git-repo-check"])
        .args([&prompt])
}

fn is_whole(world: &World, rows: usize) {
    let text = world.read("out.csv");
    assert_eq!(text.lines().count(), rows + 1, "{text}");
    let completed = text.lines().filter(|line| line.contains(",completed,"));
    assert_eq!(completed.count(), rows, "{text}");
    // One request per row, and two of the parent.
    assert_eq!(world.mock.requests().len(), rows + 2);
}

#[tokio::test]
async fn the_reference_run_ends_well_every_time() {
    for flags in [&[][..], &["--json"]] {
        for _ in 0..repetitions() {
            let (world, _ran) = reference(flags).await;
            is_whole(&world, ROWS);
        }
    }
}

#[tokio::test]
async fn the_reference_run_ends_well_with_a_slow_model() {
    const LATENCY: Duration = Duration::from_millis(500);
    for _ in 0..repetitions() {
        let world = World::new(|request| reply(request).pause(At::Request, LATENCY)).await;
        ends_with(&run(spec(&world, ROWS, &[])).await, 0);
        is_whole(&world, ROWS);
    }
}

#[tokio::test]
async fn the_reference_run_ends_well_with_many_rows() {
    let rows = if is_full() { 1_000 } else { 300 };
    for _ in 0..repetitions().div_ceil(4) {
        let world = World::new(reply).await;
        ends_with(&run(spec(&world, rows, &[])).await, 0);
        is_whole(&world, rows);
    }
}

#[tokio::test]
async fn the_reference_run_ends_well_in_a_daemon() {
    let world = World::new(reply).await;
    world.configure("[features]\nenable_fanout = true\n[agents]\nmax_threads = 64");
    let mut serve = world.serve().await;
    world.write_rows("in.csv", ROWS);
    for nth in 1..=repetitions() {
        let spec = world.spec(&["exec", "--skip-git-repo-check"]);
        ends_with(&run(spec.args([world.task()])).await, 0);
        let text = world.read("out.csv");
        assert_eq!(text.matches(",completed,").count(), ROWS, "{text}");
        assert_eq!(text.lines().count(), ROWS + 1, "{text}");
        assert_eq!(world.mock.requests().len(), nth * (ROWS + 2));
        std::fs::remove_file(world.path("out.csv")).unwrap();
    }
    serve.terminate().unwrap();
    serve.wait(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_agent_fans_out_over_a_table_and_exec_ends_with_0() {
    let (world, _ran) = reference(&[]).await;
    is_whole(&world, ROWS);
    let requests = world.mock.requests();
    let last = requests.last().unwrap();
    let told = last.tool_output(CALL).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(told["completed_items"], ROWS, "{told}");
    // An item's agent may report and may not fan out itself.
    for request in &requests {
        let names = request.tool_names();
        let is_worker = worker_prompt(request).is_some();
        assert_eq!(names.contains(&"report_agent_job_result"), is_worker);
        assert_eq!(names.contains(&"spawn_agents_on_csv"), !is_worker);
    }
}

#[tokio::test]
async fn the_lines_of_exec_show_one_tool_call_and_nothing_of_the_items() {
    let (world, ran) = reference(&["--json"]).await;
    is_whole(&world, ROWS);
    let lines = lines(&ran);
    let types: Vec<_> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    let expected = [
        "thread.started",
        "turn.started",
        "item.started",
        "item.completed",
        "turn.completed",
    ];
    assert_eq!(types, expected, "{lines:?}");
    for line in &lines[2..4] {
        assert_eq!(line["item"]["type"], "mcp_tool_call", "{line}");
        assert_eq!(line["item"]["server"], "turnlane", "{line}");
        assert_eq!(line["item"]["tool"], "spawn_agents_on_csv", "{line}");
    }
    assert_eq!(lines[3]["item"]["status"], "completed", "{}", lines[3]);
}

#[tokio::test]
async fn as_many_workers_as_asked_for_wait_for_the_model_at_once() {
    let gate = Gate::new();
    let world = {
        let gate = gate.clone();
        World::new(move |request| match worker_prompt(request) {
            Some(_) => reply(request).gated_by(At::Request, &gate),
            None => reply(request),
        })
        .await
    };
    let mut process = TestProcess::start(spec(&world, ROWS, &[])).unwrap();
    drop(process.take_stdin());
    within("64 workers", DEADLINE, gate.reached_by(64))
        .await
        .unwrap();
    assert_eq!(gate.arrivals(), 64);
    gate.release();
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.stderr_tail());
    is_whole(&world, ROWS);
}
