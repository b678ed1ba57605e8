//! Saying more to a turn that runs: whose outcome it is, who may stop it, what is refused.

use super::*;

#[tokio::test]
async fn on_codex_an_input_that_steers_has_the_outcome_of_the_turn_it_joined() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    active(&double);
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    nothing_else_is_sent(&mut double, &client).await;
    let turn = tokio::spawn(thread.turn("also this").when_busy(WhenBusy::Steer).run());
    let asked = double.expect("turn/steer").await;
    assert_eq!(asked.params["expectedTurnId"], "theirs");
    assert_eq!(asked.params["input"][0]["text"], "also this");
    asked.answer(json!({"turnId": "theirs"}));
    double.end_turn(T, "theirs", "both");
    let asked = double.expect("thread/items/list").await;
    asked.answer(json!({"data": [], "nextCursor": null}));
    let outcome = joined(turn).await.unwrap();
    assert_eq!(
        (outcome.turn.as_str(), outcome.text.as_deref()),
        ("theirs", Some("both"))
    );
}

#[tokio::test]
async fn whoever_joined_a_turn_and_leaves_does_not_stop_it() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    active(&double);
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    nothing_else_is_sent(&mut double, &client).await;
    let stream = thread.turn("also this").when_busy(WhenBusy::Steer).stream();
    let stream = stream.await.unwrap();
    double
        .expect("turn/steer")
        .await
        .answer(json!({"turnId": "theirs"}));
    nothing_else_is_sent(&mut double, &client).await;
    drop(stream);
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn steering_a_turn_never_starts_one_and_says_what_was_wrong() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    let turn = stream.turn().unwrap();
    let rows = [
        ("no active turn to steer", json!(null)),
        ("expected active turn id `t1` but found `t2`", json!(null)),
        ("no", reason("noActiveTurn")),
        (
            "no",
            json!({"reason": "staleTurn", "expected": "t1", "actual": "t2"}),
        ),
        (
            "no",
            json!({"reason": "notSteerable",
            "codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": "review"}}}),
        ),
    ];
    let mut errors = Vec::new();
    for (text, data) in rows {
        let turn = turn.clone();
        let steer = tokio::spawn(async move { turn.steer("more").await });
        let asked = double.expect("turn/steer").await;
        assert_eq!(asked.params["expectedTurnId"], "t1");
        assert!(asked.params["clientUserMessageId"].is_string());
        asked.refuse(-32600, text, &data);
        errors.push(joined(steer).await.unwrap_err());
    }
    assert!(matches!(errors[0], SteerError::NoActiveTurn));
    assert!(matches!(&errors[1], SteerError::Stale { actual, .. } if actual.as_str() == "t2"));
    assert!(matches!(errors[2], SteerError::NoActiveTurn));
    assert!(matches!(&errors[3], SteerError::Stale { expected, .. } if expected.as_str() == "t1"));
    assert!(matches!(&errors[4], SteerError::NotSteerable { kind } if kind == "review"));
    assert!(matches!(
        turn.steer("  ").await,
        Err(SteerError::Call(CallError::InvalidArgument { .. }))
    ));
    drop(stream.detach());
}
