//! A turn among the sessions of its thread.
//!
//! The invariant here: a turn that goes away without having said how it ends leaves no process of
//! its own behind.
//!
//! Sessions of earlier turns are left alone.

use std::sync::Arc;

use turnlane_protocol::ids::{ThreadId, TurnId};

use super::{Known, ThreadSessions};

/// A turn that may start and use sessions.
#[derive(Debug)]
pub(crate) struct InTurn {
    known: Arc<Known>,
    sessions: Arc<ThreadSessions>,
    thread_id: ThreadId,
    turn_id: TurnId,
    is_over: bool,
}

impl InTurn {
    pub(super) fn new(
        known: Arc<Known>,
        sessions: Arc<ThreadSessions>,
        thread_id: ThreadId,
        turn_id: TurnId,
    ) -> Self {
        Self {
            known,
            sessions,
            thread_id,
            turn_id,
            is_over: false,
        }
    }

    /// The sessions of the thread, for the turn's tools.
    pub(crate) fn sessions(&self) -> &Arc<ThreadSessions> {
        &self.sessions
    }

    /// The turn completes or fails: see [`ThreadSessions::end_of_turn`].
    pub(crate) async fn end(mut self) {
        self.sessions.end_of_turn(self.turn_id).await;
        self.is_over = true;
    }

    /// The turn is stopped: see [`ThreadSessions::interrupt`].
    pub(crate) async fn interrupt(mut self) {
        self.sessions.interrupt(self.turn_id).await;
        self.is_over = true;
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        if !self.is_over {
            self.sessions.abandon(self.turn_id);
        }
        self.sessions.turn_ended();
        self.known.release(self.thread_id);
    }
}
