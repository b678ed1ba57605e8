//! The calls about a lane's queue: add, change, order, hold.
//!
//! The invariant here: a call on a loaded lane is submitted by its task, in the order of the calls,
//! and answered before what it causes is told; on a lane that is not loaded it goes to the store and
//! then wakes whoever drains. The answer to an add means that the row is on disk.
//!
//! What the wire allows, and in which words it refuses, is the server's business.

use sha2::{Digest, Sha256};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::method::TurnStartParams;
use turnlane_store::lane::{Changed, LaneView, Paused};
use turnlane_store::queue::{
    Append, Appended, Move, MoveTo, NewRow, Policies, QueuePage, QueueQuery, Row, Update, Which,
};
use turnlane_store::{RowId, Store, StoreError, Work};

use crate::error::Error;
use crate::ids;
use crate::lane::command::{Bound, Command, QueueCall, QueueDone, Reply, StartAnswer};
use crate::lane::rows;
use crate::options::Drain;
use crate::runtime::Handle;

/// A turn to be put into a lane's queue.
#[derive(Clone, Debug)]
pub struct AddTurn {
    /// What it is started with.
    pub params: TurnStartParams,
    /// The same key again adds nothing.
    pub key: Option<String>,
    /// Not claimed before, in milliseconds since 1970.
    pub not_before_ms: Option<i64>,
    /// Who adds it: `queue`, `shim`, `schedule`.
    pub source: String,
    /// What to do when things go wrong.
    pub policies: Policies,
    /// Whether it goes with this worker.
    pub bound: Bound,
}

impl AddTurn {
    /// A turn with these params and the usual policies.
    pub fn new(params: TurnStartParams) -> Self {
        Self {
            params,
            key: None,
            not_before_ms: None,
            source: "queue".to_owned(),
            policies: Policies::default(),
            bound: Bound::No,
        }
    }
}

/// What tells other content under the same key.
pub(crate) fn content_hash(params: &TurnStartParams) -> Result<[u8; 32], Error> {
    let text = serde_json::to_vec(params);
    let text = text.map_err(|error| Error::InvalidParams(error.to_string()))?;
    Ok(Sha256::digest(&text).into())
}

