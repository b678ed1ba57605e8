//! Frees a lane whose owner may be dead, when a person says so.
//!
//! The invariant here: a lane is taken only from an owner that is not known to be alive, and what its
//! turn left is decided by the same rules as after a crash, with the fence moved on: should the owner
//! live after all, its late writes change nothing.
//!
//! A turn that was handed to a foreign engine is decided without that engine, by `onCrash`: a person who
//! frees the lane has no worker that could ask.
//!
//! Lanes of workers that are known to be dead are taken over by the dispatcher.

use std::sync::Arc;

use turnlane_protocol::ids::ThreadId;
use turnlane_store::recovery::{Recover, Whose};
use turnlane_store::{Store, StoreError};

use crate::clock::Clock;
use crate::ids;
use crate::lane::recovery::{self, Histories};

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasedLane {
    /// No worker owned the lane.
    Unowned,
    /// The lane was taken from its owner; nothing ran there.
    Idle,
    /// The lane was taken from its owner, and the turn that ran there was decided.
    Interrupted,
}

/// Takes a lane from an owner that is not known to be alive. Durable.
///
/// `losses_max` is the number of workers that a queued turn may lose before it is held. An owner that
/// is alive makes this fail with [`StoreError::OwnedElsewhere`].
pub async fn release_lane(
    store: &dyn Store,
    thread: ThreadId,
    losses_max: u32,
    clock: &dyn Clock,
) -> Result<ReleasedLane, StoreError> {
    let now_ms = clock.now_ms();
    let histories = Arc::new(Histories::without_engines());
    let recovered = store
        .recover(Recover {
            whose: Whose::LaneUnlessAlive(ids::thread(thread)),
            deciding: recovery::deciding(histories, losses_max, now_ms),
            limit: 1,
            at_ms: now_ms,
        })
        .await?;
    Ok(match recovered.lanes.first() {
        None => ReleasedLane::Unowned,
        Some(lane) if lane.row.is_some() => ReleasedLane::Interrupted,
        Some(_) => ReleasedLane::Idle,
    })
}
