//! How many admitted connections may be open at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Admitted connections a server keeps unless told otherwise. Further ones are answered 503.
pub const CONNECTIONS_MAX: usize = 256;

/// A count of open connections; clones share it, so several listeners can have one limit.
#[derive(Clone, Debug)]
pub struct ConnectionLimit {
    free: Arc<Semaphore>,
    max: usize,
}

impl ConnectionLimit {
    /// At most `max` connections.
    pub fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(max)),
            max,
        }
    }

    /// How many admitted connections are open now.
    pub fn open(&self) -> usize {
        self.max - self.free.available_permits()
    }

    /// A place for one more, kept until it is dropped.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

impl Default for ConnectionLimit {
    fn default() -> Self {
        Self::new(CONNECTIONS_MAX)
    }
}
