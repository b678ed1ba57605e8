//! The lane around the real Codex: order, usage, interrupts, steers, refusals, restarts.

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::{At, Gate, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::world::{World, is_answered, stored_turns, text_of};
use crate::app_server::ends::{is_alive, pid_in};
use crate::app_server::{begin, ok, refused, thread, turn};
use crate::serve::{add, drained, turns};

/// Both engines.
const ENGINES: [&str; 2] = ["codex", "codex-exec"];

/// A new thread of an engine that may do everything.
async fn open_thread(client: &mut TestClient, world: &World, engine: &str) -> String {
    let settings = json!({"engine": engine, "sandbox": "danger-full-access",
        "approvalPolicy": "never"});
    thread(client, &world.work(), settings).await
}

fn words(request: &RecordedRequest) -> Reply {
    Reply::text(format!("did {}", request.last_user_text()))
}

/// A model that lets Codex run a command which names its process and does not end.
fn endless(request: &RecordedRequest) -> Reply {
    let text = request.last_user_text();
    if text != "run it" || is_answered(request) {
        return words(request);
    }
    let command = "echo $$ > pid; sleep 1000";
    let call = json!({"cmd": command, "yield_time_ms": 30_000});
    Reply::of([Item::function_call("exec_command", call).call_id("call_1")])
}

#[tokio::test]
async fn a_queue_runs_in_order_and_each_turn_has_its_usage() {
    let Some(world) = World::new(words).await else {
        return;
    };
    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    for engine in ENGINES {
        let thread = open_thread(&mut client, &world, engine).await;
        let texts: Vec<String> = (1..=4).map(|n| format!("{engine} {n}")).collect();
        for text in &texts {
            add(&mut client, &thread, text, json!({})).await;
        }
        drained(&mut client, &thread).await;
        let expected = texts
            .iter()
            .map(|text| (text.clone(), "completed".to_owned()));
        let expected: Vec<_> = expected.collect();
        assert_eq!(turns(&mut client, &thread).await, expected);
        let asked = world.mock.take_requests();
        let asked: Vec<String> = asked
            .iter()
            .map(|request| request.last_user_text())
            .collect();
        assert_eq!(asked, texts);
        for (nth, turn) in stored_turns(&mut client, &thread).await.iter().enumerate() {
            let usage = &turn["usage"];
            assert_eq!(usage["turn"]["inputTokens"], 100, "{engine}: {turn:#}");
            assert_eq!(usage["turn"]["outputTokens"], 20, "{engine}: {turn:#}");
            let total = 100 * (nth + 1);
            assert_eq!(usage["thread"]["inputTokens"], total, "{engine}: {turn:#}");
            let items = turn["items"].as_array().unwrap();
            let said = items.last().unwrap()["text"].as_str();
            assert_eq!(said, Some(format!("did {}", text_of(turn)).as_str()));
        }
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_command_and_completes_its_item() {
    let Some(world) = World::new(endless).await else {
        return;
    };
    let mut daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    for engine in ENGINES {
        let _ = std::fs::remove_file(world.work().join("pid"));
        let thread = open_thread(&mut client, &world, engine).await;
        let id = begin(&mut client, &thread, "run it").await;
        let pid = pid_in(&world.work().join("pid")).await;
        // Codex tells of a command a moment after it has begun.
        let runs = |message: &Value| {
            let params = &message["params"];
            message["method"] == "item/started"
                && params["item"]["type"] == "commandExecution"
                && params["turnId"] == id.as_str()
        };
        client.find("the command", runs).await.unwrap();
        let place = json!({"threadId": thread, "turnId": id});
        ok(&mut client, "turn/interrupt", place).await;
        let is_end = |message: &Value| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == id.as_str()
        };
        let end = client.find("the end", is_end).await.unwrap();
        let status = &end["params"]["turn"]["status"];
        assert_eq!(status, "interrupted", "{engine}: {end}");
        let gone = async || !is_alive(pid);
        eventually("the end of the command", DEADLINE, gone)
            .await
            .unwrap();
        let stored = stored_turns(&mut client, &thread).await;
        let items = stored[0]["items"].as_array().unwrap();
        let command = items.iter().find(|item| item["type"] == "commandExecution");
        let command = command.unwrap_or_else(|| panic!("{engine}: {stored:#?}"));
        assert_eq!(command["status"], "failed", "{engine}: {command}");
        let completed = |message: &&Value| {
            message["method"] == "item/completed"
                && message["params"]["item"]["id"] == command["id"]
        };
        let told = client.received().iter().filter(completed).count();
        assert_eq!(told, 1, "{engine}");
        // The thread goes on.
        let ended = turn(&mut client, &thread, "go on").await;
        assert_eq!(ended["status"], "completed", "{engine}: {ended}");
    }
    daemon.signal(Signal::TERM);
    daemon.process.wait(DEADLINE).await.unwrap();
    world.no_codex_left().await;
}

#[tokio::test]
async fn more_is_said_to_codex_while_its_turn_runs() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |request| {
        let reply = words(request);
        match request.last_user_text().as_str() {
            "wait" => reply.gated_by(At::LastEvent, &held),
            _ => reply,
        }
    });
    let Some(world) = world.await else { return };
    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    let thread = open_thread(&mut client, &world, "codex").await;
    let id = begin(&mut client, &thread, "wait").await;
    within("the model", DEADLINE, gate.reached()).await.unwrap();
    let steer = json!({"threadId": thread, "expectedTurnId": id,
        "input": [{"type": "text", "text": "and more"}]});
    ok(&mut client, "turn/steer", steer.clone()).await;
    gate.release();
    drained(&mut client, &thread).await;
    let stored = stored_turns(&mut client, &thread).await;
    assert_eq!(stored.len(), 1, "{stored:#?}");
    assert_eq!(stored[0]["status"], "completed");
    let items = stored[0]["items"].as_array().unwrap();
    let last = items.last().unwrap();
    assert_eq!(last["text"], "did and more", "{stored:#?}");
    assert_eq!(world.calls("and more"), 1);
    // An engine that cannot steer says so.
    let thread = open_thread(&mut client, &world, "codex-exec").await;
    let id = begin(&mut client, &thread, "hello").await;
    let steer = json!({"threadId": thread, "expectedTurnId": id,
        "input": [{"type": "text", "text": "and more"}]});
    refused(&mut client, "turn/steer", steer).await;
}

