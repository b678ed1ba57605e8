//! Ends that nothing holds up: thousands of them at once, behind a stuck write, behind a flood.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Host, SOON, Wire, all_gone, base64, start_params};

/// What a client heard while it waited for answers and ends.
#[derive(Default)]
struct Heard {
    answers: BTreeMap<i64, Value>,
    exited: BTreeSet<String>,
    closed: BTreeSet<String>,
}

impl Heard {
    async fn hear(&mut self, wire: &mut Wire) {
        let message = wire.next().await;
        let id = message["params"]["processId"].as_str().unwrap_or_default();
        match message["method"].as_str() {
            None => {
                let id = message["id"].as_i64().unwrap();
                assert!(self.answers.insert(id, message).is_none(), "answered twice");
            }
            Some("process/exited") => assert!(self.exited.insert(id.to_owned())),
            Some("process/closed") => assert!(self.closed.insert(id.to_owned())),
            Some(other) => assert_eq!(other, "process/output"),
        }
    }
}

/// Starts `count` processes, 64 starts at a time; their pids.
async fn start_many(wire: &mut Wire, count: usize, more: &Value) -> Vec<i64> {
    let mut pids = Vec::with_capacity(count);
    for batch in (0..count).collect::<Vec<_>>().chunks(64) {
        for number in batch {
            let params = start_params(&format!("p{number}"), "exec sleep 1000", more.clone());
            wire.push_call("process/start", &params);
        }
        wire.flush().await;
        for _ in batch {
            let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
            let pid = answer["result"]["pid"].as_i64();
            pids.push(pid.unwrap_or_else(|| panic!("{answer}")));
        }
    }
    pids
}

async fn terminate_all(host: &Host, processes: usize, times: usize, read_along: bool) {
    let mut wire = host.v1().await;
    let pids = start_many(&mut wire, processes, &json!({})).await;
    let mut heard = Heard::default();
    let began = Instant::now();
    for _ in 0..times {
        for number in 0..processes {
            wire.push_call(
                "process/terminate",
                &json!({"processId": format!("p{number}")}),
            );
        }
        wire.flush().await;
        while read_along && heard.answers.len() < processes / 2 {
            heard.hear(&mut wire).await;
        }
    }
    let count = processes * times;
    while heard.answers.len() < count || heard.closed.len() < processes {
        heard.hear(&mut wire).await;
    }
    let took = began.elapsed();
    assert_eq!(heard.exited, heard.closed);
    assert!(
        heard
            .answers
            .values()
            .all(|answer| answer["result"]["running"].is_boolean())
    );
    let ran = |answer: &&Value| answer["result"]["running"] == true;
    assert!(heard.answers.values().filter(ran).count() >= processes);
    all_gone("every child", SOON, &pids).await;
    // The connection still answers.
    assert_eq!(
        wire.ok("environment/status", json!({})).await["status"],
        "ready"
    );
    assert!(
        took < Duration::from_millis(30) * u32::try_from(count).unwrap(),
        "{count} took {took:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_pipelined_terminates_are_all_answered() {
    terminate_all(&Host::start(), 1000, 1, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_pipelined_terminates_are_all_answered_with_a_reader_beside() {
    terminate_all(&Host::start(), 1000, 10, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_pipelined_terminates_are_all_answered_to_who_reads_only_then() {
    terminate_all(&Host::start(), 1000, 10, false).await;
}

/// Asks and measures.
async fn timed(wire: &mut Wire, method: &str, params: Value) -> (Value, Duration) {
    let began = Instant::now();
    let answer = wire.ok(method, params).await;
    (answer, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_write_delays_nothing() {
    let host = Host::start();
    let mut wire = host.v1().await;
    wire.sh("other", "exec cat", json!({"pipeStdin": true}))
        .await;
    wire.sh("deaf", "exec sleep 1000", json!({"pipeStdin": true}))
        .await;
    // The queue takes 1 MiB and the pipe 64 KiB; the rest waits.
    let chunk = base64(&vec![0; 256 * 1024]);
    let mut stuck = Vec::new();
    for number in 0..12 {
        let params = json!({"processId": "deaf", "chunk": chunk, "writeId": format!("w{number}")});
        stuck.push(wire.push_call("process/write", &params));
    }
    wire.flush().await;
    let mut accepted = 0;
    while accepted < 4 {
        let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
        assert_eq!(answer["result"]["status"], "accepted");
        accepted += 1;
    }
    let limit = Duration::from_secs(20);
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let (_, took) = timed(&mut wire, "environment/status", json!({})).await;
        slowest = slowest.max(took);
        let params = json!({"processId": "other", "rows": 1, "cols": 1});
        wire.err("process/resize", params).await;
    }
    let write = json!({"processId": "other", "chunk": base64(b"hi"), "writeId": "w"});
    let (answer, took) = timed(&mut wire, "process/write", write).await;
    assert_eq!(answer["status"], "accepted");
    let began = Instant::now();
    let end = wire.push_call("process/terminate", &json!({"processId": "deaf"}));
    wire.flush().await;
    let mut answers = BTreeMap::new();
    let mut terminated = Duration::ZERO;
    // The waiting writes are answered too: there is nobody left to write to.
    while answers.len() < stuck.len() - accepted + 1 {
        let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
        if answer["id"] == end {
            terminated = began.elapsed();
        }
        answers.insert(answer["id"].as_i64().unwrap(), answer["result"].clone());
    }
    assert_eq!(answers.remove(&end).unwrap(), json!({"running": true}));
    assert!(
        answers
            .values()
            .all(|answer| answer["status"] == "stdinClosed"),
        "{answers:?}"
    );
    // Far more than a busy machine needs; a held up one takes for ever.
    assert!(
        slowest.max(took).max(terminated) < limit,
        "{slowest:?} {took:?} {terminated:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminate_does_not_wait_for_output_nor_for_waits() {
    let host = Host::start();
    let mut wire = host.v1().await;
    wire.sh("loud", "exec cat /dev/zero", json!({})).await;
    for _ in 0..100 {
        wire.push_call("process/wait", &json!({"processId": "loud"}));
    }
    let end = wire.push_call("process/terminate", &json!({"processId": "loud"}));
    wire.flush().await;
    let mut heard = Heard::default();
    let all = async {
        while heard.closed.is_empty() || heard.answers.len() < 101 {
            heard.hear(&mut wire).await;
        }
    };
    within("the end", DEADLINE, all).await.unwrap();
    assert_eq!(heard.answers[&end]["result"], json!({"running": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_processes_are_listed_and_ended_at_once() {
    for more in [json!({}), json!({"tty": true})] {
        let host = Host::start();
        let mut wire = host.v1().await;
        let pids = start_many(&mut wire, 1000, &more).await;
        let list = wire.ok("process/list", json!({})).await;
        let listed = list["processes"].as_array().unwrap();
        assert_eq!(listed.len(), 1000);
        let in_order: Vec<_> = listed
            .iter()
            .map(|one| one["processId"].as_str().unwrap().to_owned())
            .collect();
        let expected: Vec<_> = (0..1000).map(|number| format!("p{number}")).collect();
        assert_eq!(in_order, expected, "oldest first");
        assert!(listed.iter().all(|one| one["state"] == "running"));
        let began = Instant::now();
        assert_eq!(
            wire.ok("session/end", json!({})).await,
            json!({"ended": 1000})
        );
        all_gone("every process", Duration::from_secs(10), &pids).await;
        // Two seconds on a machine of its own.
        assert!(
            began.elapsed() < Duration::from_secs(6),
            "{:?}",
            began.elapsed()
        );
    }
}
