//! Copies, checks, sizes, and files that cannot be written.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::Store as _;
use crate::sqlite::open::{Place, Purpose, connect};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_backup_is_whole_private_and_made_beside_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    note(&store, DURABLE, "before").await.unwrap();
    let database = folder.path().join("lanes.db");
    let to = folder.path().join("copy of it.db");
    let bytes = backup(&database, &to).unwrap();
    note(&store, DURABLE, "after").await.unwrap();
    assert_eq!(std::fs::metadata(&to).unwrap().len(), bytes);
    assert_eq!(mode(&to), 0o600);
    let refused = backup(&database, &to).unwrap_err();
    assert!(matches!(refused, StoreError::Failed { .. }), "{refused:?}");
    assert_eq!(std::fs::metadata(&to).unwrap().len(), bytes, "it is kept");
    let copy = SqliteStore::open(Options::new(&to, worker(9))).unwrap();
    assert_eq!(notes(&copy).await, ["before"]);
    copy.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_check_finds_a_lane_that_counts_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("lanes.db");
    let store = open(folder.path(), 1).await;
    assert_eq!(check(&database).unwrap().problems, Vec::<String>::new());
    let spoiled = store.write(DURABLE, |db| {
        let sql =
            "INSERT INTO thread(id, engine, settings, facts, cwd, source, provider, created_ms,
             updated_ms, recency_ms) VALUES ('t', 'e', '', '', '/', 's', 'p', 1, 1, 1);
             INSERT INTO lane(thread_id, depth) VALUES ('t', 3);";
        db.connection.execute_batch(sql).map_err(noting)
    });
    spoiled.await.unwrap();
    assert_eq!(
        check(&database).unwrap().problems,
        ["thread t counts other queued turns than it has"]
    );
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_check_finds_a_fanout_job_that_counts_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("lanes.db");
    let store = open(folder.path(), 1).await;
    let spoiled = store.write(DURABLE, |db| {
        let sql =
            "INSERT INTO fanout_job(id, owner, instruction, channel, settings, limits, options,
                current_limit, created_ms)
              VALUES ('j', 'detached', 'i', 'tool', x'', x'', x'', 1, 1);
            INSERT INTO fanout_item(job, seq, state, attempt, retries_used, losses, limit_returns,
                repairs, not_before_ms, thread, turn, same_thread)
              VALUES (1, 0, 'running', 1, 0, 0, 0, 0, 0, 't', 'u', 0);
            INSERT INTO fanout_result VALUES (1, 0, 1, x'', x'', 1);";
        db.connection.execute_batch(sql).map_err(noting)
    });
    spoiled.await.unwrap();
    assert_eq!(
        check(&database).unwrap().problems,
        [
            "fan-out job j counts other items than it has",
            "fan-out job j has a result without a success, or a success without a result",
            "fan-out job j has an item that runs without an open attempt",
        ]
    );
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_size_counts_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let size = size(&folder.path().join("lanes.db")).unwrap();
    assert!(size.log_bytes > 0);
    assert_eq!(size.total_bytes(), size.database_bytes + size.log_bytes);
    store.close().await.unwrap();
}

#[tokio::test]
async fn compacting_is_refused_while_a_worker_lives_and_converts_old_databases() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let database = folder.path().join("lanes.db");
    let refused = compact(&database).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    store.close().await.unwrap();
    let place = Place::File(database.clone());
    let writing = || connect(&place, Purpose::Write).unwrap();
    // As an earlier version made it.
    let old = writing();
    old.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM;")
        .unwrap();
    drop(old);
    let auto_vacuum = || -> i64 {
        let connection = writing();
        let value = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0));
        value.unwrap()
    };
    assert_eq!(auto_vacuum(), 0);
    compact(&database).unwrap();
    assert_eq!(auto_vacuum(), 2);
    let again = SqliteStore::open(options(folder.path(), 2)).unwrap();
    again.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_became_read_only_is_made_writable_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    note(&store, DURABLE, "before").await.unwrap();
    let files = ["-wal", "-shm"].map(|suffix| folder.path().join(format!("lanes.db{suffix}")));
    for file in &files {
        set_mode(file, 0o400);
    }
    let other = SqliteStore::open(options(folder.path(), 2)).unwrap();
    for file in &files {
        assert_eq!(mode(file), 0o600);
    }
    note(&other, DURABLE, "after").await.unwrap();
    other.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_named_and_not_called_full() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    // As SQLite says it of a file that the system lets it only read.
    let refused: Work<()> = store.write(DURABLE, |_| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
        Err(noting(rusqlite::Error::SqliteFailure(code, None)))
    });
    let refused = refused.await.unwrap_err();
    let StoreError::NotWritable { path, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(path.file_name().unwrap(), "lanes.db");
    let mut health = store.health();
    let good = health.wait_for(|health| *health == Health::Good);
    within("good health", DEADLINE, good)
        .await
        .unwrap()
        .unwrap();
    note(&store, DURABLE, "after").await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_read_only_database_is_refused_before_anything_is_made_beside_it() {
    if rustix::process::geteuid().is_root() {
        turnlane_testkit::skipped("root may write every file");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("lanes.db");
    open(folder.path(), 1).await.close().await.unwrap();
    set_mode(&database, 0o400);
    let refused = SqliteStore::open(options(folder.path(), 2)).unwrap_err();
    assert!(
        matches!(&refused, StoreError::NotWritable { path, .. } if path.ends_with("lanes.db")),
        "{refused:?}"
    );
    assert!(!folder.path().join("lanes.db-wal").exists());
    set_mode(&database, 0o600);
    let store = SqliteStore::open(options(folder.path(), 3)).unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn tables_without_a_schema_number_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), 1).await.close().await.unwrap();
    let database = folder.path().join("lanes.db");
    let place = Place::File(database.clone());
    let connection = connect(&place, Purpose::Write).unwrap();
    connection.pragma_update(None, "user_version", 0).unwrap();
    drop(connection);
    let refused = SqliteStore::open(options(folder.path(), 2)).unwrap_err();
    assert!(
        matches!(refused, StoreError::NoSchema { .. }),
        "{refused:?}"
    );
    assert!(!refused.to_string().contains("CREATE"));
    assert!(inspect(&database).is_err(), "doctor says the same");
}
