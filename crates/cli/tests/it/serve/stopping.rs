//! How a daemon ends: no new turns, running ones for a while, a second signal at once.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{Random, TempHome};

use super::restarts::completed;
use super::{Daemon, add, is_full, turns};
use crate::app_server::{Served, ok, thread};
use crate::exec::kills::seed;

async fn gated() -> (Served, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |_| Reply::text("ok").gated_by(At::Request, &held)).await;
    (served, gate)
}

fn pair(text: &str, status: &str) -> (String, String) {
    (text.to_owned(), status.to_owned())
}

/// A daemon with one turn that runs and one behind it.
async fn busy(served: &Served, gate: &Gate, arguments: &[&str]) -> (Daemon, String) {
    let daemon = Daemon::start(&served.home, arguments).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    for text in ["running", "waiting"] {
        add(&mut client, &id, text, json!({"onCrash": "continue"})).await;
    }
    gate.reached().await;
    (daemon, id)
}

async fn stopping(daemon: &Daemon) {
    let told = |line: &str| line.starts_with("stopping; ");
    let told = daemon.process.wait_for_stderr_line(told, DEADLINE);
    told.await.unwrap();
}

#[tokio::test]
async fn a_running_turn_comes_to_its_end_and_no_other_begins() {
    let (served, gate) = gated().await;
    let (mut daemon, id) = busy(&served, &gate, &[]).await;
    daemon.signal(Signal::TERM);
    stopping(&daemon).await;
    assert!(daemon.process.try_wait().unwrap().is_none());
    gate.release();
    let status = daemon.process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
    let last = |line: &str| line == "stopped";
    let last = daemon.process.wait_for_stderr_line(last, DEADLINE);
    last.await.unwrap();
    let said = daemon.process.stderr_tail();
    assert!(
        said.contains("stopping; running turns may take 30 s more"),
        "{said}"
    );
    assert_eq!(served.mock.requests().len(), 1);

    let mut other = served.stdio().await;
    let first = [pair("running", "completed")];
    assert_eq!(turns(&mut other.client, &id).await, first);
    drop(other);
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    super::drained(&mut client, &id).await;
    let both = [pair("running", "completed"), pair("waiting", "completed")];
    assert_eq!(turns(&mut client, &id).await, both);
}

#[tokio::test]
async fn a_turn_that_takes_longer_than_the_grace_is_interrupted() {
    let (served, gate) = gated().await;
    let grace = ["-c", "server.shutdown_grace=100ms"];
    let (mut daemon, id) = busy(&served, &gate, &grace).await;
    daemon.signal(Signal::INT);
    let status = daemon.process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
    let mut other = served.stdio().await;
    let expected = [pair("running", "interrupted")];
    assert_eq!(turns(&mut other.client, &id).await, expected);
    // It waits for the next daemon, in front of the other.
    let queue = ok(
        &mut other.client,
        "thread/queue/list",
        json!({"threadId": id}),
    )
    .await;
    assert_eq!(queue["depth"], 2);
    assert!(queue["blocked"].is_null(), "{queue}");
}

#[tokio::test]
async fn a_second_signal_interrupts_at_once_and_leaves_the_row_to_its_crash_policy() {
    let (served, gate) = gated().await;
    let grace = ["-c", "server.shutdown_grace=1h"];
    let (mut daemon, id) = busy(&served, &gate, &grace).await;
    daemon.signal(Signal::TERM);
    stopping(&daemon).await;
    daemon.signal(Signal::TERM);
    let status = daemon.process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
    let mut other = served.stdio().await;
    let expected = [pair("running", "interrupted")];
    assert_eq!(turns(&mut other.client, &id).await, expected);
    let queue = ok(
        &mut other.client,
        "thread/queue/list",
        json!({"threadId": id}),
    )
    .await;
    assert_eq!(queue["depth"], 1, "onCrash says continue: {queue}");
}

#[tokio::test]
async fn while_it_stops_nobody_is_let_in_and_who_is_there_is_still_told() {
    let (served, gate) = gated().await;
    let (mut daemon, id) = busy(&served, &gate, &[]).await;
    let mut client = daemon.unix().await;
    let resume = json!({"threadId": id});
    ok(&mut client, "thread/resume", resume).await;
    daemon.signal(Signal::TERM);
    let shut = async || std::os::unix::net::UnixStream::connect(&daemon.socket).is_err();
    eventually("the door to be shut", DEADLINE, shut)
        .await
        .unwrap();
    // The pages are behind the same door.
    let address = daemon.url.strip_prefix("ws://").unwrap();
    let shut = async || tokio::net::TcpStream::connect(address).await.is_err();
    eventually("the other door to be shut", DEADLINE, shut)
        .await
        .unwrap();
    gate.release();
    let end = client.message("turn/completed").await.unwrap();
    assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
    assert!(daemon.process.wait(DEADLINE).await.unwrap().success());
}

