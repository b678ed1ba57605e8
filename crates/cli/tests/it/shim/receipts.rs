//! Messages that are sent again long after their end, threads without room, and receipts that were lost.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::rig::{Rig, names, of};

/// A turn that matches `exhaust` fails when the file `go` is there.
const EXHAUSTING: &str = r#"version: 1
turns:
  - match: "exhaust"
    steps:
      - exec: {cmd: "while [ ! -e go ]; do sleep 0.02; done", real: true}
      - error: {message: "ran out of room", kind: context_exhausted}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

#[tokio::test]
async fn a_duplicate_of_an_old_completed_message_gets_its_completion() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("old", "quote").await;
    let first = member.event("Completion").await;
    // More turns than one page of a history has.
    for number in 0..105 {
        member.message(&format!("m{number}"), "hello").await;
    }
    while member.event("Completion").await["message_id"] != "m104" {}
    member.message("old", "quote").await;
    let events = member.until("Completion").await;
    let again = events.last().unwrap();
    for field in ["message_id", "turn_id", "response", "usage"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    assert_eq!(again["duplicate"], true);
    let delivered = of(&events, "MessageDelivered");
    assert_eq!(delivered.len(), 1, "{events:?}");
    assert_eq!(
        (&delivered[0]["duplicate"], &delivered[0]["turn_id"]),
        (&json!(true), &first["turn_id"])
    );
    assert!(of(&events, "StateChanged").is_empty(), "{events:?}");
    member.shutdown().await;
}

#[tokio::test]
async fn an_exhausted_thread_begins_none_of_the_messages_that_wait() {
    let rig = Rig::with_script(EXHAUSTING);
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("x", "exhaust").await;
    member.event("MessageDelivered").await;
    for id in ["n1", "n2"] {
        member.message(id, "hello").await;
        member.event("Warning").await;
    }
    rig.go();
    let events = member.until("DeliveryFailed").await;
    let told = ["StateChanged", "ContextExhausted", "DeliveryFailed"];
    assert_eq!(names(&events), told);
    member.send(json!({"cmd": "GetState"})).await;
    let state = member.event("State").await;
    assert_eq!(
        (&state["detail"], &state["queue_depth"]),
        (&json!("context_exhausted"), &json!(2))
    );
    let events = member.shutdown().await;
    assert!(of(&events, "MessageDelivered").is_empty(), "{events:?}");
    // The same thread is still exhausted; its successor runs what waits.
    let mut member = rig.member(&[]);
    let ready = member.event("Ready").await;
    assert_eq!(ready["queue_depth"], 2);
    let changed = member.event("StateChanged").await;
    assert_eq!(changed["to"], "context_exhausted");
    let events = member.shutdown().await;
    assert!(of(&events, "MessageDelivered").is_empty(), "{events:?}");
    let mut member = rig.member(&["--fresh"]);
    let successor = member.event("Ready").await;
    assert_ne!(successor["thread_id"], ready["thread_id"]);
    assert_eq!(member.event("Completion").await["message_id"], "n1");
    assert_eq!(member.event("Completion").await["message_id"], "n2");
    member.shutdown().await;
}

/// A client of a shim's socket that speaks lines.
struct LineClient(BufReader<UnixStream>);

impl LineClient {
    async fn connect(path: &Path) -> Self {
        eventually("the socket", DEADLINE, async || path.exists())
            .await
            .unwrap();
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn send(&mut self, command: Value) {
        let line = format!("{command}\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
    }

    async fn message(&mut self, id: &str, body: &str) {
        let message = json!({"cmd": "SendMessage", "from": "a", "body": body, "message_id": id});
        self.send(message).await;
    }

    async fn event(&mut self, name: &str) -> Value {
        loop {
            let mut line = String::new();
            let reading = self.0.read_line(&mut line);
            within("a line", DEADLINE, reading).await.unwrap().unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }
}

/// The file that says which turn was reported last.
fn last_reported(rig: &Rig) -> Value {
    let files = std::fs::read_dir(rig.home.turnlane().join("shim")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let mut records = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let record = records.next().unwrap();
    serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap()
}

#[tokio::test]
async fn a_receipt_that_no_client_read_is_told_to_the_next_one() {
    let rig = Rig::new();
    let socket = rig.home.path().join("member.sock");
    let log = rig.home.path().join("member.log");
    let listen = format!("unix://{}", socket.display());
    let workspace = rig.home.workspace();
    let spec = crate::turnlane(&["shim", "--id", "eng-1", "--listen", &listen])
        .args(["--agent-type", "scripted", "--script", rig.script()])
        .args(["--cwd", workspace.to_str().unwrap()])
        .args(["--pty-log-path", log.to_str().unwrap()])
        .envs(rig.home.env())
        .current_dir(&workspace);
    let mut process = TestProcess::start(spec).unwrap();
    let mut client = LineClient::connect(&socket).await;
    loop {
        client.send(json!({"cmd": "GetState"})).await;
        if client.event("State").await["state"] == "idle" {
            break;
        }
    }
    client.send(json!({"cmd": "Hello", "version": 2})).await;
    let welcome = client.event("Welcome").await;
    client.message("m", "busy").await;
    let started = client.event("TurnStarted").await;
    let since = json!({"epoch": welcome["epoch"], "seq": started["seq"]});
    // The turn ends while no client is there, so nothing is recorded as reported.
    drop(client);
    rig.go();
    let said = async || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("no more"));
    eventually("the answer in the log", DEADLINE, said)
        .await
        .unwrap();
    assert_eq!(last_reported(&rig)["turn"], Value::Null);
    let mut client = LineClient::connect(&socket).await;
    client
        .send(json!({"cmd": "Hello", "version": 2, "since": since}))
        .await;
    let completion = client.event("Completion").await;
    assert_eq!(completion["message_id"], "m");
    let is_recorded = async || last_reported(&rig)["turn"] == completion["turn_id"];
    eventually("the record of the receipt", DEADLINE, is_recorded)
        .await
        .unwrap();
    // What was reported is not reported by the next shim.
    client.send(json!({"cmd": "Kill"})).await;
    assert_eq!(process.wait(DEADLINE).await.unwrap().code(), Some(0));
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let events = member.shutdown().await;
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
}
