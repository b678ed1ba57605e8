//! What a daemon says over HTTP: whether it is ready, and its numbers.

use rusqlite::Connection;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, Reply};
use turnlane_testkit::small_disk::Wanted;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{SmallDisk, TempHome, TestProcess};

use super::{Daemon, add, drained, get, spec};
use crate::app_server::{Served, greet, ok, refused, thread, turn};

#[expect(clippy::disallowed_methods, reason = "the other program is not ours")]
pub(crate) fn database_of(home: &TempHome) -> Connection {
    Connection::open(home.turnlane().join("turnlane.db")).unwrap()
}

#[tokio::test]
async fn until_what_a_crash_left_is_decided_it_is_alive_and_not_ready() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    daemon.process.kill9().await.unwrap();
    // Whoever recovers has to write, and somebody else does.
    let database = database_of(&served.home);
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let process = TestProcess::start(spec(&served.home, &[])).unwrap();
    // Its address is told when the database is open; the record of the daemon has it before.
    let record = served.home.turnlane().join("run/serve.json");
    let mut url = None;
    let found = async || {
        let record = std::fs::read(&record).unwrap_or_default();
        let record: Value = serde_json::from_slice(&record).unwrap_or_default();
        let listen = record["listen"].as_array();
        let urls = listen.into_iter().flatten().filter_map(Value::as_str);
        let mut urls = urls.filter(|url| url.starts_with("ws://"));
        url = urls.next().map(str::to_owned);
        record["pid"] == process.pid() && url.is_some()
    };
    eventually("an address", DEADLINE, found).await.unwrap();
    let url = url.unwrap();
    let bearer = format!("Authorization: Bearer {}\r\n", daemon.token);
    assert_eq!(get(&url, "/healthz", "").await.0, 200);
    assert_eq!(
        get(&url, "/readyz", "").await,
        (503, "not ready: recovering from a crash".to_owned())
    );
    assert_eq!(get(&url, "/metrics", "").await.0, 401);
    assert_eq!(
        get(&url, "/metrics", &bearer).await,
        (503, "starting".to_owned())
    );
    // One who connects now is served when it is.
    let early = turnlane_rpc::connect::Options::default();
    let early = turnlane_rpc::connect::connect_unix(&daemon.socket, &early);
    let mut early = turnlane_testkit::TestClient::new(early.await.unwrap());
    database.execute_batch("ROLLBACK").unwrap();
    let daemon = Daemon::of(&served.home, process).await;
    assert_eq!(get(&url, "/readyz", "").await, (200, "ok".to_owned()));
    greet(&mut early).await;
    assert_eq!(daemon.metric("turnlane_connections").await, 1);
}

#[tokio::test]
async fn its_numbers_are_those_of_what_happened() {
    let served = Served::new(|request| match request.last_user_text().as_str() {
        "bad" => Reply::http_error(ApiError::bad_request("x", "no")),
        text => Reply::text(text),
    })
    .await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.websocket().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    let other = thread(&mut client, &served.work(), json!({})).await;
    for text in ["one", "two"] {
        assert_eq!(turn(&mut client, &id, text).await["status"], "completed");
    }
    assert_eq!(turn(&mut client, &id, "bad").await["status"], "failed");
    ok(
        &mut client,
        "thread/queue/pause",
        json!({"threadId": other}),
    )
    .await;
    for text in ["three", "four"] {
        add(&mut client, &other, text, json!({})).await;
    }
    for (name, value) in [
        ("turnlane_connections", 1),
        ("turnlane_connections_total", 1),
        ("turnlane_lanes_loaded", 2),
        ("turnlane_lanes{state=\"paused\"}", 1),
        ("turnlane_lanes{state=\"idle\"}", 1),
        ("turnlane_lanes{state=\"running\"}", 0),
        ("turnlane_queue_depth", 2),
        ("turnlane_turns_ended_total", 3),
        ("turnlane_turns_failed_total", 1),
        ("turnlane_turns_running", 0),
        ("turnlane_engine_errors_total{kind=\"bad_request\"}", 1),
        ("turnlane_turn_seconds_count", 3),
        ("turnlane_turn_seconds_bucket{le=\"+Inf\"}", 3),
        ("turnlane_store_writable", 1),
        ("turnlane_requests_unanswered", 0),
    ] {
        assert_eq!(daemon.metric(name).await, value, "{name}");
    }
    assert!(daemon.metric("turnlane_requests_total").await >= 8);
    // Each of three turns was begun and ended, two threads were made and two turns added.
    assert!(daemon.metric("turnlane_fsync_seconds_count").await >= 10);
    let all = daemon.metrics().await;
    let sum = all
        .iter()
        .find(|(name, _)| name == "turnlane_fsync_seconds_sum");
    let seconds: f64 = sum.unwrap().1.parse().unwrap();
    assert!(seconds > 0.0, "{seconds}");
    let buckets: Vec<u64> = all
        .iter()
        .filter(|(name, _)| name.starts_with("turnlane_fsync_seconds_bucket"))
        .map(|(_, value)| value.parse().unwrap())
        .collect();
    assert!(buckets.is_sorted() && buckets.len() > 5, "{buckets:?}");

    // Looking changes nothing, and nothing is synced where nothing happens.
    let syncs = daemon.metric("turnlane_fsync_seconds_count").await;
    ok(
        &mut client,
        "thread/queue/resume",
        json!({"threadId": other}),
    )
    .await;
    drained(&mut client, &other).await;
    assert_eq!(daemon.metric("turnlane_queue_depth").await, 0);
    assert_eq!(daemon.metric("turnlane_turns_ended_total").await, 5);
    let synced = daemon.metric("turnlane_fsync_seconds_count").await - syncs;
    assert!((3..=12).contains(&synced), "{synced}");
}

