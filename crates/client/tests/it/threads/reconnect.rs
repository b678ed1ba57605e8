//! After a lost connection: threads are resumed once, from where they were, before turns are looked up.

use futures_util::StreamExt;
use serde_json::{Value, json};
use turnlane::{Client, EventBody, EventStream, Filter, Thread};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{answered, nothing_was_sent};
use crate::double::{Double, Kind, thread_answer};
use crate::rig::{Site, T};

async fn started(double: &mut Double, client: &Client, id: &str) -> Thread {
    let start = client.threads().start("/srv").into_future();
    let (thread, _) = tokio::join!(start, double.start_thread(id));
    thread.unwrap()
}

/// Waits until the receivers are told of the new connection.
async fn reconnected(events: &mut EventStream) -> u64 {
    loop {
        let event = within("an event", DEADLINE, StreamExt::next(events)).await;
        if let EventBody::Reconnected { generation } = event.unwrap().unwrap().body {
            return generation;
        }
    }
}

#[tokio::test]
async fn a_thread_that_somebody_follows_is_resumed_with_its_policies() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let _followed = started(&mut double, &client, T).await;
    let _quiet = started(&mut double, &client, "quiet").await;
    let gone = started(&mut double, &client, "gone").await;
    let mut events = client.events(Filter::all().thread(T));
    let _gone_events = client.events(Filter::all().thread("gone"));
    drop(gone);
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    let asked = double.expect("thread/resume").await;
    assert_eq!(
        asked.params,
        json!({"threadId": T, "excludeTurns": true, "approvalPolicy": "never",
            "sandbox": "read-only"})
    );
    asked.answer(thread_answer(T));
    assert_eq!(reconnected(&mut events).await, 2);
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn hooks_and_reviewers_need_their_thread_too() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let start = client
        .threads()
        .start("/srv")
        .reviewer(turnlane::DeclineAll);
    let (_, reviewed) = answered(
        &mut double,
        "thread/start",
        thread_answer("R"),
        start.into_future(),
    )
    .await;
    let _reviewed = reviewed.unwrap();
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    let asked = double.expect("thread/resume").await;
    assert_eq!(asked.params["threadId"], json!("R"));
    asked.answer(thread_answer("R"));
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn turnlane_is_asked_for_what_was_missed() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Turnlane).await;
    let mut answer = thread_answer(T);
    answer["events"] = json!({"epoch": "e1", "seq": 7});
    let resume = client.threads().resume(T).into_future();
    let (_, thread) = answered(&mut double, "thread/resume", answer.clone(), resume).await;
    let _thread = thread.unwrap();
    let mut events = client.events(Filter::all().thread(T));
    drop(double);
    let mut double = site.accept(Kind::Turnlane).await;
    let asked = double.expect("thread/resume").await;
    assert_eq!(
        asked.params,
        json!({"threadId": T, "excludeTurns": true, "approvalPolicy": "never",
            "sandbox": "read-only", "sinceSeq": 7, "epoch": "e1"})
    );
    answer["events"] = json!({"epoch": "e2", "seq": 3, "replay": "snapshot"});
    asked.answer(answer);
    assert_eq!(reconnected(&mut events).await, 2);
    drop(double);
    let mut double = site.accept(Kind::Turnlane).await;
    let asked = double.expect("thread/resume").await;
    assert_eq!(
        (&asked.params["sinceSeq"], &asked.params["epoch"]),
        (&json!(3), &json!("e2"))
    );
    asked.answer(thread_answer(T));
    assert_eq!(reconnected(&mut events).await, 3);
}

#[tokio::test]
async fn a_thread_that_cannot_be_resumed_holds_up_nobody() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let thread = started(&mut double, &client, T).await;
    let mut events = client.events(Filter::all().thread(T));
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    let asked = double.expect("thread/resume").await;
    asked.refuse(-32600, "no rollout found for thread id T", &Value::Null);
    assert_eq!(reconnected(&mut events).await, 2);
    assert!(!thread.is_closed());
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_closed_thread_is_not_resumed() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let thread = started(&mut double, &client, T).await;
    let mut events = client.events(Filter::all().thread(T));
    double.tell("thread/deleted", json!({"threadId": T}));
    eventually("the end is seen", DEADLINE, async || thread.is_closed())
        .await
        .unwrap();
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    assert_eq!(reconnected(&mut events).await, 2);
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_again_is_left_to_the_next_one() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let _thread = started(&mut double, &client, T).await;
    let mut events = client.events(Filter::all().thread(T));
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    let unanswered = double.expect("thread/resume").await;
    double.peer().close();
    let mut double = site.accept(Kind::Codex).await;
    drop(unanswered);
    // A read of the former connection may come again, and the new one asks by itself.
    let told = async { reconnected(&mut events).await };
    let play = async {
        loop {
            let asked = double.next().await;
            assert_eq!(asked.method, "thread/resume");
            asked.answer(thread_answer(T));
        }
    };
    tokio::select! {
        generation = told => assert_eq!(generation, 3),
        () = play => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn a_method_that_was_not_served_is_asked_again_on_another_connection() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Codex).await;
    let list = || client.thread_loaded_list(turnlane::ThreadLoadedListParams::default());
    let unknown = (-32601, "Method not found", Value::Null);
    let refused = super::refused(&mut double, "thread/loaded/list", unknown, list()).await;
    assert!(refused.is_err());
    assert!(list().await.is_err());
    let mut events = client.events(Filter::all());
    drop(double);
    let mut double = site.accept(Kind::Codex).await;
    assert_eq!(reconnected(&mut events).await, 2);
    let answer = json!({"data": []});
    let (_, served) = answered(&mut double, "thread/loaded/list", answer, list()).await;
    served.unwrap();
}
