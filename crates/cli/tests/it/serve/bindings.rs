//! `binding` and `supersedes` of the real binary: the same thread after a restart, one live holder,
//! and a takeover that is killed anywhere.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{TestClient, TestProcess};

use super::{Daemon, add, drained, turns};
use crate::app_server::{Served, Stdio, ok, refused, turn};
use crate::exec::kills::is_full;

const KEY: &str = "shim:dev@/project";
const TEXTS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// Where the process dies during a takeover, and whether the successor is there afterwards.
const POINTS: &[(&str, bool)] = &[
    ("supersede:thread-made", false),
    ("supersede:row-moved:1", false),
    ("supersede:row-moved:5", false),
    ("supersede:rows-moved", false),
    ("supersede-a-thread:before-commit", false),
    ("supersede-a-thread:after-commit", true),
];

async fn served() -> Served {
    Served::new(|request| Reply::text(format!("done {}", request.last_user_text()))).await
}

fn bound(served: &Served) -> Value {
    json!({"binding": KEY, "cwd": served.work()})
}

fn successor(served: &Served, old: &str) -> Value {
    json!({"binding": KEY, "cwd": served.work(), "supersedes": old})
}

fn id(answer: &Value) -> String {
    answer["thread"]["id"].as_str().unwrap().to_owned()
}

/// Starts until neither another connection nor another process is in the way.
async fn start_when_free(client: &mut TestClient, params: &Value) -> Value {
    let mut started = Value::Null;
    eventually("the binding to be free", DEADLINE, async || {
        let answer = client.call("thread/start", params.clone()).await.unwrap();
        if let Some(error) = answer.get("error") {
            let reason = error["data"]["reason"].as_str().unwrap();
            assert!(
                ["bindingInUse", "ownedElsewhere"].contains(&reason),
                "{error}"
            );
            return false;
        }
        started = answer["result"].clone();
        true
    })
    .await
    .unwrap();
    started
}

#[tokio::test]
async fn a_binding_leads_to_the_same_thread_whoever_serves_it() {
    let served = served().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let thread = id(&ok(&mut client, "thread/start", bound(&served)).await);
    turn(&mut client, &thread, "hello").await;
    daemon.process.kill9().await.unwrap();

    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let found = start_when_free(&mut client, &bound(&served)).await;
    assert_eq!(
        (id(&found), &found["existing"]),
        (thread.clone(), &json!(true))
    );
    turn(&mut client, &thread, "again").await;
    drop(client);
    drop(daemon);

    let mut server = served.stdio().await;
    let found = start_when_free(&mut server.client, &bound(&served)).await;
    assert_eq!(id(&found), thread);
    let said = turns(&mut server.client, &thread).await;
    let said: Vec<&str> = said.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(said, ["hello", "again"]);
}

#[tokio::test]
async fn a_second_live_holder_is_refused_until_the_first_is_gone() {
    let served = served().await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let (mut first, mut second) = (daemon.unix().await, daemon.websocket().await);
    let thread = id(&ok(&mut first, "thread/start", bound(&served)).await);
    let error = refused(&mut second, "thread/start", bound(&served)).await;
    assert_eq!(error["message"], format!("binding is in use: {KEY}"));
    assert_eq!(error["data"]["reason"], "bindingInUse");
    drop(first);
    let found = start_when_free(&mut second, &bound(&served)).await;
    assert_eq!(id(&found), thread);
}

#[tokio::test]
async fn a_holder_in_another_process_is_told_by_its_lane_and_followed_after_a_kill() {
    let served = served().await;
    let mut first = served.stdio().await;
    let thread = id(&ok(&mut first.client, "thread/start", bound(&served)).await);
    let mut second = served.stdio().await;
    let error = refused(&mut second.client, "thread/start", bound(&served)).await;
    assert_eq!(error["data"]["reason"], "ownedElsewhere", "{error}");
    assert_eq!(error["data"]["worker"]["pid"], first.process.pid());
    first.process.kill9().await.unwrap();
    let found = start_when_free(&mut second.client, &bound(&served)).await;
    assert_eq!((id(&found), &found["existing"]), (thread, &json!(true)));
}

