//! Many processes on one database: one turn at a time per lane, in order, and whoever is killed loses
//! its lanes to another.
//!
//! A home has one daemon, so the second one has a home of its own whose database is the same file.
//! Any of the five processes is killed at moments that follow from a seed, which is printed;
//! `TURNLANE_TEST_SEED` gives another one. What a kill leaves undecided holds its lane, and the test
//! does what a person would: it tries again.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::symlink;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{Random, TempHome, TestClient, TestProcess};

use super::{Daemon, add, is_full, turns};
use crate::app_server::{Served, ok, run_what_is_said, thread};
use crate::exec::kills::seed;

const WHO: [&str; 5] = ["one", "two", "three", "four", "five"];

/// How many rounds there are, with a kill each, and how many turns each process adds to each of how
/// many lanes in one.
fn size() -> (usize, usize, usize) {
    if is_full() { (10, 2, 4) } else { (4, 1, 3) }
}

/// How often everything begins anew, with empty histories.
fn fleets() -> u64 {
    if is_full() { 6 } else { 1 }
}

/// A command that fails loudly when another one of the same lane runs.
fn command(lane: usize, who: &str, round: usize, n: usize) -> String {
    // The lock is gone with whoever held it, so a killed turn leaves none.
    format!("flock -n lane-{lane} sleep 0.01 || echo {lane} >> overlaps; : {who} {round} {n}")
}

/// One of the five.
struct Member {
    who: &'static str,
    process: TestProcess,
    client: TestClient,
}

impl Member {
    /// The first two are daemons of these homes, the others serve on standard input and output.
    async fn start(at: usize, homes: [&TempHome; 2], served: &Served) -> Self {
        let who = WHO[at];
        if let Some(home) = homes.get(at) {
            let daemon = Daemon::start(home, &[]).await;
            let client = daemon.unix().await;
            let process = daemon.process;
            return Self {
                who,
                process,
                client,
            };
        }
        let stdio = served.stdio().await;
        Self {
            who,
            process: stdio.process,
            client: stdio.client,
        }
    }

    /// Adds turns to all lanes in turn; which of them were not answered because it was killed.
    async fn fill(&mut self, threads: &[String], round: usize) -> Vec<(usize, String)> {
        let mut unanswered = Vec::new();
        let mut is_there = true;
        for n in 0..size().1 {
            for (lane, id) in threads.iter().enumerate() {
                let text = command(lane, self.who, round, n);
                is_there = is_there && try_add(&mut self.client, id, &text).await;
                if !is_there {
                    unanswered.push((lane, text));
                }
            }
        }
        unanswered
    }
}

/// Adds a turn; false when the server was killed before it answered.
async fn try_add(client: &mut TestClient, thread: &str, text: &str) -> bool {
    let input = json!([{"type": "text", "text": text}]);
    let turn = json!({"threadId": thread, "input": input});
    let params = json!({"threadId": thread, "turnStartParams": turn, "idempotencyKey": text});
    let Ok(answer) = client.call("thread/queue/add", params).await else {
        return false;
    };
    assert!(answer.get("result").is_some(), "{answer}");
    true
}

/// Another home with the database of the first.
fn beside(served: &Served) -> TempHome {
    let home = TempHome::new().unwrap();
    home.use_model(&served.mock.base_url()).unwrap();
    let name = "turnlane.db";
    let database = served.home.turnlane().join(name);
    symlink(database, home.turnlane().join(name)).unwrap();
    home
}

/// Waits until nothing waits or runs in a lane. What a kill left undecided is tried again; how often
/// that was.
async fn drained(client: &mut TestClient, thread: &str) -> usize {
    let mut held = 0;
    eventually("an empty queue", DEADLINE, async || {
        let lane = json!({"threadId": thread});
        let state = ok(client, "thread/queue/list", lane.clone()).await;
        if !state["blocked"].is_null() {
            let why = state["blocked"]["message"].as_str().unwrap();
            assert_eq!(
                why,
                "queued turn was interrupted because its worker stopped"
            );
            ok(client, "thread/queue/retry", lane).await;
            held += 1;
        }
        state["depth"] == 0 && state["running"].is_null()
    })
    .await
    .unwrap();
    held
}

/// What the model was asked in one lane: the texts in order, with whether a tool had answered.
type Asked = Vec<(String, bool)>;

/// Counts how often the model saw a turn go on behind the beginning of another one. What a turn that
/// was cut off had sent may still have been on its way.
fn overlaps(asked: &Asked, cut_off: &HashMap<&str, usize>) -> usize {
    let goes_on = asked
        .windows(2)
        .filter(|pair| pair[1].1 && pair[1].0 != pair[0].0);
    let counts = goes_on.filter(|pair| !cut_off.contains_key(pair[1].0.as_str()));
    counts.count()
}

