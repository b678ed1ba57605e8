//! Tests of who owns a lane and which lanes are worth a claim.
//!
//! The other worker is dead unless a test lets it live.

use super::*;
use crate::ids::Fence;
use crate::queue::Which;
use crate::sqlite::fixture::{Fixture, THREAD, Who, append, claim_of, id, no_grip, waiting};
use crate::sqlite::{claim, queue};

fn taken(fixture: &Fixture, who: Who) -> Taken {
    fixture.by(who, |db| take(db, id(THREAD))).unwrap()
}

fn fence(taken: Taken) -> Fence {
    match taken {
        Taken::Ours(lane) => lane.fence,
        Taken::Elsewhere(worker) => unreachable!("owned by {worker}"),
    }
}

#[test]
fn a_lane_is_taken_once_and_given_back() {
    let fixture = Fixture::with_thread();
    assert_eq!(fence(taken(&fixture, Who::Me)), Fence(1));
    assert_eq!(fence(taken(&fixture, Who::Me)), Fence(1));
    assert_eq!(taken(&fixture, Who::Other), Taken::Elsewhere(Who::Me.id()));
    let grip = Grip {
        thread: id(THREAD),
        fence: Fence(1),
    };
    let stale = fixture.run(|db| release(db, no_grip()));
    assert!(matches!(stale, Err(StoreError::Fenced)));
    fixture.run(|db| release(db, grip)).unwrap();
    let lane = fixture.look();
    assert_eq!((lane.owner, lane.fence), (None, Fence(2)));
    let again = fixture.run(|db| release(db, grip));
    assert!(matches!(again, Err(StoreError::Fenced)));
    let missing = fixture.run(|db| take(db, id(9)));
    assert!(matches!(missing, Err(StoreError::ThreadNotFound(_))));
}

#[test]
fn a_dead_owner_is_replaced_when_it_left_nothing_under_way() {
    let fixture = Fixture::with_thread();
    let lives = fixture.other_lives();
    taken(&fixture, Who::Other);
    assert_eq!(taken(&fixture, Who::Me), Taken::Elsewhere(Who::Other.id()));
    drop(lives);
    assert_eq!(fence(taken(&fixture, Who::Me)), Fence(2));

    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture
        .by(Who::Other, |db| {
            claim::claim(db, &claim_of(Which::Head, 20))
        })
        .unwrap();
    assert_eq!(taken(&fixture, Who::Me), Taken::Elsewhere(Who::Other.id()));
}

#[test]
fn a_busy_lane_is_not_released() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    let busy = fixture.run(|db| release(db, begun.grip));
    assert!(matches!(busy, Err(StoreError::Busy(_))));
}

#[test]
fn only_lanes_that_could_be_claimed_are_ready() {
    let fixture = Fixture::new();
    for thread in 1..=8_u128 {
        fixture.create(thread);
        let mut add = append(thread);
        add.thread = id(thread);
        fixture.append(&add).unwrap();
    }
    let set = |what: &str, thread: u128| {
        let sql = format!("UPDATE lane SET {what} WHERE thread_id = ?1");
        let thread: ThreadId = id(thread);
        fixture.connection.execute(&sql, [thread]).unwrap();
    };
    set("ready_ms = 70", 1);
    set("ready_ms = 60", 2);
    set("ready_ms = 900", 3);
    set(
        "paused = '{\"reason\":\"user\",\"by\":null,\"since_ms\":0}'",
        4,
    );
    let archive = crate::thread::ThreadChange {
        archived: Some(true),
        ..crate::thread::ThreadChange::of(id(5), 20)
    };
    fixture
        .run(|db| crate::sqlite::threads::change(db, &archive))
        .unwrap();
    fixture.by(Who::Other, |db| take(db, id(6))).unwrap();
    fixture.run(|db| take(db, id(7))).unwrap();
    let wanted = crate::queue::Claim {
        thread: id(8),
        ..claim_of(Which::Head, 20)
    };
    fixture.run(|db| claim::claim(db, &wanted)).unwrap();
    let found = fixture.run(|db| ready(db, 100, 10)).unwrap();
    assert_eq!(found.lanes, [id(7), id(2), id(1)]);
    assert_eq!(found.owners, [Who::Other.id()]);
    assert_eq!(found.next_ms, Some(900));
    assert_eq!(fixture.run(|db| ready(db, 100, 1)).unwrap().lanes, [id(7)]);
    let theirs = fixture.by(Who::Other, |db| ready(db, 1_000, 10)).unwrap();
    assert_eq!(theirs.lanes, [id(6), id(2), id(1), id(3)]);
    // I own one that is due and one with a row under way.
    assert_eq!((theirs.owners, theirs.next_ms), (vec![Who::Me.id()], None));
}

#[test]
fn a_worker_knows_its_lanes_and_their_revisions() {
    let fixture = Fixture::with_thread();
    fixture.create(2);
    fixture.add(5);
    taken(&fixture, Who::Me);
    let expected = OwnedLane {
        thread: id(THREAD),
        revision: 1,
    };
    assert_eq!(fixture.run(owned).unwrap(), [expected]);
    assert_eq!(fixture.by(Who::Other, owned).unwrap(), []);
}

#[test]
fn a_restart_ends_endless_waits_of_lanes_without_a_live_owner() {
    let fixture = Fixture::new();
    for thread in 1..=4_u128 {
        fixture.create(thread);
    }
    let wait = |thread: u128, until_ms| {
        let sql = "UPDATE lane SET waiting = ?2 WHERE thread_id = ?1";
        let thread: ThreadId = id(thread);
        let row = params![thread, waiting(until_ms)];
        fixture.connection.execute(sql, row).unwrap();
    };
    wait(1, None);
    wait(2, Some(900));
    wait(3, None);
    wait(4, None);
    fixture.add(5);
    fixture.run(|db| take(db, id(3))).unwrap();
    fixture.by(Who::Other, |db| take(db, id(4))).unwrap();
    fixture
        .run(|db| queue::pause(db, id(1), &paused()))
        .unwrap();
    // I live, as the other one sees it.
    assert_eq!(fixture.by(Who::Other, end_endless_waits).unwrap(), 1);
    assert_eq!(fixture.look().waiting, None);
    assert_eq!(fixture.ready_ms(), Some(0));
    assert_eq!(fixture.run(end_endless_waits).unwrap(), 1);
    let before = fixture.connection.total_changes();
    assert_eq!(fixture.run(end_endless_waits).unwrap(), 0);
    assert_eq!(fixture.connection.total_changes(), before);
    assert_eq!(
        fixture.count("SELECT * FROM lane WHERE waiting IS NOT NULL"),
        2
    );
}

fn paused() -> crate::lane::Paused {
    crate::lane::Paused {
        reason: "user".to_owned(),
        by: None,
        since_ms: 0,
    }
}
