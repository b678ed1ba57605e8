//! `turn/start`, `turn/steer` and `turn/interrupt` by their own names.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{
    Approval, CallError, Effort, InputItem, Personality, ReasoningSummary, Side, SteerError,
    TurnError, TurnStartParams,
};

use super::{answered, nothing_was_sent, refused};
use crate::double::{Kind, turn_event, turn_value};
use crate::rig::{T, joined, rig};

fn said(text: &str) -> TurnStartParams {
    TurnStartParams {
        input: text.into(),
        client_user_message_id: Some("c".to_owned()),
        ..TurnStartParams::default()
    }
}

fn input(text: &str) -> Value {
    json!([{"type": "text", "text": text, "text_elements": []}])
}

fn started(turn: &str) -> Value {
    json!({ "turn": turn_value(turn, "inProgress") })
}

#[tokio::test]
async fn a_turn_is_started_with_the_fields_of_codex() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let call = thread.turn_start(said("hello"));
    let (sent, turn) = answered(&mut double, "turn/start", started("u"), call).await;
    assert_eq!(
        sent,
        json!({"threadId": T, "input": input("hello"), "clientUserMessageId": "c",
            "approvalPolicy": "never", "effort": "medium",
            "sandboxPolicy": {"type": "readOnly", "networkAccess": false}})
    );
    assert_eq!(turn.unwrap().id().as_str(), "u");
    double.tell("turn/completed", turn_event(T, "u", "completed"));

    let params = TurnStartParams {
        cwd: Some("/other".into()),
        approval_policy: Some(Approval::OnRequest),
        model: Some("m".to_owned()),
        service_tier: Some("flex".to_owned()),
        effort: Some(Effort::high()),
        summary: Some(ReasoningSummary::Detailed),
        personality: Some(Personality::None),
        output_schema: Some(json!({"type": "object"})),
        ..said("again")
    };
    let call = thread.turn_start(params);
    let (sent, turn) = answered(&mut double, "turn/start", started("v"), call).await;
    assert_eq!(
        sent,
        json!({"threadId": T, "input": input("again"), "clientUserMessageId": "c",
            "cwd": "/other", "approvalPolicy": "on-request", "model": "m", "serviceTier": "flex",
            "sandboxPolicy": {"type": "readOnly", "networkAccess": false}, "effort": "high",
            "summary": "detailed", "personality": "none", "outputSchema": {"type": "object"}})
    );
    turn.unwrap();
}

#[tokio::test]
async fn a_message_without_an_id_of_its_own_gets_one() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let params = TurnStartParams {
        client_user_message_id: None,
        ..said("hello")
    };
    let call = thread.turn_start(params);
    let (sent, turn) = answered(&mut double, "turn/start", started("u"), call).await;
    assert!(!sent["clientUserMessageId"].as_str().unwrap().is_empty());
    turn.unwrap();
}

#[tokio::test]
async fn an_answer_without_a_turn_is_against_the_contract() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let call = thread.turn_start(said("hello"));
    let (_, result) = answered(&mut double, "turn/start", json!({"turn": {}}), call).await;
    let Err(TurnError::Call(CallError::Contract { side, reason, .. })) = result else {
        panic!("{result:?}");
    };
    assert_eq!(
        (side, reason.as_str()),
        (Side::Response, "result is missing turn id")
    );
}

#[tokio::test]
async fn input_that_became_part_of_another_turn_is_not_its_own() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    nothing_was_sent(&mut double, &client).await;
    let call = thread.turn_start(said("hello"));
    let (_, result) = answered(&mut double, "turn/start", started("theirs"), call).await;
    assert!(matches!(result, Err(TurnError::Merged { into }) if into.as_str() == "theirs"));
}

