//! Workers whose lock file cannot be opened, and lanes that a person releases.
//!
//! A lock file that is a link to itself is refused to every user, root included, so it stands for the
//! lock file of another user.

use std::os::unix::fs::symlink;

use super::*;
use crate::Store as _;
use crate::lane::Taken;
use crate::recovery::{Deciding, Decision, FoundFate, Recover, Whose};
use crate::thread::{Listed, NewThread};
use crate::worker::{Unjudged, WorkerLife};
use crate::{Json, ThreadId};

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// A worker of this machine whose process has ended: the number is that of no process.
fn ended(number: u128) -> Worker {
    Worker {
        pid: i32::MAX.unsigned_abs(),
        pid_start: 1,
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        host: line("/proc/sys/kernel/hostname"),
        ..worker(number)
    }
}

fn thread(number: u128) -> ThreadId {
    Uuid::from_u128(number).into()
}

fn recover(whose: Whose) -> Recover {
    Recover {
        whose,
        deciding: Deciding::new(|_| Decision {
            muted: false,
            turn_error: None,
            row: FoundFate::Done,
        }),
        limit: 10,
        at_ms: 5,
    }
}

/// A thread that this worker owned when it died, with a lock file that cannot be opened.
async fn left_behind(folder: &Path, dead: Worker) {
    let id = dead.id;
    let store = SqliteStore::open(Options::new(folder.join("lanes.db"), dead)).unwrap();
    let made = store.create_thread(NewThread {
        id: thread(7),
        engine: "scripted".to_owned(),
        settings: Json::new("{}"),
        facts: Json::new("{}"),
        name: Some("docs".to_owned()),
        cwd: "/".to_owned(),
        source: "test".to_owned(),
        provider: "p".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::Yes,
        max_depth: 10,
        at_ms: 1,
    });
    made.await.unwrap();
    let taken = store.take(thread(7)).await.unwrap();
    assert!(matches!(taken, Taken::Ours(_)));
    drop(store);
    let lock = folder.join("lanes.db.workers").join(id.to_string());
    let gone = async || {
        let file = File::open(&lock).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    turnlane_testkit::wait::eventually("the worker's end", DEADLINE, gone)
        .await
        .unwrap();
    std::fs::remove_file(&lock).unwrap();
    symlink(&lock, &lock).unwrap();
}

#[tokio::test]
async fn a_dead_worker_is_known_by_its_process_where_its_lock_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    left_behind(folder.path(), ended(1)).await;
    let store = open(folder.path(), 2).await;
    let found = store.recover(recover(Whose::Dead)).await.unwrap();
    assert_eq!(found.lanes.len(), 1);
    assert_eq!(found.lanes[0].lane.owner, None);
    assert_eq!(store.worker_row(id(1)).await.unwrap(), None);
    let lock = folder
        .path()
        .join("lanes.db.workers")
        .join(id(1).to_string());
    assert!(
        std::fs::symlink_metadata(lock).is_err(),
        "its file is removed"
    );
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_lane_of_an_undecided_worker_waits_is_named_and_can_be_released() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = Worker {
        host: "another-host".to_owned(),
        ..ended(1)
    };
    left_behind(folder.path(), elsewhere).await;
    let store = open(folder.path(), 2).await;
    let found = store.recover(recover(Whose::Dead)).await.unwrap();
    assert_eq!(found.lanes, [], "it may be alive");
    let database = folder.path().join("lanes.db");
    let why = Unjudged::OtherHost {
        host: "another-host".to_owned(),
    };
    let named = unjudged_lanes(&database).unwrap();
    assert_eq!(
        named,
        [UnjudgedLane {
            thread: thread(7),
            name: Some("docs".to_owned()),
            worker: id(1),
            why: why.clone(),
        }]
    );
    let life = store.read("judge", |db| Ok(db.life(id(1)))).await.unwrap();
    assert_eq!(life, WorkerLife::Unknown(why));

    let before = store.look(thread(7)).await.unwrap();
    let released = recover(Whose::LaneUnlessAlive(thread(7)));
    let found = store.recover(released.clone()).await.unwrap();
    assert_eq!(found.lanes.len(), 1);
    assert_eq!(found.lanes[0].lane.owner, None);
    assert_eq!(found.lanes[0].lane.fence.0, before.fence.0 + 1);
    let again = store.recover(released).await.unwrap();
    assert_eq!(again.lanes, [], "nobody owns it");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_lane_is_not_released_from_an_owner_that_is_alive() {
    let folder = tempfile::tempdir().unwrap();
    left_behind(folder.path(), ended(1)).await;
    let owner = open(folder.path(), 2).await;
    let freed = owner.recover(recover(Whose::Dead)).await.unwrap();
    assert_eq!(freed.lanes.len(), 1);
    let taken = owner.take(thread(7)).await.unwrap();
    assert!(matches!(taken, Taken::Ours(_)));
    let other = open(folder.path(), 3).await;
    let released = recover(Whose::LaneUnlessAlive(thread(7)));
    let refused = other.recover(released).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::OwnedElsewhere { worker, .. } if worker == id(2)),
        "{refused:?}"
    );
    owner.close().await.unwrap();
    other.close().await.unwrap();
}

#[test]
fn each_waiting_lane_is_told_once() {
    let locks = WorkerLocks::within(tempfile::tempdir().unwrap().path().to_owned());
    assert!(locks.tells_first(thread(1)));
    assert!(!locks.tells_first(thread(1)));
    assert!(locks.tells_first(thread(2)));
}
