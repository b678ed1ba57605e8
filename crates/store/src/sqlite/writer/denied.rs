//! The writer while the system does not let it write the database's files.
//!
//! The invariant here: this is never called a full disk or a broken one. A batch is refused with the
//! file that cannot be written, the log names it once, and the health of the store is
//! [`Health::NotWritable`] until a write succeeds. Nothing was written when SQLite refuses so, hence
//! the connection can be replaced at any time by one that finds the rights mended.
//!
//! [`Health::NotWritable`]: crate::worker::Health::NotWritable

use super::Writer;
use crate::error::{Source, StoreError};
use crate::sqlite::batch::execute;
use crate::sqlite::filesystem;
use crate::sqlite::open::{self, Place};

impl Writer {
    /// The refusal of a batch that the system did not let us write; logs the first one.
    pub(super) fn found_denied(&mut self, source: Source) -> StoreError {
        let error = open::not_writable(self.place.name(), source);
        if !self.denied {
            self.denied = true;
            tracing::error!("{error}: nothing is recorded until its permissions are mended");
        }
        self.tell_health();
        error
    }

    /// Notes that a write succeeded.
    pub(super) fn found_writable(&mut self) {
        if self.denied {
            self.denied = false;
            tracing::warn!("the database can be written again");
            self.tell_health();
        }
    }

    /// Finds out whether the rights were mended, and mends those of the files beside the database.
    pub(super) fn look_at_rights(&mut self) {
        let Place::File(path) = &self.place else {
            return;
        };
        if !self.denied {
            return;
        }
        filesystem::mend_rights(path);
        if filesystem::unwritable(path).is_some() || !self.reconnect() {
            return;
        }
        let connection = &self.connection;
        let tried = execute(connection, "BEGIN IMMEDIATE");
        if tried.and_then(|()| execute(connection, "ROLLBACK")).is_ok() {
            self.found_writable();
        }
    }
}
