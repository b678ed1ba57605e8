//! The crash points beside a commit: the process dies there, and what is left is whole.

mod fanout;

use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Set in the child: the folder of the database.
const FOLDER: &str = "TURNLANE_CRASH_FOLDER";

#[tokio::test]
async fn the_child_writes_two_notes() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = open(Path::new(&folder), 1).await;
    let op = Op {
        doing: "keep a note",
        ..VISIBLE
    };
    note(&store, op, "first").await.unwrap();
    note(&store, op, "second").await.unwrap();
}

/// What is there after a child died at a point.
async fn after(point: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::crashes::the_child_writes_two_notes"])
        .args(["--exact"])
        .env(FOLDER, folder.path())
        .env("TURNLANE_CRASH_AT", point);
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let killed = Some(Signal::KILL.as_raw());
    assert_eq!(output.status.signal(), killed, "{point} was not reached");
    let store = open(folder.path(), 2).await;
    let dead = store.read("look", |db| Ok(db.is_dead(id(1))));
    assert!(dead.await.unwrap());
    notes(&store).await
}

#[tokio::test]
async fn a_visible_write_is_absent_before_and_there_after_its_commit() {
    assert!(after("keep-a-note:before-commit").await.is_empty());
    assert_eq!(after("keep-a-note:after-commit").await, ["first"]);
    assert_eq!(after("keep-a-note:before-commit:2").await, ["first"]);
    assert_eq!(
        after("keep-a-note:after-commit:2").await,
        ["first", "second"]
    );
}

#[tokio::test]
async fn every_commit_has_its_points() {
    // The first commit makes the table.
    assert!(after("commit:after").await.is_empty());
    assert_eq!(after("commit:before:3").await, ["first"]);
}
