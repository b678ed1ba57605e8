//! A turn that runs in Codex is interrupted when the engine stops listening to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::codex::connection::Connection;

/// How long an abandoned `turn/start` may take to become a turn.
const LATE_START: Duration = Duration::from_secs(30);

/// Interrupts its turn when dropped before the turn ended.
pub(super) struct ActiveTurn {
    connection: Arc<Connection>,
    thread: String,
    /// None: requested, and not known yet.
    turn: Option<String>,
    has_ended: bool,
}

impl ActiveTurn {
    pub(super) fn new(connection: &Arc<Connection>, thread: &str) -> Self {
        Self {
            connection: Arc::clone(connection),
            thread: thread.to_owned(),
            turn: None,
            has_ended: false,
        }
    }

    pub(super) fn set_turn(&mut self, turn: &str) {
        self.turn = Some(turn.to_owned());
    }

    pub(super) fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(super) fn thread(&self) -> &str {
        &self.thread
    }

    /// The turn has ended by itself, or never began.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for ActiveTurn {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.has_ended {
            return;
        }
        let (connection, thread) = (Arc::clone(&self.connection), self.thread.clone());
        let turn = self.turn.take();
        runtime.spawn(async move {
            let turn = match turn {
                Some(turn) => Some(turn),
                None => timeout(LATE_START, connection.busy(&thread)).await.ok(),
            };
            if let Some(turn) = turn {
                connection.interrupt(&thread, &turn).await;
            }
        });
    }
}
