//! More input for a turn that runs.

use serde_json::json;

use super::double::{Bench, Child, THREAD};
use super::lane::{Lane, request};
use crate::{OutcomeStatus, Steer};

async fn running(bench: &mut Bench, lane: &mut Lane) -> Child {
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child
    };
    let (child, ()) = tokio::join!(play, lane.until("accepted"));
    child
}

#[tokio::test(start_paused = true)]
async fn a_steer_is_told_when_codex_has_taken_it() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    lane.steer("s1");
    let play = async {
        let request = child.request("turn/steer").await;
        let params: serde_json::Value = request.params.parse().unwrap();
        assert_eq!(params["expectedTurnId"], "t1");
        assert_eq!(params["threadId"], THREAD);
        assert_eq!(params["input"][0]["text"], "more");
        request.responder.result(&json!({"turnId": "t1"}));
        child
    };
    let (child, ()) = tokio::join!(play, lane.until("completed userMessage"));
    assert_eq!(lane.completed[0].id.as_str(), "s1");
    child.turn("turn/completed", "t1", "completed");
    assert_eq!(lane.finish().await.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("close steer Closed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_came_too_late_becomes_a_further_turn() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    lane.steer("s1");
    let play = async {
        let steer = child.request("turn/steer").await;
        child.say("t1", "m", "first");
        child.turn("turn/completed", "t1", "completed");
        let refused =
            turnlane_protocol::error::ErrorObject::bare(-32600, "no active turn to steer");
        steer.responder.error(&refused);
        let second = child.start_turn("t2").await;
        assert_eq!(second["clientUserMessageId"], "s1");
        assert_eq!(second["input"][0]["text"], "more");
        assert!(second.get("additionalContext").is_none());
        child.say("t1", "late", "of the first");
        child.say("t2", "m", "second");
        child.turn("turn/completed", "t2", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    // Codex's ids repeat here, so only one of the two can be told under its name.
    assert_eq!(lane.count("completed userMessage"), 1);
    assert_eq!(lane.count("accepted"), 1);
    assert_eq!(lane.count("close steer Closed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_the_lane_accepted_at_the_end_is_delivered() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    child.turn("turn/completed", "t1", "completed");
    // Accepted by the lane, handed over only after it was asked whether the turn may end.
    let steer = Steer::Input {
        input: Vec::new(),
        item_id: "s1".into(),
        client_id: None,
    };
    let accepted = lane.end.steer.reserve(steer).unwrap();
    lane.until("close steer More").await;
    accepted.hand_over();
    let play = async {
        child.start_turn("t2").await;
        child.turn("turn/completed", "t2", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("completed userMessage"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_steer_of_a_turn_that_fails_does_not_vanish() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let mut child = running(&mut bench, &mut lane).await;
    lane.steer("s1");
    let play = async {
        child.refuse("turn/steer", "no active turn to steer").await;
        child.turn("turn/completed", "t1", "failed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(lane.count("completed userMessage"), 1);
    assert_eq!(lane.count("warning a message may not have reached"), 1);
}
