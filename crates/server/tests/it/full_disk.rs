//! A disk that is really full: new work is refused with the reason, and reads and ends go on.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde_json::json;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess, skipped};

use crate::support::{World, turn};

/// Set in the child: the folder that is the small disk.
const FOLDER: &str = "TURNLANE_SMALL_DISK";

const HELD: &str = "version: 1
turns:
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
fallback: {say: \"You said: {input}\"}
";

/// Uses up the disk to the last byte.
fn fill(folder: &Path) {
    let mut options = OpenOptions::new();
    let filler = folder.join("filler");
    let mut file = options.create(true).append(true).open(filler).unwrap();
    for bytes in [1 << 16, 1 << 12, 1] {
        let bytes = vec![1; bytes];
        loop {
            match file.write_all(&bytes) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn the_child_serves_on_its_full_disk() {
    let Some(disk) = std::env::var_os(FOLDER) else {
        return;
    };
    let disk = Path::new(&disk);
    let folder = tempfile::tempdir_in(disk).unwrap();
    let options = turnlane_runtime::Options::default();
    let world = World::start_in(folder, HELD, options).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let held = client.turn(&thread, "hold").await;
    world.gates.reached_by("go", 1).await;
    let other = client.thread().await;
    assert!(world.server.ready());
    fill(disk);

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

#[tokio::test]
async fn on_a_full_disk_new_work_is_refused_and_reads_and_ends_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=16m none \"$1\" || exit 77
        TURNLANE_SMALL_DISK=\"$1\" exec \"$2\" --exact \"$3\"";
    let child = ProcessSpec::new("/usr/bin/env")
        .args(["unshare", "--user", "--map-root-user", "--mount"])
        .args(["/bin/sh", "-c", script, "sh"])
        .args([folder.path().as_os_str()])
        .args([std::env::current_exe().unwrap()])
        .args(["full_disk::the_child_serves_on_its_full_disk"])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // 101 is a failed test; anything else is a system without `unshare`, or that forbids it.
    match output.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        Some(101) | None => panic!("{said}\n{}", output.stderr_tail),
        Some(_) => skipped(format!("no disk of our own: {}", output.stderr_tail)),
    }
}
