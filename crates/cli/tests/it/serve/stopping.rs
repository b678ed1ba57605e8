//! How a daemon ends: no new turns, running ones for a while, a second signal at once.

use rustix::process::Signal;
use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Daemon, add, turns};
use crate::app_server::{Served, thread};

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
}

#[tokio::test]
async fn a_second_signal_interrupts_at_once() {
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
}

#[tokio::test]
async fn while_it_stops_nobody_is_let_in_and_who_is_there_is_still_told() {
    let (served, gate) = gated().await;
    let (mut daemon, id) = busy(&served, &gate, &[]).await;
    let mut client = daemon.unix().await;
    let resume = json!({"threadId": id});
    crate::app_server::ok(&mut client, "thread/resume", resume).await;
    daemon.signal(Signal::TERM);
    let shut = async || std::os::unix::net::UnixStream::connect(&daemon.socket).is_err();
    eventually("the door to be shut", DEADLINE, shut)
        .await
        .unwrap();
    gate.release();
    let end = client.message("turn/completed").await.unwrap();
    assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
    assert!(daemon.process.wait(DEADLINE).await.unwrap().success());
}