#[tokio::test]
async fn on_a_full_disk_it_is_not_ready_until_there_is_room_again() {
    let wanted = Wanted {
        module: module_path!(),
        test: "on_a_full_disk_it_is_not_ready_until_there_is_room_again",
        mebibytes: 160,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    assert_eq!(get(&daemon.url, "/readyz", "").await.0, 200);
    disk.fill().unwrap();
    let mut error = Value::Null;
    for n in 0..500 {
        let input = json!([{"type": "text", "text": format!("{n} {}", "x".repeat(4_000))}]);
        let turn = json!({"threadId": id, "input": input});
        let params = json!({"threadId": id, "turnStartParams": turn});
        let answer = client.call("thread/queue/add", params).await.unwrap();
        if answer.get("error").is_some() {
            error = answer["error"].clone();
            break;
        }
    }
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    assert_eq!(
        get(&daemon.url, "/readyz", "").await,
        (
            503,
            "not ready: the disk is full; 8 MiB must be free".to_owned()
        )
    );
    assert_eq!(get(&daemon.url, "/healthz", "").await.0, 200);
    assert_eq!(daemon.metric("turnlane_store_writable").await, 0);
    let error = refused(&mut client, "thread/start", json!({})).await;
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    ok(&mut client, "thread/list", json!({})).await;

    // One that starts on a full disk says so, and serves what it can.
    daemon.process.kill9().await.unwrap();
    let daemon = Daemon::start(&served.home, &[]).await;
    let told = |line: &str| line.starts_with("the disk is full: ");
    let told = daemon.process.wait_for_stderr_line(told, DEADLINE);
    told.await.unwrap();
    assert_eq!(get(&daemon.url, "/readyz", "").await.0, 503);
    let mut client = daemon.unix().await;
    ok(&mut client, "thread/list", json!({})).await;
    disk.free().unwrap();
    let ready = async || get(&daemon.url, "/readyz", "").await.0 == 200;
    eventually("room", DEADLINE, ready).await.unwrap();
    thread(&mut client, &served.work(), json!({})).await;
    drained(&mut client, &id).await;
}

#[tokio::test]
async fn tokens_are_counted_by_model() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    let mut counted = Vec::new();
    for model in ["mock-model", "other/model-2"] {
        let input = json!([{"type": "text", "text": model}]);
        let turn = json!({"threadId": id, "input": input, "model": model});
        let params = json!({"threadId": id, "turnStartParams": turn});
        ok(&mut client, "thread/queue/add", params).await;
        drained(&mut client, &id).await;
        let name = format!("turnlane_model_tokens_total{{model=\"{model}\",kind=\"output\"}}");
        counted.push(daemon.metric(&name).await);
    }
    assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
}
