//! Outcomes that are made from outside: interrupts, time limits, exhausted threads, turns that cannot start
//! and programs that cannot be run. None of them has a completion, and none leaves anything behind.

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::programs::{descriptors, fake, member, outcome, settled};
use super::rig::{Member, Rig, of};
use crate::exec::kills::is_full;

/// The processes of a shim that is idle, and its descriptors.
fn open(member: &Member) -> (usize, usize) {
    let pid = member.process.pid();
    (super::programs::descendants(pid).0, descriptors(pid) + 2)
}

async fn greet(member: &mut Member) {
    member.send(json!({"cmd": "Hello", "version": 2})).await;
    member.event("Welcome").await;
}

fn check(events: &[Value], kind: &str) {
    let failed = events.last().unwrap();
    assert_eq!(failed["event"], "DeliveryFailed", "{kind}: {events:?}");
    assert_eq!(failed["kind"], kind, "{failed}");
    assert!(of(events, "Completion").is_empty(), "{kind}: {events:?}");
}

#[tokio::test]
async fn interrupts_and_time_limits_leave_no_zombie_and_no_descriptor() {
    let rounds = if is_full() { 100 } else { 3 };
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &["--turn-timeout", "2"]);
    member.event("Ready").await;
    greet(&mut member).await;
    outcome(&mut member, "first", "fine").await;
    let before = open(&member);
    for round in 0..rounds {
        let id = format!("i{round}");
        member.message(&id, "busy").await;
        member.event("TurnStarted").await;
        member
            .send(json!({"cmd": "Interrupt", "then": "continue"}))
            .await;
        check(&member.until("DeliveryFailed").await, "interrupted");
        let events = outcome(&mut member, &format!("t{round}"), "busy").await;
        check(&events, "timeout");
        settled(member.process.pid(), before).await;
    }
    let events = outcome(&mut member, "last", "fine").await;
    assert_eq!(events.last().unwrap()["response"], "ok");
    member.shutdown().await;
}

#[tokio::test]
async fn exhausted_threads_and_turns_that_cannot_start_leave_no_zombie_and_no_descriptor() {
    let rounds = if is_full() { 100 } else { 3 };
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &[]);
    member.event("Ready").await;
    greet(&mut member).await;
    outcome(&mut member, "first", "fine").await;
    let before = open(&member);
    let workspace = rig.home.workspace();
    let away = rig.home.path().join("workspace-away");
    for round in 0..rounds {
        let events = outcome(&mut member, &format!("x{round}"), "exhausts").await;
        check(&events, "context_exhausted");
        member.send(json!({"cmd": "Successor", "req": round})).await;
        assert_eq!(member.event("Ok").await["cmd"], "Successor");
        // The directory is gone when the turn is to start.
        std::fs::rename(&workspace, &away).unwrap();
        let events = outcome(&mut member, &format!("c{round}"), "fine").await;
        let failed = events.last().unwrap();
        assert_eq!(failed["event"], "DeliveryFailed", "{events:?}");
        assert!(
            failed["reason"].as_str().unwrap().contains("cwd"),
            "{failed}"
        );
        std::fs::rename(&away, &workspace).unwrap();
        let events = outcome(&mut member, &format!("n{round}"), "fine").await;
        assert_eq!(events.last().unwrap()["response"], "ok", "{events:?}");
        settled(member.process.pid(), before).await;
    }
    member.shutdown().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_run_has_no_completion_and_the_next_message_is_served() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &["--on-block", "fail"]);
    member.event("Ready").await;
    outcome(&mut member, "first", "fine").await;
    let away = rig.home.path().join("away");
    std::fs::rename(&program, &away).unwrap();
    // A file that the system refuses to run.
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    member.message("s", "fine").await;
    let events = member.until("DeliveryFailed").await;
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
    std::fs::rename(&away, &program).unwrap();
    let served = eventually("the program", DEADLINE, async || {
        let events = outcome(&mut member, "n", "fine").await;
        events.last().unwrap()["response"] == "ok"
    });
    served.await.unwrap();
    member.shutdown().await;
}
