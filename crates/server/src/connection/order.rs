//! The order of requests about one thread on one connection.
//!
//! The invariant here: what is added for a thread begins when everything added before for the same
//! thread has ended, and threads do not wait for each other.
//!
//! Theory of operation: a thread with requests has a queue and one task that works it off and ends
//! with it. Queues are bounded together by what the peer lets in unanswered.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::methods::Running;

type Queues = HashMap<String, VecDeque<Running>>;

/// The requests of one connection that wait for another one about the same thread.
#[derive(Clone, Default)]
pub(super) struct PerThread(Arc<Mutex<Queues>>);

impl PerThread {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs this after everything that was added for the thread before.
    pub(super) fn add(&self, thread: String, running: Running) {
        let mut queues = self.queues();
        if let Some(queue) = queues.get_mut(&thread) {
            queue.push_back(running);
            return;
        }
        queues.insert(thread.clone(), VecDeque::new());
        drop(queues);
        let order = self.clone();
        tokio::spawn(async move {
            let mut next = Some(running);
            while let Some(running) = next.take() {
                running.await;
                next = order.next(&thread);
            }
        });
    }

    /// The next one of a thread; its queue is gone when there is none.
    fn next(&self, thread: &str) -> Option<Running> {
        let mut queues = self.queues();
        let next = queues.get_mut(thread)?.pop_front();
        if next.is_none() {
            queues.remove(thread);
        }
        next
    }
}
