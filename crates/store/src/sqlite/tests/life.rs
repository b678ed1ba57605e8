//! Opening, sharing, closing and dying.

use std::os::unix::fs::PermissionsExt;

use turnlane_testkit::wait::eventually;

use super::*;

fn lock_file(folder: &Path, number: u128) -> std::path::PathBuf {
    folder.join("lanes.db.workers").join(id(number).to_string())
}

fn is_dead(store: &SqliteStore, number: u128) -> Work<bool> {
    store.read("look who is dead", move |db| Ok(db.is_dead(id(number))))
}

fn delete_worker(db: &Db<'_>) -> Result<(), StoreError> {
    let sql = "DELETE FROM worker WHERE id = ?1";
    let me = db.me.to_string();
    db.connection.execute(sql, [me]).map(drop).map_err(noting)
}

#[tokio::test]
async fn a_closed_store_leaves_what_was_written_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    assert!(lock_file(folder.path(), 1).exists());
    let gate = Gate::hold(&store).await;
    let before = note(&store, DURABLE, "submitted before");
    let close = store.shut_down(delete_worker);
    let late = note(&store, KEPT, "late").await;
    assert!(matches!(late, Err(StoreError::Closed)));
    gate.open().await;
    soon("the note", before).await.unwrap();
    soon("the close", close).await.unwrap();
    assert!(!lock_file(folder.path(), 1).exists());
    assert!(
        !folder.path().join("lanes.db-wal").exists(),
        "the log is home"
    );

    assert!(matches!(store.flush().await, Err(StoreError::Closed)));
    assert!(matches!(store.room().await, Err(StoreError::Closed)));
    assert!(matches!(is_dead(&store, 1).await, Err(StoreError::Closed)));
    let again = store.shut_down(delete_worker).await;
    assert!(matches!(again, Err(StoreError::Closed)));
    drop(store);

    let next = open(folder.path(), 2).await;
    assert_eq!(notes(&next).await, ["submitted before"]);
    assert_eq!(worker_rows(&next).await, 1);
}

#[tokio::test]
async fn a_short_log_may_stay_and_a_long_one_is_brought_home() {
    let folder = tempfile::tempdir().unwrap();
    let wal = folder.path().join("lanes.db-wal");
    let short = |number| {
        let mut options = options(folder.path(), number);
        options.readers = 0;
        options.log_at_close = LogAtClose::StaysShort;
        with_notes(SqliteStore::open(options).unwrap())
    };
    let store = short(1).await;
    note(&store, DURABLE, "first").await.unwrap();
    store.shut_down(delete_worker).await.unwrap();
    assert!(wal.exists(), "it is short");
    let store = short(2).await;
    assert_eq!(notes(&store).await, ["first"]);
    assert_eq!(worker_rows(&store).await, 1);
    let long = "x".repeat(2 << 20);
    note(&store, DURABLE, long.clone()).await.unwrap();
    store.shut_down(delete_worker).await.unwrap();
    assert!(!wal.exists(), "it is long");
    let store = short(3).await;
    assert_eq!(notes(&store).await, ["first".to_owned(), long]);
    store.shut_down(delete_worker).await.unwrap();
    assert!(wal.exists());
    let next = open(folder.path(), 4).await;
    next.shut_down(delete_worker).await.unwrap();
    assert!(!wal.exists(), "others bring it home");
}

#[tokio::test]
async fn a_store_without_readers_reads_what_was_submitted_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), 1);
    options.readers = 0;
    let store = with_notes(SqliteStore::open(options).unwrap()).await;
    let gate = Gate::hold(&store).await;
    let written = note(&store, DURABLE, "before");
    let read = store.read("count the notes", |db| {
        let count = "SELECT count(*) FROM note";
        let counted = db
            .connection
            .query_row(count, [], |row| row.get::<_, i64>(0));
        counted.map_err(noting)
    });
    gate.open().await;
    assert_eq!(soon("the read", read).await.unwrap(), 1);
    soon("the write", written).await.unwrap();
    let commits = store.counts().commits;
    assert_eq!(notes(&store).await, ["before"]);
    assert_eq!(store.counts().commits, commits, "a read is no commit");
    let refused = store.read("fail", |_| Err::<(), _>(StoreError::QueueEmpty));
    assert!(matches!(refused.await, Err(StoreError::QueueEmpty)));
}

