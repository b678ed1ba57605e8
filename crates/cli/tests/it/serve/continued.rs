//! A graceful stop in the middle of a queued turn: the next worker continues it, once.
//!
//! Each round stops a real process, by a signal or by the end of its input, and lets a daemon go on.
//! `TURNLANE_TEST_ROUNDS` sets how many rounds each place is stopped in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Daemon, add, drained};
use crate::app_server::{Served, ok, thread};

fn rounds() -> usize {
    let given = std::env::var("TURNLANE_TEST_ROUNDS").ok();
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

/// Where the turn is when its server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    ModelCall,
    BetweenCalls,
    StubbornCommand,
}

fn reply(place: Place, gate: &Gate, request: &RecordedRequest) -> Reply {
    let command = match place {
        Place::ModelCall => return Reply::text("late").gated_by(At::Request, gate),
        Place::BetweenCalls => "true",
        Place::StubbornCommand => "trap '' TERM; touch started; sleep 60; sleep 60",
    };
    let id = format!("call_{}", request.input().len());
    let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
    Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
}

/// A home whose model is at work until the server was stopped, and then says `done`.
async fn at_work(place: Place, gate: &Gate, is_stopped: &Arc<AtomicBool>) -> Served {
    let (gate, is_stopped) = (gate.clone(), Arc::clone(is_stopped));
    Served::new(move |request| {
        if is_stopped.load(Ordering::Acquire) {
            Reply::text("done")
        } else {
            reply(place, &gate, request)
        }
    })
    .await
}

/// Waits until the turn is in that place; the later the round, the later between calls.
async fn reached(served: &Served, place: Place, gate: &Gate, round: usize) {
    match place {
        Place::ModelCall => gate.reached().await,
        Place::BetweenCalls => {
            let enough = async || served.mock.requests().len() > 1 + round % 4;
            eventually("some calls", DEADLINE, enough).await.unwrap();
        }
        Place::StubbornCommand => {
            let started = served.work().join("started");
            let runs = async || started.exists();
            eventually("the command", DEADLINE, runs).await.unwrap();
        }
    }
}

const FREE: fn() -> Value = || json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});

/// Queues a turn, stops its server in that place, and lets a daemon go on.
async fn round(place: Place, round: usize, more: Value) -> (Served, Daemon, String, Value) {
    let gate = Gate::new();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let served = at_work(place, &gate, &is_stopped).await;
    let row;
    let id;
    if round.is_multiple_of(2) {
        let grace = ["-c", "server.shutdown_grace=10ms"];
        let mut daemon = Daemon::start(&served.home, &grace).await;
        let mut client = daemon.unix().await;
        id = thread(&mut client, &served.work(), FREE()).await;
        row = add(&mut client, &id, "work", more).await;
        reached(&served, place, &gate, round).await;
        daemon.signal(Signal::TERM);
        let status = daemon.process.wait(DEADLINE).await.unwrap();
        assert_eq!(status.code(), Some(0));
    } else {
        let mut server = served.stdio().await;
        id = thread(&mut server.client, &served.work(), FREE()).await;
        row = add(&mut server.client, &id, "work", more).await;
        reached(&served, place, &gate, round).await;
        drop(server.client);
        let status = server.process.wait(DEADLINE).await.unwrap();
        assert_eq!(status.code(), Some(0));
    }
    is_stopped.store(true, Ordering::Release);
    let daemon = Daemon::start(&served.home, &[]).await;
    (served, daemon, id, Value::from(row))
}

async fn turns(daemon: &Daemon, id: &str) -> Vec<Value> {
    let mut client = daemon.unix().await;
    let params = json!({"threadId": id, "includeTurns": true});
    let read = ok(&mut client, "thread/read", params).await;
    read["thread"]["turns"].as_array().unwrap().clone()
}

fn said(items: &[Value], kind: &str) -> Vec<Value> {
    let fits = |item: &&Value| item["type"] == kind;
    items.iter().filter(fits).cloned().collect()
}

