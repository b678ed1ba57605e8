//! What is done with a thread when its lane has nothing under way any more.
//!
//! The invariant here: it is the last thing that a lane's task does, or it is done while there is no
//! task; a turn that somebody asks for meanwhile finds the thread as it is afterwards.
//!
//! Stopping what runs is in [`super::state`]; who may ask is the server's business.

use turnlane_protocol::ids::ThreadId as WireThread;
use turnlane_protocol::notification::{ServerNotification, ThreadMoved};
use turnlane_store::thread::ThreadChange;
use turnlane_store::{StoreError, ThreadId};

use crate::dispatcher::recover_dead;
use crate::error::Error;
use crate::ids;
use crate::shared::Shared;

/// Why a thread is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseOp {
    /// It is only unloaded.
    Unload,
    /// It is put away.
    Archive,
    /// It is deleted.
    Delete,
}

impl CloseOp {
    /// Does it, also when a dead worker still seems to have the lane.
    pub(crate) async fn carry_out(self, shared: &Shared, thread: ThreadId) -> Result<(), Error> {
        match self.once(shared, thread).await {
            Err(StoreError::OwnedElsewhere { .. }) => {
                recover_dead(shared).await?;
                Ok(self.once(shared, thread).await?)
            }
            done => Ok(done?),
        }
    }

    async fn once(self, shared: &Shared, thread: ThreadId) -> Result<(), StoreError> {
        match self {
            Self::Unload => Ok(()),
            Self::Archive => {
                let change = ThreadChange {
                    archived: Some(true),
                    ..ThreadChange::of(thread, shared.clock.now_ms())
                };
                shared.store.change_thread(change).await.map(drop)
            }
            Self::Delete => {
                shared.store.delete_thread(thread).await?;
                // Processes that a thread left behind end with it, whoever still has them.
                for engine in shared.engines.values() {
                    engine.close(ids::wire_thread(thread)).await;
                }
                Ok(())
            }
        }
    }

    /// What everybody is told afterwards.
    pub(crate) fn news(self, thread_id: WireThread) -> ServerNotification {
        let moved = ThreadMoved { thread_id };
        match self {
            Self::Unload => ServerNotification::ThreadClosed(moved),
            Self::Archive => ServerNotification::ThreadArchived(moved),
            Self::Delete => ServerNotification::ThreadDeleted(moved),
        }
    }
}