/// A paused lane with five rows that holds the binding; its thread.
async fn full_lane(client: &mut TestClient, served: &Served) -> String {
    let thread = id(&start_when_free(client, &bound(served)).await);
    let pause = json!({"threadId": thread, "reason": "shim"});
    ok(client, "thread/queue/pause", pause).await;
    for text in TEXTS {
        add(client, &thread, text, json!({})).await;
    }
    thread
}

/// The texts that wait in a lane.
async fn waiting(client: &mut TestClient, thread: &str) -> Vec<String> {
    let list = ok(client, "thread/queue/list", json!({"threadId": thread})).await;
    let text = |row: &Value| row["input"][0]["text"].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(text).collect()
}

/// After a takeover that was cut anywhere: all rows are in one lane, and run there once, in order.
/// Whether the successor was there.
async fn check(client: &mut TestClient, served: &Served, old: &str, says: &str) -> bool {
    let found = start_when_free(client, &bound(served)).await;
    assert_eq!(found["existing"], true, "{says}");
    let holder = id(&found);
    assert_eq!(waiting(client, &holder).await, TEXTS, "{says}");
    let taken = holder != old;
    if taken {
        assert_eq!(waiting(client, old).await, [""; 0], "{says}");
    }
    let resume = json!({"threadId": holder, "reason": "shim"});
    ok(client, "thread/queue/resume", resume).await;
    drained(client, &holder).await;
    let ran = turns(client, &holder).await;
    let ran: Vec<(&str, &str)> = ran
        .iter()
        .map(|(text, end)| (text.as_str(), end.as_str()))
        .collect();
    assert_eq!(ran, TEXTS.map(|text| (text, "completed")), "{says}");
    if taken {
        assert!(turns(client, old).await.is_empty(), "{says}");
    }
    assert_eq!(served.mock.requests().len(), TEXTS.len(), "{says}");
    taken
}

#[tokio::test]
async fn a_takeover_that_dies_at_any_point_leaves_each_row_in_one_lane() {
    for (point, expected) in POINTS {
        let served = served().await;
        let spec = served.spec(&[]).env("TURNLANE_CRASH_AT", point);
        let mut first = Stdio::of(TestProcess::start(spec).unwrap()).await;
        let old = full_lane(&mut first.client, &served).await;
        let params = successor(&served, &old);
        let answer = first.client.call("thread/start", params).await;
        assert!(answer.is_err(), "{point}: {answer:?}");
        first.process.wait(DEADLINE).await.unwrap();

        // One that drains by itself comes next; the pause has moved with the rows.
        let daemon = Daemon::start(&served.home, &[]).await;
        let mut client = daemon.unix().await;
        let taken = check(&mut client, &served, &old, point).await;
        assert_eq!(taken, *expected, "{point}");
    }
}

#[tokio::test]
async fn a_takeover_that_is_killed_at_any_moment_leaves_each_row_in_one_lane() {
    let rounds = if is_full() { 100 } else { 8 };
    for round in 0..rounds {
        let served = served().await;
        let spec = super::spec(&served.home, &[]);
        let mut daemon = Daemon::of(&served.home, TestProcess::start(spec).unwrap()).await;
        let mut client = daemon.unix().await;
        let old = full_lane(&mut client, &served).await;
        let params = successor(&served, &old);
        let mut start = tokio::spawn(async move { client.call("thread/start", params).await });
        // The moment of the kill moves through the takeover, which takes a few milliseconds; an answer
        // ends the wait.
        let moment = Duration::from_micros(600 * round % 12_000);
        let in_time = within("the answer", moment, &mut start).await;
        daemon.process.kill9().await.unwrap();
        let answered = match in_time {
            Ok(answer) => answer.unwrap().is_ok(),
            Err(_) => start.await.unwrap().is_ok(),
        };
        let daemon = Daemon::start(&served.home, &[]).await;
        let mut client = daemon.unix().await;
        let says = format!("killed after {moment:?}, answered: {answered}");
        let taken = check(&mut client, &served, &old, &says).await;
        assert!(
            taken || !answered,
            "{says}: an answered takeover is durable"
        );
    }
}
