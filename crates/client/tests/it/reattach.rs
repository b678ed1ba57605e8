//! Turns over lost connections: found again, ended, sent again or given up, by the table.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{
    CallError, Client, Thread, TransportError, TurnError, TurnEvent, TurnStatus, TurnStream,
};
use turnlane_testkit::wait::within;

use crate::double::{Asked, Double, Kind, thread_answer, turn_event, turn_value};
use crate::rig::{Site, T, joined, nothing_else_is_sent, run, with_thread};

async fn rig(site: &mut Site, kind: Kind) -> (Double, Client, Thread) {
    let (double, client) = site.connect(kind).await;
    with_thread(double, client).await
}

/// The next connection, with its thread subscribed again.
async fn again(site: &mut Site, kind: Kind) -> Double {
    let mut double = site.accept(kind).await;
    let asked = double.expect("thread/resume").await;
    assert_eq!(asked.params["threadId"], T);
    assert_eq!(asked.params["excludeTurns"], true);
    asked.answer(thread_answer(T));
    double
}

async fn look(double: &mut Double, turns: Value) {
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": turns, "nextCursor": null}));
}

/// The events that are told from now on, until one is wanted: within a second of what the server
/// said last, be it the answer that found a turn again.
async fn until(stream: &mut TurnStream, wanted: impl Fn(&TurnEvent) -> bool) -> TurnEvent {
    let told = async {
        loop {
            let event = stream.next().await.unwrap().unwrap();
            if wanted(&event) {
                return event;
            }
        }
    };
    within("an event", Duration::from_secs(1), told)
        .await
        .unwrap()
}

fn user(key: &Value) -> Value {
    json!({"type": "userMessage", "id": "t1-user", "clientId": key, "content": []})
}

#[tokio::test]
async fn a_turn_that_still_runs_is_followed_on() {
    for kind in [Kind::Codex, Kind::Turnlane] {
        let mut site = Site::open().await;
        let (mut double, _client, thread) = rig(&mut site, kind).await;
        let mut stream = thread.turn("hello").stream().await.unwrap();
        let params = double.start_turn(T, "t1").await;
        until(&mut stream, |event| matches!(event, TurnEvent::Started(_))).await;
        drop(double);
        let mut double = again(&mut site, kind).await;
        look(&mut double, json!([turn_value("t1", "inProgress")])).await;
        let event = until(&mut stream, |event| {
            matches!(event, TurnEvent::Reattached { .. })
        });
        assert!(matches!(
            event.await,
            TurnEvent::Reattached { generation: 2 }
        ));
        double.end_turn(T, "t1", "hi");
        let outcome = tokio::spawn(stream.outcome());
        let asked = double.expect("thread/items/list").await;
        let before = json!({"type": "agentMessage", "id": "missed", "text": "between"});
        let answer = json!({"type": "agentMessage", "id": "t1-answer", "text": "hi"});
        let entry = |item: &Value| json!({"turnId": "t1", "item": item});
        let items = [user(&params["clientUserMessageId"]), before, answer];
        let data: Vec<Value> = items.iter().map(entry).collect();
        asked.answer(json!({"data": data, "nextCursor": null}));
        let outcome = joined(outcome).await.unwrap();
        assert_eq!(outcome.text.as_deref(), Some("hi"));
        assert_eq!(outcome.items.len(), 3);
    }
}

#[tokio::test]
async fn a_turn_that_has_ended_meanwhile_gives_its_items_and_its_end() {
    for (word, status) in [
        ("completed", TurnStatus::Completed),
        ("failed", TurnStatus::Failed),
        ("interrupted", TurnStatus::Interrupted),
    ] {
        let mut site = Site::open().await;
        let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
        let mut stream = thread.turn("hello").stream().await.unwrap();
        double.start_turn(T, "t1").await;
        until(&mut stream, |event| {
            matches!(event, TurnEvent::ItemCompleted(_))
        })
        .await;
        drop(double);
        let mut double = again(&mut site, Kind::Codex).await;
        look(
            &mut double,
            json!([turn_value("t2", "completed"), turn_value("t1", word)]),
        )
        .await;
        let asked = double.expect("thread/items/list").await;
        let item = json!({"type": "agentMessage", "id": "a", "text": "said"});
        asked.answer(json!({"data": [{"turnId": "t1", "item": item}], "nextCursor": null}));
        let event = until(&mut stream, |event| {
            matches!(event, TurnEvent::ItemCompleted(_))
        });
        assert!(matches!(event.await, TurnEvent::ItemCompleted(item) if item.id.as_str() == "a"));
        let end = until(&mut stream, |event| matches!(event, TurnEvent::Ended(_))).await;
        assert!(matches!(end, TurnEvent::Ended(ended) if ended == status));
    }
}

