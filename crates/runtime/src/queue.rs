//! The calls about a lane's queue: add, change, order, hold.
//!
//! The invariant here: a call on a loaded lane is submitted by its task, in the order of the calls,
//! and answered before what it causes is told; on a lane that is not loaded it goes to the store and
//! then wakes whoever drains. The answer to an add means that the row is on disk. Each call comes
//! twice: `…_with` returns when it is submitted and gives every outcome to its reply.
//!
//! What the wire allows, and in which words it refuses, is the server's business.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::method::TurnStartParams;
use turnlane_store::lane::{Changed, LaneView, Paused};
use turnlane_store::queue::{
    Append, Appended, Move, MoveTo, NewRow, Policies, QueueFrom, QueuePage, QueueQuery, Rewriting,
    Row, Update, Which,
};
use turnlane_store::{Json, RowId, Store, StoreError, Work};

use crate::error::Error;
use crate::ids;
use crate::journal;
use crate::lane::command::{Bound, Command, QueueCall, QueueDone, Reply, RowStart, StartAnswer};
use crate::lane::rows;
use crate::options::Drain;
use crate::runtime::Handle;

/// How many rows of a queue are read at once.
const PAGE_ROWS: u32 = 100;

/// How much of a queue is shown to whoever has put it into order: what does not fit is left out.
const ORDER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Whether a call on a lane that is not loaded asks for something to be run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// A worker that drains only what it has loaded loads the lane.
    Run,
    /// It stays as it is.
    Leave,
}

/// A turn to be put into a lane's queue.
#[derive(Clone, Debug)]
pub struct AddTurn {
    /// The row; a new id when the caller has no need to know it before.
    pub id: Option<QueuedTurnId>,
    /// What it is started with.
    pub params: TurnStartParams,
    /// What was asked for, where `params` differ from it; this is what a repeated key is compared
    /// with.
    pub sent: Option<Box<TurnStartParams>>,
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
            id: None,
            params,
            sent: None,
            key: None,
            not_before_ms: None,
            source: "queue".to_owned(),
            policies: Policies::default(),
            bound: Bound::No,
        }
    }
}

/// Other params for a row that waits.
#[derive(Clone)]
pub struct ChangeTurn(Rewriting);

impl ChangeTurn {
    /// What this pure function makes of the row's params at that moment; `otherwise` where they
    /// cannot be read.
    pub fn new(
        change: impl Fn(TurnStartParams) -> TurnStartParams + Send + Sync + 'static,
        otherwise: TurnStartParams,
    ) -> Self {
        Self(Rewriting::new(move |stored: &Json| {
            let params = rows::read(stored).map_or_else(|_| otherwise.clone(), &change);
            rows::write(&params)
        }))
    }
}

impl From<&TurnStartParams> for ChangeTurn {
    /// These, whatever they were.
    fn from(params: &TurnStartParams) -> Self {
        Self(rows::write(params).into())
    }
}

/// What tells other content under the same key.
///
/// The time limit is no content: a client that was restarted with another one repeats its message. Nor
/// is the thread: a key counts within one lane, and its row may move to the successor of its thread.
pub(crate) fn content_hash(params: &TurnStartParams) -> Result<[u8; 32], Error> {
    let content = TurnStartParams {
        thread_id: String::new(),
        timeout_ms: None,
        ..params.clone()
    };
    let text = serde_json::to_vec(&content);
    let text = text.map_err(|error| Error::InvalidParams(error.to_string()))?;
    Ok(Sha256::digest(&text).into())
}

pub(crate) async fn answered<T, F: Future<Output = ()>>(
    call: impl FnOnce(Reply<T>) -> F,
) -> Result<T, Error>
where
    T: Send + 'static,
{
    let (reply, answer) = Reply::channel();
    call(reply).await;
    answer.await.unwrap_or(Err(Error::Lost))
}

