//! A disk that is really full: new work is refused with the reason, and reads and ends go on.

use serde_json::json;
use turnlane_testkit::SmallDisk;
use turnlane_testkit::small_disk::Wanted;

use crate::support::{World, turn};

const HELD: &str = "version: 1
turns:
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
fallback: {say: \"You said: {input}\"}
";

#[tokio::test]
async fn on_a_full_disk_new_work_is_refused_and_reads_and_ends_go_on() {
    let wanted = Wanted {
        module: module_path!(),
        test: "on_a_full_disk_new_work_is_refused_and_reads_and_ends_go_on",
        mebibytes: 16,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let options = turnlane_runtime::Options::default();
    let world = World::start_in(folder, HELD, options).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let held = client.turn(&thread, "hold").await;
    world.gates.reached_by("go", 1).await;
    let other = client.thread().await;
    assert!(world.server.ready());
    disk.fill().unwrap();

    let mut refused = None;
    for _ in 0..200 {
        let answer = client.0.call("turn/start", turn(&other, "more")).await;
        let answer = answer.unwrap();
        if answer.get("error").is_some() {
            refused = Some(answer["error"].clone());
            break;
        }
        let id = answer["result"]["turn"]["id"].as_str().unwrap().to_owned();
        client.ended(&id).await;
    }
    let error = refused.unwrap();
    assert_eq!(error["code"], -32603, "{error}");
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    let text = error["message"].as_str().unwrap();
    assert!(text.starts_with("store is full: "), "{text}");
    let error = client.err("thread/start", json!({})).await;
    assert_eq!(error["data"]["reason"], "diskFull", "{error}");
    assert!(!world.server.ready(), "/readyz says so");
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    assert_eq!(read["thread"]["turns"][0]["id"], held.as_str());
    client.ok("thread/list", json!({})).await;
    world.gates.open("go");
    assert_eq!(client.ended(&held).await["status"], "completed");
}