#[tokio::test]
async fn a_close_whose_last_write_fails_still_ends_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let close = store.shut_down(|_| Err(StoreError::QueueEmpty));
    let closed = soon("the close", close).await;
    assert!(matches!(closed, Err(StoreError::QueueEmpty)));
    // The row is still there, so recovery finds the two together.
    assert!(lock_file(folder.path(), 1).exists());
    let next = open(folder.path(), 2).await;
    assert!(is_dead(&next, 1).await.unwrap());
}

#[tokio::test]
async fn a_dropped_store_is_a_dead_worker_whose_submissions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let other = open(folder.path(), 2).await;
    assert!(!is_dead(&other, 1).await.unwrap());
    assert!(!is_dead(&store, 2).await.unwrap());
    assert!(
        !is_dead(&store, 1).await.unwrap(),
        "nobody is dead to itself"
    );
    assert!(is_dead(&store, 3).await.unwrap(), "never heard of");
    let last = note(&store, DURABLE, "last words");
    drop(store);
    soon("the last words", last).await.unwrap();
    let died = async || is_dead(&other, 1).await.unwrap();
    eventually("the death of a worker", DEADLINE, died)
        .await
        .unwrap();
    assert_eq!(notes(&other).await, ["last words"]);
    assert_eq!(worker_rows(&other).await, 2, "its row stays");

    assert!(lock_file(folder.path(), 1).exists());
    other.forgetting_worker_files()(&[id(1), id(2)]);
    assert!(!lock_file(folder.path(), 1).exists());
    assert!(
        lock_file(folder.path(), 2).exists(),
        "the living keep theirs"
    );
}

#[tokio::test]
async fn a_change_by_another_worker_is_noticed_and_an_own_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), 1).await;
    let two = open(folder.path(), 2).await;
    let mut seen = one.foreign_changes();
    // Whatever the second open did has been noticed when this has.
    note(&one, VISIBLE, "settle").await.unwrap();
    let two_before = async || *one.foreign_changes().borrow() > 0;
    eventually("the second open", DEADLINE, two_before)
        .await
        .unwrap();
    seen.borrow_and_update();
    for number in 0..20 {
        note(&one, VISIBLE, format!("own {number}")).await.unwrap();
    }
    soon("the flush", one.flush()).await.unwrap();
    assert!(!seen.has_changed().unwrap());
    note(&two, VISIBLE, "foreign").await.unwrap();
    within("the notice", DEADLINE, seen.changed())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn the_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let mode = |name: &str| {
        let metadata = std::fs::metadata(folder.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    for name in [
        "lanes.db",
        "lanes.db-wal",
        "lanes.db-shm",
        "lanes.db.ballast",
    ] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode("lanes.db.workers"), 0o700);
    let lock = format!("lanes.db.workers/{}", store.worker());
    assert_eq!(mode(&lock), 0o600);
}

#[tokio::test]
async fn many_workers_may_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let opens: Vec<_> = (1..=8)
        .map(|number| {
            let options = options(folder.path(), number);
            tokio::task::spawn_blocking(move || SqliteStore::open(options))
        })
        .collect();
    let mut stores = Vec::new();
    for opened in opens {
        stores.push(opened.await.unwrap().unwrap());
    }
    assert_eq!(worker_rows(&stores[0]).await, 8);
}

#[tokio::test]
async fn a_worker_id_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let again = SqliteStore::open(options(folder.path(), 1));
    assert!(matches!(again, Err(StoreError::Failed { .. })));
    let other = open(folder.path(), 2).await;
    assert!(!is_dead(&other, 1).await.unwrap(), "the first one lives on");
    drop(store);
}

#[tokio::test]
async fn a_database_in_memory_reads_what_it_wrote_and_is_shared_with_nobody() {
    let store = with_notes(SqliteStore::open_in_memory(worker(1)).unwrap()).await;
    let gate = Gate::hold(&store).await;
    let written = note(&store, DURABLE, "one");
    let read = tokio::spawn(store.read("count", |db| {
        let sql = "SELECT count(*) FROM note";
        let count = db.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.map_err(noting)
    }));
    gate.open().await;
    soon("the note", written).await.unwrap();
    assert_eq!(read.await.unwrap().unwrap(), 1, "reads wait in line");
    assert!(is_dead(&store, 2).await.unwrap());
    assert!(!is_dead(&store, 1).await.unwrap());
    soon("the close", store.shut_down(delete_worker))
        .await
        .unwrap();
}