impl Handle {
    /// Adds a turn behind all others, or finds the one with its key. Durable.
    pub async fn add(&self, thread: ThreadId, add: AddTurn) -> Result<Appended, Error> {
        answered(|reply| self.add_with(thread, add, reply)).await
    }

    /// As [`Handle::add`], with the answer given straight to `reply`.
    pub async fn add_with(&self, thread: ThreadId, add: AddTurn, reply: Reply<Appended>) {
        let now_ms = self.shared().clock.now_ms();
        let id: RowId = match add.id {
            Some(id) => id.as_uuid().into(),
            None => ids::new_row(now_ms),
        };
        let bound = (add.bound == Bound::ToThisWorker).then(|| self.shared().store.worker());
        let client_id = add.params.client_user_message_id.clone();
        let content_hash = match content_hash(add.sent.as_deref().unwrap_or(&add.params)) {
            Ok(hash) => hash,
            Err(error) => return reply.send(Err(error)),
        };
        let append = Append {
            thread: ids::thread(thread),
            row: NewRow {
                id,
                turn: ids::new_turn(now_ms),
                source: add.source,
                client_id: client_id.unwrap_or_else(|| id.to_string()),
                key: add.key,
                content_hash,
                not_before_ms: add.not_before_ms.unwrap_or(0),
                policies: add.policies,
                bound,
                params: rows::write(&add.params),
            },
            key_window_ms: self.shared().dedupe_window_ms(),
            at_ms: now_ms,
        };
        self.call(thread, Then::Run, move |store| store.append(append), reply)
            .await;
    }

    /// Changes what a visible row is started with. Durable.
    pub async fn update(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        params: impl Into<ChangeTurn>,
    ) -> Result<Row, Error> {
        let change = params.into();
        answered(|reply| self.update_with(thread, row, change, reply)).await
    }

    /// As [`Handle::update`], with the answer given straight to `reply`.
    pub async fn update_with(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        change: ChangeTurn,
        reply: Reply<Row>,
    ) {
        let update = Update {
            thread: ids::thread(thread),
            row: row.as_uuid().into(),
            params: change.0,
            at_ms: self.shared().clock.now_ms(),
        };
        let op = move |store: &dyn Store| store.update_row(update);
        self.call(thread, Then::Leave, op, reply).await;
    }

    /// Deletes a visible row; false when there is none. Durable.
    pub async fn delete(&self, thread: ThreadId, row: QueuedTurnId) -> Result<bool, Error> {
        answered(|reply| self.delete_with(thread, row, reply)).await
    }

    /// As [`Handle::delete`], with the answer given straight to `reply`.
    pub async fn delete_with(&self, thread: ThreadId, row: QueuedTurnId, reply: Reply<bool>) {
        let (id, row) = (ids::thread(thread), row.as_uuid().into());
        let at_ms = self.shared().clock.now_ms();
        let op = move |store: &dyn Store| store.delete_row(id, row, at_ms);
        self.call(thread, Then::Leave, op, reply).await;
    }

    /// Puts the visible rows into this order, and shows them. Durable.
    pub async fn reorder(
        &self,
        thread: ThreadId,
        rows: Vec<QueuedTurnId>,
    ) -> Result<Vec<Row>, Error> {
        answered(|reply| self.reorder_with(thread, rows, reply)).await
    }

    /// As [`Handle::reorder`], with the answer given straight to `reply`.
    pub async fn reorder_with(
        &self,
        thread: ThreadId,
        rows: Vec<QueuedTurnId>,
        reply: Reply<Vec<Row>>,
    ) {
        let id = ids::thread(thread);
        let rows = rows.iter().map(|row| row.as_uuid().into()).collect();
        let at_ms = self.shared().clock.now_ms();
        let reads = Arc::clone(&self.shared().store);
        let op = move |store: &dyn Store| -> Work<Changed<Vec<Row>>> {
            let work = store.reorder(id, rows, at_ms);
            Box::pin(async move {
                let lane = work.await?;
                let value = all_rows(&*reads, id).await?;
                Ok(Changed { value, lane })
            })
        };
        self.call(thread, Then::Leave, op, reply).await;
    }

