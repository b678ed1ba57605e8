//! Who owns a lane: taking, giving up, closing; and which lanes are worth a claim.

use turnlane_store::StoreError;
use turnlane_store::lane::Taken;
use turnlane_store::queue::{Append, CannotStart, Claim, NewRow, RowState};
use turnlane_store::recovery::FoundFate;
use turnlane_store::thread::ThreadChange;
use turnlane_store::{Grip, ThreadId};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    a_lane_that_is_nobodys_is_taken,
    a_lane_that_is_ours_stays_as_it_is,
    a_lane_is_given_up,
    a_lane_that_runs_something_is_not_given_up,
    the_lanes_that_are_ours_are_listed,
    lanes_with_work_are_ready_oldest_first,
    a_held_lane_is_not_ready,
    the_next_time_to_look_is_told,
    a_look_is_corrected_by_the_claim_that_follows,
    a_lane_is_ready_again_after_its_turn,
    a_closed_store_refuses_everything,
];
on_many_workers![
    a_lane_of_a_live_worker_is_not_taken,
    an_idle_lane_of_a_dead_worker_is_taken,
    a_lane_that_a_dead_worker_left_busy_must_be_recovered_first,
    closing_gives_up_idle_lanes_and_leaves_no_worker,
    rows_bound_to_a_worker_go_when_it_closes,
    a_store_closed_with_a_turn_running_is_recovered_like_a_dead_one,
    owners_of_lanes_with_work_are_named,
    a_change_by_another_worker_is_noticed,
    what_one_worker_wrote_the_other_reads,
    a_worker_is_known_until_it_leaves,
];

async fn taken(hand: &Hand) -> Grip {
    match hand.take(thread()).await.unwrap() {
        Taken::Ours(lane) => Grip {
            thread: thread(),
            fence: lane.fence,
        },
        Taken::Elsewhere(worker) => panic!("elsewhere: {worker}"),
    }
}

async fn a_lane_that_is_nobodys_is_taken(db: Db) {
    let hand = db.one().await;
    let before = hand.lane().await;
    assert_eq!(before.owner, None);
    let grip = taken(&hand).await;
    assert_eq!(grip.fence.0, before.fence.0 + 1);
    assert_eq!(hand.lane().await.owner, Some(hand.worker()));
}

async fn a_lane_that_is_ours_stays_as_it_is(db: Db) {
    let hand = db.one().await;
    let grip = taken(&hand).await;
    assert_eq!(taken(&hand).await, grip);
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    assert_eq!(turn.grip.fence.0, grip.fence.0 + 1);
    assert_eq!(taken(&hand).await, turn.grip);
}

async fn a_lane_is_given_up(db: Db) {
    let hand = db.one().await;
    let grip = taken(&hand).await;
    hand.release(grip).await.unwrap();
    let lane = hand.lane().await;
    assert_eq!((lane.owner, lane.fence.0), (None, grip.fence.0 + 1));
    refused!(hand.release(grip), StoreError::Fenced);
}

async fn a_lane_that_runs_something_is_not_given_up(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    refused!(hand.release(turn.grip), StoreError::Busy(_));
    assert_eq!(hand.lane().await.owner, Some(hand.worker()));
    hand.finish(&turn).await;
    hand.release(turn.grip).await.unwrap();
}

async fn the_lanes_that_are_ours_are_listed(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    assert!(hand.owned().await.unwrap().is_empty());
    hand.add(&["a"]).await;
    taken(&hand).await;
    let owned = hand.owned().await.unwrap();
    assert_eq!(owned.len(), 1);
    let revision = hand.lane().await.revision;
    assert_eq!((owned[0].thread, owned[0].revision), (thread(), revision));
}

fn there(name: &str, row: NewRow) -> Append {
    Append {
        thread: thread_id(name),
        ..append(row)
    }
}

async fn ready(hand: &Hand, now_ms: i64) -> Vec<ThreadId> {
    hand.ready(now_ms, 10).await.unwrap().lanes
}

