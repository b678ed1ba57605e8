//! Signals and closed pipes: nothing is left running, one last line, the right way to end.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{Item, Reply};
use turnlane_testkit::skipped;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Ran, Running, World, shell_or_ok};
use crate::app_server::ends::{is_alive, pid_in};

/// How long a stop may take in all.
const STOP_MAX: Duration = Duration::from_secs(5);
/// What a busy machine may add: a bound cannot be seen without one on the wait, and without this
/// one the test would be one of the machine. It is shorter than what a command here would take.
const MARGIN: Duration = Duration::from_secs(5);

/// The end of a run that was told to stop just now.
pub(super) async fn stopped(mut running: Running) -> Ran {
    running.process.wait(STOP_MAX + MARGIN).await.unwrap();
    running.end().await
}

/// A run whose command has a grandchild in a session of its own; both are running.
async fn with_a_grandchild(world: &World) -> (Running, [i32; 2]) {
    let (own, other) = (world.work().join("own"), world.work().join("other"));
    let command = format!(
        "$ setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & echo $$ > \"{}\"; sleep 1000",
        other.display(),
        own.display()
    );
    let arguments = ["--json", "-s", "danger-full-access", &command];
    let mut running = world.begin(&arguments).without_input();
    running.line("item.started").await;
    let pids = [pid_in(&own).await, pid_in(&other).await];
    (running, pids)
}

/// What has to hold after a run was stopped in the middle of a command.
async fn is_stopped(world: &World, ran: &Ran, pids: [i32; 2]) {
    assert!(!pids.into_iter().any(is_alive), "{pids:?}");
    let lines = ran.lines();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.completed",
            "turn.failed"
        ]
    );
    assert_eq!(lines[3]["item"]["status"], "failed");
    assert_eq!(lines[4]["error"]["kind"], "interrupted");
    is_resumable(world, &ran.thread()).await;
}

