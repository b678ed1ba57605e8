//! A runtime: the worker's lanes and what finds work for them, behind one handle.
//!
//! The invariant here: a runtime that has started has decided about everything that dead workers
//! left, and one that has stopped has no task, no running engine and no lane left.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turnlane_engine::Engine;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ApprovalId, ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::notification::Decider;
use turnlane_store::Store;
use turnlane_store::thread::{Listed, NewThread, ThreadChange, ThreadRow};

use crate::clock::Clock;
use crate::dispatcher::{self, Dispatcher};
use crate::error::Error;
use crate::ids;
use crate::lane::command::{Command, Reply, StartAnswer, StartRequest};
use crate::lane::event::{AfterInterrupt, StopHow};
use crate::lane::rows;
use crate::lane::subscribers::{Since, Snapshot};
use crate::lanes::Lanes;
use crate::notice::{Subscriber, SubscriberId};
use crate::options::{Drain, Options};
use crate::settings::Settings;
use crate::shared::Shared;

/// A runtime that has started.
pub struct Runtime {
    handle: Handle,
    dispatcher: JoinHandle<()>,
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
        }
    }
}

impl Runtime {
    /// Starts a runtime on an open store.
    ///
    /// When this returns, everything that dead workers left is decided. Lanes with work are drained
    /// from now on, by [`Options::drain`].
    pub async fn start(
        store: Arc<dyn Store>,
        engines: Vec<Arc<dyn Engine>>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(store, engines, clock, options));
        let lanes = Lanes::new(Arc::clone(&shared));
        dispatcher::recover(&shared, &lanes).await?;
        if shared.options.drain == Drain::All {
            shared.store.end_endless_waits().await?;
        }
        let shutdown = CancellationToken::new();
        let dispatcher = Dispatcher::new(Arc::clone(&shared), Arc::clone(&lanes), shutdown.clone());
        Ok(Self {
            dispatcher: tokio::spawn(dispatcher.run()),
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

    /// The way in; cheap to clone.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops: no new turns; running ones may go on for `grace` and are interrupted then. The store
    /// is closed when this returns.
    pub async fn stop(self, grace: Duration) -> Result<(), Error> {
        self.shutdown.cancel();
        let how = if grace.is_zero() {
            StopHow::Now
        } else {
            StopHow::After(grace)
        };
        self.handle.inner.lanes.stop(how).await;
        // It was told to end and does nothing that can fail.
        let _ = self.dispatcher.await;
        self.handle.inner.shared.store.close().await?;
        Ok(())
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

    /// The store, for reads.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.shared.store
    }

    /// How many lanes are loaded.
    pub fn loaded(&self) -> usize {
        self.inner.lanes.count()
    }

    /// Makes a thread with an empty lane. Durable.
    pub async fn create_thread(&self, create: CreateThread) -> Result<ThreadRow, Error> {
        let now_ms = self.shared().clock.now_ms();
        let id = ThreadId::new(u64::try_from(now_ms).unwrap_or(0));
        let thread = NewThread {
            id: ids::thread(id),
            engine: create.engine,
            cwd: create.settings.cwd.clone(),
            provider: create.settings.provider.clone(),
            settings: rows::write(&create.settings),
            facts: rows::write(&create.facts),
            name: create.name,
            source: create.source,
            parent: create.parent.map(ids::thread),
            binding: create.binding,
            listed: Listed::FromFirstTurn,
            max_depth: create.max_depth,
            at_ms: now_ms,
        };
        Ok(self.store().create_thread(thread).await?)
    }

    /// Changes a thread: settings, name, archive. Durable.
    pub async fn change_thread(&self, change: ThreadChange) -> Result<ThreadRow, Error> {
        let thread = ids::wire_thread(change.thread);
        let changed = self.store().change_thread(change).await?;
        self.lanes().wake(ids::thread(thread));
        self.wake_drain(thread);
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
        let request = Box::new(request);
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
        let command = Command::Steer {
            turn,
            input,
            client_id,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await?;
        answer.await.unwrap_or(Err(Error::Lost))
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
        let command = Command::Interrupt {
            turn,
            queue,
            by,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// Decides an approval of a running turn. The first decision counts.
    pub async fn decide(
        &self,
        thread: ThreadId,
        approval: ApprovalId,
        decision: Decision,
        reason: Option<String>,
    ) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        let command = Command::Decide {
            approval,
            decision,
            by: Decider::Client,
            reason,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// Joins a thread: a picture of it, then every notice from its cut on.
    pub async fn subscribe(
        &self,
        thread: ThreadId,
        subscriber: Arc<dyn Subscriber>,
        since: Option<Since>,
    ) -> Result<(SubscriberId, Box<Snapshot>), Error> {
        let id = self.new_subscriber();
        let (reply, answer) = Reply::channel();
        let command = Command::Subscribe {
            id,
            subscriber,
            since,
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
