//! Turns that are bound to who asked for them: they run in the worker of their connection, and are gone
//! with the connection or with the worker, whoever else could run them.
//!
//! `turnlane exec` behind a busy lane asks for such a turn. It is killed while it waits: as a client of
//! the daemon it takes its connection along, in a home without one it is the worker itself.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, Random, TestClient, TestProcess};

use super::{Daemon, add, drained, is_full, turns};
use crate::app_server::{Served, ok, thread};
use crate::exec::kills::seed;

/// How many runs are killed: the contract's number when `TURNLANE_TEST_FULL` is set.
fn kills() -> usize {
    if is_full() { 200 } else { 10 }
}

/// A run behind whatever the thread does.
fn exec(served: &Served, thread: &str, text: &str) -> ProcessSpec {
    crate::turnlane(&["exec", "--json", "resume", thread, text])
        .envs(served.home.env())
        .current_dir(served.home.workspace())
}

/// A run that was killed at a moment around the one in which its turn is put into the queue.
async fn killed_while_it_waits(
    served: &Served,
    thread: &str,
    text: &str,
    random: &mut Random,
) -> TestProcess {
    let mut run = TestProcess::start(exec(served, thread, text)).unwrap();
    drop(run.take_stdin());
    if random.one_in(2) {
        let told = |line: &str| line.starts_with("waiting: ");
        run.wait_for_stderr_line(told, DEADLINE).await.unwrap();
    }
    let behind = random.shorter(Duration::from_millis(100));
    let _ = within("a moment", behind, run.wait(DEADLINE)).await;
    run.kill9().await.unwrap();
    run
}

/// The texts of the rows that wait.
async fn waiting(client: &mut TestClient, thread: &str) -> Vec<String> {
    let list = ok(client, "thread/queue/list", json!({"threadId": thread})).await;
    let text = |row: &Value| row["input"][0]["text"].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(text).collect()
}

/// Kills runs that wait behind a turn which somebody else runs, lets it end, and looks what is left.
async fn nothing_is_left(served: &Served, client: &mut TestClient, gate: &Gate, kills: usize) {
    let mut random = Random::new(seed());
    let id = thread(client, &served.work(), json!({})).await;
    add(client, &id, "hold", json!({})).await;
    gate.reached().await;
    add(client, &id, "behind", json!({})).await;
    for n in 0..kills {
        let text = format!("bound {n}");
        killed_while_it_waits(served, &id, &text, &mut random).await;
        // Its row does not wait for the lane to become free: it goes as soon as it is noticed.
        eventually("the row to go", DEADLINE, async || {
            waiting(client, &id).await == ["behind"]
        })
        .await
        .unwrap();
    }
    // One that is not killed runs in its place.
    let mut alive = TestProcess::start(exec(served, &id, "alive")).unwrap();
    drop(alive.take_stdin());
    let told = |line: &str| line.starts_with("waiting: ");
    alive.wait_for_stderr_line(told, DEADLINE).await.unwrap();
    gate.release();
    assert!(alive.wait(DEADLINE).await.unwrap().success());
    drained(client, &id).await;
    let expected = ["hold", "behind", "alive"];
    let expected = expected.map(|text| (text.to_owned(), "completed".to_owned()));
    assert_eq!(turns(client, &id).await, expected);
    let asked = served.mock.requests();
    let asked: Vec<_> = asked
        .iter()
        .map(|request| request.last_user_text())
        .collect();
    assert_eq!(asked, ["hold", "behind", "alive"]);
}

/// A home whose model holds the first answer back.
async fn held() -> (Served, Gate) {
    let gate = Gate::new();
    let at = gate.clone();
    let served = Served::new(move |request| match request.last_user_text().as_str() {
        "hold" => Reply::text("ok").gated_by(At::Request, &at),
        _ => Reply::text("ok"),
    })
    .await;
    std::fs::create_dir(served.work().join(".git")).unwrap();
    (served, gate)
}

#[tokio::test]
async fn a_turn_that_waits_in_the_daemon_is_gone_with_its_connection() {
    let (served, gate) = held().await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    nothing_is_left(&served, &mut client, &gate, kills() / 2).await;
}

#[tokio::test]
async fn a_turn_that_waits_for_its_own_worker_is_gone_with_it() {
    let (served, gate) = held().await;
    // Another server has the lane; there is no daemon that the runs could use.
    let mut other = served.stdio().await;
    nothing_is_left(&served, &mut other.client, &gate, kills() - kills() / 2).await;
}
