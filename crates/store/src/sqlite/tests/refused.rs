//! Databases that are not opened, and that stay as they were.

use rusqlite::Connection;

use super::*;

#[expect(clippy::disallowed_methods, reason = "another program opens it")]
fn foreign(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn refused(folder: &Path) -> StoreError {
    let before = std::fs::read(folder.join("lanes.db")).unwrap();
    let error = SqliteStore::open(options(folder, 1)).unwrap_err();
    let after = std::fs::read(folder.join("lanes.db")).unwrap();
    assert!(before == after, "a refused database is not touched");
    error
}

#[test]
fn a_newer_schema_is_refused_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!(
        "PRAGMA application_id={}; PRAGMA user_version=4000; CREATE TABLE later(x)",
        migrate::APPLICATION_ID
    );
    foreign(&folder.path().join("lanes.db"), &sql);
    let error = refused(folder.path());
    assert!(matches!(
        error,
        StoreError::NewerSchema { found: 4_000, .. }
    ));
}

#[test]
fn a_database_of_another_program_is_refused() {
    for sql in [
        "CREATE TABLE theirs(x)",
        "PRAGMA user_version=1",
        "PRAGMA application_id=7; CREATE TABLE theirs(x)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        foreign(&folder.path().join("lanes.db"), sql);
        assert!(matches!(refused(folder.path()), StoreError::NotOurs { .. }));
    }
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "a letter to a friend, long enough to be taken for a header of a database file\n";
    std::fs::write(folder.path().join("lanes.db"), text.repeat(50)).unwrap();
    assert!(matches!(refused(folder.path()), StoreError::NotOurs { .. }));
}

#[test]
fn a_missing_folder_is_an_error_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such");
    let error = SqliteStore::open(options(&missing, 1)).unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }));
    assert!(!missing.exists());
}
