//! The handoff from one shim to the next, as batty does it: the new process first, then the end of the old.

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::rig::{Member, Rig, names, of};

/// A turn that holds a lock while it runs, so that two at once are seen.
const SCRIPT: &str = r#"version: 1
turns:
  - match: "work"
    steps:
      - exec: {cmd: "exec 9>lock; flock -n 9 || touch overlap; echo run >> runs; while [ ! -e go ]; do sleep 0.02; done", real: true}
      - say: {text: "worked", phase: final_answer}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

fn runs(rig: &Rig) -> usize {
    let runs = std::fs::read_to_string(rig.home.workspace().join("runs"));
    runs.unwrap_or_default().lines().count()
}

/// A shim with a turn in flight and a message behind it, and its successor, which waits.
async fn two_shims(rig: &Rig) -> (Member, Member) {
    let mut first = rig.member(&["-s", "workspace-write"]);
    first.event("Ready").await;
    first.message("m", "work").await;
    first.event("MessageDelivered").await;
    first.message("n", "next").await;
    first.event("Warning").await;
    eventually("the turn at work", DEADLINE, async || runs(rig) == 1)
        .await
        .unwrap();
    let mut second = rig.member(&["-s", "workspace-write", "--handoff-wait", "100"]);
    second.send(json!({"cmd": "Ping"})).await;
    assert_eq!(second.next().await.unwrap()["event"], "Pong");
    (first, second)
}

async fn hand_over(first: &mut Member) {
    first
        .send(json!({"cmd": "Shutdown", "timeout_secs": 5, "reason": "restart_handoff"}))
        .await;
}

/// Everything that the successor tells until both messages are completed, and to its end.
async fn finish(mut second: Member) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..2 {
        events.extend(second.until("Completion").await);
    }
    events.extend(second.shutdown().await);
    events
}

fn check(rig: &Rig, first: &[Value], second: &[Value]) {
    let errors = [of(first, "Error"), of(second, "Error")].concat();
    assert!(errors.is_empty(), "count against the member: {errors:?}");
    assert!(
        !rig.home.workspace().join("overlap").exists(),
        "two turns at once"
    );
    let completed = |events: &[Value], id: &str| {
        let completed = of(events, "Completion");
        let is_it = |event: &&&Value| event["message_id"] == id && event["duplicate"] != true;
        completed.iter().filter(is_it).count()
    };
    for id in ["m", "n"] {
        let times = completed(first, id) + completed(second, id);
        assert_eq!(times, 1, "{id}: {first:?} {second:?}");
    }
}

#[tokio::test]
async fn a_turn_that_a_handoff_interrupts_runs_again_as_announced() {
    let rig = Rig::with_script(SCRIPT);
    let (mut first, mut second) = two_shims(&rig).await;
    hand_over(&mut first).await;
    let told = first.rest().await;
    assert_eq!(first.exit().await.code(), Some(0));
    let failed = of(&told, "DeliveryFailed");
    assert_eq!(
        (&failed[0]["id"], &failed[0]["kind"]),
        (&json!("m"), &json!("interrupted"))
    );
    let ready = second.until("Ready").await;
    assert_eq!(names(&ready), ["Ready"]);
    rig.go();
    second.message("m", "work").await;
    let events = finish(second).await;
    let delivered = of(&events, "MessageDelivered");
    let again = delivered.iter().find(|event| event["id"] == "m").unwrap();
    assert_eq!(again["attempt"], 2);
    check(&rig, &told, &events);
    assert_eq!(runs(&rig), 2);
}

#[tokio::test]
async fn a_turn_that_ends_during_a_handoff_is_not_run_again() {
    let rig = Rig::with_script(SCRIPT);
    let (mut first, mut second) = two_shims(&rig).await;
    hand_over(&mut first).await;
    rig.go();
    let told = first.rest().await;
    assert_eq!(first.exit().await.code(), Some(0));
    second.event("Ready").await;
    // batty sends what was in flight again, whatever it was told at the last moment.
    second.message("m", "work").await;
    let events = finish(second).await;
    check(&rig, &told, &events);
    assert_eq!(runs(&rig), 1);
}

#[tokio::test]
async fn a_successor_goes_on_when_its_predecessor_is_killed() {
    let rig = Rig::with_script(SCRIPT);
    let (mut first, mut second) = two_shims(&rig).await;
    first.process.kill9().await.unwrap();
    rig.go();
    let ready = second.until("Ready").await;
    assert_eq!(names(&ready), ["Ready"]);
    let failed = second.event("DeliveryFailed").await;
    assert_eq!(
        (&failed["id"], &failed["code"]),
        (&json!("m"), &json!("outcome_unknown"))
    );
    // The sender wants it again.
    second.message("m", "work").await;
    let events = finish(second).await;
    check(&rig, &[], &events);
    assert_eq!(runs(&rig), 2);
}
