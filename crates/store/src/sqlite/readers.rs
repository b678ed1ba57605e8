//! The threads that read.
//!
//! The invariant here: a read is one deferred transaction on a connection that cannot write, so it
//! sees one state of the database and delays no writer. A read that fails leaves the connection
//! without a transaction.
//!
//! Theory of operation: all readers take from one queue, bounded by `WAITING_MAX`; each ends when
//! the queue is closed and empty.

use std::sync::Arc;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::Shared;
use crate::sqlite::batch::execute;
use crate::sqlite::task::Task;
use crate::sqlite::waiting::Taken;

/// Reads until the queue is closed and empty.
pub(super) fn run(connection: &Connection, shared: &Arc<Shared>) {
    while let Taken::Jobs(tasks) = shared.reads.take(1, None) {
        for mut task in tasks {
            let end = read(connection, shared, task.as_mut());
            task.settle(end);
        }
    }
}

fn read(connection: &Connection, shared: &Shared, task: &mut dyn Task) -> Result<(), StoreError> {
    let doing = task.op().doing;
    execute(connection, "BEGIN DEFERRED").map_err(StoreError::failed(doing))?;
    let end = task.run(&shared.db(connection));
    if !connection.is_autocommit() {
        // Nothing was changed, so there is nothing that this could undo.
        execute(connection, "ROLLBACK").map_err(StoreError::failed(doing))?;
    }
    end
}
