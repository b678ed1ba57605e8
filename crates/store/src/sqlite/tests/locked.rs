//! A process that holds a lock on the database's files: named, outlived, and nothing lost.
//!
//! The lock is taken by a process of its own, because a process does not stand in its own way.

use std::io::Write as _;

use rustix::fs::{FlockOperation, fcntl_lock};
use turnlane_testkit::wait::eventually;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Set in the child: the file to lock.
const FILE: &str = "TURNLANE_LOCKED_FILE";
/// Written by the child when it holds its lock.
const HELD: &str = "the lock is held";

#[test]
fn the_child_holds_a_read_lock_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    // For reading, as a confined command could open it.
    let file = File::open(path).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared).unwrap();
    writeln!(io::stderr(), "{HELD}").unwrap();
    loop {
        std::thread::park();
    }
}

/// A process that holds read locks on every byte of the file.
async fn holder(path: &Path) -> TestProcess {
    let spec = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::locked::the_child_holds_a_read_lock_until_it_is_killed"])
        .args(["--exact", "--nocapture"])
        .env(FILE, path);
    let child = TestProcess::start(spec).unwrap();
    let held = child.wait_for_stderr_line(|line| line.contains(HELD), DEADLINE);
    held.await.unwrap();
    child
}

#[tokio::test]
async fn a_lock_of_another_process_is_named_and_outlived() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    note(&store, DURABLE, "before").await.unwrap();
    let mut child = holder(&folder.path().join("lanes.db-shm")).await;
    let pid = u32::try_from(child.pid()).unwrap();

    let writes = ["one", "two"].map(|text| note(&store, DURABLE, text));
    for write in writes {
        let refused = soon("a write that meets a lock", write).await;
        let Err(StoreError::Locked { holder, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(holder.pid, Some(pid));
        let text = holder.to_string();
        assert!(text.starts_with(&format!("process {pid} (")), "{text}");
    }
    assert_eq!(*store.health().borrow(), Health::Locked);
    assert_eq!(notes(&store).await, ["before"], "reads go on");

    child.kill9().await.unwrap();
    eventually("the store notices by itself", DEADLINE, async || {
        *store.health().borrow() == Health::Good
    })
    .await
    .unwrap();
    note(&store, DURABLE, "after").await.unwrap();
    assert_eq!(notes(&store).await, ["before", "after"]);
}

#[tokio::test]
async fn a_write_that_waits_succeeds_when_the_lock_goes_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let mut child = holder(&folder.path().join("lanes.db-shm")).await;
    let waiting = note(&store, DURABLE, "patient");
    child.kill9().await.unwrap();
    soon("a write that waited", waiting).await.unwrap();
    assert_eq!(notes(&store).await, ["patient"]);
    assert_eq!(*store.health().borrow(), Health::Good);
}

#[tokio::test]
async fn an_open_that_meets_a_lock_names_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let child = holder(&folder.path().join("lanes.db-shm")).await;
    let opening = tokio::task::spawn_blocking({
        let options = options(folder.path(), 2);
        move || SqliteStore::open(options)
    });
    let opened = within("an open", DEADLINE, opening).await.unwrap().unwrap();
    let Err(StoreError::Locked { holder, .. }) = opened else {
        panic!("it opened, or failed otherwise: {:?}", opened.err());
    };
    assert_eq!(holder.pid, u32::try_from(child.pid()).ok());
    drop(store);
}
