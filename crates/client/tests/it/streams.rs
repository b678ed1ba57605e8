//! Streams of turns: what they tell, in which order, and what slow readers miss.

use serde_json::{Value, json};
use turnlane::{Client, Limits, TurnError, TurnEvent, TurnStatus, TurnStream, WhenBusy};

use crate::double::{Double, Kind, turn_event, turn_value};
use crate::rig::{T, joined, nothing_else_is_sent, rig, run, with_thread};

/// An event in a few words.
fn word(event: &TurnEvent) -> String {
    match event {
        TurnEvent::Queued { position, row } => {
            format!(
                "queued {position} {}",
                row.as_ref().map_or("-", |row| row.as_str())
            )
        }
        TurnEvent::Started(turn) => format!("started {turn}"),
        TurnEvent::ItemStarted(item) => format!("+{}", item.id.as_str()),
        TurnEvent::ItemCompleted(item) => format!("={}", item.id.as_str()),
        TurnEvent::Delta(delta) => format!("~{}", delta.text()),
        TurnEvent::Plan(plan) => format!("plan {}", plan.steps.len()),
        TurnEvent::Diff(diff) => format!("diff {diff}"),
        TurnEvent::Usage(_) => "usage".to_owned(),
        TurnEvent::Hook(_) => "hook".to_owned(),
        TurnEvent::Retrying(error) => format!("retrying {}", error.message),
        TurnEvent::Warning(text) => format!("warning {text}"),
        TurnEvent::Lagged { missed } => format!("lagged {missed}"),
        TurnEvent::Reattached { generation } => format!("reattached {generation}"),
        TurnEvent::Ended(status) => format!("ended {status:?}"),
        TurnEvent::Unknown(raw) => format!("unknown {}", raw.method),
        other => format!("{other:?}"),
    }
}

/// Everything a stream tells to its end.
async fn all(mut stream: TurnStream) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(event) = stream.next().await {
        words.push(match event {
            Ok(event) => word(&event),
            Err(error) => format!("error {error}"),
        });
    }
    words
}

fn of_turn(params: Value) -> Value {
    let mut params = params;
    params["threadId"] = json!(T);
    params["turnId"] = json!("t1");
    params
}

fn delta(double: &Double, item: &str, text: &str) {
    double.tell(
        "item/agentMessage/delta",
        of_turn(json!({"itemId": item, "delta": text})),
    );
}

#[tokio::test]
async fn a_stream_tells_everything_about_its_turn_in_order_and_then_its_end() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let told = tokio::spawn(all(stream));
    double.start_turn(T, "t1").await;
    let item = json!({"type": "agentMessage", "id": "a", "text": ""});
    double.item(T, "t1", "item/started", &item);
    delta(&double, "a", "he");
    delta(&double, "a", "llo");
    let plan = json!({"plan": [{"step": "one", "status": "pending"}], "explanation": null});
    double.tell("turn/plan/updated", of_turn(plan));
    double.tell("turn/diff/updated", of_turn(json!({"diff": "+x"})));
    let counts = json!({"totalTokens": 3, "inputTokens": 1, "cachedInputTokens": 0,
        "cacheWriteInputTokens": 0, "outputTokens": 2, "reasoningOutputTokens": 0});
    let usage = json!({"tokenUsage": {"total": counts, "last": counts, "modelContextWindow": 10}});
    double.tell("thread/tokenUsage/updated", of_turn(usage));
    let error = json!({"error": {"message": "again"}, "willRetry": true});
    double.tell("error", of_turn(error));
    double.tell("warning", json!({"threadId": T, "message": "careful"}));
    double.tell("turn/news", of_turn(json!({"from": "later"})));
    // Nothing of other turns and threads.
    double.tell("turn/started", turn_event(T, "t9", "inProgress"));
    double.tell("turn/completed", turn_event(T, "t9", "completed"));
    double.tell("turn/completed", turn_event("other", "t1", "completed"));
    let item = json!({"type": "agentMessage", "id": "a", "text": "hello"});
    double.item(T, "t1", "item/completed", &item);
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    assert_eq!(
        joined(told).await,
        [
            "started t1",
            "+t1-user",
            "=t1-user",
            "+a",
            "~he",
            "~llo",
            "plan 1",
            "diff +x",
            "usage",
            "retrying again",
            "warning careful",
            "unknown turn/news",
            "=a",
            "ended Completed"
        ]
    );
}

#[tokio::test]
async fn an_outcome_can_be_had_after_the_whole_stream_was_read() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event.unwrap());
    }
    assert!(matches!(
        last,
        Some(TurnEvent::Ended(TurnStatus::Completed))
    ));
    assert!(stream.next().await.is_none());
    assert_eq!(stream.outcome().await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_turn_tells_that_it_waits_in_this_client() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let first = run(&thread, "one");
    double.start_turn(T, "t0").await;
    let second = thread.turn("two").stream().await.unwrap();
    let told = tokio::spawn(all(second));
    nothing_else_is_sent(&mut double, &client).await;
    double.end_turn(T, "t0", "hi");
    joined(first).await.unwrap();
    double.start_turn(T, "t1").await;
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    assert_eq!(
        joined(told).await,
        [
            "queued 1 -",
            "started t1",
            "+t1-user",
            "=t1-user",
            "ended Interrupted"
        ]
    );
}

