//! Threads and clients are apart: what one decides, loses or leaves changes nothing for others.

use serde_json::{Value, json};

use crate::support::{Client, World};

const ASK: &str = "version: 1
turns:
  - steps:
      - approve: {cmd: touch x, accepted: [{say: yes}], declined: [{say: no}]}
";

const REQUEST: &str = "item/commandExecution/requestApproval";

async fn asked(client: &mut Client, thread: &str) -> Value {
    let about = json!({"threadId": thread});
    client.told(REQUEST, about).await["id"].clone()
}

async fn accept(client: &mut Client, id: &Value) {
    let answer = json!({"id": id, "result": {"decision": "accept"}});
    client.0.send(&answer).await.unwrap();
    client.settle().await;
}

async fn said(client: &mut Client, turn: &str) -> String {
    let ended = client.ended(turn).await;
    assert_eq!(ended["status"], "completed");
    let last = ended["items"].as_array().unwrap().last().unwrap();
    last["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn who_follows_one_thread_never_decides_for_another() {
    let world = World::start(ASK).await;
    let mut of_a = world.client().await;
    let mut of_b = world.client().await;
    let mut nobody = world.client().await;
    let (a, b) = (of_a.thread().await, of_b.thread().await);
    let turn_a = of_a.turn(&a, "go").await;
    let turn_b = of_b.turn(&b, "go").await;
    let id_a = asked(&mut of_a, &a).await;
    let id_b = asked(&mut of_b, &b).await;
    assert_ne!(id_a, id_b, "one counter for the whole process");
    // Answers from the wrong thread and from somebody who follows nothing.
    accept(&mut of_a, &id_b).await;
    accept(&mut nobody, &id_b).await;
    accept(&mut nobody, &id_a).await;
    for (client, thread) in [(&mut of_a, &a), (&mut of_b, &b)] {
        let read = client.ok("thread/read", json!({"threadId": thread})).await;
        let flags = &read["thread"]["status"]["activeFlags"];
        assert_eq!(flags, &json!(["waitingOnApproval"]), "nothing is decided");
    }
    let no = json!({"id": id_b, "result": {"decision": "decline"}});
    of_b.0.send(&no).await.unwrap();
    assert_eq!(said(&mut of_b, &turn_b).await, "no");
    accept(&mut of_a, &id_a).await;
    assert_eq!(said(&mut of_a, &turn_a).await, "yes");
    let foreign = |client: &Client, thread: &str| {
        let all = client.0.received().iter();
        let about = |message: &&Value| message["params"]["threadId"] == thread;
        let quiet = |message: &&Value| message["method"] != "thread/status/changed";
        all.filter(about).filter(quiet).count()
    };
    assert_eq!(foreign(&of_a, &b), 0, "nothing of B but its status");
    assert_eq!(foreign(&of_b, &a), 0, "nothing of A but its status");
}

#[tokio::test]
async fn a_remembered_yes_of_one_thread_is_none_in_another() {
    let world = World::start(ASK).await;
    let mut client = world.client().await;
    let (a, b) = (client.thread().await, client.thread().await);
    let turn = client.turn(&a, "go").await;
    let id = asked(&mut client, &a).await;
    let answer = json!({"id": id, "result": {"decision": "acceptForSession"}});
    client.0.send(&answer).await.unwrap();
    assert_eq!(said(&mut client, &turn).await, "yes");
    let turn = client.turn(&b, "go").await;
    let id = asked(&mut client, &b).await;
    let answer = json!({"id": id, "result": {"decision": "decline"}});
    client.0.send(&answer).await.unwrap();
    assert_eq!(said(&mut client, &turn).await, "no");
}

#[tokio::test]
async fn a_client_that_is_lost_while_asked_changes_nothing_for_the_others() {
    let world = World::start(ASK).await;
    let mut stays = world.client().await;
    let thread = stays.thread().await;
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let mut client = world.client().await;
        client
            .ok("thread/resume", json!({"threadId": thread}))
            .await;
        leaves.push(client);
    }
    let turn = stays.turn(&thread, "go").await;
    let id = asked(&mut stays, &thread).await;
    for client in &mut leaves {
        assert_eq!(asked(client, &thread).await, id);
    }
    drop(leaves);
    let gone = async || {
        world
            .server
            .metrics()
            .await
            .contains("turnlane_connections 1\n")
    };
    turnlane_testkit::wait::eventually("their end", turnlane_testkit::wait::DEADLINE, gone)
        .await
        .unwrap();
    let read = stays.ok("thread/read", json!({"threadId": thread})).await;
    let flags = &read["thread"]["status"]["activeFlags"];
    assert_eq!(flags, &json!(["waitingOnApproval"]));
    accept(&mut stays, &id).await;
    assert_eq!(said(&mut stays, &turn).await, "yes");
}

