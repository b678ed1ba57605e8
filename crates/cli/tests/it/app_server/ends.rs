//! Every process of a turn is gone after an interrupt, and every started item is completed.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane_testkit::TestClient;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Served, begin, came, ended, ok, run_what_is_said, thread, turn};

/// How long an engine may take to stop before its lane drops it and goes on.
const ENGINE_GRACE: Duration = Duration::from_secs(5);

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z" && state != "X")
}

pub(super) async fn until_dead(pid: i32, limit: Duration) {
    let dead = async || !is_alive(pid);
    eventually("the process to be gone", limit, dead)
        .await
        .unwrap();
}

/// The number a command wrote into a file.
pub(crate) async fn pid_in(path: &Path) -> i32 {
    let read = || {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<i32>()
            .ok()
    };
    let there = async || read().is_some();
    eventually("a pid", DEADLINE, there).await.unwrap();
    read().unwrap()
}

/// Interrupts a turn that runs `command`, which writes its pid into a file; that pid must be gone with
/// the answer, and the history must equal the wire.
async fn interrupted(command: &str) {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    let mark = served.work().join("pid");
    let command = command.replace("$MARK", mark.to_str().unwrap());
    let id = begin(client, &thread, &command).await;
    let pid = pid_in(&mark).await;
    let params = json!({"threadId": thread, "turnId": id});
    let asked = Instant::now();
    ok(client, "turn/interrupt", params.clone()).await;
    if asked.elapsed() < ENGINE_GRACE {
        assert!(!is_alive(pid), "alive after the answer to the interrupt");
    } else {
        // The engine was too slow and was dropped, and what it ran is killed behind it.
        until_dead(pid, DEADLINE).await;
    }
    let end = ended(client, &id).await;
    assert_eq!(end["status"], "interrupted");
    assert_eq!(ok(client, "turn/interrupt", params).await, json!({}));
    let completed = all_completed(client);
    let item = completed
        .iter()
        .find(|item| item["type"] == "commandExecution")
        .unwrap();
    assert_eq!(item["status"], "failed", "{item}");
    assert_eq!(item["outcome"], "interrupted", "{item}");
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(client, "thread/read", params).await;
    let stored = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let ids =
        |items: &[Value]| -> Vec<Value> { items.iter().map(|item| item["id"].clone()).collect() };
    assert_eq!(ids(stored), ids(&completed));
    // The lane goes on, and the model is told.
    assert_eq!(turn(client, &thread, "true").await["status"], "completed");
    let requests = served.mock.requests();
    let last = requests.last().unwrap().input();
    let told = serde_json::to_string(last).unwrap();
    assert!(told.contains("aborted by user after"), "{told}");
    assert!(told.contains("<turn_aborted>"), "{told}");
}

/// The completed items; every started one is among them, once.
pub(super) fn all_completed(client: &TestClient) -> Vec<Value> {
    let items = |method: &str| -> Vec<Value> {
        let came = came(client, method).into_iter();
        came.map(|message| message["params"]["item"].clone())
            .collect()
    };
    let (started, completed) = (items("item/started"), items("item/completed"));
    for item in &started {
        let ends = completed.iter().filter(|end| end["id"] == item["id"]);
        assert_eq!(ends.count(), 1, "{item}");
    }
    assert_eq!(started.len(), completed.len());
    completed
}

#[tokio::test]
async fn a_command_that_ignores_sigterm() {
    interrupted("trap '' TERM INT HUP; echo $$ > \"$MARK\"; while :; do sleep 1; done").await;
}

#[tokio::test]
async fn a_command_that_daemonises() {
    interrupted("setsid sh -c 'echo $$ > \"$MARK\"; exec sleep 1000' & wait; sleep 1000").await;
}

#[tokio::test]
async fn a_command_that_floods() {
    interrupted("echo $$ > \"$MARK\"; while :; do echo noise noise noise noise; done").await;
}

#[tokio::test]
async fn a_daemon_of_a_daemon_in_a_sandbox() {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "workspace-write"}),
    )
    .await;
    let mark = served.work().join("pid");
    let command = format!(
        "(setsid sh -c '(setsid sh -c \"echo \\$\\$ > \\\"{}\\\"; exec sleep 1000\" &)' &); sleep 1000",
        mark.display()
    );
    let id = begin(client, &thread, &command).await;
    let pid = pid_in(&mark).await;
    ok(
        client,
        "turn/interrupt",
        json!({"threadId": thread, "turnId": id}),
    )
    .await;
    assert!(!is_alive(pid));
    assert_eq!(ended(client, &id).await["status"], "interrupted");
    all_completed(client);
}