#[tokio::test]
async fn a_turn_that_codex_does_not_know_is_lost_and_not_sent_again() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
    let turn = run(&thread, "hello");
    let params = double.start_turn(T, "t1").await;
    drop(double);
    let mut double = again(&mut site, Kind::Codex).await;
    look(&mut double, json!([])).await;
    match joined(turn).await {
        Err(TurnError::Lost { client_id }) => assert_eq!(client_id, params["clientUserMessageId"]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_turn_that_turnlane_does_not_know_is_sent_again_with_its_key() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Turnlane).await;
    let turn = run(&thread, "hello");
    let first = double.start_turn(T, "t1").await;
    drop(double);
    let mut double = again(&mut site, Kind::Turnlane).await;
    look(&mut double, json!([])).await;
    let second = double.start_turn(T, "t2").await;
    assert_eq!(first, second);
    double.end_turn(T, "t2", "hi");
    double
        .expect("thread/items/list")
        .await
        .refuse(-32601, "no", &json!(null));
    let outcome = joined(turn).await.unwrap();
    assert_eq!(
        (outcome.turn.as_str(), outcome.text.as_deref()),
        ("t2", Some("hi"))
    );
}

#[tokio::test]
async fn a_turn_that_was_not_answered_is_found_by_its_message_on_codex() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    let key = asked.params["clientUserMessageId"].clone();
    asked.leave();
    drop(double);
    let mut double = again(&mut site, Kind::Codex).await;
    let mut view = turn_value("t1", "inProgress");
    view["items"] = json!([user(&key)]);
    look(&mut double, json!([view])).await;
    double.end_turn(T, "t1", "hi");
    let items = double.expect("thread/items/list").await;
    items.refuse(-32601, "no", &json!(null));
    let outcome = joined(turn).await.unwrap();
    assert_eq!(
        (outcome.turn.as_str(), outcome.text.as_deref()),
        ("t1", Some("hi"))
    );
}

#[tokio::test]
async fn a_turn_that_was_not_answered_and_is_not_known_is_lost_on_codex() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    asked.leave();
    drop(double);
    let mut double = again(&mut site, Kind::Codex).await;
    look(&mut double, json!([turn_value("t0", "completed")])).await;
    assert!(matches!(joined(turn).await, Err(TurnError::Lost { .. })));
}

#[tokio::test]
async fn a_turn_that_was_not_answered_is_asked_for_again_with_its_key_on_turnlane() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Turnlane).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    let first = asked.params.clone();
    asked.leave();
    drop(double);
    let mut double = site.accept(Kind::Turnlane).await;
    // The call is repeated and the thread resumed, in whichever order.
    let mut resent = None;
    for _ in 0..2 {
        let asked = double.next().await;
        match asked.method.as_str() {
            "thread/resume" => asked.answer(thread_answer(T)),
            _ => resent = Some(asked),
        }
    }
    let resent: Asked = resent.unwrap();
    assert_eq!(
        (resent.method.as_str(), &resent.params),
        ("turn/start", &first)
    );
    resent.answer(json!({"turn": turn_value("t1", "inProgress")}));
    look_while_running(&mut double, turn, &first["clientUserMessageId"]).await;
}

