//! Deletes threads that nothing happened on for a long time.
//!
//! The invariant here: a thread with a queued turn, a running turn or an open approval is never
//! deleted, and neither is one that another worker uses. Each deletion checks that again in its own
//! transaction.

use std::time::Duration;

use turnlane_store::thread::{IdleQuery, IdleScope, IdleThread};
use turnlane_store::{Store, StoreError};

/// How many threads one look finds.
const AT_ONCE: u32 = 1_000;

/// The threads that have been idle since `before_ms`, at most 1,000, the oldest first.
pub async fn idle_threads(
    store: &dyn Store,
    before_ms: i64,
    scope: IdleScope,
) -> Result<Vec<IdleThread>, StoreError> {
    let query = IdleQuery {
        before_ms,
        scope,
        limit: AT_ONCE,
    };
    store.idle_threads(query).await
}

/// Deletes those of some threads that are still idle since `before_ms`; returns the deleted ones.
/// Durable.
pub async fn delete_idle(
    store: &dyn Store,
    before_ms: i64,
    threads: Vec<IdleThread>,
) -> Result<Vec<IdleThread>, StoreError> {
    // All are submitted before the first is awaited, so that they share commits.
    let deleting: Vec<_> = threads
        .into_iter()
        .map(|thread| (store.delete_if_idle(thread.id, before_ms), thread))
        .collect();
    let mut deleted = Vec::new();
    for (done, thread) in deleting {
        if done.await? {
            deleted.push(thread);
        }
    }
    Ok(deleted)
}

/// Deletes archived threads that have been idle for longer than `retention`, at most 1,000; returns them.
pub(crate) async fn apply(
    store: &dyn Store,
    retention: Duration,
    now_ms: i64,
) -> Result<Vec<IdleThread>, StoreError> {
    let kept_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX / 2);
    let before_ms = now_ms.saturating_sub(kept_ms);
    let idle = idle_threads(store, before_ms, IdleScope::Archived).await?;
    delete_idle(store, before_ms, idle).await
}
