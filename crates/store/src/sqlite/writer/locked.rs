//! The writer while another process holds a lock on the database.
//!
//! The invariant here: the store is never frozen in silence. A batch that waited for a lock in vain is
//! refused with the name of the holder, the log names each holder once, and the health of the store is
//! [`Health::Locked`] until a write succeeds or the lock is found gone.
//!
//! [`Health::Locked`]: crate::worker::Health::Locked

use std::time::Duration;

use super::Writer;
use crate::error::LockHolder;
use crate::sqlite::batch::execute;
use crate::sqlite::lock_holder;
use crate::sqlite::open::{self, Place};

impl Writer {
    /// Names the process that keeps us from writing; logs each one once.
    pub(super) fn found_locked(&mut self) -> LockHolder {
        let holder = match &self.place {
            Place::File(path) => lock_holder::find(path),
            Place::Memory => LockHolder::default(),
        };
        if self.locked_by.as_ref() != Some(&holder) {
            tracing::error!(
                "{holder} holds a lock on {}: nothing is recorded until it lets go",
                self.place.name().display()
            );
            self.locked_by = Some(holder.clone());
        }
        self.tell_health();
        holder
    }

    /// Notes that a write succeeded.
    pub(super) fn found_unlocked(&mut self) {
        if let Some(holder) = self.locked_by.take() {
            tracing::warn!("the lock of {holder} on the database is gone");
            self.tell_health();
        }
    }

    /// Finds out whether a lock that was in the way is gone; waits for nothing.
    pub(super) fn look_at_lock(&mut self) {
        if self.locked_by.is_none() {
            return;
        }
        let connection = &self.connection;
        let tried = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| execute(connection, "BEGIN IMMEDIATE"))
            .and_then(|()| execute(connection, "ROLLBACK"));
        if let Err(error) = connection.busy_timeout(open::BUSY) {
            tracing::error!(%error, "the database cannot be told to wait");
        }
        if tried.is_ok() {
            self.found_unlocked();
        }
    }
}