async fn lanes_with_work_are_ready_oldest_first(db: Db) {
    let hand = db.one().await;
    for name in ["u", "v", "w"] {
        hand.create_thread(new_thread(name)).await.unwrap();
    }
    let due = |at_ms| NewRow {
        not_before_ms: at_ms,
        ..row("a")
    };
    hand.append(there("u", due(NOW + 20))).await.unwrap();
    hand.append(there("v", due(NOW + 10))).await.unwrap();
    hand.append(there("w", due(0))).await.unwrap();
    for name in ["u", "v"] {
        let claim = Claim {
            thread: thread_id(name),
            ..head()
        };
        not_now(hand.claim(claim).await.unwrap());
    }
    let all = ["w", "v", "u"].map(thread_id);
    assert_eq!(ready(&hand, NOW + 20).await, all);
    assert_eq!(ready(&hand, NOW + 10).await, all[..2]);
    assert_eq!(hand.ready(NOW + 20, 2).await.unwrap().lanes, all[..2]);
}

async fn a_held_lane_is_not_ready(db: Db) {
    let hand = db.one().await;
    assert!(ready(&hand, NOW).await.is_empty());
    hand.add(&["a"]).await;
    assert_eq!(ready(&hand, NOW).await, [thread()]);
    hand.pause(thread(), paused()).await.unwrap();
    assert!(ready(&hand, NOW).await.is_empty());
    hand.resume(thread(), NOW).await.unwrap();
    assert_eq!(ready(&hand, NOW).await, [thread()]);
    let archive = |archived| ThreadChange {
        archived: Some(archived),
        ..ThreadChange::of(thread(), NOW)
    };
    hand.change_thread(archive(true)).await.unwrap();
    assert!(ready(&hand, NOW).await.is_empty());
    hand.change_thread(archive(false)).await.unwrap();
    assert_eq!(ready(&hand, NOW).await, [thread()]);
    hand.claim_head().await;
    assert!(ready(&hand, NOW).await.is_empty());
}

async fn the_next_time_to_look_is_told(db: Db) {
    let hand = db.one().await;
    let later = NewRow {
        not_before_ms: NOW + 10,
        ..row("a")
    };
    hand.append(append(later)).await.unwrap();
    not_now(hand.claim(head()).await.unwrap());
    let found = hand.ready(NOW, 10).await.unwrap();
    assert_eq!((found.lanes, found.next_ms), (vec![], Some(NOW + 10)));
    let found = hand.ready(NOW + 10, 10).await.unwrap();
    assert_eq!((found.lanes, found.next_ms), (vec![thread()], None));
}

async fn a_look_is_corrected_by_the_claim_that_follows(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    hand.fail("a").await;
    hand.add(&["b"]).await;
    not_now(hand.claim(head()).await.unwrap());
    let found = hand.ready(NOW, 10).await.unwrap();
    assert_eq!((found.lanes, found.next_ms), (vec![], None));
    hand.retry_row(thread(), None, NOW).await.unwrap();
    assert_eq!(ready(&hand, NOW).await, [thread()]);
}

async fn a_lane_is_ready_again_after_its_turn(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c"]).await;
    let turn = hand.begin().await;
    hand.finish(&turn).await;
    assert_eq!(ready(&hand, NOW).await, [thread()]);
    let claimed = hand.claim_head().await;
    hand.unclaim(claimed.grip, claimed.row.id, CannotStart::Cancel, NOW)
        .await
        .unwrap();
    assert_eq!(ready(&hand, NOW).await, [thread()]);
    let turn = hand.begin().await;
    hand.finish(&turn).await;
    assert!(ready(&hand, NOW).await.is_empty());
}

async fn a_closed_store_refuses_everything(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    hand.close().await.unwrap();
    refused!(hand.append(append(row("b"))), StoreError::Closed);
    refused!(hand.claim(head()), StoreError::Closed);
    refused!(hand.look(thread()), StoreError::Closed);
    refused!(hand.flush(), StoreError::Closed);
}

async fn a_lane_of_a_live_worker_is_not_taken(db: Db) {
    let (owner, other) = db.two().await;
    let grip = taken(&owner).await;
    let elsewhere = other.take(thread()).await.unwrap();
    assert_eq!(elsewhere, Taken::Elsewhere(owner.worker()));
    refused!(other.release(grip), StoreError::Fenced);
    owner.release(grip).await.unwrap();
    taken(&other).await;
}

