//! Finds work: lanes that have rows and are not loaded, changes of other processes, dead workers.
//!
//! The invariant here: whatever announces work is a hint; what is in the store is the truth, and it
//! is looked at every second. A lane is loaded only when a slot is free, so a start with many full
//! lanes loads as many as can run.
//!
//! Theory of operation: one task per worker. It wakes when somebody added a row to a lane that is
//! not loaded, when the store says that another process changed something, when a row becomes due,
//! and every [`EVERY`]; it ends with the runtime.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::notification::{Decider, ServerNotification, ThreadMoved};
use turnlane_store::approval::ApprovalRow;
use turnlane_store::recovery::{Recover, Whose};
use turnlane_store::{StoreError, ThreadId};

use crate::fanout::runner;
use crate::ids;
use crate::journal;
use crate::lane::{reconcile, rows};
use crate::lanes::Lanes;
use crate::logins::Logins;
use crate::notice::{Notice, NoticeBody};
use crate::options::Drain;
use crate::retention;
use crate::shared::Shared;

/// How often the store is looked at without a hint, and how soon a dead worker is noticed.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How many lanes one recovery decides about.
const RECOVER_AT_ONCE: u32 = 500;
/// How many lanes one look may bring.
const READY_AT_ONCE: u32 = 256;
/// How often ended rows are pruned.
const PRUNE_EVERY: Duration = Duration::from_mins(10);
/// Ended rows are kept at least so long.
const KEPT_AT_LEAST: Duration = Duration::from_hours(24);

/// The task that finds work.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    shutdown: CancellationToken,
}

impl Dispatcher {
    pub(crate) fn new(shared: Arc<Shared>, lanes: Arc<Lanes>, shutdown: CancellationToken) -> Self {
        Self {
            shared,
            lanes,
            shutdown,
        }
    }

