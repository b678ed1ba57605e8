//! The three ways a prepared statement is run here.
//!
//! The invariant here: every statement is kept prepared by its text, so all texts are constants or
//! one of a few made from a template; nothing a caller sends becomes part of one.

use rusqlite::{OptionalExtension as _, Params, Row};

use super::Db;
use super::fault::Fault;

/// Runs a statement; how many rows it changed.
pub(super) fn execute(db: &Db<'_>, sql: &str, params: impl Params) -> Result<usize, Fault> {
    Ok(db.connection.prepare_cached(sql)?.execute(params)?)
}

/// The first row of a query, if it has one.
pub(super) fn first<T>(
    db: &Db<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Fault> {
    let mut statement = db.connection.prepare_cached(sql)?;
    Ok(statement.query_row(params, read).optional()?)
}

/// The only row of a query that always has one.
pub(super) fn single<T>(
    db: &Db<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T, Fault> {
    Ok(db.connection.prepare_cached(sql)?.query_row(params, read)?)
}

/// All rows of a query.
pub(super) fn all<T>(
    db: &Db<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = db.connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