/// The model is sent the message once, and every call with exactly one output.
fn check_requests(served: &Served, what: &str) {
    for request in served.mock.requests() {
        let input = request.input();
        let is_message = |item: &&Value| item["content"][0]["text"] == "work";
        let messages = input.iter().filter(is_message).count();
        assert_eq!(messages, 1, "{what}: {input:#?}");
        let ids = |kind| {
            let calls = said(input, kind).into_iter();
            let mut ids: Vec<_> = calls.map(|call| call["call_id"].to_string()).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids("function_call"), ids("function_call_output"), "{what}");
    }
}

async fn continued(place: Place) {
    for number in 0..rounds() {
        let what = format!("{place:?}, round {number}");
        let (served, daemon, id, row) = round(place, number, json!({})).await;
        let mut client = daemon.unix().await;
        drained(&mut client, &id).await;
        let queue = ok(&mut client, "thread/queue/list", json!({"threadId": id})).await;
        assert!(queue["blocked"].is_null(), "{what}: {queue}");
        assert!(queue["paused"].is_null(), "{what}: {queue}");

        let turns = turns(&daemon, &id).await;
        let statuses: Vec<_> = turns.iter().map(|turn| &turn["status"]).collect();
        assert_eq!(statuses, ["interrupted", "completed"], "{what}");
        assert_eq!(turns[0]["error"]["kind"], "stopped", "{what}");
        assert_eq!(turns[1]["queuedTurnId"], row, "{what}");
        assert_eq!(turns[1]["attempt"], 2, "{what}");
        let items = |turn: &Value| turn["items"].as_array().unwrap().clone();
        assert_eq!(said(&items(&turns[0]), "userMessage").len(), 1, "{what}");
        assert_eq!(said(&items(&turns[1]), "userMessage").len(), 0, "{what}");
        let answers = said(&items(&turns[1]), "agentMessage");
        assert_eq!(answers.len(), 1, "{what}");
        assert_eq!(answers[0]["text"], "done", "{what}");

        check_requests(&served, &what);
        let last = served.mock.requests().pop().unwrap();
        let told = Value::from(last.input().to_vec()).to_string();
        if number.is_multiple_of(2) {
            // The engine had its time: it told the model what the stop ended.
            assert!(told.contains("<turn_stopped>"), "{what}: {told}");
            if place == Place::StubbornCommand {
                assert!(told.contains("stopped with the server after "), "{told}");
            }
        }
    }
}

#[tokio::test]
async fn a_turn_stopped_in_a_model_call_is_continued_once() {
    continued(Place::ModelCall).await;
}

#[tokio::test]
async fn a_turn_stopped_between_calls_is_continued_once() {
    continued(Place::BetweenCalls).await;
}

#[tokio::test]
async fn a_turn_stopped_under_a_command_that_ignores_term_is_continued_once() {
    continued(Place::StubbornCommand).await;
}

#[tokio::test]
async fn a_row_may_hold_the_lane_after_a_stop_or_run_from_its_beginning() {
    for number in 0..2 {
        let (_served, daemon, id, row) =
            round(Place::ModelCall, number, json!({"onStop": "block"})).await;
        let mut client = daemon.unix().await;
        let queue = ok(&mut client, "thread/queue/list", json!({"threadId": id})).await;
        assert_eq!(queue["blocked"]["queuedTurnId"], row);
        let text = "queued turn was interrupted because its worker stopped";
        assert_eq!(queue["blocked"]["message"], text);

        let (served, daemon, id, _) =
            round(Place::ModelCall, number, json!({"onStop": "retry"})).await;
        drained(&mut daemon.unix().await, &id).await;
        let turns = turns(&daemon, &id).await;
        assert_eq!(turns[1]["status"], "completed");
        assert_eq!(turns[1]["items"][0]["type"], "userMessage");
        check_requests(&served, "retry");
    }
}
