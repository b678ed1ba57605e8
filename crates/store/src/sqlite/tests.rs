//! Tests of the threads, files and transactions, over a table of their own.
//!
//! The SQL of the operations has tests where it lives; here an operation is a note that is written
//! and read again.

mod commit;
#[cfg(feature = "crash-points")]
mod crashes;
mod depth;
mod erased;
mod faults;
mod life;
mod locked;
mod refused;
mod sharing;
mod small_disk;
mod trouble;
mod undecided;
mod upkeep;

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::OptionalExtension;
use turnlane_testkit::wait::{DEADLINE, within};
use uuid::Uuid;

use super::*;
use crate::worker::Worker;

const NOTES: &str = "CREATE TABLE IF NOT EXISTS note(at INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL UNIQUE, body BLOB)";

const DURABLE: Op = Op {
    level: Level::Durable,
    class: Class::Refusable,
    doing: "write a note",
};

const VISIBLE: Op = Op {
    level: Level::Visible,
    ..DURABLE
};

const KEPT: Op = Op {
    class: Class::Kept,
    ..DURABLE
};

fn id(number: u128) -> WorkerId {
    WorkerId::from(Uuid::from_u128(number))
}

fn worker(number: u128) -> Worker {
    Worker {
        id: id(number),
        pid: 1,
        pid_start: u64::MAX,
        boot_id: "boot".to_owned(),
        host: "host".to_owned(),
        endpoint: None,
        kind: "test".to_owned(),
        started_ms: 0,
    }
}

fn options(folder: &Path, number: u128) -> Options {
    Options::new(folder.join("lanes.db"), worker(number))
}

/// A store with a table of notes.
async fn open(folder: &Path, number: u128) -> SqliteStore {
    with_notes(SqliteStore::open(options(folder, number)).unwrap()).await
}

async fn with_notes(store: SqliteStore) -> SqliteStore {
    let made = store.write(DURABLE, |db| {
        db.connection
            .execute_batch(NOTES)
            .map_err(StoreError::failed("make the table"))
    });
    made.await.unwrap();
    store
}

fn insert(db: &Db<'_>, text: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO note(text) VALUES (?1)";
    let mut statement = db.connection.prepare_cached(sql).map_err(noting)?;
    statement.execute([text]).map(drop).map_err(noting)
}

fn noting(error: rusqlite::Error) -> StoreError {
    StoreError::failed("note")(error)
}

fn note(store: &SqliteStore, op: Op, text: impl Into<String>) -> Work<()> {
    let text = text.into();
    store.write(op, move |db| insert(db, &text))
}

/// All notes, in the order of their writing.
async fn notes(store: &SqliteStore) -> Vec<String> {
    let read = store.read("read the notes", |db| {
        let mut statement = db
            .connection
            .prepare_cached("SELECT text FROM note ORDER BY at")
            .map_err(noting)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(noting)?;
        rows.collect::<Result<_, _>>().map_err(noting)
    });
    read.await.unwrap()
}

async fn worker_rows(store: &SqliteStore) -> i64 {
    let read = store.read("count the workers", |db| {
        let count = db
            .connection
            .query_row("SELECT count(*) FROM worker", [], |row| row.get(0));
        count
            .optional()
            .map(Option::unwrap_or_default)
            .map_err(noting)
    });
    read.await.unwrap()
}

async fn soon<T>(what: &str, work: Work<T>) -> Result<T, StoreError> {
    within(what, DEADLINE, work).await.unwrap()
}

/// Holds the writer inside an operation until it is opened.
struct Gate {
    open: mpsc::Sender<()>,
    end: Work<()>,
}

impl Gate {
    async fn hold(store: &SqliteStore) -> Self {
        let (open, opened) = mpsc::channel::<()>();
        let (arrive, arrived) = oneshot::channel();
        let (opened, arrive) = (Mutex::new(opened), Mutex::new(Some(arrive)));
        let end = store.write(KEPT, move |_| {
            if let Some(arrive) = arrive.lock().unwrap().take() {
                let _ = arrive.send(());
            }
            // Bounded, so that a failing test does not hang.
            let _ = opened.lock().unwrap().recv_timeout(Duration::from_mins(1));
            Ok(())
        });
        within("the writer at the gate", DEADLINE, arrived)
            .await
            .unwrap()
            .unwrap();
        Self { open, end }
    }

    async fn open(self) {
        self.open.send(()).unwrap();
        soon("the gate's end", self.end).await.unwrap();
    }
}