    pub(crate) async fn run(self) {
        let mut foreign = self.shared.store.foreign_changes();
        let mut fan_out_at = tokio::time::Instant::now();
        let mut prune_at = tokio::time::Instant::now() + PRUNE_EVERY;
        let mut logins = Logins::new(&self.shared);
        // A slot that came while the dispatcher waited for one.
        let mut slot = None;
        while !self.shutdown.is_cancelled() {
            if let Err(error) = logins.look(&self.shared, &self.lanes).await {
                tracing::warn!(%error, "the lanes that wait for a login could not be looked for");
            }
            let full = match self.look(slot.take()).await {
                Ok(full) => full,
                Err(error) => {
                    tracing::warn!(%error, "the store could not be looked at");
                    false
                }
            };
            if fan_out_at <= tokio::time::Instant::now() && self.shared.options.drain == Drain::All
            {
                fan_out_at = tokio::time::Instant::now() + runner::EVERY;
                self.shared.board.look_at_all();
            }
            if prune_at <= tokio::time::Instant::now() {
                prune_at += PRUNE_EVERY;
                self.prune().await;
            }
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = self.shared.work.notified() => {}
                Ok(()) = foreign.changed() => {}
                free = Arc::clone(&self.shared.slots).one(), if full => slot = Some(free),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Looks once: dead workers, lanes of ours that others changed, lanes with work. Whether lanes
    /// are left that need a slot.
    async fn look(&self, mut slot: Option<OwnedSemaphorePermit>) -> Result<bool, StoreError> {
        recover(&self.shared, &self.lanes).await?;
        load_undecided(&self.shared, &self.lanes).await?;
        for owned in self.shared.store.owned().await? {
            if self.shared.seen_revision(owned.thread) != Some(owned.revision) {
                self.lanes.wake(owned.thread);
            }
        }
        let now_ms = self.shared.clock.now_ms();
        let ready = self.shared.store.ready(now_ms, READY_AT_ONCE).await?;
        for thread in ready.lanes {
            if self.lanes.is_loaded(thread) {
                self.lanes.wake(thread);
            } else if self.shared.options.drain == Drain::All {
                let Some(slot) = slot.take().or_else(|| self.shared.slots.try_one()) else {
                    return Ok(true);
                };
                self.lanes.load_with_slot(thread, slot);
            }
        }
        Ok(false)
    }

    async fn prune(&self) {
        let kept = self.shared.options.dedupe_window.max(KEPT_AT_LEAST);
        let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX / 2);
        let before_ms = self.shared.clock.now_ms() - kept_ms;
        match self.shared.store.prune(before_ms).await {
            Ok(0) => {}
            Ok(pruned) => tracing::debug!(pruned, "ended rows were removed"),
            Err(error) => tracing::warn!(%error, "ended rows could not be removed"),
        }
        let Some(retention) = self.shared.options.retention else {
            return;
        };
        let now_ms = self.shared.clock.now_ms();
        match retention::apply(&*self.shared.store, retention, now_ms).await {
            Ok(deleted) if deleted.is_empty() => {}
            Ok(deleted) => {
                let count = deleted.len();
                tracing::info!(count, "archived threads were deleted by store.retention");
                for thread in deleted {
                    // Clients forget it; the server removes what it copied for its queue.
                    let thread_id = ids::wire_thread(thread.id);
                    let moved = ThreadMoved { thread_id };
                    self.shared
                        .announce(thread_id, ServerNotification::ThreadDeleted(moved));
                }
            }
            Err(error) => tracing::warn!(%error, "archived threads could not be deleted"),
        }
    }
}

/// Decides about everything that dead workers left; lanes that are loaded here look again.
pub(crate) async fn recover(shared: &Shared, lanes: &Lanes) -> Result<(), StoreError> {
    for thread in recover_dead(shared).await? {
        lanes.wake(thread);
    }
    Ok(())
}

/// Tells those who watch of an approval that was resolved with its turn.
fn tell_resolved(shared: &Shared, row: ApprovalRow) {
    let Some(resolved) = row.resolved else {
        return;
    };
    let Ok(approval) = rows::read(&row.asked.body) else {
        return;
    };
    shared.tell_watchers(&Arc::new(Notice {
        thread: ids::wire_thread(row.thread),
        seq: 0,
        at_ms: shared.clock.now_ms(),
        body: NoticeBody::ApprovalResolved {
            approval: Box::new(approval),
            decision: Decision::Cancel,
            by: Decider::Interrupt,
            reason: resolved.reason,
        },
    }));
}

/// Loads the lanes whose engines are to be asked. Waits for reads of the store, never for an engine.
pub(crate) async fn load_undecided(shared: &Shared, lanes: &Arc<Lanes>) -> Result<(), StoreError> {
    let mut waiting = shared.undecided.take().into_iter();
    while let Some(grip) = waiting.next() {
        match reconcile::read(shared.store.as_ref(), grip).await {
            Ok(turn) => lanes.reconcile(Box::new(turn)),
            // Another worker has the lane, or a person deleted the thread.
            Err(
                StoreError::Fenced
                | StoreError::RowNotFound(_)
                | StoreError::TurnNotFound
                | StoreError::ThreadNotFound(_),
            ) => shared.undecided.settled(grip.thread),
            Err(error) => {
                // The store may recover; none of them is lost.
                shared.undecided.add(grip);
                waiting.for_each(|grip| shared.undecided.add(grip));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Decides about everything that dead workers left; the lanes it was.
pub(crate) async fn recover_dead(shared: &Shared) -> Result<Vec<ThreadId>, StoreError> {
    let mut threads = Vec::new();
    loop {
        let now_ms = shared.clock.now_ms();
        let recovered = shared
            .store
            .recover(Recover {
                whose: Whose::Dead,
                deciding: shared.deciding(now_ms),
                limit: RECOVER_AT_ONCE,
                at_ms: now_ms,
            })
            .await?;
        for lane in recovered.lanes {
            journal::taken_over(shared, &lane).await;
            threads.push(lane.thread);
            if let Some(grip) = lane.grip {
                shared.undecided.add(grip);
                shared.work.notify_one();
            }
            for approval in lane.resolved {
                tell_resolved(shared, approval);
            }
        }
        if !recovered.more {
            return Ok(threads);
        }
    }
}
