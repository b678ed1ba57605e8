//! Several workers on one database: one turn at a time per lane, lanes that change hands, clocks
//! that jump.
//!
//! The invariant here: whoever serves a lane, the log of model calls shows at most one open turn per
//! lane, every row once, in order. A worker that is gone is replaced without anybody's help; one
//! that was replaced although it lives changes nothing any more.
//!
//! Single workers that die are in the neighbour `crash`.

mod clock;
mod lost;

use std::time::Duration;

use tokio::time::Instant;
use turnlane_protocol::ids::ThreadId;
use turnlane_store::queue::{Row, RowState};
use turnlane_store::recovery::{Deciding, Decision, FoundFate, Recover, Whose};
use turnlane_store::turn::{ItemRow, TurnRow, TurnStatus};
use turnlane_store::{Json, Store};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::crash::log::{Line, overlaps};
use crate::crash::serving::{Place, Serving};
use crate::support;

const LANES: usize = 12;
const WORKERS: usize = 3;
/// A dead worker's lanes go on within a second; a machine that runs tests may be busy.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(5);

const SCRIPT: &str = "
version: 1
turns:
  - match: gated
    steps: [{say: first}, {await: {gate: go}}]
  - match: slow
    steps: [{say: {text: one two, chunk: 4, delta_ms: 2}}]
  - match: writes-late
    steps: [{say: first}, {await: {ms: 1500}}, {exec: {cmd: touch}}, {await: {gate: never}}]
  - match: ends-late
    steps: [{say: first}, {await: {ms: 1500}}]
fallback: {say: 'You said: {input}'}
";

async fn workers(place: &Place, count: usize) -> Vec<Serving> {
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(place.start(place.child(SCRIPT)));
    }
    for worker in &mut workers {
        assert!(worker.ready().await);
    }
    workers
}

async fn lanes(worker: &mut Serving, count: usize) -> Vec<ThreadId> {
    let mut threads = Vec::new();
    for _ in 0..count {
        threads.push(worker.done("thread").await.parse().unwrap());
    }
    threads
}

/// The clients whose turns were begun in this lane, in order, and by whom.
fn begun(place: &Place, thread: ThreadId) -> Vec<(String, u32)> {
    let thread = thread.to_string();
    let of_lane = |line| match line {
        Line::Begin {
            pid,
            thread: lane,
            client,
            ..
        } if lane == thread => Some((client, pid)),
        _ => None,
    };
    place.log().into_iter().filter_map(of_lane).collect()
}

fn clients(place: &Place, thread: ThreadId) -> Vec<String> {
    let begun = begun(place, thread).into_iter();
    begun.map(|(client, _)| client).collect()
}

