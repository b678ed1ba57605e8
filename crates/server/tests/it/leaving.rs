//! The end of a connection is the end of everything it started.

use std::path::Path;

use serde_json::json;
use turnlane_testkit::skipped;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::host::Host;

/// Starts a child and a grandchild that leaves the session, and writes both their pids.
const FAMILY: &str = "setsid sh -c 'echo $$ > grandchild.new; mv grandchild.new grandchild; \
                      trap \"\" TERM HUP; while :; do sleep 1; done' & \
                      echo $$ > child.new; mv child.new child; while :; do sleep 1; done";

/// More than a connection may hold: without the wait it would be closed as a slow consumer.
const BYTES: usize = 80 * 1024 * 1024;

/// Waits until nothing with this pid runs.
pub(crate) async fn until_gone(pid: i32) {
    let runs = format!("/proc/{pid}/stat");
    eventually("the end of a process", DEADLINE, async || {
        // One that is dead and not yet waited for is gone as well.
        std::fs::read_to_string(&runs).map_or(true, |stat| stat.contains(") Z "))
    })
    .await
    .unwrap();
}

async fn pid_in(file: &Path) -> i32 {
    eventually("a pid in a file", DEADLINE, async || file.exists())
        .await
        .unwrap();
    std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn processes_and_their_descendants_end_with_the_connection() {
    let host = Host::new().await;
    if host.ends_only_groups() {
        return skipped("this machine offers neither cgroups nor a keeper");
    }
    for method in ["command/exec", "process/spawn"] {
        let cwd = host.cwd().join(method.replace('/', "-"));
        std::fs::create_dir(&cwd).unwrap();
        let mut client = host.client().await;
        let params = json!({"processId": "p", "processHandle": "p", "cwd": cwd,
            "command": ["sh", "-c", FAMILY]});
        client.request(method, params).await.unwrap();
        let child = pid_in(&cwd.join("child")).await;
        let grandchild = pid_in(&cwd.join("grandchild")).await;
        drop(client);
        until_gone(child).await;
        until_gone(grandchild).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_makes_its_process_wait_and_loses_nothing() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let script = format!("head -c {BYTES} /dev/zero; echo done > written");
    let params = json!({"command": ["sh", "-c", script], "processId": "p",
        "streamStdoutStderr": true, "disableOutputCap": true});
    let id = client.request("command/exec", params).await.unwrap();
    let mut looks = (0, 0);
    eventually("a process that gets no further", DEADLINE, async || {
        let written = host.output_bytes();
        let is_same = written > 0 && written == looks.0;
        looks = (written, if is_same { looks.1 + 1 } else { 0 });
        looks.1 == 40
    })
    .await
    .unwrap();
    // What the pair in memory, the connection and the service hold, and no more.
    assert!(looks.0 < 32 * 1024 * 1024, "{} bytes were taken", looks.0);
    let quick = json!({"command": ["echo", "a"]});
    let mut other = host.client().await;
    let answer = other.call("command/exec", quick).await.unwrap();
    assert_eq!(answer["result"]["stdout"], "a\n");
    assert!(!host.cwd().join("written").exists());
    let answer = client.answer(id).await.unwrap();
    assert_eq!(answer["result"]["exitCode"], 0, "{answer}");
    let (bytes, is_cut) = crate::host::told(&client, "p", "stdout");
    assert_eq!((bytes.len(), is_cut), (BYTES, false));
}
