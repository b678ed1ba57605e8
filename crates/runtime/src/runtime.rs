//! A runtime: the worker's lanes and what finds work for them, behind one handle.
//!
//! The invariant here: a runtime that has started has decided about everything that dead workers
//! left, or asks the engine that knows, and one that has stopped has no task, no running engine and no lane left.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turnlane_engine::Engine;
use turnlane_protocol::ids::{QueuedTurnId, ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::usage::TokenCounts;
use turnlane_store::Store;
use turnlane_store::thread::{ThreadChange, ThreadRow};

use crate::clock::Clock;
use crate::dispatcher::{self, Dispatcher};
use crate::error::Error;
use crate::fanout::jobs::Jobs;
use crate::fanout::runner::{Runner, RunnerEnd};
use crate::fanout::{self};
use crate::ids;
use crate::lane::command::{Command, Reply, RowStart, StartAnswer, StartRequest, SteerRequest};
use crate::lane::event::{AfterInterrupt, StartHow, StopHow};
use crate::lane::rights::CallerRights;
use crate::lane::subscribers::{Since, Snapshot};
use crate::lanes::Lanes;
use crate::notice::{Subscriber, SubscriberId};
use crate::options::{Drain, Options};
use crate::queue::{Then, row_start};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::threads::Life;

/// A runtime that has started.
pub struct Runtime {
    handle: Handle,
    dispatcher: JoinHandle<()>,
    runner: RunnerEnd,
    shutdown: CancellationToken,
}

/// What a new thread is made with.
#[derive(Clone, Debug)]
pub struct CreateThread {
    /// The name of the engine that runs its turns.
    pub engine: String,
    /// What its turns are run with.
    pub settings: Settings,
    /// What people call it.
    pub name: Option<String>,
    /// What kind of program made it.
    pub source: String,
    /// The thread it works for.
    pub parent: Option<ThreadId>,
    /// The name it is found by.
    pub binding: Option<String>,
    /// How many rows may wait in its lane.
    pub max_depth: u32,
    /// What is shown of it besides.
    pub facts: HashMap<String, serde_json::Value>,
    /// How long it lives.
    pub life: Life,
    /// Its id, where a key decides it: see [`thread_of_key`](crate::thread_of_key).
    pub id: Option<ThreadId>,
}

impl CreateThread {
    /// A thread with this engine and these settings, and the usual rest.
    pub fn new(engine: impl Into<String>, settings: Settings) -> Self {
        Self {
            engine: engine.into(),
            settings,
            name: None,
            source: "appServer".to_owned(),
            parent: None,
            binding: None,
            max_depth: 1_000,
            facts: HashMap::new(),
            life: Life::Durable,
            id: None,
        }
    }
}

impl Runtime {
    /// Starts a runtime on an open store.
    ///
    /// When this returns, everything that dead workers left is decided, but for turns that only a
    /// foreign engine can tell the end of: those engines are asked from now on, and
    /// [`Handle::is_recovering`] says until when. Lanes with work are drained from now on, by
    /// [`Options::drain`].
    pub async fn start(
        store: Arc<dyn Store>,
        engines: Vec<Arc<dyn Engine>>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(store, engines, clock, options));
        let lanes = Lanes::new(Arc::clone(&shared));
        dispatcher::recover(&shared, &lanes).await?;
        shared.undecided.all_found_at_start();
        if let Err(error) = dispatcher::load_undecided(&shared, &lanes).await {
            tracing::warn!(%error, "turns of dead workers are asked about later");
        }
        if shared.options.drain == Drain::All {
            shared.store.end_endless_waits().await?;
        }
        let shutdown = CancellationToken::new();
        let dispatcher = Dispatcher::new(Arc::clone(&shared), Arc::clone(&lanes), shutdown.clone());
        shared.tools.fill(fanout::tools(&shared, &lanes));
        let (shares, runs) = (Arc::clone(&shared), Arc::clone(&lanes));
        let (runner, runner_end) = Runner::new(shares, runs, shutdown.clone());
        tokio::spawn(runner.run());
        if shared.options.drain == Drain::All {
            shared.board.look_at_all();
        }
        Ok(Self {
            dispatcher: tokio::spawn(dispatcher.run()),
            runner: runner_end,
            handle: Handle {
                inner: Arc::new(Inner {
                    shared,
                    lanes,
                    next_subscriber: AtomicU64::new(0),
                }),
            },
            shutdown,
        })
    }

    /// Fan-out jobs.
    pub fn jobs(&self) -> Jobs {
        self.handle.jobs()
    }

    /// The way in; cheap to clone.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The first half of a stop: no new turns; running ones may go on for `grace` and are interrupted
    /// then. When this returns no lane is loaded, and the store still answers, so that whoever is
    /// connected can be told everything before [`Runtime::stop`]. Nothing when it was done before.
    pub async fn end_turns(&self, grace: Duration) {
        self.stop_lanes(stop_how(grace)).await;
    }

    /// As [`Runtime::end_turns`] in haste: running turns are recorded as interrupted within a quarter
    /// of a second, whatever their engines do.
    pub async fn end_turns_now(&self) {
        self.stop_lanes(StopHow::InHaste).await;
    }

    /// Stops all lanes, in an order that leaves no item between its claim and its lane.
    async fn stop_lanes(&self, how: StopHow) {
        self.shutdown.cancel();
        self.runner.quiet().await;
        self.handle.inner.lanes.stop(how).await;
        self.runner.settle().await;
    }

    /// Stops: no new turns; running ones may go on for `grace` and are interrupted then. The store
    /// is closed when this returns.
    pub async fn stop(self, grace: Duration) -> Result<(), Error> {
        self.end(stop_how(grace)).await
    }

    /// Stops in haste: running turns are recorded as interrupted within a quarter of a second,
    /// whatever their engines do, and what they started is killed. The store is closed when this
    /// returns.
    pub async fn stop_now(self) -> Result<(), Error> {
        self.end(StopHow::InHaste).await
    }

    async fn end(self, how: StopHow) -> Result<(), Error> {
        self.stop_lanes(how).await;
        let Inner { shared, lanes, .. } = self.handle.inner.as_ref();
        // It was told to end and does nothing that can fail.
        let _ = self.dispatcher.await;
        if let Some(ephemeral) = lanes.ephemeral.opened() {
            ephemeral.store.close().await?;
        }
        shared.store.close().await?;
        Ok(())
    }
}