/// The turn is stored as interrupted with its item ended, and the next one sees the aborted call.
async fn is_resumable(world: &World, thread: &str) {
    let turns = world.turns(thread).await;
    assert_eq!(turns[0]["status"], "interrupted", "{}", turns[0]);
    for item in turns[0]["items"].as_array().unwrap() {
        assert_ne!(item["status"], "inProgress", "{item}");
    }
    let ran = world.run(&["--json", "resume", thread, "more"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let requests = world.mock.requests();
    let input = requests.last().unwrap().input();
    let answered = input
        .iter()
        .find(|item| item["type"] == "function_call_output");
    let answer = answered.map(Value::to_string).unwrap_or_default();
    assert!(answer.contains("aborted"), "{input:?}");
}

#[tokio::test]
async fn control_c_ends_everything_and_exits_1() {
    let world = World::new(shell_or_ok).await;
    let (running, pids) = with_a_grandchild(&world).await;
    running.signal(Signal::INT);
    let ran = stopped(running).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    is_stopped(&world, &ran, pids).await;
}

#[tokio::test]
async fn sigterm_and_sighup_end_everything_and_are_the_wait_status() {
    for (signal, code) in [(Signal::TERM, -15), (Signal::HUP, -1)] {
        if signal == Signal::HUP && hang_up_is_ignored() {
            skipped("SIGHUP to exec: whoever runs the tests ignores it, and children inherit that");
            continue;
        }
        let world = World::new(shell_or_ok).await;
        let (running, pids) = with_a_grandchild(&world).await;
        running.signal(signal);
        let ran = stopped(running).await;
        assert_eq!(ran.code, code, "{ran:?}");
        is_stopped(&world, &ran, pids).await;
    }
}

/// Whether these tests run under something like `nohup`.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 1 == 1
}

/// A run of a command that ignores what it is asked by, with a child that does so in a session of
/// its own; both are running.
async fn that_ignores_signals(world: &World) -> (Running, [i32; 2]) {
    let (own, other) = (world.work().join("own"), world.work().join("other"));
    let stays = "trap \"\" HUP INT TERM; echo $$ > \"FILE\"; while :; do sleep 1000; done";
    let stays = |file: &std::path::Path| stays.replace("FILE", &file.display().to_string());
    let command = format!("$ setsid sh -c '{}' & {}", stays(&other), stays(&own));
    let arguments = ["--json", "-s", "danger-full-access", &command];
    let mut running = world.begin(&arguments).without_input();
    running.line("item.started").await;
    let pids = [pid_in(&own).await, pid_in(&other).await];
    (running, pids)
}

#[tokio::test]
async fn a_command_that_ignores_every_signal_is_ended_within_the_bound() {
    for (signal, code) in [(Signal::INT, 1), (Signal::TERM, -15)] {
        let world = World::new(shell_or_ok).await;
        let (running, pids) = that_ignores_signals(&world).await;
        running.signal(signal);
        let ran = stopped(running).await;
        assert_eq!(ran.code, code, "{ran:?}");
        is_stopped(&world, &ran, pids).await;
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_does_not_hold_up_the_end() {
    let world = World::new(|request| {
        let text = request.last_user_text();
        // More than a pipe holds.
        let talk = Item::text("x".repeat(300_000));
        let arguments = json!({"cmd": text, "yield_time_ms": 30_000});
        Reply::of([
            talk,
            Item::function_call("exec_command", arguments).call_id("c1"),
        ])
    })
    .await;
    let own = world.work().join("own");
    let command = format!("echo $$ > \"{}\"; sleep 1000", own.display());
    let mut running = world
        .begin(&["--json", "-s", "danger-full-access", &command])
        .without_input();
    let unread = running.stdout.take();
    let pid = pid_in(&own).await;
    running.signal(Signal::TERM);
    let ran = stopped(running).await;
    drop(unread);
    assert_eq!(ran.code, -15, "{ran:?}");
    assert!(!is_alive(pid));
    let threads = world.threads().await;
    let turns = world.turns(threads[0]["id"].as_str().unwrap()).await;
    assert_eq!(turns[0]["status"], "interrupted");
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_a_command_that_ignores_the_first() {
    let world = World::new(shell_or_ok).await;
    let own = world.work().join("own");
    let command = format!(
        "$ trap '' INT TERM; echo $$ > \"{}\"; while :; do sleep 1; done",
        own.display()
    );
    let arguments = ["--json", "-s", "danger-full-access", &command];
    let mut running = world.begin(&arguments).without_input();
    running.line("item.started").await;
    let pid = pid_in(&own).await;
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let ran = stopped(running).await;
    assert_eq!(ran.last()["error"]["kind"], "interrupted");
    let gone = async || !is_alive(pid);
    eventually("its end", Duration::from_secs(5), gone)
        .await
        .unwrap();
    let turns = world.turns(&ran.thread()).await;
    assert_eq!(turns[0]["status"], "interrupted");
}

#[tokio::test]
async fn a_reader_that_has_gone_stops_the_turn_while_a_command_runs() {
    let world = World::new(shell_or_ok).await;
    let (mut running, pids) = with_a_grandchild(&world).await;
    drop(running.stdout.take());
    let ran = running.end().await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert_eq!(
        ran.last_of_stderr(),
        "stdout closed by reader; turn interrupted"
    );
    assert!(!pids.into_iter().any(is_alive), "{pids:?}");
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    is_resumable(&world, first["thread_id"].as_str().unwrap()).await;
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_stopped() {
    let world = World::new(shell_or_ok).await;
    let command = "$ sleep 1000";
    let ran = world.run(&["--json", "--timeout", "1", command]).await;
    assert_eq!(ran.code, 1);
    assert_eq!(ran.last()["error"]["kind"], "timeout", "{}", ran.stdout);
}

#[tokio::test]
async fn a_signal_before_the_turn_leaves_nothing() {
    let world = World::new(shell_or_ok).await;
    let running = world.begin(&["--json", "-"]);
    // It waits for its prompt, so nothing is caught yet.
    let started = async || running.process.pid() > 0;
    eventually("its start", DEADLINE, started).await.unwrap();
    running.signal(Signal::TERM);
    let ran = running.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (-15, ""));
    assert_eq!(json!(world.threads().await), json!([]));
}
