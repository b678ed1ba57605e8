//! Another process locks the files of the database: the daemon says who, and goes on afterwards.

use std::io::Write as _;

use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::{Daemon, add, drained, get, turns};
use crate::app_server::{Served, ok, refused, thread};

/// Set in the child: the file to lock.
const FILE: &str = "TURNLANE_TEST_LOCKED_FILE";
/// Written by the child when it holds its lock.
const HELD: &str = "the lock is held";

#[test]
fn the_child_holds_a_read_lock_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    // For reading, as a confined command could open it.
    let file = std::fs::File::open(path).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared).unwrap();
    writeln!(std::io::stderr(), "{HELD}").unwrap();
    loop {
        std::thread::park();
    }
}

#[tokio::test]
async fn the_holder_of_a_lock_is_named_and_nothing_acknowledged_is_lost() {
    let gate = Gate::new();
    let at = gate.clone();
    let served = Served::new(move |request| match request.last_user_text().as_str() {
        "under way" => Reply::text("ok").gated_by(At::Request, &at),
        text => Reply::text(text),
    })
    .await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &id, "before", json!({})).await;
    drained(&mut client, &id).await;
    // Acknowledged and running when the lock comes, at its end while the lock is held.
    add(&mut client, &id, "under way", json!({})).await;
    let asked = async || {
        let requests = served.mock.requests();
        let waits = |request: &RecordedRequest| request.last_user_text() == "under way";
        requests.iter().any(|request| waits(request))
    };
    eventually("the model is asked", DEADLINE, asked)
        .await
        .unwrap();

    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["serve::locked::the_child_holds_a_read_lock_until_it_is_killed"])
        .args(["--exact", "--nocapture"])
        .env(FILE, served.home.turnlane().join("turnlane.db-shm"));
    let mut child = TestProcess::start(child).unwrap();
    let held = child.wait_for_stderr_line(|line| line.contains(HELD), DEADLINE);
    held.await.unwrap();
    gate.release();

    let turn = json!({"threadId": id, "input": [{"type": "text", "text": "locked out"}]});
    let params = json!({"threadId": id, "turnStartParams": turn, "idempotencyKey": "locked out"});
    let error = refused(&mut client, "thread/queue/add", params).await;
    assert_eq!(error["data"]["reason"], "databaseLocked", "{error}");
    assert_eq!(error["data"]["pid"], child.pid(), "{error}");
    let named = format!("process {} (", child.pid());
    assert!(
        error["message"].as_str().unwrap().starts_with(&named),
        "{error}"
    );
    let logged = daemon
        .process
        .wait_for_stderr_line(|line| line.contains(&named), DEADLINE);
    logged.await.unwrap();
    let locked = "not ready: another process holds a lock on the database".to_owned();
    assert_eq!(get(&daemon.url, "/readyz", "").await, (503, locked));
    let read = ok(&mut client, "thread/read", json!({"threadId": id})).await;
    assert_eq!(read["thread"]["id"], id.as_str(), "reads go on");

    child.kill9().await.unwrap();
    eventually("the daemon is ready again", DEADLINE, async || {
        get(&daemon.url, "/readyz", "").await.0 == 200
    })
    .await
    .unwrap();
    add(&mut client, &id, "after", json!({})).await;
    drained(&mut client, &id).await;
    let expected =
        ["before", "under way", "after"].map(|text| (text.to_owned(), "completed".to_owned()));
    assert_eq!(turns(&mut client, &id).await, expected);
}