/// Waits until nothing waits or runs in these lanes.
async fn drained(place: &Place, threads: &[ThreadId]) {
    for thread in threads {
        let what = format!("{thread} at rest");
        eventually(&what, DEADLINE, async || {
            let lane = place.store.look(thread.as_uuid().into()).await.unwrap();
            lane.depth == 0 && lane.active.is_none()
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn three_processes_run_every_row_once_in_order_one_at_a_time_per_lane() {
    const ROWS: usize = 10;
    let place = Place::new();
    let mut workers = workers(&place, WORKERS).await;
    let threads = lanes(&mut workers[0], LANES).await;
    for number in 0..ROWS {
        let mut asked = Vec::new();
        for (lane, thread) in threads.iter().enumerate() {
            let worker = (lane + number) % WORKERS;
            let text = if number % 3 == 0 { "slow" } else { "hello" };
            let add = format!("add {thread} {lane}-{number} block {text}");
            asked.push((worker, workers[worker].send(&add).await));
        }
        // Answered before the next one is added elsewhere, so the order of a lane is known.
        for (worker, number) in asked {
            assert!(matches!(workers[worker].answer(number).await, Some(Ok(_))));
        }
    }
    drained(&place, &threads).await;

    assert_eq!(overlaps(&place.log()), Vec::<String>::new());
    for (lane, thread) in threads.iter().enumerate() {
        let added: Vec<_> = (0..ROWS).map(|number| format!("{lane}-{number}")).collect();
        assert_eq!(clients(&place, *thread), added);
        let turns = support::turns(place.store.as_ref(), *thread).await;
        assert_eq!(turns.len(), ROWS);
        assert!(
            turns
                .iter()
                .all(|turn| turn.status == TurnStatus::Completed)
        );
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "how long it took is read by people")]
async fn the_lanes_of_a_killed_process_go_on_in_the_others_at_once() {
    let place = Place::new();
    let mut workers = workers(&place, WORKERS).await;
    let threads = lanes(&mut workers[0], LANES).await;
    for (lane, thread) in threads.iter().enumerate() {
        let worker = &mut workers[lane % WORKERS];
        worker
            .done(&format!("add {thread} {lane}-first continue gated"))
            .await;
        worker
            .done(&format!("add {thread} {lane}-next continue hello"))
            .await;
    }
    let mut owners = Vec::new();
    for thread in &threads {
        eventually("a turn that has begun", DEADLINE, async || {
            !begun(&place, *thread).is_empty()
        })
        .await
        .unwrap();
        owners.push(begun(&place, *thread)[0].1);
    }

    let victim = workers.iter().position(|worker| worker.pid() == owners[0]);
    let mut victim = workers.remove(victim.unwrap());
    let killed = Instant::now();
    victim.kill().await;
    let orphans: Vec<ThreadId> = threads
        .iter()
        .zip(&owners)
        .filter(|(_, owner)| **owner == victim.pid())
        .map(|(thread, _)| *thread)
        .collect();
    for thread in &orphans {
        let what = format!("{thread} going on");
        eventually(&what, TAKEN_OVER_WITHIN, async || {
            begun(&place, *thread).len() == 2
        })
        .await
        .unwrap();
    }
    eprintln!(
        "{} lanes went on after {:?}",
        orphans.len(),
        killed.elapsed()
    );

    for worker in &mut workers {
        worker.done("gate go").await;
    }
    drained(&place, &threads).await;
    assert_eq!(overlaps(&place.log()), Vec::<String>::new());
    for (lane, thread) in threads.iter().enumerate() {
        let expected = [format!("{lane}-first"), format!("{lane}-next")];
        assert_eq!(clients(&place, *thread), expected);
        let turns = support::turns(place.store.as_ref(), *thread).await;
        let first = if orphans.contains(thread) {
            TurnStatus::Interrupted
        } else {
            TurnStatus::Completed
        };
        let statuses: Vec<_> = turns.iter().map(|turn| turn.status).collect();
        assert_eq!(statuses, [first, TurnStatus::Completed]);
    }
    for worker in workers {
        worker.stop().await;
    }
}

/// Everything there is about the first turn of a lane.
async fn first_turn(place: &Place, thread: ThreadId) -> (TurnRow, Vec<ItemRow>, Row) {
    let store = place.store.as_ref();
    let turn = support::turns(store, thread).await.swap_remove(0);
    let mut items = support::items(store, thread).await;
    items.retain(|item| item.turn_ord == turn.ord);
    let row = store.row(thread.as_uuid().into(), turn.row.unwrap()).await;
    (turn, items, row.unwrap().unwrap())
}

/// Takes the lanes of a worker away, dead or not: its turns are interrupted, their rows are done.
async fn take_away(place: &Place, worker: &str) {
    let worker: uuid::Uuid = worker.parse().unwrap();
    let deciding = Deciding::new(|found| Decision {
        muted: false,
        turn_error: found.turn.map(|_| Json::from("{}".to_owned())),
        row: FoundFate::Done,
    });
    let recovered = place.store.recover(Recover {
        whose: Whose::Of(worker.into()),
        deciding,
        limit: 500,
        at_ms: support::NOW_MS,
    });
    assert_eq!(recovered.await.unwrap().lanes.len(), 2);
}

#[tokio::test]
async fn a_stopped_process_whose_lanes_were_taken_away_changes_nothing_when_it_goes_on() {
    let place = Place::new();
    let mut frozen = workers(&place, 1).await.swap_remove(0);
    let threads = lanes(&mut frozen, 2).await;
    let name = frozen.done("worker").await;
    for (thread, text) in threads.iter().zip(["writes-late", "ends-late"]) {
        frozen
            .done(&format!("add {thread} first block {text}"))
            .await;
        frozen.done(&format!("add {thread} next block hello")).await;
    }
    for thread in &threads {
        eventually("a message in the store", DEADLINE, async || {
            let items = support::items(place.store.as_ref(), *thread).await;
            items.iter().any(|item| item.kind == "agentMessage")
        })
        .await
        .unwrap();
    }
    frozen.freeze();
    let running = place.store.look(threads[0].as_uuid().into()).await.unwrap();
    assert!(running.active.is_some(), "a stopped owner keeps its lanes");

    frozen.give_up();
    take_away(&place, &name).await;
    let mut other = workers(&place, 1).await.swap_remove(0);
    drained(&place, &threads).await;
    let mut before = Vec::new();
    for thread in &threads {
        let first = first_turn(&place, *thread).await;
        assert_eq!(first.0.status, TurnStatus::Interrupted);
        assert_eq!(first.2.state, RowState::Done);
        let next = begun(&place, *thread).swap_remove(1);
        assert_eq!(next, ("next".to_owned(), other.pid()));
        before.push(first);
    }

    frozen.thaw();
    for (thread, first) in threads.iter().zip(&before) {
        let end = Line::End {
            pid: frozen.pid(),
            thread: thread.to_string(),
            turn: first.0.id.to_string(),
        };
        eventually("the end of the old engine", DEADLINE, async || {
            place.log().contains(&end)
        })
        .await
        .unwrap();
        // It serves on: what it is asked for now is done by whoever has the lane.
        frozen.done(&format!("add {thread} last block hello")).await;
    }
    drained(&place, &threads).await;
    for (thread, before) in threads.iter().zip(before) {
        assert_eq!(first_turn(&place, *thread).await, before);
        assert_eq!(clients(&place, *thread), ["first", "next", "last"]);
    }
    assert_eq!(overlaps(&place.log()), Vec::<String>::new());
    frozen.stop().await;
    other.done("gate go").await;
    other.stop().await;
    for thread in threads {
        assert_eq!(support::turns(place.store.as_ref(), thread).await.len(), 3);
    }
}
