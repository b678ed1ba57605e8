//! Upkeep of a database by a person: copy it, check it, make it smaller.
//!
//! The invariant here: none of these is a worker. A copy and a check only read, beside whatever daemon
//! runs; making the file smaller writes the whole of it anew and is refused while another process uses
//! the database.
//!
//! Whether a file is ours, and in which words it is refused, is decided by `migrate`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::filesystem::{beside, folder, refused};
use super::inspect::inspect;
use super::migrate;
use super::open::{Place, Purpose, connect, failed_to_open};
use super::worker_lock::WorkerLocks;
use super::{Db, checkpoint, lock_holder};
use crate::error::StoreError;
use crate::ids::{ThreadId, WorkerId};
use crate::worker::{Unjudged, WorkerLife};

/// How many broken lanes of one kind a check names.
const BROKEN_MAX: u32 = 5;
/// How many lanes with an undecided owner are named.
const UNJUDGED_MAX: u32 = 100;

/// The bytes that a database takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The database file.
    pub database_bytes: u64,
    /// Its write-ahead log, where the newest commits are.
    pub log_bytes: u64,
}

impl Size {
    /// Both together.
    pub fn total_bytes(self) -> u64 {
        self.database_bytes.saturating_add(self.log_bytes)
    }
}

/// The size of a database with its log. A missing log counts as empty.
pub fn size(database: &Path) -> io::Result<Size> {
    let log = fs::metadata(beside(database, "-wal"));
    Ok(Size {
        database_bytes: fs::metadata(database)?.len(),
        log_bytes: log.map_or(0, |file| file.len()),
    })
}

/// A lane whose owner may or may not be alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnjudgedLane {
    /// The thread.
    pub thread: ThreadId,
    /// Its name.
    pub name: Option<String>,
    /// The owner.
    pub worker: WorkerId,
    /// Why it cannot be decided whether the owner lives.
    pub why: Unjudged,
}

/// The lanes that wait because it cannot be decided whether their owners live. Only reads.
pub fn unjudged_lanes(database: &Path) -> Result<Vec<UnjudgedLane>, StoreError> {
    const OWNED: &str = "SELECT thread_id, name, owner FROM lane \
         JOIN thread ON thread.id = lane.thread_id WHERE owner IS NOT NULL LIMIT ?1";
    let connection = reading(database)?;
    let locks = WorkerLocks::within(beside(database, ".workers"));
    let db = Db {
        connection: &connection,
        me: uuid::Uuid::nil().into(),
        locks: &locks,
    };
    let owned = || -> rusqlite::Result<Vec<(ThreadId, Option<String>, WorkerId)>> {
        let mut statement = connection.prepare(OWNED)?;
        let rows = statement.query_map([UNJUDGED_MAX], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        rows.collect()
    };
    let owned = owned().map_err(failed_to_open(database))?;
    let unjudged = owned.into_iter().filter_map(|(thread, name, worker)| {
        let WorkerLife::Unknown(why) = db.life(worker) else {
            return None;
        };
        Some(UnjudgedLane {
            thread,
            name,
            worker,
            why,
        })
    });
    Ok(unjudged.collect())
}

/// Copies a database as it is at this moment into a new file (0600), while others use it.
///
/// The copy is on disk and was opened and checked when this returns; its size is returned. A file that
/// exists is never overwritten, and nothing is left of a copy that failed. The copy holds no deleted
/// text. `VACUUM INTO` is used instead of SQLite's backup interface, because that one begins again
/// whenever another process commits.
pub fn backup(database: &Path, to: &Path) -> Result<u64, StoreError> {
    let connection = reading(database)?;
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to);
    let file = made.map_err(|error| refused(error, to, "make the file of the copy"))?;
    let copied = copy(&connection, to, &file);
    if copied.is_err() {
        // Best effort: the error that is returned says more.
        let _ = fs::remove_file(to);
    }
    copied
}

fn copy(connection: &Connection, to: &Path, file: &File) -> Result<u64, StoreError> {
    let name = to.to_str().ok_or_else(|| {
        let text = "the path of the copy is not UTF-8";
        StoreError::failed("copy the database")(io::Error::new(io::ErrorKind::InvalidInput, text))
    })?;
    connection
        .execute("VACUUM INTO ?1", [name])
        .map_err(failed_to_open(to))?;
    file.sync_all()
        .and_then(|()| File::open(folder(to))?.sync_all())
        .map_err(|error| refused(error, to, "write the copy to the disk"))?;
    let found = inspect(to)?;
    if let Some(fault) = found.faults.into_iter().next() {
        let fault = io::Error::new(io::ErrorKind::InvalidData, fault);
        return Err(StoreError::failed("check the copy")(fault));
    }
    let written = file.metadata();
    let written = written.map_err(StoreError::failed("look at the copy"))?;
    Ok(written.len())
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The number of the schema.
    pub schema: i64,
    /// Everything that is wrong; empty where the database is sound.
    pub problems: Vec<String>,
}

