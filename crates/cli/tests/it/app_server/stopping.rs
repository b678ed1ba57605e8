//! How a server ends by signals, and who gets a socket that somebody else has or had.

use std::os::unix::net::{UnixListener, UnixStream};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use turnlane_testkit::TestProcess;
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::ends::{is_alive, pid_in};
use super::{Served, begin, ok, run_what_is_said, thread, turn};

fn signal(process: &TestProcess, signal: Signal) {
    let pid = Pid::from_raw(process.pid()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A second signal ends a turn that would run for long: what it started is gone, the socket is
/// removed, and the exit is a success.
async fn hurried(first: Signal, second: Signal) {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.sockets().await;
    let mut client = server.unix().await;
    let more = json!({"sandbox": "danger-full-access"});
    let id = thread(&mut client, &served.work(), more).await;
    let (own, daemon) = (served.work().join("own"), served.work().join("daemon"));
    let command = format!(
        "trap '' INT TERM; setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & echo $$ > \"{}\"; wait",
        daemon.display(),
        own.display()
    );
    begin(&mut client, &id, &command).await;
    let pids = [pid_in(&own).await, pid_in(&daemon).await];
    signal(&server.process, first);
    // Two of a kind that nobody took yet are one, so wait until nobody is let in any more.
    let shut = async || UnixStream::connect(&server.path).is_err();
    eventually("the door to be shut", DEADLINE, shut)
        .await
        .unwrap();
    assert!(pids.into_iter().all(is_alive), "the first one hurried");
    signal(&server.process, second);
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
    assert!(!pids.into_iter().any(is_alive), "{pids:?}");
    assert!(!server.path.exists(), "the socket is left");

    let mut server = served.stdio().await;
    let params = json!({"threadId": id, "includeTurns": true});
    let read = ok(&mut server.client, "thread/read", params).await;
    let turn = &read["thread"]["turns"][0];
    assert_eq!(turn["status"], "interrupted", "{turn}");
    assert_eq!(turn["error"]["message"], "server stopped", "{turn}");
    for item in turn["items"].as_array().unwrap() {
        assert_ne!(item["status"], "inProgress", "{item}");
    }
}

#[tokio::test]
async fn control_c_twice_cleans_up() {
    hurried(Signal::INT, Signal::INT).await;
}

#[tokio::test]
async fn any_two_signals_are_two() {
    hurried(Signal::TERM, Signal::INT).await;
}

#[tokio::test]
async fn control_c_ends_an_idle_server_and_removes_its_socket() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut server = served.sockets().await;
    let mut client = server.websocket().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    turn(&mut client, &id, "hello").await;
    signal(&server.process, Signal::INT);
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
    assert!(!server.path.exists(), "the socket is left");
    client.ending().await.unwrap();
}

#[tokio::test]
async fn control_c_ends_a_server_on_standard_input_too() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut server = served.stdio().await;
    signal(&server.process, Signal::INT);
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
}

#[tokio::test]
async fn a_signal_right_after_the_address_was_told_is_heard() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let path = served.home.path().join("early");
    let unix = format!("unix://{}", path.display());
    let mut process = served.process(&["--listen", &unix]);
    let told = |line: &str| line.starts_with("listening on unix://");
    process.wait_for_stderr_line(told, DEADLINE).await.unwrap();
    process.terminate().unwrap();
    assert!(process.wait(DEADLINE).await.unwrap().success());
    assert!(!path.exists(), "the socket is left");
}

#[tokio::test]
async fn a_socket_that_is_served_is_refused_and_goes_on_being_served() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let first = served.sockets().await;
    let unix = format!("unix://{}", first.path.display());
    let spec = crate::turnlane(&["app-server", "--listen", &unix]).envs(served.home.env());
    let output = crate::run(spec).await;
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: {} is already served by a running process",
        first.path.display()
    );
    assert_eq!(output.stderr_tail.trim(), expected);
    let mut client = first.unix().await;
    thread(&mut client, &served.work(), json!({})).await;
}

#[tokio::test]
async fn a_socket_of_a_dead_server_is_replaced_and_another_file_is_not() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut killed = served.sockets().await;
    killed.process.kill9().await.unwrap();
    assert!(killed.path.exists());
    let again = served.sockets().await;
    assert_eq!(again.path, killed.path);
    thread(&mut again.unix().await, &served.work(), json!({})).await;

    let foreign = served.home.path().join("foreign");
    drop(UnixListener::bind(&foreign).unwrap());
    let unix = format!("unix://{}", foreign.display());
    let process = served.process(&["--listen", &unix]);
    let told = |line: &str| line.starts_with("listening on unix://");
    process.wait_for_stderr_line(told, DEADLINE).await.unwrap();

    let file = served.home.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let unix = format!("unix://{}", file.display());
    let spec = crate::turnlane(&["app-server", "--listen", &unix]).envs(served.home.env());
    let output = crate::run(spec).await;
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("error: {} exists and is not a socket", file.display());
    assert_eq!(output.stderr_tail.trim(), expected);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

#[tokio::test]
async fn without_a_path_the_socket_is_in_our_folder() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut process = served.process(&["--listen", "unix://"]);
    let told = |line: &str| line.starts_with("listening on unix://");
    let line = process.wait_for_stderr_line(told, DEADLINE).await.unwrap();
    let path = served.home.turnlane().join("run/app-server.sock");
    assert!(line.ends_with(path.to_str().unwrap()), "{line}");
    process.terminate().unwrap();
    assert!(process.wait(DEADLINE).await.unwrap().success());
    assert!(!path.exists());
}

#[tokio::test]
async fn without_a_transport_it_waits_for_a_signal_and_reads_nothing() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut process = served.process(&["--listen", "off"]);
    // The end of its input is nothing to it.
    drop(process.take_stdin());
    let database = served.home.turnlane().join("turnlane.db");
    let made = async || database.exists();
    eventually("a database", DEADLINE, made).await.unwrap();
    assert!(process.try_wait().unwrap().is_none());
    process.terminate().unwrap();
    assert!(process.wait(DEADLINE).await.unwrap().success());
}
