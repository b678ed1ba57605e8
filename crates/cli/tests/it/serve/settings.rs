//! `[queue]`, `[lanes]` and `[server]` of config.toml: what becomes of turns that say nothing about it,
//! and how many clients are let in.

use std::io::Write as _;

use serde_json::json;
use turnlane_rpc::connect::{ConnectError, Options, connect_ws};
use turnlane_testkit::mock_model::{ApiError, At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Daemon, add, drained, turns};
use crate::app_server::{Served, ok, refused, thread};
use crate::queue::{list, pairs};

/// Adds sections to the configuration of a home.
fn configure(served: &Served, text: &str) {
    let path = served.home.turnlane().join("config.toml");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_queue_may_hold_after_an_error_and_has_the_configured_depth() {
    let served = Served::new(|request| match request.last_user_text().as_str() {
        "bad" => Reply::http_error(ApiError::bad_request("x", "no")),
        text => Reply::text(text),
    })
    .await;
    configure(&served, "\n[queue]\non_error = \"block\"\nmax_depth = 2\n");
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &id, "bad", json!({})).await;
    let held = async || list(&mut client, &id).await["data"][0]["status"]["type"] == "failed";
    eventually("a failed head", DEADLINE, held).await.unwrap();
    add(&mut client, &id, "behind", json!({})).await;
    let turn = json!({"threadId": id, "input": [{"type": "text", "text": "third"}]});
    let params = json!({"threadId": id, "turnStartParams": turn});
    let error = refused(&mut client, "thread/queue/add", params).await;
    assert_eq!(error["data"]["reason"], "queueFull", "{error}");
    let expected = pairs(&[("bad", "failed")]);
    assert_eq!(turns(&mut client, &id).await, expected);

    // What a turn says for itself goes before.
    let other = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &other, "bad", json!({"onError": "continue"})).await;
    drained(&mut client, &other).await;
}

#[tokio::test]
async fn after_a_crash_turns_may_run_again_by_themselves() {
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |_| Reply::text("ok").gated_by(At::Request, &held)).await;
    configure(&served, "\n[queue]\non_crash = \"retry\"\n");
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &id, "again", json!({})).await;
    gate.reached().await;
    daemon.process.kill9().await.unwrap();
    gate.release();
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    drained(&mut client, &id).await;
    let expected = pairs(&[("again", "interrupted"), ("again", "completed")]);
    assert_eq!(turns(&mut client, &id).await, expected);
}

#[tokio::test]
async fn a_limit_may_be_a_failure_like_any_other() {
    let served = Served::new(|request| match request.last_user_text().as_str() {
        "limit" => Reply::http_error(ApiError::usage_limit_reached(4_000_000_000)),
        text => Reply::text(text),
    })
    .await;
    let daemon = Daemon::start(&served.home, &["-c", "queue.on_limit=fail"]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    for text in ["limit", "next"] {
        add(&mut client, &id, text, json!({})).await;
    }
    drained(&mut client, &id).await;
    let expected = pairs(&[("limit", "failed"), ("next", "completed")]);
    assert_eq!(turns(&mut client, &id).await, expected);
    assert_eq!(
        daemon
            .metric("turnlane_engine_errors_total{kind=\"quota\"}")
            .await,
        1
    );

    let other = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &other, "limit", json!({"onLimit": "wait"})).await;
    let waits = async || daemon.metric("turnlane_lanes{state=\"waiting\"}").await == 1;
    eventually("a wait", DEADLINE, waits).await.unwrap();
}

#[tokio::test]
async fn what_cannot_start_may_be_left_behind() {
    let served = Served::new(|request| Reply::text(request.last_user_text())).await;
    configure(&served, "\n[queue]\non_cannot_start = \"continue\"\n");
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let gone = served.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let id = thread(&mut client, &gone, json!({})).await;
    ok(&mut client, "thread/queue/pause", json!({"threadId": id})).await;
    add(&mut client, &id, "lost", json!({})).await;
    let input = json!([{"type": "text", "text": "next"}]);
    let turn = json!({"threadId": id, "input": input, "cwd": served.work()});
    add(&mut client, &id, "next", json!({"turnStartParams": turn})).await;
    std::fs::remove_dir(&gone).unwrap();
    ok(&mut client, "thread/queue/resume", json!({"threadId": id})).await;
    drained(&mut client, &id).await;
    let expected = pairs(&[("lost", "failed"), ("next", "completed")]);
    assert_eq!(turns(&mut client, &id).await, expected);
}

#[tokio::test]
async fn as_many_turns_run_at_once_as_configured() {
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |_| Reply::text("ok").gated_by(At::Request, &held)).await;
    let daemon = Daemon::start(&served.home, &["-c", "lanes.max_running=2"]).await;
    let mut client = daemon.unix().await;
    let mut threads = Vec::new();
    for _ in 0..4 {
        let id = thread(&mut client, &served.work(), json!({})).await;
        add(&mut client, &id, "one", json!({})).await;
        threads.push(id);
    }
    gate.reached_by(2).await;
    assert_eq!(daemon.metric("turnlane_lanes{state=\"running\"}").await, 2);
    assert_eq!(daemon.metric("turnlane_lanes{state=\"queued\"}").await, 2);
    assert_eq!(gate.arrivals(), 2);
    gate.release();
    for id in &threads {
        drained(&mut client, id).await;
    }
}

#[tokio::test]
async fn a_client_above_the_configured_number_is_told_that_there_are_too_many() {
    let served = Served::new(|_| Reply::text("ok")).await;
    configure(&served, "\n[server]\nmax_connections = 2\n");
    let daemon = Daemon::start(&served.home, &[]).await;
    let _first = daemon.websocket().await;
    let second = daemon.websocket().await;
    let options = Options {
        token: Some(daemon.token.clone().into()),
        ..Options::default()
    };
    let refused = connect_ws(&daemon.url, &options).await.err();
    assert!(
        matches!(&refused, Some(ConnectError::HttpStatus { code: 503, body }) if body == "too many connections"),
        "{refused:?}"
    );
    // Each listener counts its own clients, so the owner of the home still gets in.
    daemon.unix().await;
    drop(second);
    let let_in = async || connect_ws(&daemon.url, &options).await.is_ok();
    eventually("a place that is free again", DEADLINE, let_in)
        .await
        .unwrap();
}
