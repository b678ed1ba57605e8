//! Many messages and many commands: memory, descriptors and frames stay as they should be.

use std::fmt::Write as _;

use serde_json::json;

use super::programs::descriptors;
use super::rig::Rig;
use crate::exec::kills::is_full;

const MEBIBYTE: u64 = 1_048_576;
/// What the memory of an allocator may differ by between two looks.
const NOISE_BYTES: u64 = 16 * MEBIBYTE;
/// What one waiting message may cost in memory.
const MESSAGE_BYTES_MAX: u64 = 2_048;

/// The threads of a process.
fn threads(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn a_deep_queue_costs_neither_memory_nor_descriptors_nor_threads() {
    let depth: usize = if is_full() { 10_000 } else { 300 };
    let rig = Rig::new();
    let limit = depth.to_string();
    let mut member = rig.member(&["--max-queue", &limit]);
    member.event("Ready").await;
    member.message("first", "hello").await;
    member.event("Completion").await;
    member.message("busy", "busy").await;
    member.event("MessageDelivered").await;
    let pid = member.process.pid();
    let mut open = Vec::new();
    let mut looks = Vec::new();
    let mut waiting = Vec::new();
    // Half of them, and the other half.
    for half in 0..2 {
        let numbers = half * depth / 2..(half + 1) * depth / 2;
        let count = numbers.len();
        for number in numbers {
            member.message(&format!("m{number}"), "hello").await;
        }
        for _ in 0..count {
            let warning = member.event("Warning").await;
            let position = warning["position"].as_u64().unwrap();
            waiting.push((position, warning["id"].clone()));
        }
        looks.push(member.process.rss_bytes().unwrap());
        open.push(descriptors(pid));
    }
    let grown = looks[1].saturating_sub(looks[0]);
    let allowed = NOISE_BYTES + u64::try_from(depth / 2).unwrap() * MESSAGE_BYTES_MAX;
    assert!(grown < allowed, "{looks:?} at {depth} messages");
    assert!(open[1] <= open[0] + 2, "{open:?} at {depth} messages");
    let tasks = threads(pid);
    rig.go();
    assert_eq!(member.event("Completion").await["message_id"], "busy");
    // The order of acceptance, which the positions tell, is the order of running.
    waiting.sort_unstable_by_key(|(position, _)| *position);
    for (_, id) in waiting {
        assert_eq!(member.event("Completion").await["message_id"], id);
    }
    assert!(
        descriptors(pid) <= open[0] + 2,
        "{} after {open:?}",
        descriptors(pid)
    );
    assert!(threads(pid) <= tasks + 4, "{} of {tasks}", threads(pid));
    let after = member.process.rss_bytes().unwrap();
    assert!(
        after < looks[1] + 2 * NOISE_BYTES,
        "{after} after {looks:?}"
    );
    member.shutdown().await;
}

#[tokio::test]
async fn pings_are_answered_between_the_events_of_a_turn() {
    const PINGS: usize = 3_000;
    let mut script = "version: 1\nturns:\n  - match: \"talk\"\n    steps:\n".to_owned();
    for number in 0..300 {
        // Writing into a string cannot fail.
        let _ = writeln!(
            script,
            "      - say: {{text: \"word {number}\", chunk: 2, delta_ms: 1, phase: commentary}}"
        );
    }
    script.push_str("      - say: {text: \"the end\", phase: final_answer}\n");
    let rig = Rig::with_script(&script);
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member
        .send(json!({"cmd": "Hello", "version": 2, "items": true}))
        .await;
    let mut seq = member.event("Welcome").await["seq"].as_u64().unwrap();
    member.message("m", "talk").await;
    let (mut sent, mut pongs, mut items, mut between) = (0, 0, 0, 0);
    let mut is_running = true;
    while pongs < PINGS || is_running {
        while sent < PINGS && sent < pongs + 100 {
            member.send(json!({"cmd": "Ping"})).await;
            sent += 1;
        }
        // Every frame is whole, or it would not be read.
        let event = member.next().await.unwrap();
        match event["event"].as_str().unwrap() {
            "Pong" => {
                pongs += 1;
                between += usize::from(items > 0 && is_running);
                continue;
            }
            "Item" => {
                // Not every client gets items: they have the number of the event before them.
                items += 1;
                assert_eq!(event["seq"], seq, "{event}");
                continue;
            }
            "SessionStats" => continue,
            "Completion" => is_running = false,
            _ => {}
        }
        assert_eq!(event["seq"], seq + 1, "a gap: {event}");
        seq += 1;
    }
    assert_eq!((sent, pongs), (PINGS, PINGS));
    assert!(items > 100, "{items} items");
    assert!(between > 100, "only {between} pongs between items");
    member.shutdown().await;
}
