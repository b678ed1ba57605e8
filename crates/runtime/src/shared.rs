//! What all lanes of a worker share: store, engines, clock, slots, watchers.
//!
//! The invariant here: nothing in it belongs to one lane, and none of its locks is held across an
//! await.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use turnlane_engine::Engine;
use turnlane_protocol::notification::ServerNotification;
use turnlane_store::recovery::Deciding;
use turnlane_store::{Store, ThreadId};

use crate::clock::Clock;
use crate::engines::Checked;
use crate::failures::Failures;
use crate::fanout::board::Board;
use crate::fanout::import::Imports;
use crate::fanout::worktree::Trees;
use crate::lane::recovery::{self, Histories};
use crate::lane::ring::Remembered;
use crate::model_tokens::ModelTokens;
use crate::notice::{Notice, NoticeBody, Subscriber, SubscriberId};
use crate::options::Options;
use crate::runtime_tools::ToolTable;
use crate::threads::Life;
use crate::undecided::Undecided;

/// What all lanes share.
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    /// Whether what is in the store outlives the threads' being loaded.
    pub life: Life,
    pub engines: Arc<HashMap<String, Arc<dyn Engine>>>,
    pub clock: Arc<dyn Clock>,
    pub options: Options,
    pub slots: Arc<Slots>,
    /// What engines were found able to do.
    pub checked: Arc<Checked>,
    /// Why turns failed.
    pub failures: Arc<Failures>,
    /// What turns used.
    pub tokens: Arc<ModelTokens>,
    /// How much of what was told is kept for those who come back.
    pub remembered: Arc<Remembered>,
    /// Wakes the dispatcher.
    pub work: Notify,
    /// Where the engines have their histories.
    pub histories: Arc<Histories>,
    /// Turns of dead workers that engines are to be asked about.
    pub undecided: Undecided,
    /// The tools that turns are offered.
    pub tools: Arc<ToolTable>,
    /// The fan-out items that run here.
    pub board: Arc<Board>,
    /// The worktrees of fan-out items.
    pub trees: Arc<Trees>,
    /// The imports of fan-out jobs that are under way.
    pub imports: Imports,
    names: Arc<BTreeSet<String>>,
    watchers: Arc<Mutex<HashMap<SubscriberId, Arc<dyn Subscriber>>>>,
    /// The last revision that each loaded lane has seen.
    revisions: Mutex<HashMap<ThreadId, i64>>,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        engines: Vec<Arc<dyn Engine>>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Self {
        let engines: HashMap<_, _> = engines
            .into_iter()
            .map(|engine| (engine.name().to_owned(), engine))
            .collect();
        Self {
            names: Arc::new(engines.keys().cloned().collect()),
            histories: Arc::new(Histories::of(engines.values(), options.max_running)),
            undecided: Undecided::default(),
            slots: Arc::new(Slots::new(options.max_running)),
            imports: Imports::new(Arc::clone(&store), Arc::clone(&clock)),
            trees: Arc::new(Trees::new(
                Arc::clone(&store),
                options.fanout.worktrees.clone(),
            )),
            store,
            life: Life::Durable,
            engines: Arc::new(engines),
            clock,
            options,
            checked: Arc::default(),
            failures: Arc::default(),
            tokens: Arc::default(),
            remembered: Arc::default(),
            work: Notify::new(),
            tools: Arc::default(),
            board: Arc::default(),
            watchers: Arc::default(),
            revisions: Mutex::new(HashMap::new()),
        }
    }

    /// The same for threads that are gone when they are unloaded, in a store of their own.
    pub(crate) fn ephemeral(&self, store: Arc<dyn Store>) -> Self {
        Self {
            imports: Imports::new(Arc::clone(&store), Arc::clone(&self.clock)),
            store,
            life: Life::Ephemeral,
            engines: Arc::clone(&self.engines),
            clock: Arc::clone(&self.clock),
            options: self.options.clone(),
            slots: Arc::clone(&self.slots),
            checked: Arc::clone(&self.checked),
            failures: Arc::clone(&self.failures),
            tokens: Arc::clone(&self.tokens),
            remembered: Arc::clone(&self.remembered),
            work: Notify::new(),
            histories: Arc::clone(&self.histories),
            undecided: Undecided::default(),
            tools: Arc::clone(&self.tools),
            board: Arc::clone(&self.board),
            trees: Arc::clone(&self.trees),
            names: Arc::clone(&self.names),
            watchers: Arc::clone(&self.watchers),
            revisions: Mutex::new(HashMap::new()),
        }
    }

    /// Tells those who want to know about all threads something about one that is not loaded.
    pub(crate) fn announce(
        &self,
        thread: turnlane_protocol::ids::ThreadId,
        said: ServerNotification,
    ) {
        self.tell_watchers(&Arc::new(Notice {
            thread,
            seq: 0,
            at_ms: self.clock.now_ms(),
            body: NoticeBody::Said(Box::new(said)),
        }));
    }

    /// The function that decides about what dead workers left.
    pub(crate) fn deciding(&self, now_ms: i64) -> Deciding {
        let histories = Arc::clone(&self.histories);
        recovery::deciding(histories, self.options.losses_max, now_ms)
    }

    /// The engines of this worker.
    pub(crate) fn engine_names(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.names)
    }

    pub(crate) fn dedupe_window_ms(&self) -> i64 {
        i64::try_from(self.options.dedupe_window.as_millis()).unwrap_or(i64::MAX / 2)
    }

    pub(crate) fn watch(&self, id: SubscriberId, subscriber: Arc<dyn Subscriber>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.insert(id, subscriber);
    }

    pub(crate) fn unwatch(&self, id: SubscriberId) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.remove(&id);
    }

    /// Tells those who want to know about all threads.
    pub(crate) fn tell_watchers(&self, notice: &Arc<Notice>) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for watcher in watchers.values() {
            watcher.tell(notice);
        }
    }

    pub(crate) fn revision_seen(&self, thread: ThreadId, revision: i64) {
        let mut seen = self
            .revisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.insert(thread, revision);
    }

    pub(crate) fn seen_revision(&self, thread: ThreadId) -> Option<i64> {
        let seen = self
            .revisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.get(&thread).copied()
    }

    pub(crate) fn forget_revision(&self, thread: ThreadId) {
        let mut seen = self
            .revisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.remove(&thread);
    }
}

/// How many queued turns run at once; first come, first served.
pub(crate) struct Slots(Arc<Semaphore>);

impl Slots {
    fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))))
    }

    /// A slot, if one is free and nobody waits for it.
    pub(crate) fn try_one(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }

    /// Waits for a slot; never ends when the runtime is gone.
    pub(crate) async fn one(self: Arc<Self>) -> OwnedSemaphorePermit {
        match Arc::clone(&self.0).acquire_owned().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_closed) => std::future::pending().await,
        }
    }
}
