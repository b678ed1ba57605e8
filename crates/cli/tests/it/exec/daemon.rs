//! A run as a client of the daemon of its home.

use rustix::process::Signal;
use serde_json::json;
use turnlane_testkit::TestProcess;
use turnlane_testkit::mock_model::Gate;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::World;
use crate::app_server::held_by;

pub(super) async fn daemon(world: &World) -> TestProcess {
    let spec = crate::turnlane(&["app-server", "--listen", "unix://"])
        .envs(world.home.env())
        .current_dir(world.home.workspace());
    let process = TestProcess::start(spec).unwrap();
    let listening = |line: &str| line.starts_with("listening on unix://");
    process
        .wait_for_stderr_line(listening, DEADLINE)
        .await
        .unwrap();
    process
}

pub(super) async fn gated() -> (World, Gate) {
    let gate = Gate::new();
    (World::new(held_by(&gate)).await, gate)
}

#[tokio::test]
async fn turns_of_others_on_the_same_thread_never_end_a_run() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let thread = world.run(&["--json", "first"]).await.thread();
    let holding = world
        .begin(&["--json", "resume", &thread, "hold"])
        .without_input();
    gate.reached().await;
    let waiting = world
        .begin(&["--json", "resume", &thread, "second"])
        .without_input();
    let told = |line: &str| line == "waiting: 1 turns ahead";
    waiting
        .process
        .wait_for_stderr_line(told, DEADLINE)
        .await
        .unwrap();
    gate.release();
    let (first, second) = (holding.end().await, waiting.end().await);
    for (ran, text) in [(&first, "ok: hold"), (&second, "ok: second")] {
        ran.is_answered(text);
    }
}

#[tokio::test]
async fn a_run_that_is_killed_leaves_its_turn_to_the_daemon() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    let thread = running.line("thread.started").await["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    gate.reached().await;
    running.process.kill9().await.unwrap();
    gate.release();
    let ended = async || world.turns(&thread).await[0]["status"] == "completed";
    eventually("the end of the turn", DEADLINE, ended)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_signal_interrupts_the_turn_in_the_daemon() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    let thread = running.line("thread.started").await["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    gate.reached().await;
    running.signal(Signal::INT);
    let ran = running.end().await;
    assert_eq!(
        (ran.code, &ran.last()["error"]["kind"]),
        (1, &json!("interrupted"))
    );
    assert_eq!(world.turns(&thread).await[0]["status"], "interrupted");
}

#[tokio::test]
async fn a_daemon_that_was_killed_and_comes_back_tells_what_became_of_the_turn() {
    let (world, gate) = gated().await;
    let mut first = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    running.line("turn.started").await;
    gate.reached().await;
    first.kill9().await.unwrap();
    let told = |line: &str| line.starts_with("the daemon has ended; waiting for the next one");
    let told = running.process.wait_for_stderr_line(told, DEADLINE);
    told.await.unwrap();
    let _second = daemon(&world).await;
    let ran = running.end().await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.last()["type"], "turn.failed");
    assert_eq!(ran.last()["error"]["kind"], "interrupted", "{ran:?}");
}

#[tokio::test]
async fn a_socket_that_nobody_answers_is_no_daemon() {
    let (world, _gate) = gated().await;
    let socket = world.home.turnlane().join("run");
    std::fs::create_dir_all(&socket).unwrap();
    std::fs::write(socket.join("app-server.sock"), "").unwrap();
    let ran = world.run(&["--json", "hi"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
}
