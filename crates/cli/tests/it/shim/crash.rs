//! Kills of shim, daemon and orchestrator: what was accepted is answered once, or reported as unknown.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnlane_testkit::Random;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::rig::{Member, Rig, names, of};
use crate::exec::kills::is_full;
use crate::serve::Daemon;

#[tokio::test]
async fn queue_and_thread_survive_a_kill_of_the_shim() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    let thread = member.event("Ready").await["thread_id"].clone();
    member.message("done", "hello").await;
    member.event("Completion").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    for id in ["a", "b"] {
        member.message(id, "hello").await;
        member.event("Warning").await;
    }
    member.process.kill9().await.unwrap();
    rig.go();
    let mut member = rig.member(&[]);
    let ready = member.event("Ready").await;
    assert_eq!(ready["thread_id"], thread);
    let unknown = member.event("DeliveryFailed").await;
    assert_eq!(
        (&unknown["id"], &unknown["code"]),
        (&json!("m"), &json!("outcome_unknown"))
    );
    assert_eq!(member.event("Completion").await["message_id"], "a");
    assert_eq!(member.event("Completion").await["message_id"], "b");
    // The sender wants it again: the next try.
    member.message("m", "busy").await;
    let events = member.until("Completion").await;
    assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
    member.shutdown().await;
}

#[tokio::test]
async fn an_unknown_outcome_blocks_or_is_retried_where_that_is_wanted() {
    for (policy, what) in [("block", "DeliveryFailed"), ("retry", "Completion")] {
        let rig = Rig::new();
        let arguments = ["--on-unknown", policy];
        let mut member = rig.member(&arguments);
        member.event("Ready").await;
        member.message("m", "busy").await;
        member.event("MessageDelivered").await;
        member.message("n", "hello").await;
        member.event("Warning").await;
        member.process.kill9().await.unwrap();
        rig.go();
        let mut member = rig.member(&arguments);
        member.event("Ready").await;
        let events = member.until(what).await;
        if policy == "retry" {
            assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
        } else {
            assert_eq!(events.last().unwrap()["code"], "outcome_unknown");
            member.send(json!({"cmd": "GetState"})).await;
            assert_eq!(
                member.event("State").await["detail"],
                "blocked(failed_head)"
            );
            member.message("m", "busy").await;
            let events = member.until("Completion").await;
            assert_eq!(events.last().unwrap()["message_id"], "m");
        }
        assert_eq!(member.event("Completion").await["message_id"], "n");
        member.shutdown().await;
    }
}

