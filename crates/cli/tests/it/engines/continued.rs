//! A graceful stop in the middle of a queued turn of Codex: the next daemon continues it by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{TestClient, TestProcess};

use super::world::World;
use crate::app_server::{ok, thread};
use crate::serve::{Daemon, add, drained};

/// A daemon whose stop waits for no turn.
async fn impatient(world: &World) -> Daemon {
    let spec = world.serve_spec(&["-c", "server.shutdown_grace=10ms"]);
    Daemon::of(&world.home, TestProcess::start(spec).unwrap()).await
}

async fn turns(client: &mut TestClient, thread: &str) -> Vec<Value> {
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(client, "thread/read", params).await;
    read["thread"]["turns"].as_array().unwrap().clone()
}

fn items(turn: &Value, kind: &str) -> Vec<Value> {
    let items = turn["items"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == kind).cloned().collect()
}

async fn continued(engine: &str) {
    let gate = Gate::new();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let (held, after) = (gate.clone(), Arc::clone(&is_stopped));
    let world = World::new(move |request| {
        let reply = Reply::text(format!("did {}", request.last_user_text()));
        if after.load(Ordering::Acquire) {
            reply
        } else {
            reply.gated_by(At::Request, &held)
        }
    });
    let Some(world) = world.await else { return };
    let mut daemon = impatient(&world).await;
    let mut client = daemon.websocket().await;
    let open =
        json!({"engine": engine, "sandbox": "danger-full-access", "approvalPolicy": "never"});
    let id = thread(&mut client, &world.work(), open).await;
    let row = add(&mut client, &id, "the first task", json!({})).await;
    add(&mut client, &id, "the second task", json!({})).await;
    within("the model", DEADLINE, gate.reached()).await.unwrap();
    daemon.signal(Signal::TERM);
    let status = daemon.process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{engine}");
    world.no_codex_left().await;
    is_stopped.store(true, Ordering::Release);
    world.mock.take_requests();

    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    drained(&mut client, &id).await;
    let queue = ok(&mut client, "thread/queue/list", json!({"threadId": id})).await;
    assert!(queue["blocked"].is_null(), "{engine}: {queue}");
    let turns = turns(&mut client, &id).await;
    let statuses: Vec<_> = turns.iter().map(|turn| &turn["status"]).collect();
    assert_eq!(
        statuses,
        ["interrupted", "completed", "completed"],
        "{engine}: {turns:#?}"
    );
    assert_eq!(turns[0]["error"]["kind"], "stopped", "{engine}");
    assert_eq!(turns[1]["queuedTurnId"], row.as_str(), "{engine}");
    assert_eq!(turns[1]["attempt"], 2, "{engine}");
    assert_eq!(items(&turns[0], "userMessage").len(), 1, "{engine}");
    assert_eq!(items(&turns[1], "userMessage").len(), 0, "{engine}");
    assert_eq!(items(&turns[1], "agentMessage").len(), 1, "{engine}");

    // One call each, and each has the message of the turn that was cut exactly once.
    let requests = world.mock.take_requests();
    assert_eq!(requests.len(), 2, "{engine}");
    for request in &requests {
        let sent = json!(request.input()).to_string();
        assert_eq!(
            sent.matches("\"the first task\"").count(),
            1,
            "{engine}: {sent}"
        );
    }
}

#[tokio::test]
async fn a_codex_turn_that_a_stop_cut_is_continued_by_the_next_daemon() {
    continued("codex").await;
}

#[tokio::test]
async fn a_codex_exec_turn_that_a_stop_cut_is_continued_by_the_next_daemon() {
    continued("codex-exec").await;
}