async fn an_idle_lane_of_a_dead_worker_is_taken(db: Db) {
    let (owner, other) = db.two().await;
    let grip = taken(&owner).await;
    db.kill(owner).await;
    assert_eq!(taken(&other).await.fence.0, grip.fence.0 + 1);
}

async fn a_lane_that_a_dead_worker_left_busy_must_be_recovered_first(db: Db) {
    let (owner, other) = db.two().await;
    owner.direct("a").await;
    let dead = owner.worker();
    db.kill(owner).await;
    assert_eq!(other.take(thread()).await.unwrap(), Taken::Elsewhere(dead));
    not_now(other.claim(head()).await.unwrap());
    other.recover_with(FoundFate::Done).await;
    taken(&other).await;
}

async fn closing_gives_up_idle_lanes_and_leaves_no_worker(db: Db) {
    let (owner, other) = db.two().await;
    let grip = taken(&owner).await;
    owner.close().await.unwrap();
    let lane = other.lane().await;
    assert_eq!((lane.owner, lane.fence.0), (None, grip.fence.0 + 1));
    assert!(other.recover_with(FoundFate::Done).await.lanes.is_empty());
    taken(&other).await;
}

async fn rows_bound_to_a_worker_go_when_it_closes(db: Db) {
    let (owner, other) = db.two().await;
    let bound = NewRow {
        bound: Some(owner.worker()),
        ..row("a")
    };
    owner.append(append(bound)).await.unwrap();
    owner.add(&["b"]).await;
    owner.close().await.unwrap();
    let gone = other.stored("a").await;
    assert_eq!(gone.state, RowState::Cancelled);
    assert!(gone.ended_ms.is_some());
    assert_eq!(other.names().await, ["b"]);
    assert_eq!(other.claim_head().await.row.id, row_id("b"));
}

async fn a_store_closed_with_a_turn_running_is_recovered_like_a_dead_one(db: Db) {
    let (owner, other) = db.two().await;
    owner.add(&["a"]).await;
    owner.begin().await;
    owner.close().await.unwrap();
    drop(owner);
    let recovered = other.recover_with(FoundFate::Done).await;
    assert_eq!(recovered.lanes.len(), 1);
    assert_eq!(other.state("a").await, RowState::Done);
    assert_eq!(other.lane().await.owner, None);
}

async fn owners_of_lanes_with_work_are_named(db: Db) {
    let (owner, other) = db.two().await;
    other.create_thread(new_thread("u")).await.unwrap();
    assert!(other.ready(NOW, 10).await.unwrap().owners.is_empty());
    taken(&owner).await;
    owner.add(&["a"]).await;
    let found = other.ready(NOW, 10).await.unwrap();
    assert_eq!((found.lanes, found.owners), (vec![], vec![owner.worker()]));
    owner.begin().await;
    let found = other.ready(NOW, 10).await.unwrap();
    assert_eq!(found.owners, [owner.worker()]);
    assert!(owner.ready(NOW, 10).await.unwrap().owners.is_empty());
}

async fn a_change_by_another_worker_is_noticed(db: Db) {
    let (first, second) = db.two().await;
    let noticed = first.foreign_changes();
    let before = *noticed.borrow();
    second.add(&["a"]).await;
    let moved = async || *noticed.borrow() > before;
    let limit = turnlane_testkit::wait::DEADLINE;
    turnlane_testkit::wait::eventually("a foreign change", limit, moved)
        .await
        .unwrap();
}

async fn what_one_worker_wrote_the_other_reads(db: Db) {
    let (first, second) = db.two().await;
    first.add(&["a", "b"]).await;
    assert_eq!(second.names().await, ["a", "b"]);
    let turn = second.begin().await;
    assert_eq!(first.names().await, ["b"]);
    assert_eq!(first.all_turns().await, std::slice::from_ref(&turn.turn));
    assert_eq!(first.all_items().await.len(), 1);
    second.finish(&turn).await;
    assert_eq!(first.lane().await, second.lane().await);
}

async fn a_worker_is_known_until_it_leaves(db: Db) {
    let (one, two) = db.two().await;
    let me = one.worker();
    let known = two.worker_row(me).await.unwrap().unwrap();
    assert_eq!(known.id, me);
    one.close().await.unwrap();
    assert_eq!(two.worker_row(me).await.unwrap(), None);
}
