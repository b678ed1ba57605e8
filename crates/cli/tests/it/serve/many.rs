//! Many processes on one database: one turn at a time per lane, in order, and whoever is killed loses
//! its lanes to another.
//!
//! A home has one daemon, so the second one has a home of its own whose database is the same file.

use std::collections::HashMap;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{TempHome, TestClient};

use super::{Daemon, add, turns};
use crate::app_server::{Served, ok, run_what_is_said, thread};

const LANES: usize = 4;

/// How many turns each of the five processes adds to each lane.
fn rows() -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 20,
        None => 2,
    }
}

/// A command that fails loudly when another one of the same lane runs.
fn command(lane: usize, who: &str, n: usize) -> String {
    // The lock is gone with whoever held it, so a killed turn leaves none.
    format!("flock -n lane-{lane} sleep 0.01 || echo {who}-{n} >> overlaps; : {who} {n}")
}

async fn fill(client: &mut TestClient, who: &str, threads: &[String]) {
    for n in 0..rows() {
        for (lane, id) in threads.iter().enumerate() {
            let text = command(lane, who, n);
            add(client, id, &text, json!({"onCrash": "continue"})).await;
        }
    }
}

/// Another home with the database of the first.
fn beside(served: &Served) -> TempHome {
    let home = TempHome::new().unwrap();
    home.use_model(&served.mock.base_url()).unwrap();
    let name = "turnlane.db";
    symlink(
        served.home.turnlane().join(name),
        home.turnlane().join(name),
    )
    .unwrap();
    home
}

#[tokio::test]
async fn two_daemons_and_three_servers_share_a_file_and_lose_members() {
    let served = Served::new(run_what_is_said).await;
    let mut one = Daemon::start(&served.home, &[]).await;
    let second_home = beside(&served);
    let two = Daemon::start(&second_home, &[]).await;
    let mut stdios = Vec::new();
    for _ in 0..3 {
        stdios.push(served.stdio().await);
    }
    let mut client = two.unix().await;
    let free = json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});
    let mut threads = Vec::new();
    for _ in 0..LANES {
        threads.push(thread(&mut client, &served.work(), free.clone()).await);
    }
    for id in &threads {
        // Nobody keeps a lane to itself.
        ok(&mut client, "thread/unsubscribe", json!({"threadId": id})).await;
    }
    let mut first = one.unix().await;
    fill(&mut first, "one", &threads).await;
    fill(&mut client, "two", &threads).await;
    let names = ["three", "four", "five"];
    for (stdio, who) in stdios.iter_mut().zip(names) {
        fill(&mut stdio.client, who, &threads).await;
    }
    // In the middle of it a daemon and a server are killed; others go on.
    served.mock.wait_for_requests(4, DEADLINE).await.unwrap();
    one.process.kill9().await.unwrap();
    let mut killed = stdios.pop().unwrap();
    served.mock.wait_for_requests(12, DEADLINE).await.unwrap();
    killed.process.kill9().await.unwrap();

    let mut counted = 0;
    for (lane, id) in threads.iter().enumerate() {
        eventually("an empty queue", DEADLINE, async || {
            let state = ok(&mut client, "thread/queue/list", json!({"threadId": id})).await;
            assert_eq!(state["blocked"], Value::Null, "{state}");
            state["depth"] == 0 && state["running"].is_null()
        })
        .await
        .unwrap();
        let history = turns(&mut client, id).await;
        let texts: Vec<&str> = history.iter().map(|(text, _)| text.as_str()).collect();
        let places: HashMap<&str, usize> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| (*text, at))
            .collect();
        assert_eq!(places.len(), texts.len(), "a turn ran twice: {texts:?}");
        for who in ["one", "two", "three", "four", "five"] {
            let own: Vec<String> = (0..rows()).map(|n| command(lane, who, n)).collect();
            let at: Vec<usize> = own.iter().map(|text| places[text.as_str()]).collect();
            assert!(at.is_sorted(), "{who}: {texts:?}");
        }
        let ended = |status: &str| ["completed", "interrupted"].contains(&status);
        assert!(
            history.iter().all(|(_, status)| ended(status)),
            "{history:?}"
        );
        let cut_off = history.iter().filter(|(_, status)| status == "interrupted");
        assert!(cut_off.count() <= 2, "{history:?}");
        counted += history.len();
    }
    assert_eq!(counted, 5 * rows() * LANES);
    let overlaps = served.work().join("overlaps");
    let overlaps = std::fs::read_to_string(overlaps).unwrap_or_default();
    assert_eq!(overlaps, "", "two turns of a lane ran at the same time");

    // The home of the daemon that was killed has another one at once.
    let third = within("a daemon", DEADLINE, Daemon::start(&served.home, &[])).await;
    assert_eq!(third.unwrap().metric("turnlane_queue_depth").await, 0);
}
