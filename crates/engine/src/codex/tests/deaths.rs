//! The child dies at each moment of a turn.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_protocol::turn_error::ErrorKind;

use super::double::{Bench, THREAD, recorded};
use super::lane::{Lane, request, state};
use crate::{Accepted, OutcomeStatus, TurnRequest};

fn known() -> TurnRequest {
    let mut asked = request("hello");
    asked.engine_state = Some(state(THREAD, Some(7)));
    asked
}

#[tokio::test(start_paused = true)]
async fn before_the_hand_over_the_turn_begins_anew() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        let _unanswered = child.request("thread/resume").await;
        child.die();
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("handing over"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_turn_that_codex_lacks_is_sent_again_with_the_same_id() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        let first = child.request("turn/start").await;
        let first: serde_json::Value = first.params.parse().unwrap();
        child.die();
        let died = Instant::now();
        let mut child = bench.child().await;
        assert_eq!(died.elapsed(), Duration::from_millis(500));
        child.resume_thread().await;
        child
            .list(json!([recorded("older", "other", "completed")]))
            .await;
        let second = child.start_turn("t1").await;
        assert_eq!(first, second);
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("handing over"), 1, "durable already");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_codex_has_is_never_sent_again() {
    for (status, expected, is_known) in [
        ("completed", OutcomeStatus::Completed, true),
        ("failed", OutcomeStatus::Failed, true),
        ("interrupted", OutcomeStatus::Interrupted, false),
        ("inProgress", OutcomeStatus::Interrupted, false),
    ] {
        let mut bench = Bench::new();
        let mut lane = Lane::start(&bench, known());
        let play = async {
            let mut child = bench.child().await;
            child.resume_thread().await;
            let _unanswered = child.request("turn/start").await;
            child.die();
            let mut child = bench.child().await;
            child.resume_thread().await;
            child.list(json!([recorded("t1", "row", status)])).await;
            child
        };
        let (outcome, _child) = tokio::join!(lane.finish(), play);
        assert_eq!(
            (outcome.status, outcome.outcome_known),
            (expected, is_known)
        );
        assert_eq!(outcome.accepted, Accepted::Yes, "{status}");
        assert_eq!(outcome.last_agent_message.as_deref(), Some("from history"));
        assert_eq!(lane.count("completed agentMessage"), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn items_that_were_told_are_not_told_again() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.start_turn("t1").await;
        child.say("t1", "m", "from history");
        child.run("t1", "c");
        child.die();
        let mut child = bench.child().await;
        child.resume_thread().await;
        child
            .list(json!([recorded("t1", "row", "interrupted")]))
            .await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(!outcome.outcome_known);
    assert_eq!(lane.count("completed agentMessage"), 1);
    assert_eq!(lane.count("completed commandExecution"), 1);
    assert_eq!(json!(lane.completed[1])["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn work_that_the_history_lacks_is_not_done_twice() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.start_turn("t1").await;
        child.run("t1", "c");
        child.die();
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.list(json!([])).await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert!(!outcome.outcome_known);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::EngineCrashed));
}

#[tokio::test(start_paused = true)]
async fn a_new_thread_that_was_never_written_is_started_again() {
    for refusal in [
        "no rollout found for thread id x",
        // Codex died between the creation of the file and its first line.
        "failed to read thread: rollout at /c/sessions/x.jsonl is empty",
    ] {
        let mut bench = Bench::new();
        let mut lane = Lane::start(&bench, request("hello"));
        let play = async {
            let mut child = bench.child().await;
            child.start_thread().await;
            let _unanswered = child.request("turn/start").await;
            child.die();
            let mut child = bench.child().await;
            child.refuse("thread/resume", refusal).await;
            child.start_thread().await;
            child
                .refuse("thread/turns/list", "thread x is not materialized yet")
                .await;
            child.start_turn("t1").await;
            child.turn("turn/completed", "t1", "completed");
            child
        };
        let (outcome, _child) = tokio::join!(lane.finish(), play);
        assert_eq!(outcome.status, OutcomeStatus::Completed, "{refusal}");
        assert_eq!(lane.count("state"), 2, "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_that_cannot_be_read_leaves_the_outcome_unknown() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.start_turn("t1").await;
        child.die();
        let mut child = bench.child().await;
        child.resume_thread().await;
        for _ in 0..3 {
            child
                .refuse("thread/turns/list", "the file is broken")
                .await;
        }
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert!(!outcome.outcome_known);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, Some(ErrorKind::EngineCrashed));
    assert!(error.message.contains("the file is broken"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn five_deaths_within_a_minute_end_the_turn() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        for _ in 0..5 {
            let mut child = bench.child().await;
            let _unanswered = child.request("thread/resume").await;
            child.die();
        }
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::EngineCrashed));
    assert_eq!(outcome.accepted, Accepted::No, "it was never sent");
    assert_eq!(bench.launches(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_leaves_a_turn_unanswered_is_ended_and_the_turn_looked_up() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        let _unanswered = child.request("turn/start").await;
        let begin = Instant::now();
        assert!(child.next().await.is_none());
        assert!(begin.elapsed() >= Duration::from_secs(30));
        assert!(child.is_ended());
        let mut child = bench.child().await;
        child.resume_thread().await;
        child
            .list(json!([recorded("t1", "row", "completed")]))
            .await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_answered_and_never_begins_is_looked_up() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, known());
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        let answer = json!({"turn": {"id": "t1", "status": "inProgress"}});
        child.answer("turn/start", answer).await;
        assert!(child.next().await.is_none());
        let mut child = bench.child().await;
        child.resume_thread().await;
        child
            .list(json!([recorded("t1", "row", "interrupted")]))
            .await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(!outcome.outcome_known);
}