    /// Puts one visible row elsewhere. Durable.
    pub async fn move_row(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        to: MoveTo,
    ) -> Result<Row, Error> {
        answered(|reply| self.move_row_with(thread, row, to, reply)).await
    }

    /// As [`Handle::move_row`], with the answer given straight to `reply`.
    pub async fn move_row_with(
        &self,
        thread: ThreadId,
        row: QueuedTurnId,
        to: MoveTo,
        reply: Reply<Row>,
    ) {
        let to = Move {
            thread: ids::thread(thread),
            row: row.as_uuid().into(),
            to,
            at_ms: self.shared().clock.now_ms(),
        };
        let op = move |store: &dyn Store| store.move_row(to);
        self.call(thread, Then::Leave, op, reply).await;
    }

    /// Makes a failed row wait again in its place; the head when none is named. Durable.
    pub async fn retry(&self, thread: ThreadId, row: Option<QueuedTurnId>) -> Result<Row, Error> {
        answered(|reply| self.retry_with(thread, row, reply)).await
    }

    /// As [`Handle::retry`], with the answer given straight to `reply`.
    pub async fn retry_with(&self, thread: ThreadId, row: Option<QueuedTurnId>, reply: Reply<Row>) {
        let id = ids::thread(thread);
        let row = row.map(|row| row.as_uuid().into());
        let at_ms = self.shared().clock.now_ms();
        let op = move |store: &dyn Store| store.retry_row(id, row, at_ms);
        self.call(thread, Then::Run, op, reply).await;
    }

