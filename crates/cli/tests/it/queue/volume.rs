//! Long queues: everything runs once, in its order, before a client and with nobody there.
//!
//! The first turn of every thread waits at a gate until all are queued, so that nothing runs before
//! the queue is as long as it says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::eventually;

use super::list;
use crate::app_server::{Served, refused, thread};
use crate::serve::{Daemon, turns};

/// How long a whole drain may take in a debug build on a busy machine.
const LONG: Duration = Duration::from_mins(20);
/// As many turns run at once as a daemon runs by default.
const RUNNING_MAX: usize = 32;
/// So many adds are under way at once.
const IN_FLIGHT: usize = 100;

/// Who is there while a queue drains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    Client,
    Nobody,
}

/// A number for every day, or the full one, which takes minutes in a debug build: what the model is
/// sent grows with every turn.
fn size(daily: usize, full: usize) -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => full,
        None => daily,
    }
}

/// A thread and the turns that its rows are to become.
struct Queued {
    thread: String,
    turns: Vec<String>,
}

struct World {
    served: Served,
    /// Every text that the model was asked, in order.
    saw: Arc<Mutex<Vec<String>>>,
    gate: Gate,
}

impl World {
    async fn new() -> Self {
        let (saw, gate) = (Arc::<Mutex<Vec<String>>>::default(), Gate::new());
        let (seen, held) = (Arc::clone(&saw), gate.clone());
        let served = Served::new(move |request| {
            let text = request.last_user_text();
            let first = text.ends_with(" 0");
            seen.lock().unwrap().push(text);
            let reply = Reply::text("ok");
            if first {
                reply.gated_by(At::Request, &held)
            } else {
                reply
            }
        })
        .await;
        Self { served, saw, gate }
    }

    fn seen(&self) -> usize {
        // What the mock keeps of long histories is large, and is kept here in short.
        drop(self.served.mock.take_requests());
        self.saw.lock().unwrap().len()
    }
}

/// How long a queue may be. A long one is full without the row before it, which runs by the time
/// that the last one comes; of short ones not even the first may run yet.
fn depth(rows: usize) -> usize {
    if rows > IN_FLIGHT { rows } else { rows + 1 }
}

/// What is said in the turn of this number.
fn text(lane: usize, number: usize) -> String {
    format!("{lane} {number}")
}

/// A new thread with as many rows as it takes, and one before them that waits at the gate.
async fn fill(world: &World, client: &mut TestClient, lane: usize, rows: usize) -> Queued {
    let id = thread(
        client,
        &world.served.work(),
        json!({"queueMaxDepth": depth(rows)}),
    )
    .await;
    let mut turns = Vec::new();
    let numbers: Vec<usize> = (0..=rows).collect();
    for some in numbers.chunks(IN_FLIGHT) {
        let mut asked = Vec::new();
        for number in some {
            let input = json!([{"type": "text", "text": text(lane, *number)}]);
            let params = json!({"threadId": id, "input": input,
                "clientUserMessageId": text(lane, *number)});
            asked.push(client.request("thread/queue/add", params).await.unwrap());
        }
        for request in asked {
            let answer = client.answer(request).await.unwrap();
            let row = &answer["result"]["queuedSubmission"];
            turns.push(row["turnId"].as_str().unwrap().to_owned());
        }
    }
    Queued { thread: id, turns }
}

