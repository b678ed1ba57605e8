//! Receipts of a thread that has a successor, senders that share an id, and clients that come late.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::rig::{Rig, names, of};
use crate::serve::Daemon;

#[tokio::test]
async fn what_ended_in_a_thread_before_its_successor_is_reported_once() {
    let rig = Rig::new();
    let daemon = Daemon::start(&rig.home, &["--script", rig.script()]).await;
    let mut member = rig.member_of_daemon(&["--on-disconnect", "detach"]);
    let former = member.event("Ready").await["thread_id"].clone();
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.send(json!({"cmd": "Detach"})).await;
    member.rest().await;
    assert_eq!(member.exit().await.code(), Some(0));
    rig.go();
    let mut client = daemon.unix().await;
    let thread = former.as_str().unwrap();
    eventually("the turn", DEADLINE, async || {
        let turns = crate::serve::turns(&mut client, thread).await;
        turns.len() == 1 && turns[0].1 == "completed"
    })
    .await
    .unwrap();

    let mut member = rig.member_of_daemon(&["--fresh"]);
    assert_ne!(member.event("Ready").await["thread_id"], former);
    let events = member.until("Completion").await;
    assert_eq!(names(&events), ["MessageDelivered", "Completion"]);
    let completion = events.last().unwrap();
    assert_eq!(
        (&completion["message_id"], &completion["recovered"]),
        (&json!("m"), &json!(true))
    );
    member.message("n", "hello").await;
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;

    let mut member = rig.member_of_daemon(&[]);
    member.event("Ready").await;
    let events = member.shutdown().await;
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
}

#[tokio::test]
async fn the_same_id_of_another_sender_is_a_conflict_where_the_text_does_not_name_it() {
    let rig = Rig::new();
    let mut member = rig.member(&["--reply-command", ""]);
    member.event("Ready").await;
    let message = |from: &str| json!({"cmd": "SendMessage", "from": from, "body": "hello", "message_id": "m"});
    member.send(message("manager")).await;
    member.event("Completion").await;
    member.send(message("reviewer")).await;
    let refused = member.event("DeliveryFailed").await;
    assert_eq!(
        (&refused["code"], &refused["retryable"]),
        (&json!("duplicate_conflict"), &json!(false))
    );
    member.send(message("manager")).await;
    let completion = member.event("Completion").await;
    assert_eq!(completion["duplicate"], true);
    member.shutdown().await;
}

#[tokio::test]
async fn a_client_that_joins_late_is_told_that_the_lane_is_ready() {
    let rig = Rig::new();
    let socket = rig.home.path().join("member.sock");
    let listen = format!("unix://{}", socket.display());
    let workspace = rig.home.workspace();
    let spec = crate::turnlane(&["shim", "--id", "eng-1", "--listen", &listen])
        .args(["--agent-type", "scripted", "--script", rig.script()])
        .args(["--cwd", workspace.to_str().unwrap()])
        .envs(rig.home.env())
        .current_dir(&workspace);
    let mut process = TestProcess::start(spec).unwrap();
    eventually("the socket", DEADLINE, async || socket.exists())
        .await
        .unwrap();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        // The first byte says how the client frames its commands.
        stream.write_all(b"{\"cmd\":\"Ping\"}\n").await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        loop {
            let line = within("Ready", DEADLINE, lines.next_line()).await.unwrap();
            let event: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
            if event["event"] == "Ready" {
                threads.push(event["thread_id"].clone());
                break;
            }
        }
    }
    assert_eq!(threads[0], threads[1]);
    process.kill9().await.unwrap();
}

#[tokio::test]
async fn messages_that_come_at_once_run_in_the_order_they_came_in() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let ids: Vec<String> = (0..200).map(|number| format!("m{number}")).collect();
    let mut frames = Vec::new();
    for id in &ids {
        let message = json!({"cmd": "SendMessage", "from": "a", "body": "hello", "message_id": id});
        let message = message.to_string();
        frames.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frames.extend(message.as_bytes());
    }
    // In one piece, so that the shim has many of them in hand at once.
    member.channel.write_all(&frames).await.unwrap();
    let mut completed = Vec::new();
    while completed.len() < ids.len() {
        let completion = member.event("Completion").await;
        completed.push(completion["message_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(completed, ids);
    member.shutdown().await;
}
