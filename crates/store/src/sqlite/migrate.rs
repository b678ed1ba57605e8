//! Whose database a file is, and bringing its schema up to date.
//!
//! The invariant here: nothing is changed in a file that is not ours or that a later version
//! wrote. Schema changes are numbered; each is one transaction together with its number, so a
//! crash leaves the schema before it or after it. Any number of processes may do this at the same
//! time: whoever comes second finds it done.
//!
//! There is no way back to an earlier schema; the earlier version refuses the database instead.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::error::StoreError;
use crate::sqlite::open::failed_to_open;

/// "TLNE", which tells our databases from others.
pub(super) const APPLICATION_ID: i64 = 0x544c_4e45;

/// The schema changes; the schema's number is how many of them were carried out.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_threads_and_lanes.sql"),
    include_str!("migrations/0002_stops_and_open_approvals.sql"),
    include_str!("migrations/0003_thread_names.sql"),
    include_str!("migrations/0004_sent_boot.sql"),
    include_str!("migrations/0005_bindings.sql"),
    include_str!("migrations/0006_fanout.sql"),
    include_str!("migrations/0007_fanout_ends.sql"),
];

/// How often and how long apart the change to a write-ahead log is tried: 5 s in all. SQLite does
/// not wait by itself here, since two that wait for each other would never end.
const WAL_TRIES: u32 = 250;
const WAL_TRY_AGAIN: Duration = Duration::from_millis(20);

/// Makes the database ours and its schema the newest, or refuses it.
pub(super) fn prepare(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    // Looked at before anything is changed: even the kind of journal is the owner's business.
    let found = schema(connection, path)?;
    if found == 0 {
        // Before the first page is written, after which only a VACUUM could change it. The writer
        // gives free pages back to the system by it.
        let set = connection.pragma_update(None, "auto_vacuum", "INCREMENTAL");
        set.map_err(failed_to_open(path))?;
    }
    if found < known() {
        use_wal(connection).map_err(failed_to_open(path))?;
        while migrate_one(connection, path)? < known() {}
    }
    // Also for a database that is up to date: a copy made by other means may have lost it.
    use_wal(connection).map_err(failed_to_open(path))
}

/// The newest schema we know.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The schema of a database that is ours or still empty.
pub(super) fn schema(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    // One statement, so one state of the file: read one after the other, the numbers of an empty
    // database and the tables of a worker that migrates it meanwhile look like a foreign database.
    let sql = "SELECT (SELECT application_id FROM pragma_application_id),
            (SELECT user_version FROM pragma_user_version),
            (SELECT count(*) FROM sqlite_schema)";
    let numbers = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let read: rusqlite::Result<(i64, i64, i64)> = connection.query_row(sql, [], numbers);
    let (id, found, objects) = read.map_err(failed_to_open(path))?;
    let empty = (id, found, objects) == (0, 0, 0);
    if id != APPLICATION_ID && !empty {
        let path = path.to_owned();
        return Err(StoreError::NotOurs { path });
    }
    if found == 0 && !empty {
        let path = path.to_owned();
        return Err(StoreError::NoSchema { path });
    }
    if found > known() {
        return Err(StoreError::NewerSchema {
            path: path.to_owned(),
            found,
            known: known(),
        });
    }
    Ok(found)
}

/// Carries out the next schema change, if there is one; the schema's number afterwards.
fn migrate_one(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate)
            .map_err(failed_to_open(path))?;
    // Read again: another process may have been faster.
    let found = schema(&transaction, path)?;
    let next = usize::try_from(found)
        .ok()
        .and_then(|at| MIGRATIONS.get(at));
    let Some(sql) = next else {
        return Ok(found);
    };
    let migrated = transaction
        .execute_batch(sql)
        .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION_ID))
        .and_then(|()| transaction.pragma_update(None, "user_version", found + 1))
        .and_then(|()| transaction.commit());
    migrated.map_err(failed_to_open(path))?;
    Ok(found + 1)
}

/// Makes the database keep a write-ahead log, from now on and for everybody.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        tries += 1;
        match mode {
            // A database in memory has no log and needs none.
            Ok(mode) if mode == "wal" || mode == "memory" => return Ok(()),
            Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                return Err(error);
            }
            Err(error) if tries == WAL_TRIES => return Err(error),
            Ok(_) if tries == WAL_TRIES => {
                // The file system has no shared memory, or the file cannot be written.
                let text = "the database cannot keep a write-ahead log".to_owned();
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
                return Err(rusqlite::Error::SqliteFailure(code, Some(text)));
            }
            _ => std::thread::sleep(WAL_TRY_AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::sqlite::open::{Place, Purpose, connect};

    /// Looks at the schema of a new database that another worker migrates at this step of the look;
    /// whether the look took so many steps.
    fn look_while_migrated(step: u32) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lanes.db");
        std::fs::write(&path, "").unwrap();
        let place = Place::File(path.clone());
        let mut looking = connect(&place, Purpose::Write).unwrap();
        use_wal(&looking).unwrap();
        let other = connect(&place, Purpose::Write).unwrap();
        let migrated = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&migrated);
        let (mut steps, at) = (0, path.clone());
        let migrate = move || {
            steps += 1;
            if steps == step {
                while migrate_one(&other, &at).unwrap() < known() {}
                told.store(true, Ordering::Release);
            }
            false
        };
        looking.progress_handler(1, Some(migrate)).unwrap();
        let found = schema(&looking, &path).unwrap();
        assert!([0, known()].contains(&found), "step {step}: {found}");
        migrated.load(Ordering::Acquire)
    }

    #[test]
    fn a_database_that_another_worker_migrates_meanwhile_is_ours_at_every_step() {
        let mut steps = 1;
        while look_while_migrated(steps) {
            steps += 1;
        }
        assert!(steps > 3, "the look was interrupted at no step");
    }
}