fn stop_how(grace: Duration) -> StopHow {
    if grace.is_zero() {
        StopHow::Now
    } else {
        StopHow::After(grace)
    }
}

/// The way into a runtime; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    next_subscriber: AtomicU64,
}

impl Handle {
    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.inner.lanes
    }

    /// What the lane of a thread shares with others.
    pub(crate) fn shared_of(&self, thread: ThreadId) -> Arc<Shared> {
        Arc::clone(self.lanes().shared_of(ids::thread(thread)))
    }

    /// What the lanes of durable threads share, then what those of ephemeral ones do, if any.
    pub(crate) fn all_shared(&self) -> Vec<Arc<Shared>> {
        let ephemeral = self.lanes().ephemeral.opened();
        let all = [Some(&self.inner.shared), ephemeral];
        all.into_iter().flatten().cloned().collect()
    }

    /// The store of durable threads, for reads of lists.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.shared.store
    }

    /// The store that a thread is in, for reads of it.
    pub fn store_of(&self, thread: ThreadId) -> Arc<dyn Store> {
        Arc::clone(&self.shared_of(thread).store)
    }

    /// Makes a stop that is under way a hasty one; returns at once. Turns that still run then go by
    /// the rules of a crash.
    pub fn hurry(&self) {
        self.lanes().hurry();
    }

    /// Ends the grace of a stop that is under way; returns at once. Turns that still run are brought to
    /// a tool boundary and go on with the next worker.
    pub fn end_grace(&self) {
        self.lanes().end_grace();
    }

    /// Fan-out jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs::new(
            Arc::clone(&self.inner.shared),
            Arc::clone(&self.inner.lanes),
        )
    }

    /// Returns true while foreign engines are asked about turns that dead workers had left when this
    /// worker started. The lanes of other threads go on meanwhile.
    pub fn is_recovering(&self) -> bool {
        self.inner.shared.undecided.has_some_from_start()
    }

    /// How many lanes are loaded.
    pub fn loaded(&self) -> usize {
        self.inner.lanes.count()
    }

    /// How many turns failed since the start, by the word for why; only words that have a count.
    pub fn failures(&self) -> Vec<(String, u64)> {
        self.inner.shared.failures.counts()
    }

    /// The tokens that ended turns used since the start, by model; models beyond a bound are `other`.
    pub fn model_tokens(&self) -> Vec<(String, TokenCounts)> {
        self.inner.shared.tokens.counts()
    }

    /// Changes a thread: settings, name, archive. Durable.
    pub async fn change_thread(&self, change: ThreadChange) -> Result<ThreadRow, Error> {
        let thread = ids::wire_thread(change.thread);
        let store = self.store_of(thread);
        let changed = store.change_thread(change).await?;
        self.lanes().wake(ids::thread(thread));
        self.wake_drain(thread, Then::Run);
        Ok(changed.value)
    }

    /// Starts a turn, or what else the request says. The answer means that it is on disk.
    pub async fn start(
        &self,
        thread: ThreadId,
        request: StartRequest,
    ) -> Result<StartAnswer, Error> {
        let (reply, answer) = Reply::channel();
        self.start_with(thread, request, reply).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::start`], with the answer given straight to `reply`.
    pub async fn start_with(
        &self,
        thread: ThreadId,
        request: StartRequest,
        reply: Reply<StartAnswer>,
    ) -> Result<(), Error> {
        let mut request = Box::new(request);
        if request.how == StartHow::OrQueue && self.is_ephemeral(thread) {
            // Nothing ever waits in its queue, so there is nothing to go behind of.
            request.how = StartHow::OrReject;
        }
        let command = Command::Start { request, reply };
        self.lanes().send(ids::thread(thread), command).await
    }

    /// Gives the running turn more input. The answer means that it is on disk.
    pub async fn steer(
        &self,
        thread: ThreadId,
        turn: TurnId,
        input: Vec<UserInput>,
        client_id: Option<String>,
    ) -> Result<TurnId, Error> {
        let (reply, answer) = Reply::channel();
        let steer = SteerRequest {
            turn,
            input,
            client_id,
            caller: CallerRights::Unconfined,
        };
        self.steer_with(thread, steer, reply).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::steer`], with the answer given straight to `reply`.
    pub async fn steer_with(
        &self,
        thread: ThreadId,
        steer: SteerRequest,
        reply: Reply<TurnId>,
    ) -> Result<(), Error> {
        let SteerRequest {
            turn,
            input,
            client_id,
            caller,
        } = steer;
        let command = Command::Steer {
            turn,
            input,
            client_id,
            caller,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await
    }

    /// Stops a turn, or whatever runs. The answer means that its end is on disk.
    pub async fn interrupt(
        &self,
        thread: ThreadId,
        turn: Option<TurnId>,
        queue: AfterInterrupt,
        by: Option<String>,
    ) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        self.interrupt_with(thread, turn, queue, by, reply).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::interrupt`], with the answer given straight to `reply`.
    pub async fn interrupt_with(
        &self,
        thread: ThreadId,
        turn: Option<TurnId>,
        queue: AfterInterrupt,
        by: Option<String>,
        reply: Reply<()>,
    ) -> Result<(), Error> {
        let command = Command::Interrupt {
            turn,
            queue,
            by,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await
    }

    /// Joins a thread: a picture of it, then every notice from its cut on.
    pub async fn subscribe(
        &self,
        thread: ThreadId,
        subscriber: Arc<dyn Subscriber>,
        since: Option<Since>,
    ) -> Result<(SubscriberId, Box<Snapshot>), Error> {
        self.subscribe_then(thread, subscriber, since, None).await
    }

    /// Joins a thread and runs a row of its queue now: the head, or the named one out of order. When
    /// this loads the thread, nothing else of its queue is run before.
    pub async fn subscribe_and_start_row(
        &self,
        thread: ThreadId,
        subscriber: Arc<dyn Subscriber>,
        row: Option<QueuedTurnId>,
    ) -> (
        Result<(SubscriberId, Box<Snapshot>), Error>,
        Result<StartAnswer, Error>,
    ) {
        let (reply, answer) = Reply::channel();
        let start = Some(row_start(row, reply));
        let joined = self.subscribe_then(thread, subscriber, None, start).await;
        (joined, answer.await.unwrap_or(Err(Error::Lost)))
    }

    async fn subscribe_then(
        &self,
        thread: ThreadId,
        subscriber: Arc<dyn Subscriber>,
        since: Option<Since>,
        start: Option<RowStart>,
    ) -> Result<(SubscriberId, Box<Snapshot>), Error> {
        let id = self.new_subscriber();
        let (reply, answer) = Reply::channel();
        let command = Command::Subscribe {
            id,
            subscriber,
            since,
            start,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await?;
        let snapshot = answer.await.unwrap_or(Err(Error::Lost))?;
        Ok((id, snapshot))
    }

    /// Leaves a thread; nothing when it was left before.
    pub async fn unsubscribe(&self, thread: ThreadId, id: SubscriberId) {
        let command = Command::Unsubscribe(id);
        // A lane that is not loaded has no subscribers.
        let _ = self
            .lanes()
            .send_if_loaded(ids::thread(thread), command)
            .await;
    }

    /// Wants to know what all threads are told: status, unloading.
    pub fn watch(&self, subscriber: Arc<dyn Subscriber>) -> SubscriberId {
        let id = self.new_subscriber();
        self.shared().watch(id, subscriber);
        id
    }

    /// Does not want to know any more.
    pub fn unwatch(&self, id: SubscriberId) {
        self.shared().unwatch(id);
    }

    fn new_subscriber(&self) -> SubscriberId {
        SubscriberId(self.inner.next_subscriber.fetch_add(1, Ordering::Relaxed))
    }
}