/// Follows a drain to its end: every end of a turn comes, in order, and what the queue is said to be
/// only ever gets shorter.
async fn follow(world: &World, client: &mut TestClient, lanes: &[Queued]) {
    let total: usize = lanes.iter().map(|lane| lane.turns.len()).sum();
    let is_end = |message: &Value| message["method"] == "turn/completed";
    let mut ends = client.received().iter().filter(|it| is_end(it)).count();
    while ends < total {
        let message = client.next().await.unwrap();
        ends += usize::from(is_end(&message));
        if client.received().len().is_multiple_of(200) {
            // Who is silent for a minute and answers no ping is taken for gone.
            let alive = client.request("thread/loaded/list", json!({})).await;
            alive.unwrap();
            world.seen();
        }
    }
    for Queued { thread, turns } in lanes {
        let of_thread = |message: &&Value| message["params"]["threadId"] == thread.as_str();
        let came = || client.received().iter().filter(of_thread);
        let ended: Vec<&str> = came()
            .filter(|message| is_end(message))
            .map(|message| message["params"]["turn"]["id"].as_str().unwrap())
            .collect();
        assert_eq!(ended, *turns);
        let changed: Vec<&Value> = came()
            .filter(|message| message["method"] == "thread/queue/changed")
            .map(|message| &message["params"])
            .collect();
        for (one, next) in changed.iter().zip(&changed[1..]) {
            let (before, after) = (one["revision"].as_i64(), next["revision"].as_i64());
            assert!(before <= after, "{before:?} {after:?}");
            // The same may be told twice, when two changes were found together.
            let same = one["queuedTurns"] == next["queuedTurns"];
            assert!(before < after || same, "{one} {next}");
        }
        for params in &changed {
            let shown = params["queuedTurns"].as_array().unwrap().len();
            let depth = usize::try_from(params["depth"].as_u64().unwrap()).unwrap();
            assert_eq!(shown, depth.min(100), "{}", params["revision"]);
            assert_eq!(params["truncated"], depth > 100);
        }
        // All of them wait on a lane that has no slot, all but the first on one that has.
        let depths: Vec<_> = changed.iter().map(|it| it["depth"].as_u64()).collect();
        let most = depths.iter().max().unwrap();
        let full = depths.iter().rposition(|depth| depth == most).unwrap();
        assert!(most.unwrap() >= turns.len() as u64 - 1, "{depths:?}");
        let after = &depths[full..];
        assert!(after.is_sorted_by(|one, next| one >= next), "{depths:?}");
        assert_eq!(changed.last().unwrap()["depth"], 0);
    }
}

/// Queues so many rows on so many threads behind one that waits, and lets them go.
async fn drains(lanes: usize, rows: usize, audience: Audience) {
    let world = World::new().await;
    let daemon = Daemon::start(&world.served.home, &[]).await;
    let mut client = daemon.unix().await;
    let mut queued = Vec::new();
    for lane in 0..lanes {
        queued.push(fill(&world, &mut client, lane, rows).await);
    }
    world.gate.reached_by(lanes.min(RUNNING_MAX)).await;
    if depth(rows) == rows {
        let input = json!([{"type": "text", "text": "too many"}]);
        let params = json!({"threadId": queued[0].thread, "input": input,
            "clientUserMessageId": "too many"});
        let error = refused(&mut client, "thread/queue/add", params).await;
        let full = format!("queue cannot contain more than {rows} submissions");
        assert_eq!(error["message"], full);
    }
    let total = lanes * (rows + 1);
    match audience {
        Audience::Client => {
            world.gate.release();
            follow(&world, &mut client, &queued).await;
        }
        Audience::Nobody => {
            drop(client);
            let gone = async || daemon.metric("turnlane_connections").await == 0;
            eventually("nobody there", LONG, gone).await.unwrap();
            world.gate.release();
            let asked = async || world.seen() == total;
            eventually("every turn", LONG, asked).await.unwrap();
            let empty = async || {
                daemon.metric("turnlane_lanes{state=\"running\"}").await == 0
                    && daemon.metric("turnlane_queue_depth").await == 0
            };
            eventually("an empty queue", LONG, empty).await.unwrap();
            assert_eq!(daemon.metric("turnlane_connections_total").await, 1);
            client = daemon.unix().await;
        }
    }
    assert_eq!(world.seen(), total, "nothing is asked twice");
    let saw = world.saw.lock().unwrap().clone();
    for (lane, queued) in queued.iter().enumerate() {
        let expected: Vec<String> = (0..=rows).map(|number| text(lane, number)).collect();
        let own = format!("{lane} ");
        let asked: Vec<&String> = saw.iter().filter(|text| text.starts_with(&own)).collect();
        assert_eq!(asked, expected.iter().collect::<Vec<_>>());
        let state = list(&mut client, &queued.thread).await;
        assert_eq!((&state["depth"], &state["data"]), (&json!(0), &json!([])));
        assert_eq!(state["running"], Value::Null);
        let history = turns(&mut client, &queued.thread).await;
        let completed = |text: String| (text, "completed".to_owned());
        let expected: Vec<_> = expected.into_iter().map(completed).collect();
        assert_eq!(history, expected);
    }
}

#[tokio::test]
async fn a_long_queue_of_one_thread_drains_in_order_before_a_client() {
    drains(1, size(150, 1_000), Audience::Client).await;
}

#[tokio::test]
async fn a_long_queue_of_one_thread_drains_in_order_with_nobody_there() {
    drains(1, size(150, 1_000), Audience::Nobody).await;
}

#[tokio::test]
async fn the_queues_of_a_hundred_threads_drain_in_order_before_a_client() {
    drains(100, size(9, 99), Audience::Client).await;
}

#[tokio::test]
async fn the_queues_of_a_hundred_threads_drain_in_order_with_nobody_there() {
    drains(100, size(9, 99), Audience::Nobody).await;
}