#[tokio::test]
async fn a_turn_and_its_question_outlive_the_only_client() {
    let world = World::start(ASK).await;
    let mut first = world.client().await;
    let thread = first.thread().await;
    let turn = first.turn(&thread, "go").await;
    let id = asked(&mut first, &thread).await;
    drop(first);
    let mut second = world.client().await;
    second
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    assert_eq!(asked(&mut second, &thread).await, id, "the same question");
    accept(&mut second, &id).await;
    assert_eq!(said(&mut second, &turn).await, "yes");
}

#[tokio::test]
async fn everybody_who_was_asked_hears_who_decided_and_once() {
    let world = World::start(ASK).await;
    let mut one = world.client().await;
    let mut two = world.client().await;
    let thread = one.thread().await;
    two.ok("thread/resume", json!({"threadId": thread})).await;
    let turn = one.turn(&thread, "go").await;
    let id = asked(&mut one, &thread).await;
    asked(&mut two, &thread).await;
    accept(&mut one, &id).await;
    one.ended(&turn).await;
    two.ended(&turn).await;
    for client in [&one, &two] {
        let all = client.0.received().iter();
        let ends = all.filter(|message| message["method"] == "serverRequest/resolved");
        let ends: Vec<_> = ends.map(|end| end["params"]["requestId"].clone()).collect();
        assert_eq!(ends, std::slice::from_ref(&id));
    }
}

#[tokio::test]
async fn who_was_asked_and_left_the_thread_has_no_say() {
    let world = World::start(ASK).await;
    let mut stays = world.client().await;
    let mut leaves = world.client().await;
    let thread = stays.thread().await;
    let named = json!({"threadId": thread});
    leaves.ok("thread/resume", named.clone()).await;
    let turn = stays.turn(&thread, "go").await;
    let id = asked(&mut leaves, &thread).await;
    leaves.ok("thread/unsubscribe", named.clone()).await;
    accept(&mut leaves, &id).await;
    let no = json!({"id": id, "result": {"decision": "decline"}});
    asked(&mut stays, &thread).await;
    stays.0.send(&no).await.unwrap();
    assert_eq!(said(&mut stays, &turn).await, "no");
}

#[tokio::test]
async fn requests_about_one_thread_are_done_in_the_order_they_came() {
    let held = "version: 1\nturns:\n  - steps:\n      - await: {gate: never}\n";
    let world = World::start(held).await;
    let mut client = world.client().await;
    for round in 0..20 {
        let thread = client.thread().await;
        let named = json!({"threadId": thread});
        client.ok("thread/unsubscribe", named.clone()).await;
        // To begin it must follow first, so what comes next would overtake it.
        let start = crate::support::turn(&thread, "go");
        let start = client.0.request("turn/start", start).await.unwrap();
        let stop = json!({"threadId": thread, "turnId": ""});
        let stop = client.0.request("turn/interrupt", stop).await.unwrap();
        let mut names = Vec::new();
        for name in ["first", "second", "last"] {
            let name = json!({"threadId": thread, "name": format!("{name} {round}")});
            names.push(client.0.request("thread/name/set", name).await.unwrap());
        }
        for request in [start, stop].into_iter().chain(names) {
            let answer = client.0.answer(request).await.unwrap();
            assert!(answer.get("result").is_some(), "{answer}");
        }
        let turns = client.ok("thread/turns/list", named.clone()).await;
        let status = &turns["data"][0]["status"];
        assert_eq!(status, "interrupted", "round {round}: {turns}");
        let read = client.ok("thread/read", named).await;
        assert_eq!(read["thread"]["name"], format!("last {round}"));
    }
}