#[tokio::test]
async fn where_nobody_said_what_runs_the_first_message_tells() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let active = json!({"threadId": T, "status": {"type": "active", "activeFlags": []}});
    double.tell("thread/status/changed", active);
    nothing_was_sent(&mut double, &client).await;
    for (client_id, is_merged) in [("somebody's", true), ("c", false)] {
        let call = thread.turn_start(said("hello"));
        let play = async {
            double.expect("turn/start").await.answer(started("u"));
            let mut turn = turn_value("u", "inProgress");
            turn["items"] = json!([{"type": "userMessage", "id": "i", "clientId": client_id,
                "content": []}]);
            let asked = double.expect("thread/turns/list").await;
            asked.answer(json!({"data": [turn], "nextCursor": null}));
        };
        let ((), result) = tokio::join!(play, call);
        assert_eq!(matches!(result, Err(TurnError::Merged { .. })), is_merged);
        assert_eq!(result.is_ok(), !is_merged);
    }
}

#[tokio::test]
async fn an_input_that_says_nothing_is_refused_everywhere() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let text = "turn input must not be empty";
    let start = thread.turn_start(said("  ")).await.unwrap_err();
    assert_eq!(start.to_string(), text);
    let none = TurnStartParams::default();
    assert_eq!(thread.turn_start(none).await.unwrap_err().to_string(), text);
    let steer = thread.turn_steer("u", "").await.unwrap_err();
    assert_eq!(steer.to_string(), text);
    assert_eq!(thread.turn("\n").await.unwrap_err().to_string(), text);
    let stream = thread.turn(Vec::<InputItem>::new()).stream().await;
    assert_eq!(stream.unwrap_err().to_string(), text);
    let enqueue = thread.turn("").enqueue().await;
    assert_eq!(enqueue.unwrap_err().to_string(), text);
    let steer = thread.turn_steer("", "x").await.unwrap_err();
    assert_eq!(
        steer.to_string(),
        "params.expectedTurnId must be a non-empty string"
    );
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn d6_a_steer_is_a_steer_and_names_the_turn_it_expects() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let call = thread.turn_steer("u", "more");
    let (sent, turn) = answered(&mut double, "turn/steer", json!({"turnId": "u"}), call).await;
    assert_eq!(
        (&sent["threadId"], &sent["expectedTurnId"], &sent["input"]),
        (&json!(T), &json!("u"), &input("more"))
    );
    assert!(sent["clientUserMessageId"].is_string());
    assert_eq!(turn.unwrap().as_str(), "u");

    let stale = "expected active turn id `u` but found `v`";
    let call = thread.turn_steer("u", "more");
    let result = refused(
        &mut double,
        "turn/steer",
        (-32600, stale, Value::Null),
        call,
    )
    .await;
    assert!(matches!(
        result,
        Err(SteerError::Stale { expected, actual }) if expected.as_str() == "u" && actual.as_str() == "v"
    ));
    let none = (-32600, "x", json!({"reason": "noActiveTurn"}));
    let result = refused(&mut double, "turn/steer", none, thread.turn_steer("u", "x")).await;
    assert!(matches!(result, Err(SteerError::NoActiveTurn)));
}

#[tokio::test]
async fn an_interrupt_returns_at_its_answer() {
    let (mut double, client, _thread) = rig(Kind::Codex).await;
    let call = client.turn_interrupt(T, "u");
    let (sent, result) = answered(&mut double, "turn/interrupt", json!({}), call).await;
    assert_eq!(sent, json!({"threadId": T, "turnId": "u"}));
    result.unwrap();
}

#[tokio::test]
async fn an_interrupt_returns_at_the_end_of_its_turn() {
    let (mut double, client, _thread) = rig(Kind::Codex).await;
    let call = client.clone();
    let call = tokio::spawn(async move { call.turn_interrupt(T, "u").await });
    let asked = double.expect("turn/interrupt").await;
    double.tell("turn/completed", turn_event(T, "other", "interrupted"));
    double.tell("turn/completed", turn_event(T, "u", "interrupted"));
    joined(call).await.unwrap();
    drop(asked);
}

#[tokio::test]
async fn an_interrupt_that_is_never_answered_ends_after_its_time() {
    let (mut double, client, _thread) = rig(Kind::Codex).await;
    let after = Duration::from_millis(20);
    let call = client.turn_interrupt_with_timeout(T, "u", after);
    let (asked, result) = tokio::join!(double.expect("turn/interrupt"), call);
    assert!(matches!(
        result,
        Err(CallError::Timeout { method, after: limit }) if method == "turn/interrupt" && limit == after
    ));
    drop(asked);
}
