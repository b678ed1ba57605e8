//! Reads, and the threads that do nothing else.
//!
//! The invariant here: a read is one deferred transaction, so it sees one state of the database. On a
//! thread of its own it has a connection that cannot write, and delays no writer; a store without
//! readers reads on the writer's connection, between two batches. A read that fails leaves the connection
//! without a transaction.
//!
//! Theory of operation: all readers take from one queue, bounded by `WAITING_MAX`; each ends when
//! the queue is closed and empty.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::Shared;
use crate::sqlite::batch::execute;
use crate::sqlite::lock_holder;
use crate::sqlite::task::Task;
use crate::sqlite::waiting::Taken;

/// Reads until the queue is closed and empty.
pub(super) fn run(connection: &Connection, shared: &Arc<Shared>) {
    while let Taken::Jobs(tasks) = shared.reads.take(1, None) {
        for task in tasks {
            answer(connection, shared, task);
        }
    }
}

/// Reads on this connection and answers.
pub(super) fn answer(connection: &Connection, shared: &Shared, mut task: Box<dyn Task>) {
    let end = read(connection, shared, task.as_mut());
    let database = connection.path().unwrap_or_default();
    task.settle(end.map_err(|error| lock_holder::named(error, Path::new(database))));
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
