//! Turns that wait on the server and are owned by nobody here.

use serde_json::{Value, json};
use turnlane::{CallError, QueuedTurn, Thread, TurnError, TurnEvent, TurnStatus};

use crate::double::{Double, Kind, turn_value};
use crate::rig::{T, joined, nothing_else_is_sent, rig};

async fn queued(double: &mut Double, thread: &Thread, answer: Value) -> (QueuedTurn, Value) {
    let turn = tokio::spawn(thread.turn("later").idempotency_key("k").enqueue());
    let asked = double.expect("thread/queue/add").await;
    let params = asked.params.clone();
    asked.answer(answer);
    (joined(turn).await.unwrap(), params)
}

/// Answers the next look at the queue.
async fn look(double: &mut Double, rows: Value, running: Value) {
    let asked = double.expect("thread/queue/list").await;
    asked.answer(json!({"data": rows, "nextCursor": null, "running": running}));
}

/// Answers the next look at the history.
async fn history(double: &mut Double, turns: Value) {
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": turns, "nextCursor": null}));
}

fn turn_of_row(turn: &str, status: &str) -> Value {
    let mut view = turn_value(turn, status);
    view["queuedTurnId"] = json!("r1");
    view
}

fn end_of_row(turn: &str, status: &str) -> Value {
    json!({"threadId": T, "turn": turn_of_row(turn, status)})
}

#[tokio::test]
async fn a_queued_turn_of_turnlane_carries_everything_a_turn_does() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let answer = json!({"queuedTurn": {"id": "r1"}, "queuedSubmission": {"id": "r1"}});
    let (turn, params) = queued(&mut double, &thread, answer).await;
    assert_eq!(turn.id().as_str(), "r1");
    assert_eq!(params["threadId"], T);
    assert_eq!(params["idempotencyKey"], "k");
    let start = &params["turnStartParams"];
    assert_eq!(start["threadId"], T);
    assert_eq!(start["input"][0]["text"], "later");
    assert_eq!(start["clientUserMessageId"], "k");
    assert_eq!(start["sandboxPolicy"]["type"], "readOnly");
    assert_eq!(start.get("whenBusy"), None);
    // It is the server's now.
    drop(turn);
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_queued_turn_of_codex_carries_its_input_and_key_alone() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let answer = json!({"queuedSubmission": {"id": "r1"}});
    let (turn, params) = queued(&mut double, &thread, answer).await;
    assert_eq!(turn.id().as_str(), "r1");
    let input = json!([{"type": "text", "text": "later", "text_elements": []}]);
    assert_eq!(
        params,
        json!({"threadId": T, "input": input, "clientUserMessageId": "k"})
    );
    let other = thread.turn("later").model("another").enqueue().await;
    assert!(matches!(
        other,
        Err(TurnError::Call(CallError::Unsupported { method })) if method == "thread/queue/add"
    ));
    let empty = thread.turn("").enqueue().await;
    assert!(matches!(
        empty,
        Err(TurnError::Call(CallError::InvalidArgument { .. }))
    ));
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_queued_turn_is_followed_from_its_row_to_the_end_of_its_turn() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let (turn, _) = queued(&mut double, &thread, json!({"queuedTurn": {"id": "r1"}})).await;
    let waits = turn.clone();
    let outcome = tokio::spawn(async move { waits.outcome().await });
    let row = json!([{"id": "r1", "status": {"type": "pending"}}]);
    look(&mut double, row.clone(), json!(null)).await;
    // What is told says where the row is; nothing is asked before it has left both places.
    let running = json!({"queuedTurnId": "r1", "turnId": "t1"});
    let others = json!({"threadId": T, "turn": turn_value("t0", "completed")});
    double.tell(
        "thread/queue/changed",
        json!({"threadId": T, "queuedTurns": row}),
    );
    double.tell("turn/completed", others);
    let changed = json!({"threadId": T, "queuedTurns": [], "running": running});
    double.tell("thread/queue/changed", changed);
    nothing_else_is_sent(&mut double, &client).await;
    double.tell("turn/completed", end_of_row("t1", "completed"));
    look(&mut double, json!([]), json!(null)).await;
    history(&mut double, json!([turn_of_row("t1", "completed")])).await;
    let item = json!({"type": "agentMessage", "id": "a", "text": "done"});
    let asked = double.expect("thread/items/list").await;
    asked.answer(json!({"data": [{"turnId": "t1", "item": item}], "nextCursor": null}));
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(
        (outcome.turn.as_str(), outcome.text.as_deref()),
        ("t1", Some("done"))
    );
}

