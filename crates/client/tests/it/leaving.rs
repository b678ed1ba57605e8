//! Turns whose callers leave or run out of time: what is sent then, and what is not.

use std::time::Duration;

use serde_json::json;
use turnlane::{CallError, TurnError};

use crate::double::{Kind, turn_event, turn_value};
use crate::rig::{BOTH, T, joined, nothing_else_is_sent, rig, run};

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_done_when_the_turn_has_ended_even_without_an_answer() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    let turn = stream.turn().unwrap();
    let interrupt = |turn: turnlane::Turn| tokio::spawn(async move { turn.interrupt().await });
    let (first, second) = (interrupt(turn.clone()), interrupt(turn.clone()));
    let one = double.expect("turn/interrupt").await;
    assert_eq!(one.params, json!({"threadId": T, "turnId": "t1"}));
    one.answer(json!({}));
    joined(first).await.unwrap();
    // 0.166 never answers the second one.
    let _held = double.expect("turn/interrupt").await;
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    joined(second).await.unwrap();
    let third = interrupt(turn.clone());
    double.expect("turn/interrupt").await.refuse(
        -32600,
        "no active turn to interrupt",
        &json!(null),
    );
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [turn_value("t1", "interrupted")], "nextCursor": null}));
    joined(third).await.unwrap();
    let fourth = interrupt(turn);
    let _held_too = double.expect("turn/interrupt").await;
    assert!(matches!(
        fourth.await.unwrap(),
        Err(CallError::Timeout { after, .. }) if after == Duration::from_secs(10)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_interrupted_and_its_end_waited_for() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let after = Duration::from_secs(7);
    let turn = tokio::spawn(thread.turn("hello").timeout(after).run());
    double.start_turn(T, "t1").await;
    let begin = tokio::time::Instant::now();
    let asked = double.expect("turn/interrupt").await;
    assert_eq!(begin.elapsed().as_secs(), 7);
    asked.answer(json!({}));
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    match joined(turn).await {
        Err(TurnError::Timeout {
            turn,
            after: told,
            ended,
        }) => {
            assert_eq!(turn.unwrap().as_str(), "t1");
            assert_eq!((told, ended), (after, true));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_stop_is_given_up_after_two_seconds_but_holds_its_place_on_codex() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let turn = tokio::spawn(thread.turn("hello").timeout(Duration::from_secs(7)).run());
    double.start_turn(T, "t1").await;
    let begin = tokio::time::Instant::now();
    let _held = double.expect("turn/interrupt").await;
    assert!(matches!(
        turn.await.unwrap(),
        Err(TurnError::Timeout { ended: false, .. })
    ));
    assert_eq!(begin.elapsed().as_secs(), 9);
    let next = run(&thread, "next");
    nothing_else_is_sent(&mut double, &client).await;
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    double.start_turn(T, "t2").await;
    double.end_turn(T, "t2", "hi");
    joined(next).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_default_limit_is_two_minutes_and_the_longest_one_is_none() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let begin = tokio::time::Instant::now();
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    let minutes = Duration::from_mins(2);
    assert!(matches!(
        turn.await.unwrap(),
        Err(TurnError::Timeout { after, ended: false, .. }) if after == minutes
    ));
    assert_eq!(begin.elapsed().as_secs(), 122);
    double.expect("turn/interrupt").await.answer(json!({}));
    let forever = tokio::spawn(thread.turn("hello").timeout(Duration::MAX).run());
    double.start_turn(T, "t2").await;
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    double.end_turn(T, "t2", "hi");
    assert_eq!(joined(forever).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_time_is_over_before_its_place_is_reached_is_never_sent() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let first = tokio::spawn(thread.turn("one").timeout(Duration::MAX).run());
    double.start_turn(T, "t1").await;
    let second = thread
        .turn("two")
        .timeout(Duration::from_secs(5))
        .run()
        .await;
    assert!(matches!(
        second,
        Err(TurnError::Timeout {
            turn: None,
            ended: true,
            ..
        })
    ));
    double.end_turn(T, "t1", "hi");
    joined(first).await.unwrap();
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_builder_that_is_dropped_sends_nothing() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    drop(thread.turn("hello"));
    drop(thread.turn("hello").run());
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn whoever_leaves_while_waiting_in_the_client_sends_nothing_and_frees_its_place() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let first = run(&thread, "one");
    double.start_turn(T, "t1").await;
    let second = thread.turn("two").stream().await.unwrap();
    let third = run(&thread, "three");
    nothing_else_is_sent(&mut double, &client).await;
    assert!(second.turn().is_none());
    drop(second);
    nothing_else_is_sent(&mut double, &client).await;
    double.end_turn(T, "t1", "hi");
    joined(first).await.unwrap();
    let params = double.start_turn(T, "t3").await;
    assert_eq!(params["input"][0]["text"], "three");
    double.end_turn(T, "t3", "hi");
    joined(third).await.unwrap();
}

#[tokio::test]
async fn whoever_leaves_before_the_answer_has_the_turn_interrupted_when_it_comes() {
    for kind in BOTH {
        let (mut double, client, thread) = rig(kind).await;
        let stream = thread.turn("hello").stream().await.unwrap();
        let asked = double.expect("turn/start").await;
        drop(stream);
        nothing_else_is_sent(&mut double, &client).await;
        asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
        let interrupt = double.expect("turn/interrupt").await;
        assert_eq!(interrupt.params["turnId"], "t1");
    }
}

#[tokio::test]
async fn whoever_leaves_last_before_the_answer_keeps_the_connection_for_the_interrupt() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let asked = double.expect("turn/start").await;
    drop((thread, client));
    drop(stream);
    asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
    double.expect("turn/interrupt").await.answer(json!({}));
    double.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_kept_for_an_answer_that_does_not_come() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let _held = double.expect("turn/start").await;
    drop((thread, client));
    let begin = tokio::time::Instant::now();
    drop(stream);
    double.ended().await;
    assert_eq!(begin.elapsed().as_millis(), 500);
}

#[tokio::test]
async fn whoever_leaves_a_running_turn_interrupts_it_once_and_the_next_waits_for_its_end() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    drop(stream);
    let asked = double.expect("turn/interrupt").await;
    // Nobody stopped the queue of the thread.
    let left = json!({"threadId": T, "turnId": "t1", "queue": "continue"});
    assert_eq!(asked.params, left);
    asked.answer(json!({}));
    let next = run(&thread, "next");
    nothing_else_is_sent(&mut double, &client).await;
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    double.start_turn(T, "t2").await;
    double.end_turn(T, "t2", "hi");
    joined(next).await.unwrap();
}

#[tokio::test]
async fn the_last_handle_interrupts_its_turn_before_it_closes_the_connection() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    drop((client, thread));
    drop(stream);
    let asked = double.expect("turn/interrupt").await;
    assert_eq!(asked.params["turnId"], "t1");
    double.ended().await;
}

#[tokio::test]
async fn a_run_that_is_dropped_interrupts_its_turn() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    turn.abort();
    let asked = double.expect("turn/interrupt").await;
    assert_eq!(asked.params["turnId"], "t1");
}

#[tokio::test]
async fn a_stream_that_has_ended_interrupts_nothing() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    while let Some(event) = stream.next().await {
        event.unwrap();
    }
    drop(stream);
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_turn_that_waits_in_the_queue_is_taken_out_when_its_reader_leaves() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    nothing_else_is_sent(&mut double, &client).await;
    drop(stream);
    let asked = double.expect("thread/queue/delete").await;
    assert_eq!(asked.params, json!({"threadId": T, "queuedTurnId": "r1"}));
    // It may have been claimed a moment before.
    let asked = double.expect("turn/interrupt").await;
    assert_eq!(asked.params["turnId"], "t1");
}
