//! A full disk and a broken one, as far as an operation can play them.
//!
//! The real ones are in `faults`, where the system's calls fail.

use std::sync::atomic::AtomicU32;

use rusqlite::ffi;
use turnlane_testkit::wait::eventually;

use super::*;

fn sqlite_error(code: i32) -> StoreError {
    noting(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}

/// An operation that fails with this code as often as told.
fn failing(store: &SqliteStore, op: Op, code: i32, times: u32, text: &'static str) -> Work<u32> {
    let runs = AtomicU32::new(0);
    store.write(op, move |db| {
        insert(db, text)?;
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        if run <= times {
            return Err(sqlite_error(code));
        }
        Ok(run)
    })
}

async fn store_that_stays_full(folder: &Path) -> SqliteStore {
    let mut options = options(folder, 1);
    options.free_again_bytes = u64::MAX;
    with_notes(SqliteStore::open(options).unwrap()).await
}

#[tokio::test]
async fn on_a_full_disk_ends_are_recorded_and_new_work_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_that_stays_full(folder.path()).await;
    let ballast = folder.path().join("lanes.db.ballast");
    assert!(ballast.exists());
    let gate = Gate::hold(&store).await;
    let add = note(&store, DURABLE, "add");
    let end = failing(&store, KEPT, ffi::SQLITE_FULL, 1, "end");
    let late = note(&store, DURABLE, "late add");
    gate.open().await;
    assert_eq!(soon("the end", end).await.unwrap(), 2, "run again");
    for refused in [add, late, note(&store, DURABLE, "next add")] {
        let refused = soon("an add", refused).await;
        assert!(matches!(refused, Err(StoreError::DiskFull { .. })));
    }
    assert!(!ballast.exists());
    assert_eq!(*store.health().borrow(), Health::Full);
    note(&store, KEPT, "another end").await.unwrap();
    assert_eq!(notes(&store).await, ["end", "another end"]);
}

#[tokio::test]
async fn when_even_the_ballast_does_not_help_ends_are_refused_too_but_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_that_stays_full(folder.path()).await;
    let end = failing(&store, KEPT, ffi::SQLITE_FULL, 2, "lost end").await;
    assert!(matches!(end, Err(StoreError::DiskFull { .. })));
    note(&store, KEPT, "next end").await.unwrap();
    assert_eq!(notes(&store).await, ["next end"]);
}

#[tokio::test]
async fn a_store_takes_new_work_again_when_enough_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), 1);
    options.free_again_bytes = 1;
    let store = with_notes(SqliteStore::open(options).unwrap()).await;
    let mut health = store.health();
    health.borrow_and_update();
    failing(&store, KEPT, ffi::SQLITE_FULL, 1, "end")
        .await
        .unwrap();
    let good = health.wait_for(|health| *health == Health::Good);
    within("good health", DEADLINE, good)
        .await
        .unwrap()
        .unwrap();
    note(&store, DURABLE, "add").await.unwrap();
    assert!(folder.path().join("lanes.db.ballast").exists());
}

#[tokio::test]
async fn a_broken_transaction_is_refused_whole_and_the_store_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let one = note(&store, DURABLE, "one");
    let broken = failing(&store, KEPT, ffi::SQLITE_IOERR_FSYNC, 1, "broken");
    let two = note(&store, KEPT, "two");
    gate.open().await;
    for refused in [one, two] {
        let refused = soon("a neighbour", refused).await;
        assert!(matches!(
            refused,
            Err(StoreError::Failed {
                doing: "write a note",
                ..
            })
        ));
    }
    assert!(soon("the broken one", broken).await.is_err());
    assert_eq!(*store.health().borrow(), Health::Good);
    let foreign = store.foreign_changes();
    note(&store, DURABLE, "three").await.unwrap();
    assert_eq!(notes(&store).await, ["three"]);
    // What others did while the connection was replaced is not known, so it counts as something.
    let counted = async || *foreign.borrow() > 0;
    eventually("a notice", DEADLINE, counted).await.unwrap();
}

#[tokio::test]
async fn after_three_broken_transactions_only_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    note(&store, DURABLE, "good").await.unwrap();
    for text in ["a", "b", "c"] {
        assert_eq!(*store.health().borrow(), Health::Good);
        let broken = failing(&store, KEPT, ffi::SQLITE_IOERR_WRITE, 1, text).await;
        assert!(matches!(broken, Err(StoreError::Failed { .. })));
    }
    assert_eq!(*store.health().borrow(), Health::WritesOff);
    let off = note(&store, KEPT, "off").await;
    assert!(matches!(off, Err(StoreError::WritesOff)));
    soon("the flush", store.flush()).await.unwrap();
    assert_eq!(notes(&store).await, ["good"]);
    let close = soon("the close", store.shut_down(|_| Ok(()))).await;
    assert!(matches!(close, Err(StoreError::WritesOff)));
    let next = open(folder.path(), 2).await;
    note(&next, DURABLE, "again").await.unwrap();
    assert_eq!(notes(&next).await, ["good", "again"]);
}
