//! What others do on the same daemon while a run goes on: whose end ends it, and whose does not.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use turnlane_testkit::TestClient;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::daemon::{daemon, gated};
use super::{Running, World};

/// Another client of the daemon.
async fn client(world: &World) -> TestClient {
    let socket = world.home.turnlane().join("run/app-server.sock");
    let options = turnlane_rpc::connect::Options::default();
    let duplex = turnlane_rpc::connect::connect_unix(&socket, &options);
    let mut client = TestClient::new(duplex.await.unwrap());
    let hello = json!({"clientInfo": {"name": "other", "version": "0"},
                       "capabilities": {"experimentalApi": true}});
    ok(&mut client, "initialize", hello).await;
    client
}

async fn ok(client: &mut TestClient, method: &str, params: Value) -> Value {
    let answer = client.call(method, params).await.unwrap();
    assert!(answer.get("result").is_some(), "{method}: {answer}");
    answer["result"].clone()
}

async fn thread_of(running: &mut Running) -> String {
    let line = running.line("thread.started").await;
    line["thread_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn threads_and_turns_of_others_neither_end_a_run_nor_are_said() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    let thread = thread_of(&mut running).await;
    gate.reached().await;
    // Other threads come, say something, fail and go on the same daemon.
    for prompt in ["one", "two"] {
        let ran = world.run(&["--json", prompt]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_ne!(ran.thread(), thread);
    }
    let mut other = client(&world).await;
    let params = json!({"cwd": world.work()});
    let started = ok(&mut other, "thread/start", params).await;
    let id = started["thread"]["id"].clone();
    let input = json!([{"type": "text", "text": "three", "text_elements": []}]);
    let params = json!({"threadId": id, "input": input});
    ok(&mut other, "turn/start", params).await;
    let ended = async || {
        let params = json!({"threadId": id, "includeTurns": true});
        let read = ok(&mut other, "thread/read", params).await;
        read["thread"]["turns"][0]["status"] == "completed"
    };
    eventually("its end", DEADLINE, ended).await.unwrap();
    for method in ["thread/archive", "thread/delete"] {
        ok(&mut other, method, json!({"threadId": id})).await;
    }
    // And a turn that waits behind ours on the same thread.
    let params = json!({"threadId": thread, "input": [{"type": "text", "text": "behind",
                        "text_elements": []}], "whenBusy": "queue"});
    ok(&mut other, "turn/start", params).await;
    assert!(running.process.try_wait().unwrap().is_none(), "it goes on");
    gate.release();
    let ran = running.end().await;
    ran.is_answered("ok: hold");
}

#[tokio::test]
async fn a_thread_that_somebody_archives_or_deletes_ends_its_runs() {
    for method in ["thread/archive", "thread/delete"] {
        let (world, gate) = gated().await;
        let _daemon = daemon(&world).await;
        let mut running = world.begin(&["--json", "hold"]).without_input();
        let thread = thread_of(&mut running).await;
        gate.reached().await;
        let waiting = world
            .begin(&["--json", "resume", &thread, "never"])
            .without_input();
        let told = |line: &str| line == "waiting: 1 turns ahead";
        let told = waiting.process.wait_for_stderr_line(told, DEADLINE).await;
        told.unwrap();
        let mut other = client(&world).await;
        ok(&mut other, method, json!({"threadId": thread})).await;
        gate.release();
        // The turn that runs has a typed end, which comes first; the one that waits has none.
        for (running, kind) in [(running, "interrupted"), (waiting, "other")] {
            let ran = running.end().await;
            assert_eq!(ran.code, 1, "{method}: {ran:?}");
            assert_eq!(ran.last()["type"], "turn.failed", "{ran:?}");
            assert_eq!(ran.last()["error"]["kind"], kind, "{method}: {ran:?}");
        }
        assert_eq!(world.mock.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_queued_turn_that_somebody_deletes_ends_its_run() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let mut holding = world.begin(&["--json", "hold"]).without_input();
    let thread = thread_of(&mut holding).await;
    gate.reached().await;
    let waiting = world
        .begin(&["--json", "resume", &thread, "never"])
        .without_input();
    let told = |line: &str| line == "waiting: 1 turns ahead";
    let told = waiting.process.wait_for_stderr_line(told, DEADLINE).await;
    told.unwrap();
    let mut other = client(&world).await;
    let queue = ok(&mut other, "thread/queue/list", json!({"threadId": thread})).await;
    let row = queue["data"][0]["id"].clone();
    let params = json!({"threadId": thread, "queuedTurnId": row});
    ok(&mut other, "thread/queue/delete", params).await;
    let ran = waiting.end().await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.types().last().unwrap(), "turn.failed");
    assert_eq!(ran.last()["error"]["kind"], "other", "{ran:?}");
    gate.release();
    assert_eq!(holding.end().await.code, 0);
    let texts: Vec<_> = world
        .mock
        .requests()
        .iter()
        .map(|request| request.last_user_text())
        .collect();
    assert_eq!(texts, ["hold"]);
}

#[tokio::test]
async fn an_interrupt_of_somebody_else_is_never_a_success() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    let thread = thread_of(&mut running).await;
    gate.reached().await;
    let mut other = client(&world).await;
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(&mut other, "thread/read", params).await;
    let turn = read["thread"]["turns"][0]["id"].clone();
    let params = json!({"threadId": thread, "turnId": turn});
    ok(&mut other, "turn/interrupt", params).await;
    let ran = running.end().await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.last()["error"]["kind"], "interrupted", "{ran:?}");
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_does_not_hold_up_a_signal() {
    let (world, gate) = gated().await;
    let mut daemon = daemon(&world).await;
    let mut running = world.begin(&["--json", "hold"]).without_input();
    running.line("turn.started").await;
    gate.reached().await;
    daemon.stop().unwrap();
    running.signal(Signal::TERM);
    let ran = super::signals::stopped(running).await;
    daemon.cont().unwrap();
    assert_eq!(ran.code, -15, "{ran:?}");
    assert_eq!(ran.last()["error"]["kind"], "interrupted", "{ran:?}");
}

/// Everything between a run and the daemon, until it is cut.
async fn carry(listener: &UnixListener, daemon: &Path) {
    let (mut near, _) = listener.accept().await.unwrap();
    let mut far = UnixStream::connect(daemon).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
}

#[tokio::test]
async fn what_was_said_while_the_connection_was_lost_is_read_back() {
    let (world, gate) = gated().await;
    let _daemon = daemon(&world).await;
    // The run meets us where it looks for the daemon.
    let socket = world.home.turnlane().join("run/app-server.sock");
    let moved = world.home.turnlane().join("run/moved.sock");
    std::fs::rename(&socket, &moved).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let mut running = world.begin(&["--json", "hold"]).without_input();
    let reached = async {
        running.line("turn.started").await;
        gate.reached().await;
    };
    tokio::select! {
        () = carry(&listener, &moved) => panic!("the run left"),
        () = reached => {}
    }
    // Cut: the turn ends while nobody is told.
    gate.release();
    std::fs::rename(&moved, &socket).unwrap();
    let threads = world.threads().await;
    let thread = threads[0]["id"].as_str().unwrap();
    let ended = async || world.turns(thread).await[0]["status"] == "completed";
    eventually("the end of the turn", DEADLINE, ended)
        .await
        .unwrap();
    let ran = running.end().await;
    ran.is_answered("ok: hold");
    assert!(ran.last()["usage"]["input_tokens"].as_i64().unwrap() > 0);
}