#[tokio::test]
async fn a_turn_in_a_queue_tells_each_of_its_positions_once() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let told = tokio::spawn(all(stream));
    let asked = double.expect("turn/start").await;
    let key = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    let queue = |rows: &[&str]| {
        let rows: Vec<Value> = rows.iter().map(|id| json!({"id": id})).collect();
        double.tell(
            "thread/queue/changed",
            json!({"threadId": T, "queuedTurns": rows}),
        );
    };
    queue(&["ra", "rb", "r1"]);
    queue(&["ra", "rb", "r1", "rc"]);
    queue(&["r1", "rc"]);
    queue(&["rc"]);
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    queue(&["rc", "rd"]);
    let user = json!({"type": "userMessage", "id": "u", "clientId": key, "content": []});
    double.item(T, "t1", "item/completed", &user);
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    assert_eq!(
        joined(told).await,
        [
            "queued 2 r1",
            "queued 0 r1",
            "started t1",
            "=u",
            "ended Completed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_somebody_takes_out_of_the_queue_has_been_interrupted() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    let told = tokio::spawn(all(stream));
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "inProgress"), "queuedTurn": {"id": "r1"}}));
    // Nothing is told; the turn is looked for.
    let empty = json!({"data": [], "nextCursor": null, "running": {"queuedTurnId": "r1"}});
    double
        .expect("thread/turns/list")
        .await
        .answer(json!({"data": [], "nextCursor": null}));
    double.expect("thread/queue/list").await.answer(empty);
    double
        .expect("thread/turns/list")
        .await
        .answer(json!({"data": [], "nextCursor": null}));
    let gone = json!({"data": [{"id": "other"}], "nextCursor": null, "running": null});
    double.expect("thread/queue/list").await.answer(gone);
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [], "nextCursor": null}));
    double
        .expect("thread/items/list")
        .await
        .refuse(-32600, "turn not found: t1", &json!(null));
    assert_eq!(joined(told).await, ["ended Interrupted"]);
}

#[tokio::test]
async fn deltas_of_an_item_whose_beginning_was_not_seen_are_announced_as_a_gap() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    nothing_else_is_sent(&mut double, &client).await;
    let stream = thread.turn("more").when_busy(WhenBusy::Steer).stream();
    let told = tokio::spawn(all(stream.await.unwrap()));
    double
        .expect("turn/steer")
        .await
        .answer(json!({"turnId": "t1"}));
    delta(&double, "a", "b");
    delta(&double, "a", "c");
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    let item = json!({"type": "agentMessage", "id": "a", "text": "abc"});
    let asked = double.expect("thread/items/list").await;
    asked.answer(json!({"data": [{"turnId": "t1", "item": item}], "nextCursor": null}));
    assert_eq!(
        joined(told).await,
        [
            "started t1",
            "lagged 0",
            "~b",
            "~c",
            "=a",
            "ended Completed"
        ]
    );
}

#[tokio::test]
async fn a_reader_that_sleeps_misses_the_oldest_progress_and_nothing_else() {
    let limits = Limits {
        progress_buffer: 3,
        ..Limits::default()
    };
    let (double, client) = Double::connect(Kind::Codex, Client::builder().limits(limits)).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    let item = json!({"type": "agentMessage", "id": "a", "text": ""});
    double.item(T, "t1", "item/started", &item);
    for n in 0..10 {
        delta(&double, "a", &n.to_string());
        nothing_else_is_sent(&mut double, &client).await;
    }
    let item = json!({"type": "agentMessage", "id": "a", "text": "0123456789"});
    double.item(T, "t1", "item/completed", &item);
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    nothing_else_is_sent(&mut double, &client).await;
    assert_eq!(
        all(stream).await,
        [
            "started t1",
            "+t1-user",
            "=t1-user",
            "+a",
            "lagged 7",
            "~7",
            "~8",
            "~9",
            "=a",
            "ended Completed"
        ]
    );
    assert_eq!(client.metrics().dropped_progress, 7);
}

#[tokio::test]
async fn a_reader_that_lets_too_much_lie_is_ended_and_the_turn_is_not() {
    let limits = Limits {
        lossless_buffer: 5,
        ..Limits::default()
    };
    let (double, client) = Double::connect(Kind::Codex, Client::builder().limits(limits)).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let mut stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    for n in 0..10 {
        let item = json!({"type": "agentMessage", "id": format!("a{n}"), "text": ""});
        double.item(T, "t1", "item/started", &item);
        nothing_else_is_sent(&mut double, &client).await;
    }
    let mut error = None;
    while let Some(event) = stream.next().await {
        error = event.err();
    }
    assert!(matches!(error, Some(TurnError::ConsumerTooSlow)));
    drop(stream);
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn whoever_only_waits_for_the_end_is_never_too_slow() {
    let limits = Limits {
        lossless_buffer: 5,
        ..Limits::default()
    };
    let (double, client) = Double::connect(Kind::Codex, Client::builder().limits(limits)).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    for n in 0..20 {
        let item = json!({"type": "agentMessage", "id": format!("a{n}"), "text": "x"});
        double.item(T, "t1", "item/completed", &item);
        nothing_else_is_sent(&mut double, &client).await;
    }
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    assert_eq!(joined(turn).await.unwrap().items.len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_let_go_runs_on_without_a_limit() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    let turn = stream.detach().unwrap();
    assert_eq!(turn.id().as_str(), "t1");
    let next = run(&thread, "next");
    nothing_else_is_sent(&mut double, &client).await;
    drop(turn);
    tokio::time::advance(std::time::Duration::from_mins(1)).await;
    nothing_else_is_sent(&mut double, &client).await;
    double.end_turn(T, "t1", "hi");
    double.start_turn(T, "t2").await;
    double.end_turn(T, "t2", "hi");
    joined(next).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_let_go_before_it_was_sent_is_sent_all_the_same() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let first = run(&thread, "one");
    double.start_turn(T, "t1").await;
    let second = thread.turn("two").stream().await.unwrap();
    assert!(second.detach().is_none());
    double.end_turn(T, "t1", "hi");
    joined(first).await.unwrap();
    let params = double.start_turn(T, "t2").await;
    assert_eq!(params["input"][0]["text"], "two");
}
