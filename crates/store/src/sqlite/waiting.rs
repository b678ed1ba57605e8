//! What waits for a thread of the store: a queue with an end.
//!
//! The invariant here: what was pushed comes out once, in order, also after the queue was closed;
//! only what is left when the taking thread dies is dropped, and a dropped job answers that the
//! store is closed. A push never waits.
//!
//! How much may wait is the pusher's business: it names the limit, or none for work that must not
//! be refused and whose submitters await [`Waiting::room`].

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::StoreError;

/// How many jobs should wait at most; who submits much waits below this.
pub(super) const WAITING_SOFT: usize = 4_096;

/// How many jobs may wait before new ones that can be refused are.
pub(super) const WAITING_MAX: usize = 8_192;

/// A queue that one side pushes to and threads take from.
#[derive(Debug)]
pub(super) struct Waiting<J> {
    state: Mutex<State<J>>,
    arrived: Condvar,
    room: Notify,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    closed: bool,
}

/// What a thread finds in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<J> {
    /// At least one job.
    Jobs(Vec<J>),
    /// Nothing came in time.
    Idle,
    /// Nothing will come any more.
    Over,
}

impl<J> Waiting<J> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                closed: false,
            }),
            arrived: Condvar::new(),
            room: Notify::new(),
        }
    }

    /// Adds a job, unless so many wait that `limit` is reached.
    pub(super) fn push(&self, job: J, limit: Option<usize>) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        if limit.is_some_and(|limit| state.jobs.len() >= limit) {
            return Err(StoreError::Overloaded);
        }
        state.jobs.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Adds a job behind which nothing can be added.
    pub(super) fn push_last(&self, job: J) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.jobs.push_back(job);
        self.close_locked(state);
        Ok(())
    }

    /// Refuses new jobs; those that wait are still taken.
    pub(super) fn close(&self) {
        self.close_locked(self.lock());
    }

    /// Refuses new jobs and drops those that wait.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        let jobs = std::mem::take(&mut state.jobs);
        self.close_locked(state);
        // Outside the lock: a dropped job wakes whoever waits for it.
        drop(jobs);
    }

    /// The first jobs, at most `max`; waits for one at most as long as `patience` says.
    pub(super) fn take(&self, max: usize, patience: Option<Duration>) -> Taken<J> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return Taken::Over;
            }
            state = match patience {
                None => self
                    .arrived
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.arrived.wait_timeout(state, patience);
                    let (state, end) = waited.unwrap_or_else(PoisonError::into_inner);
                    if end.timed_out() && state.jobs.is_empty() && !state.closed {
                        return Taken::Idle;
                    }
                    state
                }
            };
        }
        let waited = state.jobs.len();
        let jobs = state.jobs.drain(..max.min(waited)).collect();
        let left = state.jobs.len();
        drop(state);
        if waited >= WAITING_SOFT && left < WAITING_SOFT {
            self.room.notify_waiters();
        }
        Taken::Jobs(jobs)
    }

    /// Ends when fewer jobs wait than should.
    pub(super) async fn room(&self) -> Result<(), StoreError> {
        loop {
            // Made before the look, so that room which is made in between is not missed.
            let room = self.room.notified();
            {
                let state = self.lock();
                if state.closed {
                    return Err(StoreError::Closed);
                }
                if state.jobs.len() < WAITING_SOFT {
                    return Ok(());
                }
            }
            room.await;
        }
    }

    fn close_locked(&self, mut state: MutexGuard<'_, State<J>>) {
        state.closed = true;
        drop(state);
        self.arrived.notify_all();
        self.room.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // Nothing in here panics with the lock held; if it did, the queue would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn jobs_come_out_in_order_also_after_the_end() {
        let waiting = Waiting::new();
        for job in 0..5 {
            waiting.push(job, None).unwrap();
        }
        waiting.push_last(5).unwrap();
        assert!(matches!(waiting.push(6, None), Err(StoreError::Closed)));
        assert!(matches!(waiting.push_last(6), Err(StoreError::Closed)));
        assert_eq!(waiting.take(4, None), Taken::Jobs(vec![0, 1, 2, 3]));
        assert_eq!(waiting.take(4, None), Taken::Jobs(vec![4, 5]));
        assert_eq!(waiting.take(4, None), Taken::Over);
    }

    #[test]
    fn an_empty_queue_is_idle_and_an_abandoned_one_is_over() {
        let waiting = Waiting::new();
        assert_eq!(waiting.take(1, Some(Duration::ZERO)), Taken::Idle);
        waiting.push(1, None).unwrap();
        waiting.abandon();
        assert_eq!(waiting.take(1, Some(Duration::ZERO)), Taken::Over);
    }

    #[test]
    fn only_jobs_with_a_limit_are_refused() {
        let waiting = Waiting::new();
        waiting.push(0, Some(1)).unwrap();
        let refused = waiting.push(1, Some(1));
        assert!(matches!(refused, Err(StoreError::Overloaded)));
        waiting.push(2, None).unwrap();
        assert_eq!(waiting.take(9, None), Taken::Jobs(vec![0, 2]));
    }

    #[tokio::test]
    async fn room_is_awaited_until_enough_was_taken() {
        let waiting = Arc::new(Waiting::new());
        for job in 0..=WAITING_SOFT {
            waiting.room().await.unwrap();
            waiting.push(job, None).unwrap();
            if job + 1 == WAITING_SOFT {
                break;
            }
        }
        let asking = Arc::clone(&waiting);
        let room = tokio::spawn(async move { asking.room().await });
        tokio::task::yield_now().await;
        assert!(!room.is_finished());
        waiting.take(1, None);
        room.await.unwrap().unwrap();
        waiting.push(0, None).unwrap();
        let asking = Arc::clone(&waiting);
        let room = tokio::spawn(async move { asking.room().await });
        tokio::task::yield_now().await;
        waiting.close();
        assert!(matches!(room.await.unwrap(), Err(StoreError::Closed)));
    }
}
