//! Asking: answers, streams, order, ends of every kind, steering, automation.

use std::time::Duration;

use serde_json::json;
use turnlane::automation::{self, AutomationSpec, AutomationState};
use turnlane::{SteerError, TurnError, TurnEvent, TurnStatus, TurnStream};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::rig::Rig;

pub(crate) async fn a_question_has_an_answer(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let outcome = thread.turn("hello").await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);
    assert_eq!(outcome.text.as_deref(), Some("you said hello"));
    assert_eq!(outcome.thread, *thread.id());
    assert_eq!(rig.mock.requests().len(), 1);
}

pub(crate) async fn an_answer_streams(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let mut stream = thread.turn("say it in pieces").stream().await.unwrap();
    let mut said = String::new();
    let mut last = None;
    while let Some(event) = next(&mut stream).await {
        if let TurnEvent::Delta(delta) = &event {
            said.push_str(delta.text());
        }
        last = Some(event);
    }
    assert_eq!(said, "one two three");
    assert!(
        matches!(last, Some(TurnEvent::Ended(TurnStatus::Completed))),
        "{last:?}"
    );
}

pub(crate) async fn two_questions_at_once_have_two_answers_in_order(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let (first, second) = tokio::join!(thread.turn("first").run(), thread.turn("second").run());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.text.as_deref(), Some("you said first"));
    assert_eq!(second.text.as_deref(), Some("you said second"));
    assert_ne!(first.turn, second.turn);
    let asked: Vec<String> = rig
        .mock
        .requests()
        .iter()
        .map(|r| r.last_user_text())
        .collect();
    assert_eq!(asked, ["first", "second"]);
}

pub(crate) async fn threads_run_in_parallel(rig: Rig) {
    let client = rig.client().await;
    let slow = client.threads().start(rig.work()).await.unwrap();
    let quick = client.threads().start(rig.work()).await.unwrap();
    let mut waiting = slow.turn("wait").stream().await.unwrap();
    until_text(&mut waiting).await;
    // The other thread's turn ends while this one's is held back.
    assert_eq!(
        quick.turn("go").await.unwrap().text.as_deref(),
        Some("you said go")
    );
    rig.gate.release();
    let outcome = within("the slow turn", DEADLINE, waiting.outcome())
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().text.as_deref(), Some("still here"));
}

pub(crate) async fn a_failed_turn_says_why(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let error = thread.turn("fail").await.unwrap_err();
    let TurnError::Failed { info, outcome, .. } = error else {
        panic!("{error:?}");
    };
    assert!(!info.message.is_empty());
    assert!(!info.will_retry);
    assert_eq!(outcome.status, TurnStatus::Failed);
    // The thread goes on.
    assert_eq!(
        thread.turn("go on").await.unwrap().text.as_deref(),
        Some("you said go on")
    );
}

pub(crate) async fn an_interrupted_turn_is_no_success(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let mut stream = thread.turn("wait").stream().await.unwrap();
    until_text(&mut stream).await;
    let turn = stream.turn().unwrap();
    turn.interrupt().await.unwrap();
    let outcome = within("the end", DEADLINE, stream.outcome())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome.status, TurnStatus::Interrupted);
    let error = outcome.into_success().unwrap_err();
    assert!(matches!(error, TurnError::Interrupted { .. }), "{error:?}");
    assert_eq!(
        turn.outcome().await.unwrap().status,
        TurnStatus::Interrupted
    );
}

pub(crate) async fn a_turn_that_takes_too_long_is_interrupted(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let after = Duration::from_secs(2);
    let error = thread.turn("wait").timeout(after).await.unwrap_err();
    assert!(
        matches!(
            error,
            TurnError::Timeout {
                turn: Some(_),
                ended: true,
                ..
            }
        ),
        "{error:?}"
    );
    rig.mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

pub(crate) async fn a_dropped_stream_interrupts_its_turn(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let mut stream = thread.turn("wait").stream().await.unwrap();
    until_text(&mut stream).await;
    let turn = stream.turn().unwrap();
    drop(stream);
    let outcome = within("the end", DEADLINE, turn.outcome())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome.status, TurnStatus::Interrupted);
    rig.mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

pub(crate) async fn more_is_said_while_a_turn_runs(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let mut stream = thread.turn("wait").stream().await.unwrap();
    until_text(&mut stream).await;
    stream.turn().unwrap().steer("and more").await.unwrap();
    rig.gate.release();
    let outcome = within("the end", DEADLINE, stream.outcome())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);
    assert_eq!(outcome.text.as_deref(), Some("you said and more"));
}

