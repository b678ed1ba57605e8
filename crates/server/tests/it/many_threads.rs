//! Many threads in one process: what each costs when nobody follows it any more.

use serde_json::json;
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::support::{ECHO, World, say, size};

/// Set in the process that has the test to itself.
const ALONE: &str = "TURNLANE_TEST_ALONE";

/// What the contract grants: a thirtieth of what Codex takes for one (2.1 MiB).
const BYTES_MAX: u64 = 2 * 1024 * 1024 / 30;

/// Whether this process is there for this test only; if not, one that is has run it.
async fn alone(test: &str) -> bool {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let me = std::env::current_exe().unwrap();
    let spec = ProcessSpec::new(me)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(std::env::vars())
        .env(ALONE, test);
    let limit = std::time::Duration::from_mins(5);
    let done = TestProcess::run(spec, limit).await.unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    say(&out);
    assert!(done.status.success(), "{test} failed on its own");
    assert!(out.contains("1 passed"), "{test} ran");
    false
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn begin_and_leave(world: &World, count: usize) {
    // A client keeps what it hears, so one for a few and not one for all.
    for _ in 0..count / 100 {
        let mut client = world.client().await;
        for _ in 0..100 {
            let thread = client.thread().await;
            let left = client
                .ok("thread/unsubscribe", json!({"threadId": thread}))
                .await;
            assert_eq!(left["status"], "unsubscribed");
        }
    }
}

#[tokio::test]
async fn threads_that_nobody_follows_cost_little_memory_and_no_descriptor() {
    let me = "many_threads::threads_that_nobody_follows_cost_little_memory_and_no_descriptor";
    if !alone(me).await {
        return;
    }
    let world = World::start(ECHO).await;
    begin_and_leave(&world, 200).await;
    let (bytes, open) = (resident_bytes(), descriptors());
    let count = size(1_000, 10_000);
    begin_and_leave(&world, count).await;
    let more = resident_bytes().saturating_sub(bytes);
    let each = more / count as u64;
    say(&format!(
        "{count} threads: {more} bytes more, {each} each, {} descriptors more",
        descriptors().saturating_sub(open)
    ));
    assert!(each < BYTES_MAX, "{each} bytes for a thread");
    assert!(
        descriptors() <= open + 8,
        "{open} descriptors before, {} after",
        descriptors()
    );
}