#[tokio::test]
async fn its_successor_need_not_wait_for_its_last_turn() {
    let (served, gate) = gated().await;
    let (mut old, id) = busy(&served, &gate, &[]).await;
    old.signal(Signal::TERM);
    stopping(&old).await;
    let listens = ["--listen", old.url.as_str()];
    let free = async || tokio::net::TcpListener::bind(&old.url[5..]).await.is_ok();
    eventually("the port", DEADLINE, free).await.unwrap();
    let new = Daemon::start(&served.home, &listens).await;
    let mut client = new.unix().await;
    assert!(old.process.try_wait().unwrap().is_none());
    gate.release();
    assert!(old.process.wait(DEADLINE).await.unwrap().success());
    super::drained(&mut client, &id).await;
    let both = [pair("running", "completed"), pair("waiting", "completed")];
    assert_eq!(turns(&mut client, &id).await, both);
    // It took nothing with it that is the other's.
    let record = served.home.turnlane().join("run/serve.json");
    let record = std::fs::read_to_string(record).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["pid"], new.process.pid());
    new.unix().await;
}

/// How often a daemon is stopped while queues are drained.
fn stops() -> usize {
    if is_full() { 100 } else { 6 }
}

/// Stops daemons at random moments while a client of the SDK queues turns and waits for them; how
/// many turns there were, how many were cut off, and how the history has them.
async fn stopped_while_draining(grace: &str) -> (usize, usize, Vec<(String, String)>) {
    let home = TempHome::new().unwrap();
    let script = home.path().join("script.yaml");
    std::fs::write(&script, super::restarts::SCRIPT).unwrap();
    let arguments = ["--script", script.to_str().unwrap(), "-c", grace];
    let mut random = Random::new(seed());
    let mut daemon = Daemon::start(&home, &arguments).await;
    let client = super::restarts::connect(&daemon, 0).await;
    let mut threads = Vec::new();
    for _ in 0..4 {
        threads.push(client.threads().start(".").await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for stop in 0..stops() {
        for n in 0..8 {
            let thread = threads[n % threads.len()].clone();
            let text = format!("stop {stop} turn {n}");
            let turn = thread.turn(text.as_str()).idempotency_key(&text);
            let turn = turn.enqueue().await.unwrap();
            let client = client.clone();
            let end = async move { completed(&client, &thread, &turn, &text).await };
            waiting.spawn(end);
        }
        let behind = random.shorter(Duration::from_millis(400));
        let _ = within("a moment", behind, std::future::pending::<()>()).await;
        daemon.signal(Signal::TERM);
        let status = daemon.process.wait(DEADLINE).await.unwrap();
        assert_eq!(status.code(), Some(0));
        daemon = Daemon::start(&home, &arguments).await;
    }
    let ends = waiting.join_all();
    let ends = within("all ends", DEADLINE, ends).await.unwrap();
    let cut_off = ends.iter().map(|(_, cut_off)| cut_off).sum();
    let mut other = daemon.unix().await;
    let mut history = Vec::new();
    for thread in &threads {
        history.extend(turns(&mut other, thread.id().as_str()).await);
    }
    (ends.len(), cut_off, history)
}

#[tokio::test(flavor = "multi_thread")]
async fn at_whatever_moment_it_is_stopped_no_turn_is_ended_that_had_not_begun() {
    // What runs comes to its end, and what waits is not touched.
    let (ends, cut_off, history) = stopped_while_draining("server.shutdown_grace=30s").await;
    assert_eq!((ends, cut_off), (8 * stops(), 0));
    assert_eq!(history.len(), ends, "{history:?}");
    // What runs is cut off and continued after the restart: nothing needs a person, and no message
    // is there twice.
    let (ends, cut_off, history) = stopped_while_draining("server.shutdown_grace=0s").await;
    assert_eq!((ends, cut_off), (8 * stops(), 0));
    let completed = history.iter().filter(|(_, status)| status == "completed");
    assert_eq!(completed.count(), ends, "{history:?}");
    let messages: Vec<_> = history
        .iter()
        .filter(|(text, _)| !text.is_empty())
        .collect();
    let texts: BTreeSet<_> = messages.iter().map(|(text, _)| text).collect();
    assert_eq!((messages.len(), texts.len()), (ends, ends), "{history:?}");
}
