//! Threads that are gone when they are unloaded: the same lanes on a second store, in memory.
//!
//! The invariant here: a thread is in this set exactly as long as it can be reached, and whoever asks
//! for it is sent to the second store by its id alone. So there is one code path, and nothing of an
//! ephemeral thread is ever on a disk.
//!
//! The second store is opened for the first such thread; most workers never have one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::{Store, StoreError, ThreadId};

use crate::error::Error;
use crate::shared::Shared;
use crate::worker::this_worker;

/// The ephemeral threads and where they live.
#[derive(Default)]
pub(crate) struct Ephemeral {
    shared: OnceCell<Arc<Shared>>,
    threads: Mutex<HashSet<ThreadId>>,
}

impl Ephemeral {
    fn threads(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where ephemeral threads live; opened when it is not yet.
    pub(crate) async fn open(&self, beside: &Shared) -> Result<Arc<Shared>, Error> {
        let open = async || {
            let worker = this_worker("ephemeral", beside.clock.as_ref());
            let opening = tokio::task::spawn_blocking(|| SqliteStore::open_in_memory(worker));
            let store = opening
                .await
                .map_err(StoreError::failed("open the store in memory"))??;
            let store: Arc<dyn Store> = Arc::new(store);
            Ok::<_, StoreError>(Arc::new(beside.ephemeral(store)))
        };
        let shared = self.shared.get_or_try_init(open).await?;
        Ok(Arc::clone(shared))
    }

    /// Where ephemeral threads live, if there ever was one.
    pub(crate) fn opened(&self) -> Option<&Arc<Shared>> {
        self.shared.get()
    }

    /// From now on the thread is found here.
    pub(crate) fn add(&self, thread: ThreadId) {
        self.threads().insert(thread);
    }

    /// From now on the thread is not found any more; where it was, if it was here.
    pub(crate) fn remove(&self, thread: ThreadId) -> Option<&Arc<Shared>> {
        let was = self.threads().remove(&thread);
        self.opened().filter(|_| was)
    }

    /// Where the thread lives, if it is ephemeral.
    pub(crate) fn of(&self, thread: ThreadId) -> Option<&Arc<Shared>> {
        let shared = self.opened()?;
        self.threads().contains(&thread).then_some(shared)
    }
}
