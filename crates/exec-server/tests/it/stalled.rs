//! A client that does not read stalls its own children, and nobody else.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{HostProcess, Wire, base64, bytes_of, in_full};

const PRODUCERS: usize = 20;
const MIB: u64 = 1024 * 1024;

/// The median time from start to exit of `true`.
async fn start_median(wire: &mut Wire, name: &str) -> Duration {
    let mut took = Vec::new();
    for number in 0..41 {
        let began = Instant::now();
        let id = format!("{name}{number}");
        wire.sh(&id, "true", json!({})).await;
        wire.until_closed(&id, 0).await;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

/// Bytes the producers' own writes have carried, as the kernel counts them.
fn written(pids: &[i64]) -> u64 {
    let of = |pid: &i64| {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        line.and_then(|count| count.parse::<u64>().ok())
            .unwrap_or(0)
    };
    pids.iter().map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_costs_little_and_slows_nobody_and_loses_nothing() {
    let total: usize = if in_full() { 100_000_000 } else { 10_000_000 };
    let host = HostProcess::start(&[]).await;
    let mut other = host.v1().await;
    let idle = start_median(&mut other, "idle").await;
    // What is used by the first loud process of all stays in use.
    let loud = format!("exec head -c {total} /dev/zero");
    other.sh("loud", &loud, json!({})).await;
    other.until_closed("loud", 0).await;
    let mut stalled = host.v1().await;
    let before = host.resident_bytes();
    let mut pids = Vec::new();
    for number in 0..PRODUCERS {
        let script = format!("read go; exec head -c {total} /dev/zero");
        let id = format!("p{number}");
        let started = stalled.sh(&id, &script, json!({"pipeStdin": true})).await;
        pids.push(started["pid"].as_i64().unwrap());
    }
    let go = |id: String| json!({"processId": id, "chunk": base64(b"\n"), "writeId": "go"});
    for number in 0..PRODUCERS {
        stalled.push_call("process/write", &go(format!("p{number}")));
    }
    stalled.flush().await;
    // Nothing is read from here on; the producers come to rest.
    let mut last = 0;
    let at_rest = async || {
        let now = written(&pids);
        let rests = now == last && now > 0;
        last = now;
        rests && list_says_stalled(&mut other).await
    };
    eventually("the stall", DEADLINE, at_rest).await.unwrap();
    let beside = start_median(&mut other, "beside").await;
    let grown = host.resident_bytes().saturating_sub(before);
    assert!(
        grown < 20 * MIB,
        "{} KiB for {PRODUCERS} stalled producers",
        grown / 1024
    );
    // Twice on a machine of its own; other tests run beside this one.
    assert!(
        beside < idle * 2 + Duration::from_millis(20),
        "{idle:?} idle, {beside:?} beside"
    );
    for _ in 0..PRODUCERS {
        stalled.answer_text().await;
    }
    let mut counts = [0; PRODUCERS];
    let mut closed = 0;
    while closed < PRODUCERS {
        let event = stalled.event().await;
        let params = &event["params"];
        match event["method"].as_str() {
            Some("process/output") => {
                let bytes = bytes_of(&params["chunk"]);
                assert!(bytes.iter().all(|&byte| byte == 0));
                let id = params["processId"].as_str().unwrap();
                let number: usize = id.trim_start_matches('p').parse().unwrap();
                counts[number] += bytes.len();
            }
            Some("process/closed") => closed += 1,
            _ => assert_eq!(params["exitCode"], 0),
        }
    }
    assert_eq!(counts, [total; PRODUCERS]);
}

/// Something to wait for between two looks: a round trip.
async fn list_says_stalled(other: &mut Wire) -> bool {
    let wait = json!({"processId": "idle0", "timeoutMs": 100, "until": "closed"});
    let answer: Value = other.call("process/wait", wait).await;
    answer.get("result").is_some()
}

/// Each answer is above a megabyte; far more are asked for than may wait.
const ASKED: usize = 60;

/// Answers that nobody reads stop the reading, not the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_and_never_reads_is_bounded() {
    let host = HostProcess::start(&[]).await;
    let mut greedy = host.v1().await;
    // It goes on, so that it is not forgotten however long the rest takes.
    let script = "head -c 1000000 /dev/zero; exec sleep 1000";
    greedy.sh("p", script, json!({})).await;
    let mut told = 0;
    while told < 1_000_000 {
        let event = greedy.event().await;
        assert_eq!(event["method"], "process/output", "{event}");
        told += bytes_of(&event["params"]["chunk"]).len();
    }
    let before = host.resident_bytes();
    for _ in 0..ASKED {
        greedy.push_call("process/read", &json!({"processId": "p"}));
    }
    greedy.flush().await;
    let mut other = host.v1().await;
    for number in 0..20 {
        let id = format!("o{number}");
        other.sh(&id, "true", json!({})).await;
        other.until_closed(&id, 0).await;
    }
    let grown = host.resident_bytes().saturating_sub(before);
    assert!(grown < 40 * MIB, "{} KiB", grown / 1024);
    for _ in 0..ASKED {
        let answer: Value = serde_json::from_str(&greedy.answer_text().await).unwrap();
        assert!(
            answer["result"]["chunks"][1].is_object(),
            "{}",
            answer["error"]
        );
    }
}
