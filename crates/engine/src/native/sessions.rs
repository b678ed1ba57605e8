//! Commands that go on running: sessions of a thread, by number.
//!
//! The invariant here: a session belongs to a thread, outlives the turn that started it, and is
//! ended with all its descendants when the thread is unloaded or the engine goes. At most
//! [`RUNNING_MAX`] run per thread. Nothing is emitted about a session after the end of the turn it
//! is shown in. A thread without sessions and without a turn costs nothing.
//!
//! Theory of operation: [`Sessions`] knows the threads that have a turn or a session. A turn
//! [enters](Sessions::enter) and holds an [`InTurn`]; dropped without a word, that ends what the turn
//! started, forced. Each session has one task (`attend`), which lives until the process and its
//! streams have ended.
//!
//! Starting processes and what the model is told are the business of the tools.

mod attend;
mod decode;
mod in_turn;
mod kept;
mod session;
mod shown;
mod thread;

pub(crate) use attend::OnDenial;
pub(crate) use in_turn::InTurn;
pub(crate) use session::{Ended, Session, SessionInput, Yielded};
pub(crate) use shown::{Face, How, Shown};
pub(crate) use thread::{RUNNING_MAX, Reserved, ThreadSessions};

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnlane_protocol::ids::{ThreadId, TurnId};

use crate::engine::BackgroundTerminal;

/// The sessions of all threads; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    known: Arc<Known>,
}

#[derive(Debug, Default)]
struct Known {
    threads: Mutex<HashMap<ThreadId, Arc<ThreadSessions>>>,
    /// One count for all threads, so that no number ever means another command than before, also
    /// when a thread was forgotten in between.
    numbers: Arc<AtomicU64>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Arc<ThreadSessions>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a thread that has nothing to remember.
    fn release(&self, thread: ThreadId) {
        let mut threads = self.lock();
        let is_idle = |sessions: &Arc<ThreadSessions>| sessions.is_idle();
        if threads.get(&thread).is_some_and(is_idle) {
            threads.remove(&thread);
        }
    }
}

impl Sessions {
    /// A turn of the thread begins.
    pub(crate) fn enter(&self, thread: ThreadId, turn: TurnId) -> InTurn {
        let mut threads = self.known.lock();
        let numbers = &self.known.numbers;
        let make = || Arc::new(ThreadSessions::new(Arc::clone(numbers)));
        let sessions = Arc::clone(threads.entry(thread).or_insert_with(make));
        // Counted under the lock, so that it is not forgotten in between.
        sessions.turn_began();
        drop(threads);
        InTurn::new(Arc::clone(&self.known), sessions, thread, turn)
    }

    /// What the thread runs in the background.
    pub(crate) fn background(&self, thread: ThreadId) -> Vec<BackgroundTerminal> {
        let sessions = self.of(thread);
        sessions.map_or_else(Vec::new, |sessions| sessions.background())
    }

    /// Ends one of those, or all; see [`ThreadSessions::end`].
    pub(crate) async fn end(&self, thread: ThreadId, process_id: Option<String>) -> usize {
        let Some(sessions) = self.of(thread) else {
            return 0;
        };
        let ended = sessions.end(process_id).await;
        self.known.release(thread);
        ended
    }

    /// Ends whatever the thread runs; see [`ThreadSessions::close`].
    pub(crate) async fn close(&self, thread: ThreadId) {
        let sessions = self.of(thread);
        if let Some(sessions) = sessions {
            sessions.close().await;
            self.known.release(thread);
        }
    }

    /// Whether nothing is remembered of the thread.
    #[cfg(test)]
    pub(crate) fn is_forgotten(&self, thread: ThreadId) -> bool {
        self.of(thread).is_none()
    }

    fn of(&self, thread: ThreadId) -> Option<Arc<ThreadSessions>> {
        self.known.lock().get(&thread).map(Arc::clone)
    }
}