#[tokio::test]
async fn a_row_that_was_put_back_still_waits() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let (turn, _) = queued(&mut double, &thread, json!({"queuedTurn": {"id": "r1"}})).await;
    let waits = turn.clone();
    let outcome = tokio::spawn(async move { waits.outcome().await });
    // Its first turn has failed for want of quota, and the row is at the head again.
    let row = json!([{"id": "r1", "status": {"type": "pending"}, "lastTurnId": "t1"}]);
    look(&mut double, row, json!(null)).await;
    double.tell("turn/completed", end_of_row("t2", "completed"));
    look(&mut double, json!([]), json!(null)).await;
    let turns = json!([turn_of_row("t2", "completed"), turn_of_row("t1", "failed")]);
    history(&mut double, turns).await;
    double
        .expect("thread/items/list")
        .await
        .refuse(-32601, "no", &json!(null));
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.turn.as_str(), "t2");
    assert_eq!(outcome.status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_row_that_failed_and_holds_the_queue_is_an_error_with_its_reason() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let (turn, _) = queued(&mut double, &thread, json!({"queuedTurn": {"id": "r1"}})).await;
    let waits = turn.clone();
    let outcome = tokio::spawn(async move { waits.outcome().await });
    let status = json!({"type": "failed", "error": {"message": "queued turn could not start: no"}});
    let row = json!([{"id": "r1", "status": status}]);
    look(&mut double, row, json!(null)).await;
    history(&mut double, json!([])).await;
    match joined(outcome).await {
        Err(TurnError::Failed { info, .. }) => {
            assert_eq!(info.message, "queued turn could not start: no");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_row_that_was_deleted_has_been_interrupted() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let (turn, _) = queued(&mut double, &thread, json!({"queuedTurn": {"id": "r1"}})).await;
    let gone = turn.clone();
    let deleted = tokio::spawn(async move { gone.delete().await });
    let asked = double.expect("thread/queue/delete").await;
    assert_eq!(asked.params, json!({"threadId": T, "queuedTurnId": "r1"}));
    asked.answer(json!({"deleted": true}));
    assert!(joined(deleted).await.unwrap());
    let outcome = tokio::spawn(async move { turn.outcome().await });
    look(&mut double, json!([]), json!(null)).await;
    history(&mut double, json!([])).await;
    assert_eq!(
        joined(outcome).await.unwrap().status,
        TurnStatus::Interrupted
    );
}

#[tokio::test]
async fn on_codex_a_row_is_known_again_by_its_message() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let (turn, _) = queued(
        &mut double,
        &thread,
        json!({"queuedSubmission": {"id": "r1"}}),
    )
    .await;
    let deleted = turn.clone();
    let deleted = tokio::spawn(async move { deleted.delete().await });
    let asked = double.expect("thread/queue/delete").await;
    assert_eq!(
        asked.params,
        json!({"threadId": T, "queuedSubmissionId": "r1"})
    );
    asked.answer(json!({"deleted": false}));
    assert!(!joined(deleted).await.unwrap());
    let became = tokio::spawn(async move { turn.turn().await });
    let asked = double.expect("thread/queue/list").await;
    asked.answer(json!({"data": [], "nextCursor": null}));
    let mut view = turn_value("t7", "inProgress");
    view["items"] = json!([{"type": "userMessage", "id": "u", "clientId": "k", "content": []}]);
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [turn_value("t8", "completed"), view], "nextCursor": null}));
    let turn = joined(became).await.unwrap().unwrap();
    assert_eq!(turn.id().as_str(), "t7");
}

#[tokio::test(start_paused = true)]
async fn on_codex_a_row_that_is_nowhere_may_be_about_to_run_until_nothing_is_told_for_a_while() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let (turn, _) = queued(
        &mut double,
        &thread,
        json!({"queuedSubmission": {"id": "r1"}}),
    )
    .await;
    let outcome = tokio::spawn(async move { turn.outcome().await });
    look(&mut double, json!([]), json!(null)).await;
    history(&mut double, json!([])).await;
    double.tell("thread/queue/changed", json!({"threadId": T}));
    look(&mut double, json!([]), json!(null)).await;
    history(&mut double, json!([])).await;
    let begin = tokio::time::Instant::now();
    look(&mut double, json!([]), json!(null)).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    history(&mut double, json!([])).await;
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn a_queue_is_shown_with_all_its_pages() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let view = tokio::spawn(async move { thread.queue().await });
    let asked = double.expect("thread/queue/list").await;
    let rows = json!([{"id": "r1", "status": {"type": "failed"}}]);
    asked.answer(json!({"data": rows, "nextCursor": "p1", "paused": null}));
    let asked = double.expect("thread/queue/list").await;
    assert_eq!(asked.params["cursor"], "p1");
    let rows = json!([{"id": "r2"}]);
    asked.answer(json!({"data": rows, "nextCursor": null, "paused": {"reason": "user"}}));
    let view = joined(view).await.unwrap();
    let rows: Vec<_> = view
        .rows
        .iter()
        .map(|row| (row.id.as_str(), row.state.as_str()))
        .collect();
    assert_eq!(rows, [("r1", "failed"), ("r2", "pending")]);
    assert_eq!(view.paused, Some(true));
}

