//! Threads of ended items that the job does not keep: deleted in batches, behind the results.
//!
//! The invariants here: one batch is under way at a time, and the store commits it as a group. No claim
//! waits for a deletion unless so many threads wait for theirs that the list would grow without a bound.

use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet};
use turnlane_store::ThreadId;

use super::Runner;

/// The threads that are deleted together.
const DELETED_AT_ONCE: usize = 64;

/// The threads that may wait for their deletion while items go on.
const WAITING_MAX: usize = 4_096;

/// Threads that nobody keeps.
#[derive(Default)]
pub(super) struct Unwanted {
    pub(super) threads: Vec<ThreadId>,
    /// The batch that is being deleted.
    batch: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts to delete a batch of threads that nobody keeps, unless one is under way.
    pub(super) async fn delete_unwanted(&mut self) {
        if let Some(batch) = self.unwanted.batch.take_if(|batch| batch.is_finished()) {
            // A batch that panicked is logged by the runtime; its threads stay.
            let _ = batch.await;
        }
        if self.unwanted.threads.len() > WAITING_MAX {
            self.end_batch().await;
        }
        if self.unwanted.batch.is_some() {
            return;
        }
        let threads = self.take_batch();
        if threads.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.unwanted.batch = Some(tokio::spawn(async move {
            let mut deletions = JoinSet::new();
            for thread in threads {
                let shared = Arc::clone(&shared);
                // All at once: the store writes what it is asked together in one transaction.
                deletions.spawn(async move {
                    if let Err(error) = shared.store.delete_thread(thread).await {
                        tracing::debug!(%error, "a thread of a fan-out item was not deleted");
                    }
                });
            }
            while deletions.join_next().await.is_some() {}
            // The runner starts the next batch.
            shared.board.wake.notify_one();
        }));
    }

    /// Deletes every thread that nobody keeps. All lanes are gone.
    pub(super) async fn delete_all_unwanted(&mut self) {
        loop {
            self.end_batch().await;
            let waiting = self.unwanted.threads.len();
            self.delete_unwanted().await;
            if self.unwanted.batch.is_none() && self.unwanted.threads.len() == waiting {
                return;
            }
        }
    }

    async fn end_batch(&mut self) {
        if let Some(batch) = self.unwanted.batch.take() {
            let _ = batch.await;
        }
    }

    /// Takes threads whose lanes are gone; the others stay.
    fn take_batch(&mut self) -> Vec<ThreadId> {
        let count = self.unwanted.threads.len().min(DELETED_AT_ONCE);
        let mut batch: Vec<_> = self.unwanted.threads.drain(..count).collect();
        let loaded = batch.extract_if(.., |thread| self.lanes.is_loaded(*thread));
        // Its lane is ending, or a client follows it.
        self.unwanted.threads.extend(loaded);
        batch
    }
}