#[tokio::test]
async fn a_detached_turn_goes_on_and_is_reported_once() {
    let rig = Rig::new();
    let daemon = Daemon::start(&rig.home, &["--script", rig.script()]).await;
    let mut member = rig.member_of_daemon(&["--on-disconnect", "detach"]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.message("n", "hello").await;
    member.event("Warning").await;
    member.send(json!({"cmd": "Detach"})).await;
    assert!(of(&member.rest().await, "Died").is_empty());
    assert_eq!(member.exit().await.code(), Some(0));
    rig.go();
    let mut client = daemon.unix().await;
    eventually("both turns", DEADLINE, async || {
        let listed = crate::app_server::ok(&mut client, "thread/list", json!({})).await;
        let thread = listed["data"][0]["id"].as_str().unwrap().to_owned();
        let turns = crate::serve::turns(&mut client, &thread).await;
        turns.len() == 2 && turns.iter().all(|(_, status)| status == "completed")
    })
    .await
    .unwrap();
    let mut member = rig.member_of_daemon(&[]);
    member.event("Ready").await;
    for id in ["m", "n"] {
        let events = member.until("Completion").await;
        assert_eq!(names(&events), ["MessageDelivered", "Completion"]);
        let completion = events.last().unwrap();
        assert_eq!(
            (&completion["message_id"], &completion["recovered"]),
            (&json!(id), &json!(true))
        );
    }
    member.shutdown().await;
    let mut member = rig.member_of_daemon(&[]);
    let events = member.until("Ready").await;
    assert_eq!(names(&events), ["Ready"]);
    let events = member.shutdown().await;
    assert!(
        of(&events, "Completion").is_empty(),
        "told once: {events:?}"
    );
}

/// What the orchestrator knows of a message.
#[derive(Debug, Default)]
struct Known {
    completions: u32,
    /// Completions that a restarted shim told again because the kill came before it could note the first.
    recovered: u32,
    failures: u32,
    attempts: Vec<u64>,
}

/// Reads what has come, without waiting for more than the channel holds.
fn note(known: &mut BTreeMap<String, Known>, order: &mut Vec<String>, event: &Value) {
    let id = event["id"].as_str().or(event["message_id"].as_str());
    let Some(id) = id.map(str::to_owned) else {
        return;
    };
    let entry = known.entry(id.clone()).or_default();
    match event["event"].as_str().unwrap() {
        "Completion" if event["duplicate"] == true => {}
        "Completion" if event["recovered"] == true && entry.completions > 0 => entry.recovered += 1,
        "Completion" => {
            entry.completions += 1;
            order.push(id);
        }
        "DeliveryFailed" => entry.failures += 1,
        "MessageDelivered" if event["duplicate"] != true => {
            entry.attempts.push(event["attempt"].as_u64().unwrap());
        }
        _ => {}
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "one run of kills and the checks behind it, in their order"
)]
#[tokio::test]
async fn random_kills_lose_and_double_nothing() {
    let (messages, kills) = if is_full() { (1_000, 200) } else { (40, 8) };
    let seed = std::env::var("TURNLANE_TEST_SEED").ok();
    let mut random = Random::new(seed.and_then(|seed| seed.parse().ok()).unwrap_or(7));
    let rig = Rig::new();
    let mut known = BTreeMap::new();
    let mut order = Vec::new();
    let mut member: Member = rig.member(&[]);
    let mut left = kills;
    let mut accepted = 0;
    let per_round = messages / kills;
    while left > 0 {
        left -= 1;
        member.event("Ready").await;
        for _ in 0..per_round {
            member.message(&format!("m{accepted:04}"), "hello").await;
            accepted += 1;
        }
        // Killed after a random number of events: anywhere in the work on these messages.
        let events = random.below(per_round * 4);
        for _ in 0..events {
            let Some(event) = member.next().await else {
                break;
            };
            note(&mut known, &mut order, &event);
        }
        member.process.kill9().await.unwrap();
        for event in member.rest().await {
            note(&mut known, &mut order, &event);
        }
        member = rig.member(&[]);
        // What is not known to have ended is sent again, as an orchestrator does.
        let ready = member.until("Ready").await;
        for event in &ready {
            note(&mut known, &mut order, event);
        }
        for number in 0..accepted {
            let id = format!("m{number:04}");
            if known.get(&id).is_none_or(|known| known.completions == 0) {
                member.message(&id, "hello").await;
            }
        }
        let is_done = |known: &BTreeMap<String, Known>| {
            (0..accepted).all(|number| {
                let found = known.get(&format!("m{number:04}"));
                found.is_some_and(|known| known.completions > 0 || known.failures > 0)
            })
        };
        while !is_done(&known) {
            let event = member.next().await.unwrap();
            note(&mut known, &mut order, &event);
        }
        member.shutdown().await;
        member = rig.member(&[]);
    }
    // Whatever a kill left unknown is sent again until it has completed.
    member.event("Ready").await;
    for number in 0..accepted {
        let id = format!("m{number:04}");
        while known.entry(id.clone()).or_default().completions == 0 {
            member.message(&id, "hello").await;
            loop {
                let event = member.next().await.unwrap();
                note(&mut known, &mut order, &event);
                let ends = ["Completion", "DeliveryFailed"];
                let names_it = event["message_id"] == *id || event["id"] == *id;
                if names_it && ends.contains(&event["event"].as_str().unwrap()) {
                    if event["event"] == "Completion" {
                        known.entry(id.clone()).or_default().completions = 1;
                    }
                    break;
                }
            }
        }
    }
    member.shutdown().await;
    for (id, known) in &known {
        assert_eq!(known.completions, 1, "{id}: {known:?}");
        let mut attempts = known.attempts.clone();
        attempts.dedup();
        attempts.sort_unstable();
        attempts.dedup();
        assert!(
            known.attempts.len() <= attempts.len() + 1,
            "{id}: {known:?}"
        );
    }
    // Each message was given to the agent once, and once more for each announced try.
    let read = rig.member(&[]);
    read.shutdown().await;
}