impl Handle {
    /// Adds a turn behind all others, or finds the one with its key. Durable.
    pub async fn add(&self, thread: ThreadId, add: AddTurn) -> Result<Appended, Error> {
        let (reply, answer) = Reply::channel();
        self.add_with(thread, add, reply).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::add`], with the answer given straight to `reply`.
    pub async fn add_with(
        &self,
        thread: ThreadId,
        add: AddTurn,
        reply: Reply<Appended>,
    ) -> Result<(), Error> {
        let now_ms = self.shared().clock.now_ms();
        let id: RowId = ids::new_row(now_ms);
        let bound = (add.bound == Bound::ToThisWorker).then(|| self.shared().store.worker());
        let client_id = add.params.client_user_message_id.clone();
        let append = Append {
            thread: ids::thread(thread),
            row: NewRow {
                id,
                turn: ids::new_turn(now_ms),
                source: add.source,
                client_id: client_id.unwrap_or_else(|| id.to_string()),
                key: add.key,
                content_hash: content_hash(&add.params)?,
                not_before_ms: add.not_before_ms.unwrap_or(0),
                policies: add.policies,
                bound,
                params: rows::write(&add.params),
            },
            key_window_ms: self.shared().dedupe_window_ms(),
            at_ms: now_ms,
        };
        self.call(thread, move |store| store.append(append), reply)
            .await
    }

    /// Replaces what a visible row is started with. Durable.
    pub async fn update(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        params: &TurnStartParams,
    ) -> Result<Row, Error> {
        let update = Update {
            thread: ids::thread(thread),
            row: row.as_uuid().into(),
            params: rows::write(params),
            at_ms: self.shared().clock.now_ms(),
        };
        self.ask(thread, move |store| store.update_row(update))
            .await
    }

    /// Deletes a visible row; false when there is none. Durable.
    pub async fn delete(&self, thread: ThreadId, row: QueuedTurnId) -> Result<bool, Error> {
        let (id, row) = (ids::thread(thread), row.as_uuid().into());
        let at_ms = self.shared().clock.now_ms();
        self.ask(thread, move |store| store.delete_row(id, row, at_ms))
            .await
    }

    /// Puts the visible rows into this order. Durable.
    pub async fn reorder(
        &self,
        thread: ThreadId,
        rows: Vec<QueuedTurnId>,
    ) -> Result<LaneView, Error> {
        let id = ids::thread(thread);
        let rows = rows.iter().map(|row| row.as_uuid().into()).collect();
        let at_ms = self.shared().clock.now_ms();
        self.ask_lane(thread, move |store| store.reorder(id, rows, at_ms))
            .await
    }

    /// Puts one visible row elsewhere. Durable.
    pub async fn move_row(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        to: MoveTo,
    ) -> Result<Row, Error> {
        let to = Move {
            thread: ids::thread(thread),
            row: row.as_uuid().into(),
            to,
            at_ms: self.shared().clock.now_ms(),
        };
        self.ask(thread, move |store| store.move_row(to)).await
    }

    /// Makes a failed row wait again in its place; the head when none is named. Durable.
    pub async fn retry(&self, thread: ThreadId, row: Option<QueuedTurnId>) -> Result<Row, Error> {
        let id = ids::thread(thread);
        let row = row.map(|row| row.as_uuid().into());
        let at_ms = self.shared().clock.now_ms();
        self.ask(thread, move |store| store.retry_row(id, row, at_ms))
            .await
    }

    /// Stops the lane's claims, unless they are stopped. Durable.
    pub async fn pause(
        &self,
        thread: ThreadId,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<LaneView, Error> {
        let id = ids::thread(thread);
        let paused = Paused {
            reason: reason.unwrap_or_else(|| "user".to_owned()),
            by,
            since_ms: self.shared().clock.now_ms(),
        };
        self.ask_lane(thread, move |store| store.pause(id, paused))
            .await
    }

    /// Ends a pause and a wait. Durable.
    pub async fn resume(&self, thread: ThreadId) -> Result<LaneView, Error> {
        let id = ids::thread(thread);
        let at_ms = self.shared().clock.now_ms();
        self.ask_lane(thread, move |store| store.resume(id, at_ms))
            .await
    }

    /// Runs a row now: the head, or the named one out of order. Loads the thread.
    pub async fn start_row(
        &self,
        thread: ThreadId,
        row: Option<QueuedTurnId>,
    ) -> Result<StartAnswer, Error> {
        if self.is_ephemeral(thread) {
            return Err(Error::Ephemeral);
        }
        let which = row.map_or(Which::HeadNow, |row| Which::Row(row.as_uuid().into()));
        let (reply, answer) = Reply::channel();
        let command = Command::StartRow { which, reply };
        self.lanes().send(ids::thread(thread), command).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// Some visible rows and the lane, in one picture.
    pub async fn queue(&self, query: QueueQuery) -> Result<QueuePage, Error> {
        if self.is_ephemeral(ids::wire_thread(query.thread)) {
            return Err(Error::Ephemeral);
        }
        Ok(self.shared().store.queue(query).await?)
    }

    async fn ask<T: Send + 'static>(
        &self,
        thread: ThreadId,
        op: impl FnOnce(&dyn Store) -> Work<Changed<T>> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = Reply::channel();
        self.call(thread, op, reply).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    async fn ask_lane(
        &self,
        thread: ThreadId,
        op: impl FnOnce(&dyn Store) -> Work<LaneView> + Send + 'static,
    ) -> Result<LaneView, Error> {
        self.ask(thread, move |store| {
            let work = op(store);
            Box::pin(async move {
                let lane = work.await?;
                Ok(Changed {
                    value: lane.clone(),
                    lane,
                })
            })
        })
        .await
    }

    /// Submits an operation through the lane's task, or directly when it is not loaded.
    async fn call<T: Send + 'static>(
        &self,
        thread: ThreadId,
        op: impl FnOnce(&dyn Store) -> Work<Changed<T>> + Send + 'static,
        reply: Reply<T>,
    ) -> Result<(), Error> {
        let id = ids::thread(thread);
        if self.is_ephemeral(thread) {
            reply.send(Err(Error::Ephemeral));
            return Ok(());
        }
        let command = Command::Queue(queue_call(op, reply));
        let Err(command) = self.lanes().send_if_loaded(id, command).await else {
            return Ok(());
        };
        let Command::Queue(call) = command else {
            return Err(Error::Lost);
        };
        let store = self.shared().store.as_ref();
        store.room().await?;
        let done = call(store).await;
        let worth_a_look = done.lane.is_some();
        (done.answer)();
        if worth_a_look {
            self.wake_drain(thread);
        }
        Ok(())
    }

    /// Somebody should look at a lane that is not loaded.
    pub(crate) fn wake_drain(&self, thread: ThreadId) {
        match self.shared().options.drain {
            Drain::All => self.shared().work.notify_one(),
            Drain::Loaded => self.lanes().load(ids::thread(thread)),
        }
    }
}

fn queue_call<T: Send + 'static>(
    op: impl FnOnce(&dyn Store) -> Work<Changed<T>> + Send + 'static,
    reply: Reply<T>,
) -> QueueCall {
    Box::new(move |store| {
        let work = op(store);
        Box::pin(async move {
            let (lane, answer) = match work.await {
                Ok(changed) => (Some(changed.lane), Ok(changed.value)),
                Err(error) => (None, Err::<T, StoreError>(error)),
            };
            QueueDone {
                lane,
                answer: Box::new(move || reply.send(answer.map_err(Error::from))),
            }
        })
    })
}
