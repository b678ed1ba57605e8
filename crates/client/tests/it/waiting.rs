//! Waiting for the end of a turn that waits on the server: over other connections, with a server that
//! cannot tell, and while its queue changes.
//!
//! That a row has ended is said by the server; what a server could not say is asked again.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{CallError, EventBody, Filter, QueuedTurn, Thread, TurnError, TurnStatus};
use turnlane_testkit::wait::within;

use crate::double::{Double, Kind, thread_answer, turn_value};
use crate::rig::{Site, T, joined, nothing_else_is_sent, rig, with_thread};

/// Sooner than anybody looks by himself.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn queued(double: &mut Double, thread: &Thread) -> QueuedTurn {
    let turn = tokio::spawn(thread.turn("later").idempotency_key("k").enqueue());
    let asked = double.expect("thread/queue/add").await;
    asked.answer(json!({"queuedTurn": {"id": "r1"}}));
    joined(turn).await.unwrap()
}

fn of_row(turn: &str, status: &str) -> Value {
    let mut view = turn_value(turn, status);
    view["queuedTurnId"] = json!("r1");
    view
}

async fn rows(double: &mut Double, rows: Value) {
    let asked = double.expect("thread/queue/list").await;
    asked.answer(json!({"data": rows, "nextCursor": null, "running": null, "revision": 1}));
}

async fn turns(double: &mut Double, turns: Value) {
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": turns, "nextCursor": null}));
}

async fn no_items(double: &mut Double) {
    let asked = double.expect("thread/items/list").await;
    asked.answer(json!({"data": [], "nextCursor": null}));
}

/// The next connection, on which nothing is asked by itself: nobody listens.
async fn unheard(site: &mut Site, client: &turnlane::Client) -> Double {
    let mut double = site.accept(Kind::Turnlane).await;
    nothing_else_is_sent(&mut double, client).await;
    double
}

async fn resumed(double: &mut Double) {
    let asked = double.expect("thread/resume").await;
    assert_eq!(asked.params["threadId"], T);
    asked.answer(thread_answer(T));
}

#[tokio::test]
async fn who_begins_to_wait_on_another_connection_hears_of_the_end_at_once() {
    let mut site = Site::open().await;
    let (double, client) = site.connect(Kind::Turnlane).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let turn = queued(&mut double, &thread).await;
    drop(double);
    let mut double = unheard(&mut site, &client).await;
    let row = turn.clone();
    let outcome = tokio::spawn(async move { row.outcome().await });
    resumed(&mut double).await;
    let waits = json!([{"id": "r1", "status": {"type": "pending"}}]);
    rows(&mut double, waits).await;
    let end = json!({"threadId": T, "turn": of_row("t1", "completed")});
    double.tell("turn/completed", end);
    let told = async {
        rows(&mut double, json!([])).await;
        turns(&mut double, json!([of_row("t1", "completed")])).await;
        no_items(&mut double).await;
    };
    within("the next look", AT_ONCE, told).await.unwrap();
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);

    // By now its events come, and nobody asks for them again.
    let outcome = tokio::spawn(async move { turn.outcome().await });
    rows(&mut double, json!([])).await;
    turns(&mut double, json!([of_row("t1", "completed")])).await;
    no_items(&mut double).await;
    joined(outcome).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_a_turn_by_its_id_or_for_events_is_a_subscriber_again_too() {
    let mut site = Site::open().await;
    let (double, client) = site.connect(Kind::Turnlane).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let row = queued(&mut double, &thread).await;
    drop(double);
    let mut double = unheard(&mut site, &client).await;
    let turn = tokio::spawn(async move { row.turn().await });
    rows(&mut double, json!([])).await;
    turns(&mut double, json!([of_row("t1", "inProgress")])).await;
    let turn = joined(turn).await.unwrap().unwrap();
    let by_id = tokio::spawn(async move { turn.outcome().await });
    resumed(&mut double).await;
    turns(&mut double, json!([turn_value("t1", "inProgress")])).await;
    double.end_turn(T, "t1", "hi");
    no_items(&mut double).await;
    let outcome = joined(by_id).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);

    drop(double);
    let mut double = unheard(&mut site, &client).await;
    let mut events = client.events(Filter::all().thread(thread.id()));
    resumed(&mut double).await;
    double.end_turn(T, "t2", "hi");
    let ended = async {
        loop {
            if let EventBody::TurnCompleted(turn) = events.next().await.unwrap().body {
                return turn.id;
            }
        }
    };
    let ended = within("an end", AT_ONCE, ended).await.unwrap();
    assert_eq!(ended.as_str(), "t2");
}

/// Refuses the next look at the history as a server does that cannot read its store.
async fn in_trouble(double: &mut Double) {
    let asked = double.expect("thread/turns/list").await;
    let reason = json!({"reason": "internal"});
    asked.refuse(-32603, "the database is locked", &reason);
}

#[tokio::test(start_paused = true)]
async fn a_history_that_could_not_be_read_does_not_say_that_a_turn_never_was() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = queued(&mut double, &thread).await;
    let outcome = tokio::spawn(async move { turn.outcome().await });
    rows(&mut double, json!([])).await;
    in_trouble(&mut double).await;
    let since = tokio::time::Instant::now();
    rows(&mut double, json!([])).await;
    assert_eq!(since.elapsed().as_secs(), 1, "it is looked for again soon");
    turns(&mut double, json!([of_row("t1", "completed")])).await;
    no_items(&mut double).await;
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_can_tell_is_an_error_in_its_own_words() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = queued(&mut double, &thread).await;
    let outcome = tokio::spawn(async move { turn.outcome().await });
    for _ in 0..5 {
        rows(&mut double, json!([])).await;
        in_trouble(&mut double).await;
    }
    match joined(outcome).await {
        Err(TurnError::Call(CallError::Rpc(error))) => {
            assert_eq!(error.message, "the database is locked");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_comes_back_while_a_long_queue_is_read_still_waits() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = queued(&mut double, &thread).await;
    let outcome = tokio::spawn(async move { turn.outcome().await });
    let first = json!({"data": [{"id": "r2"}], "nextCursor": "p2048", "revision": 7,
        "running": {"queuedTurnId": "r1", "turnId": "t1"}});
    double.expect("thread/queue/list").await.answer(first);
    // Its turn was cut off, and it is at the head again: on the page that was read before.
    let last = json!({"data": [{"id": "r3"}], "nextCursor": null, "revision": 8, "running": null});
    double.expect("thread/queue/list").await.answer(last);
    turns(&mut double, json!([of_row("t1", "interrupted")])).await;
    let end = json!({"threadId": T, "turn": of_row("t2", "completed")});
    double.tell("turn/completed", end);
    rows(&mut double, json!([{"id": "r2"}])).await;
    let both = json!([of_row("t2", "completed"), of_row("t1", "interrupted")]);
    turns(&mut double, both).await;
    no_items(&mut double).await;
    let outcome = joined(outcome).await.unwrap();
    assert_eq!(outcome.turn.as_str(), "t2");
}