#[tokio::test]
async fn a_turn_that_waits_in_the_queue_is_stopped_by_taking_it_out() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    nothing_else_is_sent(&mut double, &client).await;
    let turn = stream.detach().unwrap();
    let stopped = turn.clone();
    let stopped = tokio::spawn(async move { stopped.interrupt().await });
    let asked = double.expect("turn/interrupt").await;
    asked.refuse(-32600, "turn is queued", &json!({"reason": "queued"}));
    let asked = double.expect("thread/queue/list").await;
    let rows = json!([{"id": "r0", "turnId": "t0"}, {"id": "r1", "turnId": "t1"}]);
    asked.answer(json!({"data": rows, "nextCursor": null}));
    let asked = double.expect("thread/queue/delete").await;
    assert_eq!(asked.params["queuedTurnId"], "r1");
    asked.answer(json!({"deleted": true}));
    joined(stopped).await.unwrap();
    // Whoever waits for it by its id learns that it never began.
    let outcome = tokio::spawn(async move { turn.outcome().await });
    history(&mut double, json!([])).await;
    look(&mut double, json!([]), json!(null)).await;
    history(&mut double, json!([])).await;
    let asked = double.expect("thread/items/list").await;
    asked.refuse(-32600, "turn not found: t1", &json!(null));
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn a_turn_of_the_queue_is_bound_to_nobody() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let bound = thread.turn("later").bound_to_connection().enqueue().await;
    assert!(matches!(
        bound,
        Err(TurnError::Call(CallError::InvalidArgument { .. }))
    ));
    nothing_else_is_sent(&mut double, &client).await;
}

fn queue_told(rows: &Value, running: &Value) -> Value {
    json!({"threadId": T, "queuedTurns": rows, "truncated": false, "running": running})
}

/// Answers a look for a turn that is neither in the history nor in the queue.
async fn nowhere(double: &mut Double) {
    history(double, json!([])).await;
    look(double, json!([]), json!(null)).await;
    history(double, json!([])).await;
}

async fn no_items(double: &mut Double) {
    let asked = double.expect("thread/items/list").await;
    asked.answer(json!({"data": [], "nextCursor": null}));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_taken_out_of_its_lane_is_told_to_its_stream_at_once() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let stream = thread.turn("hello").stream();
    let mut stream = stream.await.unwrap();
    let asked = double.expect("turn/start").await;
    // On its way before the row was added.
    double.tell("thread/queue/changed", queue_told(&json!([]), &json!(null)));
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    let row = json!([{"id": "r1", "turnId": "t1", "status": {"type": "pending"}}]);
    double.tell("thread/queue/changed", queue_told(&row, &json!(null)));
    let event = stream.next().await.unwrap().unwrap();
    assert!(matches!(event, TurnEvent::Queued { position: 0, .. }));
    let turn = stream.turn().unwrap();
    let by_id = tokio::spawn(async move { turn.outcome().await });
    history(&mut double, json!([])).await;
    look(&mut double, row, json!(null)).await;
    // About to run, and others behind it: no reason to ask.
    let others = json!([{"id": "r2"}]);
    let runs = json!({"queuedTurnId": "r1", "turnId": "t1"});
    double.tell("thread/queue/changed", queue_told(&others, &runs));
    let more = json!({"threadId": T, "queuedTurns": others, "truncated": true});
    double.tell("thread/queue/changed", more);
    nothing_else_is_sent(&mut double, &client).await;
    let since = tokio::time::Instant::now();
    double.tell("thread/queue/changed", queue_told(&others, &json!(null)));
    nowhere(&mut double).await;
    no_items(&mut double).await;
    assert_eq!(joined(by_id).await.unwrap().status, TurnStatus::Interrupted);
    nowhere(&mut double).await;
    let outcome = tokio::spawn(stream.outcome());
    no_items(&mut double).await;
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Interrupted);
    assert_eq!(outcome.turn.as_str(), "t1");
    let took = since.elapsed();
    assert!(took < std::time::Duration::from_secs(1), "{took:?}");
}
