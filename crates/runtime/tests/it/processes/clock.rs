//! Wall clocks that jump: they decide when something is due, and nothing else.
//!
//! The invariant here: order, ownership and the one turn at a time are the same whatever the clock
//! says, also when two workers do not agree about it by years.

use turnlane_runtime::{AddTurn, Error, ManualClock, StartHow};
use turnlane_store::queue::RowState;
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Home, NOW_MS, World, params, start};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const TEN_YEARS_MS: i64 = 3_652 * DAY_MS;

const SCRIPT: &str = "
version: 1
turns:
  - match: gated
    steps: [{await: {gate: go}}, {say: done}]
  - match: quota
    times: 1
    steps: [{error: {kind: quota, message: no more, retry_after_ms: 7200000}}]
fallback: {say: 'You said: {input}'}
";

/// A row that is not due before that time.
fn due_at(at_ms: i64) -> AddTurn {
    AddTurn {
        not_before_ms: Some(at_ms),
        ..AddTurn::new(params("later"))
    }
}

#[tokio::test]
async fn a_clock_that_jumps_changes_neither_order_nor_owner_nor_single_flight() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let mut rows = vec![world.add(thread, "gated").await.id];
    world.gates.reached_by("go", 1).await;
    let worker = world.handle.store().worker();
    for jump in [-DAY_MS, DAY_MS, TEN_YEARS_MS, -TEN_YEARS_MS, -TEN_YEARS_MS] {
        home.clock.jump(jump);
        rows.push(world.add(thread, "hello").await.id);
        let lane = world
            .handle
            .store()
            .look(thread.as_uuid().into())
            .await
            .unwrap();
        assert_eq!(lane.owner, Some(worker));
        assert_eq!(lane.active.map(|active| active.row), Some(rows[0]));
        let busy = world
            .handle
            .start(thread, start("me", StartHow::OrReject))
            .await;
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    }
    home.clock.jump(DAY_MS);
    world.gates.open("go");
    let turns = world.ended(thread, rows.len()).await;
    let ran: Vec<_> = turns.iter().map(|turn| turn.row.unwrap()).collect();
    assert_eq!(ran, rows, "in the order of their adds");
    assert!(
        turns
            .iter()
            .all(|turn| turn.status == TurnStatus::Completed)
    );
}

#[tokio::test]
async fn workers_whose_clocks_differ_by_years_neither_bury_each_other_nor_share_a_lane() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let first = world.add(thread, "gated").await;
    world.gates.reached_by("go", 1).await;
    for ahead in [TEN_YEARS_MS, -TEN_YEARS_MS] {
        // Another worker recovers what dead ones left as it starts, and drains what it may.
        let clock = ManualClock::at(NOW_MS + ahead);
        let other = home.start_other(SCRIPT, &clock).await;
        let busy = other
            .handle
            .start(thread, start("me", StartHow::OrReject))
            .await;
        assert!(busy.is_err(), "{busy:?}");
        let second = other.thread().await;
        other.add(second, "hello").await;
        other.ended(second, 1).await;
        let lane = other
            .handle
            .store()
            .look(thread.as_uuid().into())
            .await
            .unwrap();
        assert_eq!(lane.owner, Some(world.handle.store().worker()));
        assert_eq!(lane.active.map(|active| active.row), Some(first.id));
        other.runtime.stop(std::time::Duration::ZERO).await.unwrap();
    }
    world.gates.open("go");
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].status, TurnStatus::Completed);
    assert_eq!(turns.len(), 1);
}

/// Waits until the row has been done.
async fn done(world: &World, thread: turnlane_protocol::ids::ThreadId, row: turnlane_store::RowId) {
    eventually("a row that is done", DEADLINE, async || {
        let row = world.handle.store().row(thread.as_uuid().into(), row).await;
        row.unwrap().unwrap().state == RowState::Done
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_row_with_a_time_follows_the_wall_clock_both_ways() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let (thread, other) = (world.thread().await, world.thread().await);
    let row = world.add_with(thread, due_at(NOW_MS + HOUR_MS)).await;
    let behind = world.add(thread, "behind").await;
    for jump in [-DAY_MS, -TEN_YEARS_MS, TEN_YEARS_MS] {
        home.clock.jump(jump);
        // Other lanes go on meanwhile, and the worker has looked at all of them.
        let done_before = world.turns(other).await.len();
        world.add(other, "hello").await;
        world.ended(other, done_before + 1).await;
        assert!(
            world.turns(thread).await.is_empty(),
            "not due, and strict order"
        );
    }
    home.clock.jump(2 * DAY_MS);
    done(&world, thread, row.id).await;
    done(&world, thread, behind.id).await;
    // Due once is due: a clock that jumps back does not run it again.
    home.clock.jump(-TEN_YEARS_MS);
    let last = world.add(thread, "last").await;
    done(&world, thread, last.id).await;
    let ran: Vec<_> = world
        .turns(thread)
        .await
        .iter()
        .map(|turn| turn.row.unwrap())
        .collect();
    assert_eq!(ran, [row.id, behind.id, last.id]);
}

/// A machine that was suspended is a clock that jumped ahead.
#[tokio::test]
async fn a_lane_that_waits_for_a_quota_wakes_at_the_wall_time_whatever_the_clock_did_before() {
    for jumps in [[-DAY_MS, DAY_MS], [-DAY_MS / 2, DAY_MS / 2]] {
        let home = Home::new();
        let world = home.start(SCRIPT).await;
        let (thread, other) = (world.thread().await, world.thread().await);
        let (_, ear) = world.listen(thread).await;
        let row = world.add(thread, "quota").await;
        let behind = world.add(thread, "behind").await;
        ear.hears("queue 2 waiting", 1).await;
        let waiting = world.queue(thread).await.lane.waiting.unwrap();
        assert_eq!(waiting.kind, "quota");
        let until = waiting.until_ms.unwrap();
        assert!(until >= NOW_MS + 2 * HOUR_MS, "{until}");
        // A day back and the same day ahead: the time has not come. One minute before it is not the time.
        for jump in [jumps[0], jumps[1], until - NOW_MS - 60_000] {
            home.clock.jump(jump);
            let done_before = world.turns(other).await.len();
            world.add(other, "hello").await;
            world.ended(other, done_before + 1).await;
            assert_eq!(world.turns(thread).await.len(), 1, "not due after {jump}");
            let waits = world.queue(thread).await.lane.waiting.unwrap();
            assert_eq!(waits.until_ms, Some(until), "the wall time stays");
        }
        home.clock.jump(61_000);
        let turns = world.ended(thread, 3).await;
        let rows: Vec<_> = turns.iter().map(|turn| turn.row).collect();
        assert_eq!(rows, [Some(row.id), Some(row.id), Some(behind.id)]);
    }
    // A day ahead at once is past the time.
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let row = world.add(thread, "quota").await;
    ear.hears("queue 1 waiting", 1).await;
    home.clock.jump(DAY_MS);
    done(&world, thread, row.id).await;
}
