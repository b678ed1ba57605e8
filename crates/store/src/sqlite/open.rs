//! Opening: from a path to threads that serve it.
//!
//! The invariant here: this is the only place that makes connections, so every connection has the
//! settings the store relies on. A worker's file is locked before its row is written, and its row
//! is written before anybody can submit anything.
//!
//! What an open that fails leaves behind is what a crash at that point would: nothing, or a worker
//! that is dead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Source, StoreError};
use crate::ids::WorkerId;
use crate::sqlite::ballast::Ballast;
use crate::sqlite::checkpoint::LogWatch;
use crate::sqlite::disk::{Disk, left_full};
use crate::sqlite::worker_lock::{HeldLock, WorkerLocks};
use crate::sqlite::writer::Writer;
use crate::sqlite::{
    LogAtClose, Options, Shared, SqliteStore, filesystem, lock_holder, migrate, readers,
};
use crate::worker::Worker;

/// How long another process may hold the database.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// More statements than the store has, so that each is prepared once per connection.
const STATEMENTS: usize = 256;

/// What the writing connection keeps of the database in memory: a full batch over as many lanes
/// touches some 2,000 pages, and pages that do not fit are written twice.
const WRITER_CACHE_KIB: i64 = 16 << 10;

/// What a log that has grown is cut back to when it begins again.
const LOG_BYTES_KEPT: i64 = 64 << 20;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
    Checkpoint,
}

/// Where the database is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File(PathBuf),
    Memory,
}

impl SqliteStore {
    /// Opens a database, makes it if it is missing, and begins to be the worker named in `options`.
    ///
    /// Blocks for a few disk accesses, and up to some seconds while other processes hold the
    /// database; async code calls it where blocking is allowed. The worker's row is visible when
    /// this returns. Each call needs a worker id that was never used.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let Options {
            path,
            worker,
            readers,
            free_again_bytes,
            log_at_close,
        } = options;
        let path = filesystem::settle(&path).map_err(|error| {
            filesystem::refused(error, &path, "find the folder of the database")
        })?;
        filesystem::refuse_network(&path)?;
        filesystem::make_private(&path)
            .map_err(|error| filesystem::refused(error, &path, "make the database file"))?;
        filesystem::mend_rights(&path);
        // Before SQLite makes files that take over the rights of a read-only database.
        if let Some((path, error)) = filesystem::unwritable(&path) {
            let source = Arc::new(error);
            return Err(StoreError::NotWritable { path, source });
        }
        let ballast = Ballast::beside(&path);
        let place = Place::File(path);
        let mut full = left_full(&ballast, &place, free_again_bytes);
        let mut opened = begin(&place, &worker);
        if let Err(StoreError::DiskFull { source }) = &opened
            && ballast.remove()
        {
            full = Some(source.clone());
            opened = begin(&place, &worker);
        }
        let opened = opened.map_err(|error| lock_holder::named(error, place.name()))?;
        let disk = Disk::open(ballast, &place, free_again_bytes, full)?;
        let log = LogWatch::new(log_at_close);
        start(&place, opened, worker.id, readers, disk, log)
    }

    /// Opens an empty database that is gone with the store. No other worker can share it, and
    /// reads wait for the writes submitted before them.
    #[expect(clippy::needless_pass_by_value, reason = "as `open` takes it")]
    pub fn open_in_memory(worker: Worker) -> Result<Self, StoreError> {
        let opened = begin(&Place::Memory, &worker)?;
        let log = LogWatch::new(LogAtClose::Home);
        start(&Place::Memory, opened, worker.id, 0, Disk::none(), log)
    }
}

/// A database that is ours, and the worker we are in it.
struct Opened {
    connection: Connection,
    locks: WorkerLocks,
    held: HeldLock,
}

fn begin(place: &Place, worker: &Worker) -> Result<Opened, StoreError> {
    let path = place.name();
    let connection = connect(place, Purpose::Write).map_err(failed_to_open(path))?;
    migrate::prepare(&connection, path)?;
    let locks = match place {
        Place::File(path) => WorkerLocks::beside(path)?,
        Place::Memory => WorkerLocks::Alone,
    };
    let held = locks.hold(worker.id)?;
    // It need only be visible; the first durable commit makes it durable.
    let inserted = connection
        .pragma_update(None, "synchronous", "NORMAL")
        .and_then(|()| insert(&connection, worker));
    if let Err(error) = inserted {
        held.remove();
        return Err(failed_to_open(path)(error));
    }
    sweep(&connection, &locks);
    Ok(Opened {
        connection,
        locks,
        held,
    })
}

fn insert(connection: &Connection, worker: &Worker) -> rusqlite::Result<()> {
    let sql = "INSERT INTO worker(id, pid, pid_start, boot_id, host, endpoint, kind, started_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = rusqlite::params![
        worker.id.to_string(),
        worker.pid,
        worker.pid_start.cast_signed(),
        worker.boot_id,
        worker.host,
        worker.endpoint,
        worker.kind,
        worker.started_ms,
    ];
    connection.execute(sql, values).map(drop)
}

