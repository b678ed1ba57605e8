//! Looking at a database without being a worker: for people who ask what is the matter with it.
//!
//! The invariant here: nothing is written, neither to the database nor beside it but what SQLite needs
//! to share it with whoever writes. Readers and writers go on meanwhile.
//!
//! Whether a database may be used at all is decided by `migrate`, in the same words.

use std::path::Path;

use rusqlite::config::DbConfig;

use crate::error::StoreError;
use crate::sqlite::migrate;
use crate::sqlite::open::{Place, Purpose, connect, failed_to_open};

/// So many faults are told; whoever has more needs no longer list.
const FAULTS_MAX: u32 = 10;

/// What was found in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The number of its schema; 0 while nothing was stored.
    pub schema: i64,
    /// The number of the newest schema that this version knows.
    pub schema_known: i64,
    /// What is wrong in it, in SQLite's words; empty where everything is sound.
    pub faults: Vec<String>,
}

/// Reads a whole database and checks it: pages, order, indexes.
///
/// Blocks for as long as reading the file takes. A file that is not ours, is of a later version or
/// cannot be read at all is an error, as it is when it is opened; called twice it looks twice.
pub fn inspect(path: &Path) -> Result<Inspection, StoreError> {
    let place = Place::File(path.to_owned());
    let connection = connect(&place, Purpose::Read).map_err(failed_to_open(path))?;
    let schema = migrate::schema(&connection, path)?;
    let faults = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect()
    };
    let mut faults = faults().map_err(failed_to_open(path))?;
    faults.retain(|line| line != "ok");
    Ok(Inspection {
        schema,
        schema_known: migrate::known(),
        faults,
    })
}

/// Takes the write lock of a database and gives it back: whether this process could write to it.
///
/// Blocks for some seconds while another process holds the lock. Nothing is written to the database,
/// and the log beside it is neither copied nor removed. SQLite opens a file that it may not write for
/// reading only, so a successful open alone says nothing.
pub fn try_write(path: &Path) -> Result<(), StoreError> {
    let place = Place::File(path.to_owned());
    let tried = || {
        let connection = connect(&place, Purpose::Checkpoint)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?;
        // On a connection for reading, BEGIN IMMEDIATE quietly begins to read.
        connection.is_readonly("main")
    };
    if tried().map_err(failed_to_open(path))? {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        return Err(StoreError::failed("write to the database")(denied));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;
    use crate::Worker;
    use crate::sqlite::fixture::id;
    use crate::sqlite::{Options, SqliteStore};

    fn opened(path: &Path) -> SqliteStore {
        let worker = Worker {
            id: id(1),
            pid: std::process::id(),
            pid_start: 0,
            boot_id: String::new(),
            host: String::new(),
            endpoint: None,
            kind: "test".to_owned(),
            started_ms: 0,
        };
        SqliteStore::open(Options::new(path, worker)).unwrap()
    }

    #[tokio::test]
    async fn a_database_in_use_is_sound_and_a_broken_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("turnlane.db");
        let store = opened(&path);
        let sound = inspect(&path).unwrap();
        assert_eq!(sound.faults, Vec::<String>::new());
        assert_eq!(sound.schema, sound.schema_known);
        try_write(&path).unwrap();
        crate::Store::close(&store).await.unwrap();
        // The second page is the root of a table.
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(4096)).unwrap();
        file.write_all(&[0x5a; 512]).unwrap();
        let broken = inspect(&path);
        assert!(
            broken
                .as_ref()
                .map_or(true, |found| !found.faults.is_empty()),
            "{broken:?}"
        );
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other");
        assert!(inspect(&path).is_err());
        std::fs::write(&path, "no database at all, but long enough to be looked at").unwrap();
        assert!(inspect(&path).is_err());
    }
}
