//! Threads of Codex: started, resumed, busy, lost.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_protocol::turn_error::ErrorKind;

use super::double::{Bench, THREAD};
use super::lane::{Lane, request, state};
use crate::{Accepted, Engine as _, OutcomeStatus, TurnRequest};

fn known(total: Option<i64>) -> TurnRequest {
    let mut asked = request("hello");
    asked.engine_state = Some(state(THREAD, total));
    asked
}

#[tokio::test(start_paused = true)]
async fn a_thread_is_resumed_once_per_child_and_again_after_its_close() {
    let mut bench = Bench::new();
    let thread = request("").thread_id;
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        let mut child = bench.child().await;
        let params = child.resume_thread().await;
        assert_eq!(params["excludeTurns"], true);
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (_, mut child) = tokio::join!(lane.finish(), play);
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        child.start_turn("t2").await;
        child.turn("turn/completed", "t2", "completed");
    };
    let (_, ()) = tokio::join!(lane.finish(), play);
    let play = async {
        child
            .answer("thread/backgroundTerminals/clean", json!({}))
            .await;
        let answer = json!({"status": "unsubscribed"});
        child.answer("thread/unsubscribe", answer).await;
    };
    tokio::join!(bench.engine.close(thread), play);
    bench.engine.close(thread).await;
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        child.resume_thread().await;
        child.start_turn("t3").await;
        child.turn("turn/completed", "t3", "completed");
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(bench.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_another_process_writes_to_is_waited_for() {
    let text = "thread x already has an active writer";
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        let mut child = bench.child().await;
        let begin = Instant::now();
        child.refuse("thread/resume", text).await;
        child.refuse("thread/resume", text).await;
        child.resume_thread().await;
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);

    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        let mut child = bench.child().await;
        let begin = Instant::now();
        for _ in 0..6 {
            child.refuse("thread/resume", text).await;
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(48));
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::Busy));
    assert!(!outcome.begun);
    assert_eq!(outcome.accepted, Accepted::No);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_or_lost_thread_is_no_place_for_a_turn() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        let mut child = bench.child().await;
        let wrong = json!({"thread": {"id": "another"}});
        child.answer("thread/resume", wrong).await;
        child
    };
    let (outcome, mut child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::ResumeMismatch));
    assert_eq!(lane.count("handing over"), 0);

    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = child.refuse("thread/resume", "no rollout found for thread id x");
    let (outcome, _) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::ThreadNotFound));
    assert!(!outcome.begun);

    // Without a total nothing was ever written, so nothing is lost.
    let mut lane = Lane::start(&bench, known(None));
    let play = async {
        child
            .refuse("thread/resume", "no rollout found for thread id x")
            .await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_refused_turn_could_not_start() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known(Some(7)));
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.refuse("turn/start", "no such model").await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::EngineRefused));
    assert!(!outcome.begun);
    assert_eq!(outcome.accepted, Accepted::No);
}

#[tokio::test(start_paused = true)]
async fn background_terminals_are_listed_under_our_names_and_ended() {
    let mut bench = Bench::new();
    let thread = request("").thread_id;
    assert!(bench.engine.background(thread).await.is_empty());
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child.run("t1", "c");
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (_, mut child) = tokio::join!(lane.finish(), play);
    let terminal = json!({"itemId": "c", "processId": "77", "command": "sleep 30", "cwd": "/w"});
    let page = json!({"data": [terminal], "nextCursor": null});
    let listing = child.answer("thread/backgroundTerminals/list", page.clone());
    let (listed, _) = tokio::join!(bench.engine.background(thread), listing);
    assert_eq!(listed.len(), 1);
    let name = format!("{}/c", request("").turn_id);
    assert_eq!(listed[0].item_id.as_str(), name);
    assert_eq!(listed[0].process_id, "77");
    let play = async {
        child.answer("thread/backgroundTerminals/list", page).await;
        let answer = json!({"terminated": true});
        child
            .answer("thread/backgroundTerminals/terminate", answer)
            .await
    };
    let (ended, params) = tokio::join!(bench.engine.end_background(thread, None), play);
    assert_eq!(ended, 1);
    assert_eq!(params["processId"], "77");
}
