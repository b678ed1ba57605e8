//! Turns that are stopped, fenced or lost while commands run.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_protocol::item::{CommandOutcome, ItemStatus};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Thread, Turn, lives};
use crate::Event;
use crate::native::tools::Stop;

/// Waits until the commands wrote this.
async fn written(turn: &Turn, wanted: &str) -> String {
    let mut text = String::new();
    let heard = turn.heard.clone();
    let holds = async || {
        let events = heard.events.lock().unwrap();
        text = events
            .iter()
            .fold(String::new(), |text, event| match event {
                Event::Delta { text: more, .. } => text + more,
                _ => text,
            });
        text.contains(wanted)
    };
    eventually(wanted, DEADLINE, holds).await.unwrap();
    text
}

fn aborted(stop: &Stop) -> bool {
    match stop {
        Stop::Cancelled(text) => {
            text.starts_with("aborted by user after ") && text.ends_with("; it may have partly run")
        }
        Stop::Interrupted | Stop::Unanswered | Stop::Fenced => false,
    }
}

#[tokio::test]
async fn a_stopped_turn_ends_its_commands_with_their_output_so_far() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    // In the background, of this turn: ended too.
    let cmd = "sleep 1000 & echo $!; wait";
    turn.exec("a", json!({"cmd": cmd, "yield_time_ms": 250}))
        .await;
    let (stopped, text) = tokio::join!(
        turn.call("b", json!({"cmd": "sleep 1000 & echo $! begun; wait"})),
        async {
            let text = written(&turn, " begun").await;
            turn.stop();
            text
        }
    );
    assert!(aborted(&stopped.unwrap_err()));
    let told = turn.interrupt().await;
    for item in ["a", "b"] {
        let item = told.completed(item);
        assert_eq!(item.status, ItemStatus::Failed);
        assert_eq!(item.outcome, Some(CommandOutcome::Interrupted));
        assert_eq!(item.exit_code, Some(130));
        assert!(item.aggregated_output.is_some());
    }
    for pid in text.split_whitespace().filter(|word| *word != "begun") {
        assert!(!lives(pid), "{pid}");
    }
    assert_eq!(thread.running(), 0);
    assert!(thread.sessions.is_forgotten(Thread::id()));
    // The next turn works.
    let turn = thread.turn();
    assert!(turn.exec("c", json!({"cmd": "true"})).await.success);
    turn.end().await;
}

#[tokio::test]
async fn commands_that_ignore_signals_are_killed_together() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let deaf = "trap '' INT TERM; echo deaf; while :; do sleep 1; done";
    turn.exec("a", json!({"cmd": deaf, "yield_time_ms": 250}))
        .await;
    let begun = Instant::now();
    let (stopped, ()) = tokio::join!(turn.call("b", json!({"cmd": deaf})), async {
        written(&turn, "deaf\ndeaf\n").await;
        turn.stop();
    });
    assert!(aborted(&stopped.unwrap_err()));
    let told = turn.interrupt().await;
    // One after the other they would take twice as long.
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    for item in ["a", "b"] {
        assert_eq!(told.completed(item).exit_code, Some(137));
    }
    assert_eq!(thread.running(), 0);
}

#[tokio::test]
async fn an_earlier_turns_command_outlives_a_stop() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    turn.exec(
        "a",
        json!({"cmd": "echo x; sleep 1000", "yield_time_ms": 250}),
    )
    .await;
    turn.end().await;
    let turn = thread.turn();
    let called = Turn::called(
        "w",
        json!({"session_id": 1000}),
        crate::native::tools::Permission::Usual,
    );
    let started = async {
        let heard = turn.heard.clone();
        let started = async || !heard.events.lock().unwrap().is_empty();
        eventually("the item", DEADLINE, started).await.unwrap();
        turn.stop();
    };
    let writing = crate::native::tools::write_stdin::write_stdin(&turn.tools, &called);
    let (stopped, ()) = tokio::join!(writing, started);
    assert!(aborted(&stopped.unwrap_err()));
    let told = turn.interrupt().await;
    assert_eq!(told.words().last().unwrap(), "w completed");
    let item = told.completed("w");
    assert_eq!(item.status, ItemStatus::Failed);
    assert_eq!(item.outcome, Some(CommandOutcome::Interrupted));
    assert_eq!(thread.running(), 1);
    thread.sessions.close(Thread::id()).await;
    assert_eq!(thread.running(), 0);
}

#[tokio::test]
async fn a_turn_that_is_lost_leaves_no_process_of_its_own() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    turn.exec("a", json!({"cmd": "sleep 1000", "yield_time_ms": 250}))
        .await;
    turn.end().await;
    let turn = thread.turn();
    turn.exec("b", json!({"cmd": "sleep 1000", "yield_time_ms": 250}))
        .await;
    assert_eq!(thread.running(), 2);
    turn.lose().await;
    let one = async || thread.running() == 1;
    eventually("the end of the lost one", DEADLINE, one)
        .await
        .unwrap();
    assert_eq!(
        thread.sessions.background(Thread::id())[0].process_id,
        "1000"
    );
    drop(std::mem::take(&mut thread.sessions));
    let none = async || thread.running() == 0;
    eventually("the end of the engine's", DEADLINE, none)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_call_of_a_turn_that_was_stopped_before_starts_nothing() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    turn.stop();
    let stopped = turn.call("a", json!({"cmd": "true"})).await;
    assert!(aborted(&stopped.unwrap_err()));
    assert!(turn.interrupt().await.events.is_empty());
    assert_eq!(thread.service.counters().spawned, 0);
}