/// Each finds lanes that are not as the contract promises.
const INVARIANTS: [(&str, &str); 6] = [
    (
        "has no lane",
        "SELECT id FROM thread WHERE NOT EXISTS \
         (SELECT 1 FROM lane WHERE lane.thread_id = thread.id) LIMIT ?1",
    ),
    (
        "counts other queued turns than it has",
        "SELECT thread_id FROM lane WHERE depth <> (SELECT count(*) FROM queued_turn AS q \
         WHERE q.thread_id = lane.thread_id AND q.state IN ('queued','blocked')) LIMIT ?1",
    ),
    (
        "names a running turn that does not run",
        "SELECT thread_id FROM lane WHERE active IS NOT NULL AND NOT EXISTS \
         (SELECT 1 FROM queued_turn AS q WHERE q.thread_id = lane.thread_id AND q.id = lane.active \
          AND q.state IN ('claimed','started','reconcile')) LIMIT ?1",
    ),
    (
        "has a turn under way that its lane does not name",
        "SELECT q.thread_id FROM queued_turn AS q JOIN lane ON lane.thread_id = q.thread_id \
         WHERE q.state IN ('claimed','started','reconcile') AND lane.active IS NOT q.id LIMIT ?1",
    ),
    (
        "has a turn in progress although nothing runs",
        "SELECT turn.thread_id FROM turn JOIN lane ON lane.thread_id = turn.thread_id \
         WHERE turn.status = 'inProgress' AND lane.active IS NULL LIMIT ?1",
    ),
    (
        "has an open approval although nothing runs",
        "SELECT approval.thread_id FROM approval JOIN lane ON lane.thread_id = approval.thread_id \
         WHERE approval.resolved_ms IS NULL AND lane.active IS NULL LIMIT ?1",
    ),
];

/// Each finds fan-out jobs whose items are not as the contract promises.
const JOB_INVARIANTS: [(&str, &str); 3] = [
    (
        "counts other items than it has",
        include_str!("sql/fanout/check_counts.sql"),
    ),
    (
        "has a result without a success, or a success without a result",
        include_str!("sql/fanout/check_results.sql"),
    ),
    (
        "has an item that runs without an open attempt",
        include_str!("sql/fanout/check_attempts.sql"),
    ),
];

/// The first schema that has fan-out jobs.
const SCHEMA_OF_JOBS: i64 = 6;

/// Reads a whole database and checks its pages, its references and the promises about lanes and jobs.
///
/// Blocks for as long as reading the file takes; others go on meanwhile.
pub fn check(database: &Path) -> Result<Check, StoreError> {
    let found = inspect(database)?;
    let mut problems = found.faults;
    // Of a file with broken pages nothing more can be told.
    if problems.is_empty() {
        let connection = reading(database)?;
        let told = promises(&connection, found.schema).map_err(failed_to_open(database))?;
        problems.extend(told);
    }
    Ok(Check {
        schema: found.schema,
        problems,
    })
}

/// What is wrong with references, lanes and jobs, in one picture of the database.
fn promises(connection: &Connection, schema: i64) -> rusqlite::Result<Vec<String>> {
    let picture = connection.unchecked_transaction()?;
    let mut problems = Vec::new();
    let mut foreign = picture.prepare("PRAGMA foreign_key_check")?;
    let mut rows = foreign.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        problems.push(format!(
            "a row of {table} refers to a missing row of {parent}"
        ));
        if problems.len() >= BROKEN_MAX as usize {
            break;
        }
    }
    let of_threads = INVARIANTS.iter().map(|one| ("thread", one));
    let of_jobs = JOB_INVARIANTS.iter().map(|one| ("fan-out job", one));
    let of_jobs = of_jobs.filter(|_| schema >= SCHEMA_OF_JOBS);
    for (kind, (what, sql)) in of_threads.chain(of_jobs) {
        let mut statement = picture.prepare(sql)?;
        let ids = statement.query_map([BROKEN_MAX], |row| row.get::<_, String>(0))?;
        for id in ids {
            problems.push(format!("{kind} {} {what}", id?));
        }
    }
    Ok(problems)
}

/// Writes a database anew without free pages, and lets it give pages back by itself from now on; its
/// size before and after.
///
/// Needs as much room again while it runs. Refused as locked while another process uses the database.
pub fn compact(database: &Path) -> Result<(Size, Size), StoreError> {
    let looked = |error| refused(error, database, "look at the database");
    let before = size(database).map_err(looked)?;
    let place = Place::File(database.to_owned());
    let connection = connect(&place, Purpose::Write).map_err(failed_to_open(database))?;
    migrate::schema(&connection, database)?;
    let others = others(&connection, database).map_err(failed_to_open(database))?;
    if let Some(pid) = others {
        return Err(StoreError::Locked {
            doing: "compact the database",
            holder: crate::error::LockHolder {
                pid: Some(pid),
                program: None,
            },
            source: std::sync::Arc::new(io::Error::from(io::ErrorKind::ResourceBusy)),
        });
    }
    connection
        .pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .and_then(|()| connection.execute_batch("VACUUM"))
        .and_then(|()| checkpoint::empty_log(&connection))
        .map_err(|error| lock_holder::named(failed_to_open(database)(error), database))?;
    drop(connection);
    let after = size(database).map_err(looked)?;
    Ok((before, after))
}

/// The process of a worker that lives, or may live.
fn others(connection: &Connection, database: &Path) -> rusqlite::Result<Option<u32>> {
    let locks = WorkerLocks::within(beside(database, ".workers"));
    let db = Db {
        connection,
        me: uuid::Uuid::nil().into(),
        locks: &locks,
    };
    let mut statement = connection.prepare("SELECT id, pid FROM worker")?;
    let workers = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for worker in workers {
        let (worker, pid): (WorkerId, u32) = worker?;
        if db.life(worker) != WorkerLife::Dead {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// A connection that reads a database which is ours and of a schema that we know.
fn reading(database: &Path) -> Result<Connection, StoreError> {
    let place = Place::File(PathBuf::from(database));
    let connection = connect(&place, Purpose::Read).map_err(failed_to_open(database))?;
    migrate::schema(&connection, database)?;
    Ok(connection)
}
