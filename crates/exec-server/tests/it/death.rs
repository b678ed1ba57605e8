//! Whoever dies, nothing is left behind.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use turnlane_exec_server::server::Options;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{Got, Host, HostProcess, SOON, Wire, all_gone, bytes_of, is_alive, pids_in};

/// A leader, a child in another session and a daemon; all say their pids.
const TREE: &str =
    "setsid sleep 1000 & echo $! $$; (setsid sh -c 'echo $$; exec sleep 1000' &); wait";
const TREE_MEMBERS: usize = 3;

/// Starts a tree and waits until every member has told its pid.
async fn tree(wire: &mut Wire, id: &str, more: Value) -> Vec<i64> {
    wire.sh(id, TREE, more).await;
    let mut said = Vec::new();
    while pids_in(&said).len() < TREE_MEMBERS || said.last() != Some(&b'\n') {
        said.extend(bytes_of(&wire.event().await["params"]["chunk"]));
    }
    pids_in(&said)
}

async fn trees(wire: &mut Wire, count: usize) -> Vec<i64> {
    let mut pids = Vec::new();
    for number in 0..count {
        pids.extend(tree(wire, &format!("pipe{number}"), json!({})).await);
        pids.extend(tree(wire, &format!("pty{number}"), json!({"tty": true})).await);
    }
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    pids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_no_tree_behind() {
    let mut host = HostProcess::start(&[]).await;
    let mut wire = host.v1().await;
    let pids = trees(&mut wire, 5).await;
    host.process.kill9().await.unwrap();
    all_gone("every member", SOON, &pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_end_ends_all_and_says_goodbye() {
    let mut host = HostProcess::start(&[]).await;
    let mut wire = host.v1().await;
    let pids = trees(&mut wire, 2).await;
    wire.sh(
        "last",
        "trap 'echo bye; exit 3' TERM; echo; while :; do sleep 0.01; done",
        json!({}),
    )
    .await;
    wire.event().await;
    host.process.terminate().unwrap();
    let (mut closed, mut goodbye) = (0, false);
    let code = loop {
        match wire.got().await {
            Got::Closed(code) => break code,
            Got::Text(text) => {
                let event: Value = serde_json::from_str(&text).unwrap();
                closed += usize::from(event["method"] == "process/closed");
                goodbye |= event["params"]["exitCode"] == 3;
            }
        }
    };
    assert_eq!((closed, goodbye, code), (5, true, Some(1001)));
    let status = host.process.wait(DEADLINE).await.unwrap();
    assert!(status.success(), "{status}");
    all_gone("every member", SOON, &pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_after_the_end_is_sent_away() {
    let host = Host::start();
    host.server.stop().await;
    let mut late = host.ws().await;
    assert_eq!(late.got().await, Got::Closed(Some(1001)));
    host.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_to_end_is_carried_out_by_force() {
    let mut host = HostProcess::start(&[]).await;
    let mut wire = host.v1().await;
    let stubborn = "trap '' TERM; echo $$; while :; do sleep 0.1; done";
    wire.sh("stubborn", stubborn, json!({})).await;
    let said = bytes_of(&wire.event().await["params"]["chunk"]);
    host.process.terminate().unwrap();
    // Two signals at once would be one.
    let addr = host.url.trim_start_matches("ws://").to_owned();
    let deaf = async || TcpStream::connect(&addr).await.is_err();
    eventually("the closed port", DEADLINE, deaf).await.unwrap();
    host.process.terminate().unwrap();
    while let Got::Text(_) = wire.got().await {}
    drop(wire);
    let hurried = host.process.wait(Duration::from_millis(1500)).await;
    let status = hurried.unwrap();
    assert!(status.success(), "{status}");
    all_gone("it", SOON, &pids_in(&said)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_client_of_v0_loses_its_children_at_once() {
    let host = Host::start();
    let mut wire = host.ws().await;
    wire.greet(json!({"clientName": "v0"})).await;
    let params = json!({"argv": ["sh", "-c", TREE], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}, "tty": false});
    wire.ok("command/exec", params).await;
    let mut said = Vec::new();
    while pids_in(&said).len() < TREE_MEMBERS {
        said.extend(bytes_of(&wire.event().await["params"]["chunk"]));
    }
    drop(wire);
    all_gone("every member", SOON, &pids_in(&said)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_client_of_process_v1_keeps_its_children_for_a_while() {
    let ttl = Duration::from_millis(700);
    let host = Host::start_with(Options {
        detached_session_ttl: ttl,
        ..Options::default()
    });
    let mut wire = host.v1().await;
    let mut pids = tree(&mut wire, "a", json!({})).await;
    let background = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
    wire.sh("bg", background, json!({})).await;
    pids.extend(pids_in(&wire.until_closed("bg", 0).await.0));
    drop(wire);
    let metrics = || host.server.metrics();
    let detached = r#"turnlane_exec_sessions{state="detached"} 1"#;
    eventually("the loss", DEADLINE, async || metrics().contains(detached))
        .await
        .unwrap();
    assert!(
        pids.iter().all(|&pid| is_alive(pid)),
        "they outlive the loss"
    );
    all_gone("every member", ttl + SOON, &pids).await;
    assert!(metrics().contains(r#"turnlane_exec_sessions{state="detached"} 0"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_want_its_children_ended_at_once() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let greeting = json!({"clientName": "x", "resumeSessionId": null, "detachedTtlMs": 0});
    wire.greet(greeting).await;
    let pids = tree(&mut wire, "a", json!({"tty": true})).await;
    drop(wire);
    all_gone("every member", SOON, &pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_standard_input_ends_everything() {
    let host = Host::start();
    let mut wire = host.stdio();
    wire.greet_v1().await;
    let pids = tree(&mut wire, "a", json!({})).await;
    drop(wire);
    all_gone("every member", SOON, &pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_does_not_wait_for_calls_that_wait_for_a_child() {
    let host = Host::start();
    let mut wire = host.v1().await;
    wire.sh(
        "deaf",
        "echo $$; exec sleep 1000",
        json!({"pipeStdin": true}),
    )
    .await;
    let pids = pids_in(&bytes_of(&wire.event().await["params"]["chunk"]));
    let chunk = crate::support::base64(&vec![0; 512 * 1024]);
    for number in 0..8 {
        let id = format!("w{number}");
        wire.push_call(
            "process/write",
            &json!({"processId": "deaf", "chunk": chunk, "writeId": id}),
        );
        wire.push_call("process/wait", &json!({"processId": "deaf"}));
        wire.push_call(
            "process/read",
            &json!({"processId": "deaf", "afterSeq": 1, "waitMs": 60_000}),
        );
    }
    wire.flush().await;
    within(
        "the end of the server",
        Duration::from_secs(8),
        host.server.stop(),
    )
    .await
    .unwrap();
    all_gone("the child", SOON, &pids).await;
}