pub(crate) async fn a_stale_steer_is_refused(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let before = thread.turn("hello").stream().await.unwrap();
    let before = before.outcome().await.unwrap().turn;
    let error = thread.turn_steer(&before, "too late").await.unwrap_err();
    assert!(matches!(error, SteerError::NoActiveTurn), "{error:?}");
    let mut running = thread.turn("wait").stream().await.unwrap();
    until_text(&mut running).await;
    let error = thread.turn_steer(&before, "to another").await.unwrap_err();
    let SteerError::Stale { expected, actual } = error else {
        panic!("{error:?}");
    };
    assert_eq!(expected, before);
    assert_eq!(actual, *running.turn().unwrap().id());
}

pub(crate) async fn an_answer_follows_a_schema(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let schema = json!({"type": "object", "properties": {"answer": {"type": "integer"}},
        "required": ["answer"], "additionalProperties": false});
    let turn = thread.turn("answer as json").output_schema(schema.clone());
    let outcome = turn.await.unwrap();
    let answer: serde_json::Value = outcome.json().unwrap();
    assert_eq!(answer, json!({"answer": 42}));
    let request = rig.mock.requests().pop().unwrap();
    assert_eq!(request.body["text"]["format"]["schema"], schema);
}

pub(crate) async fn a_result_has_commands_items_and_usage(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let outcome = thread.turn("run echo 4711").await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("the command is done"));
    let shown = serde_json::to_value(&outcome.items).unwrap();
    let command = shown.as_array().unwrap().iter();
    let command: Vec<_> = command
        .filter(|item| item["type"] == "commandExecution")
        .collect();
    assert_eq!(command.len(), 1, "{shown}");
    assert_eq!(command[0]["exitCode"], 0);
    assert_eq!(
        command[0]["aggregatedOutput"].as_str().unwrap().trim(),
        "4711"
    );
    let usage = outcome.usage.unwrap();
    assert!(usage.thread.unwrap().input_tokens > 0);
}

pub(crate) async fn an_automation_runs_three_times(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let automation = automation::spawn(
        thread.clone(),
        AutomationSpec {
            prompt: "tick".to_owned(),
            start_at: None,
            every: Duration::from_millis(20),
            stop_at: None,
            max_runs: Some(3),
        },
    );
    let status = within("three runs", DEADLINE, automation.wait())
        .await
        .unwrap();
    assert_eq!(status.state, AutomationState::Stopped, "{status:?}");
    assert_eq!(status.runs_completed, 3);
    assert_eq!(automation.runs().len(), 3);
    assert_eq!(rig.mock.requests().len(), 3);
}

pub(crate) async fn an_automation_that_is_stopped_now_leaves_no_turn(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let automation = automation::spawn(
        thread.clone(),
        AutomationSpec {
            prompt: "wait".to_owned(),
            start_at: None,
            every: Duration::from_mins(1),
            stop_at: None,
            max_runs: None,
        },
    );
    let asked = async || rig.mock.requests().len() == 1;
    eventually("the run", DEADLINE, asked).await.unwrap();
    within("the stop", DEADLINE, automation.stop_now())
        .await
        .unwrap();
    let status = within("the end", DEADLINE, automation.wait())
        .await
        .unwrap();
    assert_eq!(status.state, AutomationState::Stopped, "{status:?}");
    assert_eq!(status.runs_completed, 0);
    assert!(status.last_error.is_none(), "{status:?}");
    rig.mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

/// The next event, which must not be an error.
pub(super) async fn next(stream: &mut TurnStream) -> Option<TurnEvent> {
    let event = within("an event", DEADLINE, stream.next()).await.unwrap();
    event.transpose().unwrap()
}

/// Reads until the model has said something.
pub(super) async fn until_text(stream: &mut TurnStream) {
    while let Some(event) = next(stream).await {
        if matches!(event, TurnEvent::Delta(_)) {
            return;
        }
    }
    panic!("the turn ended before it said anything");
}
