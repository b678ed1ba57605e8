//! Several processes on one database, from its first moment on.
//!
//! SQLite's locks are the process's, so what threads prove does not prove it for processes.

use turnlane_testkit::wait::eventually;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Set in the child: the folder of the database, and its number.
const FOLDER: &str = "TURNLANE_SHARING_FOLDER";
const NUMBER: &str = "TURNLANE_SHARING_NUMBER";

const PROCESSES: u128 = 6;
const NOTES_EACH: usize = 50;

#[tokio::test]
async fn the_child_writes_its_notes() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let number: u128 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let store = open(Path::new(&folder), number).await;
    for count in 0..NOTES_EACH {
        note(&store, DURABLE, format!("{number} {count:02}"))
            .await
            .unwrap();
    }
    let leave = store.shut_down(|db| {
        let sql = "DELETE FROM worker WHERE id = ?1";
        let left = db.connection.execute(sql, [db.me.to_string()]);
        left.map(drop).map_err(noting)
    });
    leave.await.unwrap();
}

#[tokio::test]
async fn processes_that_open_a_new_database_at_once_all_write_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let child = |number: u128| {
        let spec = ProcessSpec::new(std::env::current_exe().unwrap())
            .args(["sqlite::tests::sharing::the_child_writes_its_notes"])
            .args(["--exact"])
            .env(FOLDER, folder.path())
            .env(NUMBER, number.to_string());
        TestProcess::run(spec, DEADLINE)
    };
    let mut running = tokio::task::JoinSet::new();
    for number in 1..=PROCESSES {
        running.spawn(child(number));
    }
    while let Some(output) = running.join_next().await {
        let output = output.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", output.stderr_tail);
    }
    let store = open(folder.path(), PROCESSES + 1).await;
    assert_eq!(worker_rows(&store).await, 1, "the others have left");
    let notes = notes(&store).await;
    for number in 1..=PROCESSES {
        let start = format!("{number} ");
        let own: Vec<_> = notes
            .iter()
            .filter(|note| note.starts_with(&start))
            .collect();
        assert_eq!(own.len(), NOTES_EACH);
        assert!(own.is_sorted(), "in the order of submission");
    }
    let locks = std::fs::read_dir(folder.path().join("lanes.db.workers")).unwrap();
    assert_eq!(locks.count(), 1);
}

#[tokio::test]
async fn a_worker_counts_as_alive_until_its_last_lock_is_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let other = open(folder.path(), 2).await;
    let lock = store.worker_lock().unwrap().unwrap();
    let me = store.worker();
    drop(store);
    let dead = || other.shared.locks.state(me) == LockState::Free;
    // The writer lets go of the lock as the last thing it does.
    for _ in 0..1_000 {
        std::thread::yield_now();
        assert!(!dead(), "somebody else still holds it");
    }
    drop(lock);
    eventually("the worker to be dead", DEADLINE, async || dead())
        .await
        .unwrap();
    let alone = SqliteStore::open_in_memory(worker(3)).unwrap();
    assert!(alone.worker_lock().unwrap().is_none(), "nobody shares it");
}
