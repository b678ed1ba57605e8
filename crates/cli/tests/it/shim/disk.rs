//! A member on a disk that is really full.

use serde_json::json;
use turnlane_testkit::SmallDisk;
use turnlane_testkit::small_disk::Wanted;

use super::rig::{Rig, id_of, of};

/// More messages than fit into what the log of the database may still have room for.
const MESSAGES_MAX: usize = 2_000;

#[tokio::test]
#[ignore = "hangs: not yet known whether the test or the shim waits"]
async fn on_a_full_disk_a_message_is_refused_and_none_is_claimed_to_be_accepted() {
    let wanted = Wanted {
        module: module_path!(),
        test: "on_a_full_disk_a_message_is_refused_and_none_is_claimed_to_be_accepted",
        mebibytes: 160,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let rig = Rig::new();
    let mut member = rig.member(&["--max-queue", "5000"]);
    member.event("Ready").await;
    member.message("busy", "busy").await;
    member.event("MessageDelivered").await;
    disk.fill().unwrap();
    let long = "x".repeat(4_000);
    let mut accepted = vec!["busy".to_owned()];
    let mut refused = None;
    for number in 0..MESSAGES_MAX {
        let id = format!("m{number}");
        member.message(&id, &long).await;
        let event = loop {
            let event = member.next().await.unwrap();
            if id_of(&event) == Some(id.as_str()) {
                break event;
            }
        };
        if event["event"] == "DeliveryFailed" {
            refused = Some(event);
            break;
        }
        assert_eq!(event["event"], "Warning", "{event}");
        accepted.push(id);
    }
    let refused = refused.unwrap();
    assert_eq!(
        (&refused["code"], &refused["retryable"]),
        (&json!("store"), &json!(true)),
        "{refused}"
    );
    // The shim serves, and a repeated message is refused again: nothing of it is stored.
    member.send(json!({"cmd": "GetState"})).await;
    let state = member.event("State").await;
    assert_eq!(state["queue_depth"], accepted.len() - 1);
    let id = id_of(&refused).unwrap();
    member.message(id, &long).await;
    assert_eq!(member.event("DeliveryFailed").await["code"], "store");
    disk.free().unwrap();
    rig.go();
    let mut completed = Vec::new();
    while completed.len() < accepted.len() {
        let events = member.until("Completion").await;
        assert!(of(&events, "DeliveryFailed").is_empty(), "{events:?}");
        completed.push(id_of(events.last().unwrap()).unwrap().to_owned());
    }
    assert_eq!(completed, accepted);
    member.message(id, &long).await;
    assert_eq!(member.event("Completion").await["message_id"], id);
    member.shutdown().await;
}