#[tokio::test]
async fn what_an_engine_cannot_do_is_refused_by_its_name() {
    let Some(world) = World::new(words).await else {
        return;
    };
    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    for engine in ENGINES {
        let thread = open_thread(&mut client, &world, engine).await;
        let ended = turn(&mut client, &thread, "hello").await;
        let mut methods = vec![
            ("thread/fork", json!({"threadId": thread})),
            (
                "thread/revert",
                json!({"threadId": thread, "beforeTurnId": ended["id"]}),
            ),
            (
                "thread/rollback",
                json!({"threadId": thread, "numTurns": 1}),
            ),
        ];
        if engine == "codex-exec" {
            methods.push(("thread/compact/start", json!({"threadId": thread})));
        }
        for (method, params) in methods {
            let error = refused(&mut client, method, params).await;
            let text = format!("engine '{engine}' does not support {method}");
            assert_eq!(error["message"], text, "{error}");
            assert_eq!(error["data"]["reason"], "unsupportedByEngine", "{error}");
        }
        assert_eq!(turns(&mut client, &thread).await.len(), 1);
    }
}

#[tokio::test]
async fn a_thread_goes_on_after_a_restart_of_the_daemon() {
    let Some(world) = World::new(words).await else {
        return;
    };
    let mut threads = Vec::new();
    let mut daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    for engine in ENGINES {
        let thread = open_thread(&mut client, &world, engine).await;
        turn(&mut client, &thread, &format!("before {engine}")).await;
        threads.push((engine, thread));
    }
    for by in [Signal::TERM, Signal::KILL] {
        let sessions = session_files(&world);
        daemon.signal(by);
        daemon.process.wait(DEADLINE).await.unwrap();
        world.no_codex_left().await;
        daemon = world.daemon(None).await;
        client = daemon.websocket().await;
        for (engine, thread) in &threads {
            add(&mut client, thread, &format!("after {by:?}"), json!({})).await;
            drained(&mut client, thread).await;
            let requests = world.mock.take_requests();
            let sent = json!(requests.last().unwrap().input()).to_string();
            assert!(sent.contains(&format!("before {engine}")), "{sent}");
        }
        // No new thread of Codex: the same ones went on.
        assert_eq!(session_files(&world), sessions);
    }
}

/// The files of Codex's threads, which have their ids in their names.
fn session_files(world: &World) -> Vec<String> {
    let mut folders = vec![world.home.codex().join("sessions")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    assert_eq!(files.len(), ENGINES.len(), "{files:?}");
    files
}
