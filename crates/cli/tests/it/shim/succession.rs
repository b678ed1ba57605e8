//! A thread without room that hands its queue to a successor, and a process that dies on the way.

use serde_json::{Value, json};

use super::rig::{Member, Rig, id_of};

/// A turn that matches `exhaust` fails when the file `go` is there; each other one is written down.
const SCRIPT: &str = r#"version: 1
turns:
  - match: "exhaust"
    steps:
      - exec: {cmd: "while [ ! -e go ]; do sleep 0.02; done", real: true}
      - error: {message: "ran out of room", kind: context_exhausted}
  - match: "first"
    steps:
      - exec: {cmd: "echo first >> ran", real: true}
      - say: {text: "first is done", phase: final_answer}
  - match: "second"
    steps:
      - exec: {cmd: "echo second >> ran", real: true}
      - say: {text: "second is done", phase: final_answer}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

/// Where the process dies: at each write of the change of threads, and around it.
const POINTS: &[&str] = &[
    "supersede:thread-made",
    "supersede:row-moved",
    "supersede:rows-moved",
    "commit:before",
    "commit:after",
];

const SANDBOX: [&str; 2] = ["-s", "workspace-write"];

fn member(rig: &Rig, point: Option<&str>) -> Member {
    let mut variables = rig.home.env();
    variables.extend(point.map(|point| ("TURNLANE_CRASH_AT".to_owned(), point.to_owned())));
    let scripted = ["--agent-type", "scripted", "--script", rig.script()];
    rig.member_with(variables, &[&scripted[..], &SANDBOX].concat())
}

async fn shut_down_exhausted(member: &mut Member) -> Vec<Value> {
    let end = json!({"cmd": "Shutdown", "timeout_secs": 20, "reason": "context_exhausted"});
    member.send(end).await;
    member.rest().await
}

/// An exhausted thread with two messages that wait; its events are `told`.
async fn exhausted(rig: &Rig, told: &mut Vec<Value>) -> Value {
    let mut member = member(rig, None);
    let thread = member.event("Ready").await["thread_id"].clone();
    member.message("x", "exhaust").await;
    member.event("MessageDelivered").await;
    for id in ["first", "second"] {
        member.message(id, id).await;
        member.event("Warning").await;
    }
    rig.go();
    told.extend(member.until("DeliveryFailed").await);
    told.extend(member.shutdown().await);
    thread
}

#[tokio::test]
async fn a_death_at_any_point_of_a_succession_loses_and_doubles_nothing() {
    for point in POINTS {
        let rig = Rig::with_script(SCRIPT);
        let mut told = Vec::new();
        let thread = exhausted(&rig, &mut told).await;
        // It dies on the way; the points of plain commits come earlier than the change of threads, too.
        let mut dying = member(&rig, Some(point));
        while let Some(event) = dying.next().await {
            told.push(event);
            if told.last().unwrap()["event"] == "Ready" {
                break;
            }
        }
        told.extend(shut_down_exhausted(&mut dying).await);
        let status = dying.exit().await;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(9), "{point} was not reached: {told:?}");
        // The orchestrator does the same again: the thread is still exhausted, or has a successor.
        let mut next = member(&rig, None);
        let ready = next.until("Ready").await;
        let is_successor = ready.last().unwrap()["thread_id"] != thread;
        told.extend(ready);
        if !is_successor {
            told.extend(shut_down_exhausted(&mut next).await);
            assert_eq!(next.exit().await.code(), Some(0), "{point}");
            next = member(&rig, None);
            let ready = next.event("Ready").await;
            assert_ne!(ready["thread_id"], thread, "{point}");
        }
        while ends(&told, "second").is_empty() {
            told.extend(next.until("Completion").await);
        }
        told.extend(next.shutdown().await);
        for id in ["first", "second"] {
            assert_eq!(ends(&told, id), ["Completion"], "{point}: {told:?}");
        }
        assert_eq!(ends(&told, "x"), ["DeliveryFailed"], "{point}: {told:?}");
        let ran = std::fs::read_to_string(rig.home.workspace().join("ran")).unwrap();
        assert_eq!(ran, "first\nsecond\n", "{point}");
        // Every receipt was told; none is told again.
        let mut last = member(&rig, None);
        let mut events = last.until("Ready").await;
        events.extend(last.shutdown().await);
        let again = events.iter().filter(|event| id_of(event).is_some());
        assert_eq!(again.count(), 0, "{point}: {events:?}");
    }
}

/// The names of the terminal receipts of a message.
fn ends<'a>(told: &'a [Value], id: &str) -> Vec<&'a str> {
    let of_it = told.iter().filter(|event| id_of(event) == Some(id));
    let names = of_it.map(|event| event["event"].as_str().unwrap());
    names
        .filter(|name| ["Completion", "DeliveryFailed"].contains(name))
        .collect()
}
