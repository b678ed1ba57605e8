//! Kills of shim, daemon and orchestrator: what was accepted is answered once, or reported as unknown.

use serde_json::json;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::rig::{Rig, names, of};
use crate::serve::Daemon;

#[tokio::test]
async fn queue_and_thread_survive_a_kill_of_the_shim() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    let thread = member.event("Ready").await["thread_id"].clone();
    member.message("done", "hello").await;
    member.event("Completion").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    for id in ["a", "b"] {
        member.message(id, "hello").await;
        member.event("Warning").await;
    }
    member.process.kill9().await.unwrap();
    rig.go();
    let mut member = rig.member(&[]);
    let ready = member.event("Ready").await;
    assert_eq!(ready["thread_id"], thread);
    let unknown = member.event("DeliveryFailed").await;
    assert_eq!(
        (&unknown["id"], &unknown["code"]),
        (&json!("m"), &json!("outcome_unknown"))
    );
    assert_eq!(member.event("Completion").await["message_id"], "a");
    assert_eq!(member.event("Completion").await["message_id"], "b");
    // The sender wants it again: the next try.
    member.message("m", "busy").await;
    let events = member.until("Completion").await;
    assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
    member.shutdown().await;
}

#[tokio::test]
async fn an_unknown_outcome_blocks_or_is_retried_where_that_is_wanted() {
    for (policy, what) in [("block", "DeliveryFailed"), ("retry", "Completion")] {
        let rig = Rig::new();
        let arguments = ["--on-unknown", policy];
        let mut member = rig.member(&arguments);
        member.event("Ready").await;
        member.message("m", "busy").await;
        member.event("MessageDelivered").await;
        member.message("n", "hello").await;
        member.event("Warning").await;
        member.process.kill9().await.unwrap();
        rig.go();
        let mut member = rig.member(&arguments);
        member.event("Ready").await;
        let events = member.until(what).await;
        if policy == "retry" {
            assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
        } else {
            assert_eq!(events.last().unwrap()["code"], "outcome_unknown");
            member.send(json!({"cmd": "GetState"})).await;
            assert_eq!(
                member.event("State").await["detail"],
                "blocked(failed_head)"
            );
            member.message("m", "busy").await;
            let events = member.until("Completion").await;
            assert_eq!(events.last().unwrap()["message_id"], "m");
        }
        assert_eq!(member.event("Completion").await["message_id"], "n");
        member.shutdown().await;
    }
}

#[tokio::test]
async fn a_detached_turn_goes_on_and_is_reported_once() {
    let rig = Rig::new();
    let daemon = Daemon::start(&rig.home, &["--script", rig.script()]).await;
    let mut member = rig.member_of_daemon(&["--on-disconnect", "detach"]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.message("n", "hello").await;
    member.event("Warning").await;
    member.send(json!({"cmd": "Detach"})).await;
    assert!(of(&member.rest().await, "Died").is_empty());
    assert_eq!(member.exit().await.code(), Some(0));
    rig.go();
    let mut client = daemon.unix().await;
    eventually("both turns", DEADLINE, async || {
        let listed = crate::app_server::ok(&mut client, "thread/list", json!({})).await;
        let thread = listed["data"][0]["id"].as_str().unwrap().to_owned();
        let turns = crate::serve::turns(&mut client, &thread).await;
        turns.len() == 2 && turns.iter().all(|(_, status)| status == "completed")
    })
    .await
    .unwrap();
    let mut member = rig.member_of_daemon(&[]);
    member.event("Ready").await;
    for id in ["m", "n"] {
        let events = member.until("Completion").await;
        assert_eq!(names(&events), ["MessageDelivered", "Completion"]);
        let completion = events.last().unwrap();
        assert_eq!(
            (&completion["message_id"], &completion["recovered"]),
            (&json!(id), &json!(true))
        );
    }
    member.shutdown().await;
    let mut member = rig.member_of_daemon(&[]);
    let events = member.until("Ready").await;
    assert_eq!(names(&events), ["Ready"]);
    let events = member.shutdown().await;
    assert!(
        of(&events, "Completion").is_empty(),
        "told once: {events:?}"
    );
}