/// What has to hold of a lane when it is empty.
async fn is_whole(client: &mut TestClient, lane: usize, thread: &str, asked: &Asked) -> usize {
    let history = turns(client, thread).await;
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut cut_off: HashMap<&str, usize> = HashMap::new();
    for (at, (text, status)) in history.iter().enumerate() {
        match status.as_str() {
            "completed" => {
                let before = places.insert(text, at);
                assert_eq!(before, None, "{text} was completed twice: {history:?}");
            }
            "interrupted" => *cut_off.entry(text).or_default() += 1,
            other => panic!("{text} is {other}"),
        }
    }
    let (rounds, rows, _) = size();
    for who in WHO {
        let of_round = |round| (0..rows).map(move |n| command(lane, who, round, n));
        let own: Vec<String> = (0..rounds).flat_map(of_round).collect();
        let place = |text: &String| places.get(text.as_str()).copied();
        let at: Vec<_> = own.iter().map(place).collect();
        assert!(
            at.iter().all(Option::is_some),
            "{who} has lost turns: {at:?}"
        );
        assert!(at.is_sorted(), "{who} was overtaken by itself: {at:?}");
    }
    assert_eq!(places.len(), WHO.len() * rounds * rows);
    for (text, _) in &history {
        let begun = asked
            .iter()
            .filter(|(said, answered)| said == text && !answered);
        let attempts = 1 + cut_off.get(text.as_str()).copied().unwrap_or(0);
        let begun = begun.count();
        assert!(begun <= attempts, "{text}: {attempts} tries, {begun} asked");
    }
    assert_eq!(overlaps(asked, &cut_off), 0, "{asked:?}");
    cut_off.values().sum()
}

/// What the model was asked, by lane.
fn asked_by_lane(served: &Served) -> Vec<Asked> {
    let mut lanes = vec![Asked::new(); size().2];
    for request in served.mock.requests() {
        let text = request.last_user_text();
        let lane = text.split_once("lane-").unwrap().1;
        let lane: usize = lane[..1].parse().unwrap();
        let last = request.input().last().unwrap();
        lanes[lane].push((text, last["type"] == "function_call_output"));
    }
    lanes
}

#[tokio::test]
async fn two_daemons_and_three_servers_share_a_file_and_any_of_them_is_killed() {
    for more in 0..fleets() {
        a_fleet_loses_members(seed() + more).await;
    }
}

#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn a_fleet_loses_members(seed: u64) {
    let served = Served::new(run_what_is_said).await;
    let second_home = beside(&served);
    let homes = [&served.home, &second_home];
    let (rounds, rows, lanes) = size();
    let mut random = Random::new(seed);
    eprintln!("seed {seed}, {rounds} kills");
    let mut members = Vec::new();
    for at in 0..WHO.len() {
        members.push(Member::start(at, homes, &served).await);
    }
    let free = json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});
    let mut threads = Vec::new();
    for _ in 0..lanes {
        let client = &mut members[1].client;
        let id = thread(client, &served.work(), free.clone()).await;
        // Nobody keeps a lane to itself.
        ok(client, "thread/unsubscribe", json!({"threadId": id})).await;
        threads.push(id);
    }
    let (mut held, mut lost, mut slowest) = (0, 0, Duration::ZERO);
    for round in 0..rounds {
        let victim = random.below(5);
        let behind = random.shorter(Duration::from_millis(400));
        let pid = members[victim].process.pid();
        let filling = join_all(
            members
                .iter_mut()
                .map(|member| member.fill(&threads, round)),
        );
        let killing = async {
            // A moment in which nothing is waited for.
            let _ = within("a moment", behind, std::future::pending::<()>()).await;
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        let (unanswered, ()) = tokio::join!(filling, killing);
        members[victim].process.wait(DEADLINE).await.unwrap();
        let killed = Instant::now();
        // Somebody else asks again for what was not answered; what was stored is there once.
        let other = &mut members[(victim + 1) % WHO.len()].client;
        for (lane, text) in unanswered.into_iter().flatten() {
            lost += 1;
            add(other, &threads[lane], &text, json!({})).await;
        }
        for id in &threads {
            held += drained(other, id).await;
        }
        slowest = slowest.max(killed.elapsed());
        members[victim] = Member::start(victim, homes, &served).await;
    }
    let mut cut_off = 0;
    let asked = asked_by_lane(&served);
    let client = &mut members[0].client;
    for (lane, (id, asked)) in threads.iter().zip(&asked).enumerate() {
        cut_off += is_whole(client, lane, id, asked).await;
    }
    let turns = WHO.len() * rounds * rows * lanes;
    eprintln!(
        "{turns} turns, {cut_off} cut off, {held} held their lane and were tried again, {lost} adds \
         without an answer; 0 lost, 0 doubled, 0 overlaps; the slowest round took {slowest:?}"
    );
    assert_eq!(cut_off, held, "what was cut off was held, and nothing else");
    let overlaps = served.work().join("overlaps");
    let overlaps = std::fs::read_to_string(overlaps).unwrap_or_default();
    assert_eq!(overlaps, "", "two turns of a lane ran at the same time");
}
