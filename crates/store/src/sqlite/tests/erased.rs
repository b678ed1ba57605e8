//! What is deleted is found in no file, and its pages are given back.

use std::fmt::Write as _;

use turnlane_testkit::wait::eventually;

use super::*;
use crate::queue::{Append, NewRow, Policies};
use crate::sqlite::open::{Place, Purpose, connect};
use crate::thread::{IdleQuery, IdleScope, Listed, NewThread};
use crate::{Json, Store as _, ThreadId};

fn thread(number: u128) -> ThreadId {
    Uuid::from_u128(number).into()
}

fn new_thread(number: u128, at_ms: i64) -> NewThread {
    NewThread {
        id: thread(number),
        engine: "scripted".to_owned(),
        settings: Json::new("{}"),
        facts: Json::new("{}"),
        name: None,
        cwd: "/".to_owned(),
        source: "test".to_owned(),
        provider: "p".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::Yes,
        max_depth: 1_000,
        at_ms,
    }
}

fn append(number: u128, row: u128, text: &str) -> Append {
    Append {
        thread: thread(number),
        row: NewRow {
            id: Uuid::from_u128(row).into(),
            turn: Uuid::from_u128(row).into(),
            source: "test".to_owned(),
            params: Json::new(format!("{{\"t\":\"{text}\"}}")),
            client_id: "c".to_owned(),
            key: None,
            content_hash: [1; 32],
            not_before_ms: 0,
            policies: Policies::default(),
            bound: None,
        },
        key_window_ms: 0,
        at_ms: 1,
    }
}

/// The files below a directory that hold this text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        if bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Rows of two threads mixed, short and long, some changed and deleted, as a busy home has them.
async fn busy(store: &SqliteStore) {
    for number in [1, 2] {
        store.create_thread(new_thread(number, 1)).await.unwrap();
    }
    let mut adding = Vec::new();
    for row in 0..400_u128 {
        let (number, word) = if row % 2 == 0 {
            (1, "SECRETPROMPT")
        } else {
            (2, "KEPTPROMPT")
        };
        let mut text = String::new();
        // From a few bytes to several pages.
        for part in 0..=(row * 37 % 900) {
            let _ = write!(text, "{word}-{row}-{part} ");
        }
        adding.push(store.append(append(number, 1_000 + row, &text)));
    }
    for added in adding {
        added.await.unwrap();
    }
    for row in (0..400_u128).step_by(7) {
        let number = 1 + row % 2;
        let gone = store.delete_row(thread(number), Uuid::from_u128(1_000 + row).into(), 2);
        gone.await.unwrap();
    }
}

#[tokio::test]
async fn the_text_of_a_deleted_thread_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(folder.path(), 1)).unwrap();
    busy(&store).await;
    assert!(!holding(folder.path(), "SECRETPROMPT").is_empty());
    let size = std::fs::metadata(folder.path().join("lanes.db"))
        .unwrap()
        .len();
    store.delete_thread(thread(1)).await.unwrap();
    let erased = async || holding(folder.path(), "SECRETPROMPT").is_empty();
    eventually("nothing of the text", DEADLINE, erased)
        .await
        .unwrap();
    assert!(!holding(folder.path(), "KEPTPROMPT").is_empty());
    let smaller = async || {
        let now = std::fs::metadata(folder.path().join("lanes.db"));
        now.unwrap().len() < size
    };
    eventually("a smaller file", DEADLINE, smaller)
        .await
        .unwrap();
    store.close().await.unwrap();
    assert_eq!(holding(folder.path(), "SECRETPROMPT"), Vec::<String>::new());
}

#[tokio::test]
async fn a_reader_in_the_way_delays_the_erasing_and_does_not_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(folder.path(), 1)).unwrap();
    busy(&store).await;
    let path = folder.path().join("lanes.db");
    let reader = connect(&Place::File(path), Purpose::Read).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = reader.query_row("SELECT count(*) FROM queued_turn", [], |row| {
        row.get::<_, i64>(0)
    });
    assert!(count.unwrap() > 0);
    store.delete_thread(thread(1)).await.unwrap();
    assert!(!holding(folder.path(), "SECRETPROMPT").is_empty());
    reader.execute_batch("COMMIT").unwrap();
    let erased = async || holding(folder.path(), "SECRETPROMPT").is_empty();
    eventually("nothing of the text", DEADLINE, erased)
        .await
        .unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn idle_threads_are_found_and_deleted_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(folder.path(), 1)).unwrap();
    for (number, at_ms) in [(1, 10), (2, 20), (3, 30), (4, 1_000)] {
        store
            .create_thread(new_thread(number, at_ms))
            .await
            .unwrap();
    }
    store.append(append(2, 50, "waits")).await.unwrap();
    let archive = crate::thread::ThreadChange {
        archived: Some(true),
        ..crate::thread::ThreadChange::of(thread(3), 40)
    };
    store.change_thread(archive).await.unwrap();
    let query = |scope| IdleQuery {
        before_ms: 500,
        scope,
        limit: 10,
    };
    let ids = async |scope| -> Vec<ThreadId> {
        let found = store.idle_threads(query(scope)).await.unwrap();
        found.into_iter().map(|idle| idle.id).collect()
    };
    assert_eq!(ids(IdleScope::All).await, [thread(1), thread(3)]);
    assert_eq!(ids(IdleScope::Archived).await, [thread(3)]);
    assert!(!store.delete_if_idle(thread(2), 500).await.unwrap());
    assert!(!store.delete_if_idle(thread(4), 500).await.unwrap());
    assert!(store.delete_if_idle(thread(1), 500).await.unwrap());
    assert!(!store.delete_if_idle(thread(1), 500).await.unwrap());
    for (number, there) in [(1, false), (2, true), (3, true), (4, true)] {
        let row = store.thread(thread(number)).await.unwrap();
        assert_eq!(row.is_some(), there, "{number}");
    }
    store.close().await.unwrap();
}
