//! Messages that wait, are refused, or come twice.

use serde_json::{Value, json};

use super::rig::{Rig, names, of};

fn ids(events: &[Value], name: &str) -> Vec<String> {
    let id = |event: &&Value| {
        let id = event["id"].as_str().or(event["message_id"].as_str());
        id.unwrap().to_owned()
    };
    of(events, name).iter().map(id).collect()
}

#[tokio::test]
async fn a_full_queue_refuses_the_new_message_and_runs_every_accepted_one() {
    let rig = Rig::new();
    let mut member = rig.member(&["--max-queue", "5"]);
    member.event("Ready").await;
    member.message("m0", "busy").await;
    member.event("MessageDelivered").await;
    for number in 1..=20 {
        member.message(&format!("m{number}"), "hello").await;
    }
    let mut events = Vec::new();
    for _ in 0..20 {
        let event = member.next().await.unwrap();
        assert!(["Warning", "DeliveryFailed"].contains(&event["event"].as_str().unwrap()));
        events.push(event);
    }
    let refused = ids(&events, "DeliveryFailed");
    assert_eq!(refused.len(), 15);
    assert_eq!((refused[0].as_str(), refused[14].as_str()), ("m6", "m20"));
    for failed in of(&events, "DeliveryFailed") {
        assert_eq!(
            (&failed["code"], &failed["retryable"]),
            (&json!("queue_full"), &json!(true))
        );
    }
    rig.go();
    let mut completed = Vec::new();
    while completed.len() < 6 {
        let event = member.event("Completion").await;
        completed.push(event["message_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(completed, ["m0", "m1", "m2", "m3", "m4", "m5"]);
    member.shutdown().await;
}

#[tokio::test]
async fn the_same_id_runs_once_until_it_fails() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("b", "busy").await;
    member.event("MessageDelivered").await;
    member.message("b", "busy").await;
    let running = member.event("MessageDelivered").await;
    assert_eq!(running["duplicate"], true);
    member.message("w", "hello").await;
    member.event("Warning").await;
    member.message("w", "hello").await;
    let waiting = member.event("Warning").await;
    assert_eq!(
        (&waiting["duplicate"], &waiting["depth"]),
        (&json!(true), &json!(1))
    );
    member.message("w", "another body").await;
    let conflict = member.event("DeliveryFailed").await;
    assert_eq!(conflict["code"], "duplicate_conflict");
    rig.go();
    assert_eq!(member.event("Completion").await["message_id"], "b");
    assert_eq!(member.event("Completion").await["message_id"], "w");
    member.message("w", "hello").await;
    let again = member.until("Completion").await;
    assert_eq!(names(&again), ["MessageDelivered", "Completion"]);
    assert_eq!(again.last().unwrap()["duplicate"], true);
    for attempt in 1..=3 {
        member.message("f", "please fail").await;
        let events = member.until("DeliveryFailed").await;
        assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], attempt);
    }
    // What failed does not hold the lane.
    member.message("n", "hello").await;
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}