    /// Stops the lane's claims, unless they are stopped. Durable.
    pub async fn pause(
        &self,
        thread: ThreadId,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<LaneView, Error> {
        answered(|reply| self.pause_with(thread, reason, by, reply)).await
    }

    /// As [`Handle::pause`], with the answer given straight to `reply`.
    pub async fn pause_with(
        &self,
        thread: ThreadId,
        reason: Option<String>,
        by: Option<String>,
        reply: Reply<LaneView>,
    ) {
        let id = ids::thread(thread);
        let paused = Paused {
            reason: reason.unwrap_or_else(|| "user".to_owned()),
            by,
            since_ms: self.shared().clock.now_ms(),
        };
        let shared = self.shared_of(thread);
        let op = move |store: &dyn Store| {
            let work = store.pause(id, paused);
            with_lane(Box::pin(async move {
                let lane = work.await?;
                journal::paused(&shared, thread, &lane);
                Ok(lane)
            }))
        };
        self.call(thread, Then::Leave, op, reply).await;
    }

    /// Ends a pause and a wait. Durable.
    pub async fn resume(&self, thread: ThreadId) -> Result<LaneView, Error> {
        answered(|reply| self.resume_with(thread, reply)).await
    }

    /// As [`Handle::resume`], with the answer given straight to `reply`.
    pub async fn resume_with(&self, thread: ThreadId, reply: Reply<LaneView>) {
        let id = ids::thread(thread);
        let at_ms = self.shared().clock.now_ms();
        let op = move |store: &dyn Store| with_lane(store.resume(id, at_ms));
        self.call(thread, Then::Run, op, reply).await;
    }

    /// Ends a pause that has this reason; another pause and a wait stay. Durable.
    pub async fn end_pause(&self, thread: ThreadId, reason: String) -> Result<LaneView, Error> {
        answered(|reply| self.end_pause_with(thread, reason, reply)).await
    }

    /// As [`Handle::end_pause`], with the answer given straight to `reply`.
    pub async fn end_pause_with(&self, thread: ThreadId, reason: String, reply: Reply<LaneView>) {
        let id = ids::thread(thread);
        let op = move |store: &dyn Store| with_lane(store.end_pause(id, reason));
        self.call(thread, Then::Run, op, reply).await;
    }

    /// Runs a row now: the head, or the named one out of order. Loads the thread.
    pub async fn start_row(
        &self,
        thread: ThreadId,
        row: Option<QueuedTurnId>,
    ) -> Result<StartAnswer, Error> {
        answered(|reply| self.start_row_with(thread, row, reply)).await
    }

    /// As [`Handle::start_row`], with the answer given straight to `reply`.
    pub async fn start_row_with(
        &self,
        thread: ThreadId,
        row: Option<QueuedTurnId>,
        reply: Reply<StartAnswer>,
    ) {
        if self.is_ephemeral(thread) {
            return reply.send(Err(Error::Ephemeral));
        }
        let command = Command::StartRow(row_start(row, reply));
        // A command that nobody takes is answered as it is dropped.
        let _ = self.lanes().send(ids::thread(thread), command).await;
    }

    /// Some visible rows and the lane, in one picture.
    pub async fn queue(&self, query: QueueQuery) -> Result<QueuePage, Error> {
        if self.is_ephemeral(ids::wire_thread(query.thread)) {
            return Err(Error::Ephemeral);
        }
        Ok(self.shared().store.queue(query).await?)
    }

    /// Submits an operation through the lane's task, or directly when it is not loaded.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        thread: ThreadId,
        then: Then,
        op: impl FnOnce(&dyn Store) -> Work<Changed<T>> + Send + 'static,
        reply: Reply<T>,
    ) {
        let id = ids::thread(thread);
        if self.is_ephemeral(thread) {
            return reply.send(Err(Error::Ephemeral));
        }
        let command = Command::Queue(queue_call(op, reply));
        let Err(Command::Queue(call)) = self.lanes().send_if_loaded(id, command).await else {
            return;
        };
        let store = self.shared().store.as_ref();
        // One that takes nothing any more refuses the operation too, and the reply gets its words.
        let _ = store.room().await;
        let done = call(store).await;
        let changed = done.lane.is_some();
        (done.answer)();
        if changed {
            self.wake_drain(thread, then);
        }
    }

    /// Somebody should look at a lane that is not loaded.
    pub(crate) fn wake_drain(&self, thread: ThreadId, then: Then) {
        match (self.shared().options.drain, then) {
            (Drain::All, _) => self.shared().work.notify_one(),
            (Drain::Loaded, Then::Run) => self.lanes().load(ids::thread(thread)),
            (Drain::Loaded, Then::Leave) => {}
        }
    }
}

/// The start of this row, or of the head.
pub(crate) fn row_start(row: Option<QueuedTurnId>, reply: Reply<StartAnswer>) -> RowStart {
    let which = row.map_or(Which::HeadNow, |row| Which::Row(row.as_uuid().into()));
    RowStart { which, reply }
}

/// What a call made of a lane that shows nothing else.
fn with_lane(work: Work<LaneView>) -> Work<Changed<LaneView>> {
    Box::pin(async move {
        let lane = work.await?;
        Ok(Changed {
            value: lane.clone(),
            lane,
        })
    })
}

/// The visible rows from the head on, as many as [`ORDER_BYTES_MAX`] allows.
async fn all_rows(
    store: &dyn Store,
    thread: turnlane_store::ThreadId,
) -> Result<Vec<Row>, StoreError> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut from, mut bytes) = (QueueFrom::Head, 0);
    loop {
        let query = QueueQuery {
            thread,
            from,
            limit: PAGE_ROWS,
        };
        let page = store.queue(query).await?;
        for row in page.rows {
            bytes += row.params.as_str().len();
            if bytes > ORDER_BYTES_MAX {
                return Ok(rows);
            }
            rows.push(row);
        }
        match page.next {
            Some(position) => from = QueueFrom::After(position),
            None => return Ok(rows),
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
