//! Interrupts, dropped turns, and lanes that do not listen.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::double::{Bench, Child, THREAD};
use super::lane::{Lane, request, state};
use crate::{CancelReason, OutcomeStatus};

/// A turn `t1` with a command that runs.
async fn running(bench: &mut Bench, lane: &mut Lane) -> Child {
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child.run("t1", "c");
        child
    };
    let (child, ()) = tokio::join!(play, lane.until("started commandExecution"));
    child
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_sent_once_and_the_command_ends_as_failed() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let play = async {
        let params = child.answer("turn/interrupt", json!({})).await;
        assert_eq!(params, json!({"threadId": THREAD, "turnId": "t1"}));
        child.turn("turn/completed", "t1", "interrupted");
        child
            .answer("thread/backgroundTerminals/clean", json!({}))
            .await;
        child
    };
    let (outcome, child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(outcome.outcome_known);
    let command: Value = json!(lane.completed[0]);
    assert_eq!(command["status"], "failed");
    assert_eq!(command["outcome"], "interrupted");
    assert!(!child.is_ended());
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_codex_ignores_ends_within_four_seconds() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let child = running(&mut bench, &mut lane).await;
    let begin = tokio::time::Instant::now();
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let outcome = lane.finish().await;
    assert_eq!(begin.elapsed(), Duration::from_secs(4));
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(!outcome.outcome_known, "Codex did not confirm it");
    assert_eq!(lane.count("completed commandExecution"), 1);
    drop(child);
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_waits_for_a_turn_that_was_left_running() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    lane.engine.abort();
    let params = child.answer("turn/interrupt", json!({})).await;
    assert_eq!(params["turnId"], "t1", "a dropped turn is interrupted");
    child
        .answer("thread/backgroundTerminals/clean", json!({}))
        .await;

    let mut asked = request("next");
    asked.engine_state = Some(state(THREAD, None));
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        // Not interrupted again: a second interrupt is never answered.
        child
            .answer("thread/backgroundTerminals/clean", json!({}))
            .await;
        child.turn("turn/completed", "t1", "interrupted");
        child.start_turn("t2").await;
        child.turn("turn/completed", "t2", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("warning turn t1 of Codex"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_does_not_listen_holds_up_no_other() {
    let mut bench = Bench::new();
    let mut deaf = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut deaf).await;
    let piece = json!({"threadId": THREAD, "turnId": "t1", "itemId": "c", "delta": "x"});
    for _ in 0..20_000 {
        child.peer.room(1024 * 1024).await;
        child.tell("item/commandExecution/outputDelta", &piece);
    }
    let mut asked = request("other");
    asked.thread_id = turnlane_protocol::ids::ThreadId::at(9, [9; 10]);
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        let opened = json!({"thread": {"id": "other"}});
        child.answer("thread/start", opened).await;
        let answer = json!({"turn": {"id": "o1", "status": "inProgress"}});
        child.answer("turn/start", answer).await;
        for (method, status) in [
            ("turn/started", "inProgress"),
            ("turn/completed", "completed"),
        ] {
            let turn = json!({"id": "o1", "status": status, "items": []});
            child.tell(method, &json!({"threadId": "other", "turn": turn}));
        }
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    // The deaf one still ends when it listens again: only pieces of text were left out.
    child.turn("turn/completed", "t1", "completed");
    assert_eq!(deaf.finish().await.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_is_gone_leaves_no_turn_behind() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    let engine = lane.engine;
    drop(lane.end);
    child.answer("turn/interrupt", json!({})).await;
    eventually("the engine ends", DEADLINE, async || engine.is_finished())
        .await
        .unwrap();
}
