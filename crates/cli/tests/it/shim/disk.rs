//! A member on a disk that is really full.

use serde_json::json;
use turnlane_testkit::SmallDisk;
use turnlane_testkit::small_disk::Wanted;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::rig::{Rig, id_of, of};

/// Bytes of a message: few of them are more than the files of the database still have room for.
const BODY_BYTES: usize = 200_000;
/// More messages than fit.
const MESSAGES_MAX: usize = 400;

#[tokio::test]
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
    let mut accepted = vec!["busy".to_owned()];
    for id in ["w1", "w2"] {
        member.message(id, "hello").await;
        member.event("Warning").await;
        accepted.push(id.to_owned());
    }
    disk.fill().unwrap();
    let long = "x".repeat(BODY_BYTES);
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
    // The store looks for room from time to time; the sender tries until the message is taken.
    let taken = eventually("room for a message", DEADLINE, async || {
        member.message(id, &long).await;
        loop {
            let event = member.next().await.unwrap();
            let is_it = id_of(&event) == Some(id);
            match event["event"].as_str() {
                Some("Completion") if is_it => return true,
                Some("DeliveryFailed") if is_it => {
                    assert_eq!(event["code"], "store", "{event}");
                    return false;
                }
                _ => {}
            }
        }
    });
    taken.await.unwrap();
    member.shutdown().await;
}
