//! The end of a lane's task, and taking turns of its thread back.
//!
//! The invariant here: when the task ends nothing of the thread runs any more and everything that was
//! submitted has its result; only then the thread is put away or deleted, if that is why it ends.
//!
//! A revert is the one commit that the task waits for: whatever came after it would be made from a
//! history that is not there any more.

use turnlane_protocol::notification::{ServerNotification, ThreadMoved};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_store::thread::{Direction, ThreadRow};
use turnlane_store::turn::TurnQuery;
use turnlane_store::{StoreError, ThreadId};

use super::Actor;
use crate::dispatcher::recover_dead;
use crate::error::Error;
use crate::ids;
use crate::lane::command::Reply;
use crate::lane::event::Unload;
use crate::shared::Shared;
use crate::threads::RevertTo;

/// How long engines may take to end what threads left behind when the worker is in haste.
const HASTY_CLOSE: std::time::Duration = std::time::Duration::from_millis(150);

impl Actor {
    /// What has to be finished when the task ends.
    pub(super) async fn end(&mut self, why: Unload) {
        // First, so that the engine of a lost lane does not go on while the store is waited for.
        self.running = None;
        self.given = None;
        self.asking = None;
        // Submitted before: whoever waits gets the result, and the lane is nobody's when whoever
        // comes next looks. On a lost lane too, since an add needs no lane of ours: it is stored,
        // and must not be answered as lost.
        while let Some(op) = self.ops.pop_front() {
            let done = op.await;
            self.finish(done);
            self.apply_events().await;
        }
        self.leave_undecided();
        self.close_engines().await;
        self.place = None;
        self.tell_unloaded(why);
        for (op, reply) in std::mem::take(&mut self.closes) {
            let done = op.carry_out(&self.shared, self.thread).await;
            let well = done.is_ok();
            reply.send(done);
            if well {
                self.tell_all(op.news(ids::wire_thread(self.thread)));
            }
        }
    }

    async fn close_engines(&mut self) {
        // Each engine knows whether the thread still runs something there.
        let close = async {
            for engine in self.shared.engines.values() {
                engine.close(ids::wire_thread(self.thread)).await;
            }
        };
        if self.haste {
            // What is left then goes with the process.
            let _ = tokio::time::timeout(HASTY_CLOSE, close).await;
        } else {
            close.await;
        }
    }

    /// The lane's task ends: whoever listens is told, and dropped.
    fn tell_unloaded(&mut self, why: Unload) {
        // A worker that stops tells nothing that its own end does not; a thread that was never seen
        // was never loaded.
        if why == Unload::Stopping || self.lane.is_none() {
            return;
        }
        self.tell_status(ThreadStatus::NotLoaded);
        if self.closes.is_empty() {
            let thread_id = ids::wire_thread(self.thread);
            self.tell_all(ServerNotification::ThreadClosed(ThreadMoved { thread_id }));
        }
    }

    /// Takes turns back, if nothing runs.
    pub(super) async fn revert(&mut self, to: RevertTo, reply: Reply<ThreadRow>) {
        if !self.state.is_idle() {
            let turn = self.state.active_turn().map(ids::wire_turn);
            reply.send(Err(Error::Busy { turn }));
            return;
        }
        let row = match take_back(&self.shared, self.thread, to).await {
            Ok(row) => row,
            Err(error) => {
                reply.send(Err(error));
                return;
            }
        };
        // To those who listen the thread is loaded anew: what they remember is of another history.
        let epoch = ids::new_row(self.now_ms()).to_string();
        self.subscribers.begin_anew(epoch);
        self.subscribers_changed();
        self.tell_status(ThreadStatus::NotLoaded);
        self.tell_status(ThreadStatus::Idle);
        reply.send(Ok(row));
        let thread_id = ids::wire_thread(self.thread);
        self.tell_all(ServerNotification::ThreadReverted(ThreadMoved {
            thread_id,
        }));
    }
}

async fn take_back(shared: &Shared, thread: ThreadId, to: RevertTo) -> Result<ThreadRow, Error> {
    let store = shared.store.as_ref();
    store.flush().await?;
    let from_ord = match to {
        RevertTo::Before(turn) => {
            let turn = store.turn(thread, ids::turn(turn)).await?;
            Some(turn.ok_or(StoreError::TurnNotFound)?.ord)
        }
        RevertTo::Last(count) => {
            let last = store.turns(TurnQuery {
                thread,
                after_ord: None,
                direction: Direction::Descending,
                limit: count,
            });
            last.await?.rows.last().map(|turn| turn.ord)
        }
    };
    if let Some(from_ord) = from_ord {
        let revert = || store.revert_thread(thread, from_ord, shared.clock.now_ms());
        match revert().await {
            Err(StoreError::OwnedElsewhere { .. }) => {
                recover_dead(shared).await?;
                revert().await?;
            }
            Err(StoreError::Busy(_)) => return Err(Error::Busy { turn: None }),
            done => done?,
        }
    }
    let row = store.thread(thread).await?;
    Ok(row.ok_or(StoreError::ThreadNotFound(thread))?)
}
