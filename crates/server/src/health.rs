//! Whether the store takes new work, and who is told when that changes.
//!
//! The invariant here: there is one text for each state of the store, whoever asks, and it says what
//! happened and what to do. Whether a request is refused is the store's affair and not looked at here.

use std::sync::Arc;

use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::notification::{ServerNotification, Warning};
use turnlane_runtime::store::Health;
use turnlane_runtime::store::sqlite::ROOM_NEEDED_BYTES;

use crate::encode::encoded;
use crate::server::{Server, Shared};

/// The disk is full.
const FULL: &str =
    "the disk is full: what runs is recorded, and nothing new is taken in until 8 MiB are free";

/// The disk is full, for `/readyz`.
const NOT_READY_FULL: &str = "not ready: the disk is full; 8 MiB must be free";

// The two texts above name it.
const _: () = assert!(ROOM_NEEDED_BYTES == 8 << 20);

/// The disk fails.
const WRITES_OFF: &str = "writing to the disk failed too often: nothing is recorded any more; look \
     at the disk, then start again";

/// The disk was full.
const GOOD: &str = "there is room on the disk again: queued turns go on";

/// The system does not let us write. The path is named in the log and in the errors of refused
/// requests, not here: `/readyz` is answered without a token.
const NOT_WRITABLE: &str = "the database cannot be written: nothing is recorded until its permissions \
     are mended; the log names the file";

/// The permissions were mended.
const WRITABLE: &str = "the database can be written again: queued turns go on";

/// Another process locks the database. It is named in the log and in the errors of refused requests,
/// not here: `/readyz` is answered without a token.
const LOCKED: &str = "another process holds a lock on the database: nothing is recorded until it \
     lets go; the log names the process";

/// The lock is gone.
const UNLOCKED: &str = "the lock on the database is gone: queued turns go on";

impl Server {
    /// Whether requests are served: what `/readyz` says.
    pub fn ready(&self) -> bool {
        self.readiness().is_ok()
    }

    /// Whether requests are served, and why not.
    pub fn readiness(&self) -> Result<(), &'static str> {
        if self.shared.stopping.is_cancelled() {
            return Err("not ready: stopping");
        }
        if self.shared.options.runtime.is_recovering() {
            return Err("not ready: engines are asked about turns that a dead worker left");
        }
        match *self.shared.options.runtime.store().health().borrow() {
            Health::Good => Ok(()),
            Health::Full => Err(NOT_READY_FULL),
            Health::Locked => Err("not ready: another process holds a lock on the database"),
            Health::NotWritable => Err("not ready: the database cannot be written"),
            Health::WritesOff => Err("not ready: writing to the disk failed"),
        }
    }

    /// What people are told about the store, if it does not take everything.
    pub fn trouble(&self) -> Option<&'static str> {
        match *self.shared.options.runtime.store().health().borrow() {
            Health::Good => None,
            Health::Full => Some(FULL),
            Health::Locked => Some(LOCKED),
            Health::NotWritable => Some(NOT_WRITABLE),
            Health::WritesOff => Some(WRITES_OFF),
        }
    }

    fn warn(&self, text: &str) {
        let warning = ServerNotification::Warning(Warning {
            thread_id: None,
            message: text.to_owned(),
        });
        let stamp = Stamp {
            emitted_at_ms: self.shared.options.clock.now_ms(),
            seq: None,
        };
        // About no thread: nothing that waits for a client is replaced by it.
        if let Some(message) = encoded(&"".into(), &warning, stamp) {
            let hub = &self.shared.hub;
            hub.tell_all(warning.method(), &message, |_| true);
        }
    }
}

/// Tells all clients, and the log, when the store stops taking new work and when it goes on, until the
/// server is stopped or gone.
pub(crate) fn watch(shared: &Arc<Shared>) {
    let mut health = shared.options.runtime.store().health();
    let mut before = health.borrow_and_update().clone();
    let stopping = shared.stopping.clone();
    // Whoever watches keeps nothing alive.
    let server = Arc::downgrade(shared);
    tokio::spawn(async move {
        loop {
            let changed = tokio::select! {
                changed = health.changed() => changed,
                () = stopping.cancelled() => return,
            };
            let (Ok(()), Some(shared)) = (changed, server.upgrade()) else {
                return;
            };
            let now = health.borrow_and_update().clone();
            let text = match now {
                Health::Good if before == Health::Locked => UNLOCKED,
                Health::Good if before == Health::NotWritable => WRITABLE,
                Health::Good => GOOD,
                Health::Full => FULL,
                Health::Locked => LOCKED,
                Health::NotWritable => NOT_WRITABLE,
                Health::WritesOff => WRITES_OFF,
            };
            before = now;
            tracing::warn!("{text}");
            Server { shared }.warn(text);
        }
    });
}
