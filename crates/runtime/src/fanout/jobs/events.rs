//! What watchers of jobs are told.
//!
//! The invariant here: an event is a hint that carries what was read when it was made; what the store
//! shows is the truth, and a watcher that lags reads it again.

use tokio::sync::broadcast::{self, error::RecvError};
use turnlane_store::fanout::{FanoutItem, JobRow};

/// Something that happened to a job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// Its state or its counts changed.
    Changed(Box<JobRow>),
    /// It ended, or it is paused and nothing of it runs any more; its export is written.
    Ended(Box<JobRow>),
    /// It was deleted.
    Deleted {
        /// Its id.
        id: String,
    },
}

/// An item that changed its state.
#[derive(Clone, Debug)]
pub struct ItemEvent {
    /// The id of its job.
    pub job_id: String,
    /// The item.
    pub item: Box<FanoutItem>,
    /// The cell of its id column as it was in the input; none without such a column.
    pub source_id: Option<String>,
}

/// An event, or the news that some were dropped.
#[derive(Clone, Debug)]
pub enum Watched<T> {
    /// An event.
    Event(T),
    /// So many events were dropped, since this watcher was too slow.
    Dropped(u64),
}

/// Receives events; at most 1,024 wait, then the oldest are dropped.
#[derive(Debug)]
pub struct Watch<T>(broadcast::Receiver<T>);

impl<T: Clone> Watch<T> {
    pub(crate) fn new(receiver: broadcast::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// Waits for the next event; none when the runtime is gone.
    pub async fn recv(&mut self) -> Option<Watched<T>> {
        match self.0.recv().await {
            Ok(event) => Some(Watched::Event(event)),
            Err(RecvError::Lagged(dropped)) => Some(Watched::Dropped(dropped)),
            Err(RecvError::Closed) => None,
        }
    }
}