/// Plays a turn whose client looks for it at some time.
async fn look_while_running(
    double: &mut Double,
    turn: tokio::task::JoinHandle<Result<turnlane::TurnOutcome, TurnError>>,
    key: &Value,
) {
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    double.item(T, "t1", "item/completed", &user(key));
    double.end_turn(T, "t1", "hi");
    let turn = tokio::spawn(turn);
    loop {
        if turn.is_finished() {
            break;
        }
        tokio::select! {
            asked = double.next() => match asked.method.as_str() {
                "thread/turns/list" => asked.answer(
                    json!({"data": [turn_value("t1", "inProgress")], "nextCursor": null}),
                ),
                "thread/items/list" => asked.refuse(-32601, "no", &json!(null)),
                other => panic!("{other}"),
            },
            () = tokio::task::yield_now() => {}
        }
    }
    let outcome = joined(turn).await.unwrap().unwrap();
    assert_eq!(outcome.text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_turn_that_waits_in_the_queue_is_found_there() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Turnlane).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    let asked = double.expect("turn/start").await;
    let key = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    let rows = json!([{"id": "r1"}]);
    double.tell(
        "thread/queue/changed",
        json!({"threadId": T, "queuedTurns": rows}),
    );
    until(&mut stream, |event| {
        matches!(event, TurnEvent::Queued { .. })
    })
    .await;
    drop(double);
    let mut double = again(&mut site, Kind::Turnlane).await;
    look(&mut double, json!([])).await;
    let asked = double.expect("thread/queue/list").await;
    let rows = json!([{"id": "r0"}, {"id": "r1"}]);
    asked.answer(json!({"data": rows, "nextCursor": null, "running": null}));
    until(&mut stream, |event| {
        matches!(event, TurnEvent::Reattached { .. })
    })
    .await;
    let event = until(&mut stream, |event| {
        matches!(event, TurnEvent::Queued { .. })
    });
    assert!(matches!(event.await, TurnEvent::Queued { position: 1, .. }));
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    double.item(T, "t1", "item/completed", &user(&key));
    double.end_turn(T, "t1", "hi");
    let outcome = tokio::spawn(stream.outcome());
    double
        .expect("thread/items/list")
        .await
        .refuse(-32601, "no", &json!(null));
    assert_eq!(joined(outcome).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_turn_whose_reader_left_during_the_outage_is_interrupted_afterwards() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    until(&mut stream, |event| matches!(event, TurnEvent::Started(_))).await;
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    drop(stream);
    let mut interrupted = false;
    while !interrupted {
        let asked = double.next().await;
        match asked.method.as_str() {
            "thread/resume" => asked.answer(thread_answer(T)),
            "thread/turns/list" => {
                asked.answer(json!({"data": [turn_value("t1", "inProgress")], "nextCursor": null}));
            }
            "turn/interrupt" => {
                assert_eq!(asked.params["turnId"], "t1");
                interrupted = true;
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_turn_by_its_id_is_waited_for_over_a_lost_connection() {
    let mut site = Site::open().await;
    let (mut double, _client, thread) = rig(&mut site, Kind::Codex).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    until(&mut stream, |event| matches!(event, TurnEvent::Started(_))).await;
    let turn = stream.turn().unwrap();
    let outcome = tokio::spawn(async move { turn.outcome().await });
    look(&mut double, json!([turn_value("t1", "inProgress")])).await;
    drop(double);
    let mut double = again(&mut site, Kind::Codex).await;
    for _ in 0..2 {
        // The stream and the handle, each for itself.
        look(&mut double, json!([turn_value("t1", "completed")])).await;
    }
    for _ in 0..2 {
        let asked = double.expect("thread/items/list").await;
        asked.answer(json!({"data": [], "nextCursor": null}));
    }
    assert_eq!(joined(outcome).await.unwrap().status, TurnStatus::Completed);
    assert_eq!(
        stream.outcome().await.unwrap().status,
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_row_whose_adding_was_not_answered_is_added_again_with_its_key_on_turnlane_alone() {
    for kind in [Kind::Codex, Kind::Turnlane] {
        let mut site = Site::open().await;
        let (mut double, client, thread) = rig(&mut site, kind).await;
        let turn = tokio::spawn(thread.turn("later").idempotency_key("k").enqueue());
        let asked = double.expect("thread/queue/add").await;
        let first = asked.params.clone();
        asked.leave();
        drop(double);
        let mut double = site.accept(kind).await;
        if kind == Kind::Turnlane {
            let asked = double.expect("thread/queue/add").await;
            assert_eq!(asked.params, first);
            asked.answer(json!({"queuedTurn": {"id": "r1"}}));
            assert_eq!(joined(turn).await.unwrap().id().as_str(), "r1");
        } else {
            // It may be in the queue, or not: whoever asked decides.
            let error = joined(turn).await.unwrap_err();
            let TurnError::Call(CallError::Transport(error)) = error else {
                panic!("{error:?}");
            };
            assert!(matches!(error, TransportError::Closed { .. }));
        }
        nothing_else_is_sent(&mut double, &client).await;
    }
}