/// Removes the files of workers that died before their rows were written.
fn sweep(connection: &Connection, locks: &WorkerLocks) {
    // Listed first: a worker's row is younger than its file.
    let files = locks.files();
    let is_known = |worker: &WorkerId| -> rusqlite::Result<bool> {
        let mut find = connection.prepare_cached("SELECT 1 FROM worker WHERE id = ?1")?;
        find.exists([worker])
    };
    for worker in files {
        match is_known(&worker) {
            Ok(true) => {}
            Ok(false) => locks.forget(worker),
            Err(error) => tracing::warn!(%error, "cannot tell whose a lock is"),
        }
    }
}

fn start(
    place: &Place,
    opened: Opened,
    me: WorkerId,
    readers: usize,
    disk: Disk,
    log: LogWatch,
) -> Result<SqliteStore, StoreError> {
    let mut connection = opened.connection;
    let shared = Arc::new(Shared::new(me, opened.locks, readers, disk.health()));
    log.follow(&mut connection)
        .map_err(failed_to_open(place.name()))?;
    // If a later step fails, dropping this ends the threads of the steps before.
    let store = SqliteStore {
        shared: Arc::clone(&shared),
        lock: opened.held.file(),
    };
    let mut writer = Writer::new(shared, connection, place.clone(), disk, log, opened.held);
    if let Place::File(path) = place {
        for _ in 0..readers {
            let connection = connect(place, Purpose::Read).map_err(failed_to_open(path))?;
            let shared = Arc::clone(&store.shared);
            writer.joins(spawn("store-read", move || {
                readers::run(&connection, &shared);
            })?);
        }
    }
    spawn("store-write", move || writer.run())?;
    Ok(store)
}

/// Starts a thread of the store.
pub(super) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread
        .spawn(run)
        .map_err(StoreError::failed("start a thread of the store"))
}

/// A connection with the settings the store relies on.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub(super) fn connect(place: &Place, purpose: Purpose) -> rusqlite::Result<Connection> {
    // A name is a path and never an address; each connection is used by one thread at a time.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match purpose {
            Purpose::Write | Purpose::Checkpoint => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Purpose::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
    let connection = match place {
        Place::File(path) => Connection::open_with_flags(path, flags)?,
        Place::Memory => Connection::open_in_memory_with_flags(flags)?,
    };
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A prepared statement stays prepared whatever is bound to it; otherwise those that a partial
    // index might serve are parsed and planned anew at nearly every use, which costs more than they do.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What a statement may have to take back is kept in memory: on a full disk there is no place.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let quietly = |_: &rusqlite::Row<'_>| Ok(());
    // The log is copied when we say so, not inside somebody's commit.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, quietly)?;
    if purpose == Purpose::Write {
        // Negative means KiB, not pages.
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    }
    if purpose != Purpose::Read {
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, quietly)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // What is deleted is overwritten: a deleted thread must not be found in the file.
        connection.pragma_update_and_check(None, "secure_delete", true, quietly)?;
    }
    Ok(connection)
}

impl Place {
    /// What errors call it.
    pub(super) fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Memory => Path::new(":memory:"),
        }
    }
}

/// Sorts what SQLite says while a database is opened.
pub(super) fn failed_to_open(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let out_of_room = || filesystem::is_out_of_room(path);
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => StoreError::NotOurs {
                path: path.to_owned(),
            },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
                doing: "open it",
                source: Arc::new(error),
            },
            Some(ErrorCode::DiskFull) => full(Arc::new(error)),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                not_writable(path, Arc::new(error))
            }
            Some(ErrorCode::CannotOpen) if filesystem::unwritable(path).is_some() => {
                not_writable(path, Arc::new(error))
            }
            // The shared memory could not grow; SQLite does not say why.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if out_of_room() => {
                full(Arc::new(error))
            }
            _ => StoreError::failed("open the database")(error),
        }
    }
}

/// The refusal of a write, with the file that cannot be written.
pub(super) fn not_writable(database: &Path, source: Source) -> StoreError {
    match filesystem::unwritable(database) {
        Some((path, error)) => StoreError::NotWritable {
            path,
            source: Arc::new(error),
        },
        None => StoreError::NotWritable {
            path: database.to_owned(),
            source,
        },
    }
}

fn full(source: Source) -> StoreError {
    StoreError::DiskFull { source }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn options(folder: &Path, number: u128) -> Options {
        let worker = Worker {
            id: Uuid::from_u128(number).into(),
            pid: 1,
            pid_start: 1,
            boot_id: "boot".to_owned(),
            host: "host".to_owned(),
            endpoint: None,
            kind: "test".to_owned(),
            started_ms: 0,
        };
        Options::new(folder.join("lanes.db"), worker)
    }

    #[test]
    fn an_open_removes_the_locks_of_workers_that_died_before_they_had_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let first = SqliteStore::open(options(folder.path(), 1)).unwrap();
        let locks = WorkerLocks::beside(&folder.path().join("lanes.db")).unwrap();
        let worker = |number| WorkerId::from(Uuid::from_u128(number));
        drop(locks.hold(worker(2)).unwrap());
        let opening = locks.hold(worker(3)).unwrap();
        // Dead, but known: its lanes may have to be recovered.
        drop(SqliteStore::open(options(folder.path(), 4)).unwrap());
        std::fs::write(folder.path().join("lanes.db.workers/note"), "").unwrap();
        let second = SqliteStore::open(options(folder.path(), 5)).unwrap();
        let mut left = locks.files();
        left.sort();
        assert_eq!(left, [1, 3, 4, 5].map(worker));
        assert!(folder.path().join("lanes.db.workers/note").exists());
        drop((first, second, opening));
    }
}
