//! A runtime on a database of its own, an engine that plays a script, and somebody who listens.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use turnlane_engine::Engine;
use turnlane_engine::scripted::{AbortSteps, Gates, Script, Scripted};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::notification::{DeltaKind, ServerNotification};
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_runtime::{
    AddTurn, Bound, CreateThread, Handle, ManualClock, Notice, NoticeBody, Options, Runtime,
    Settings, StartHow, StartRequest, Subscriber, SubscriberId, this_worker,
};
use turnlane_store::Store;
use turnlane_store::queue::{QueueFrom, QueuePage, QueueQuery};
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::thread::Direction;
use turnlane_store::turn::{ItemQuery, ItemRow, TurnQuery, TurnRow};
use turnlane_testkit::wait::{DEADLINE, eventually};

/// The time at which tests begin.
pub(crate) const NOW_MS: i64 = 1_800_000_000_000;

/// A database that vanishes.
pub(crate) struct Home {
    folder: TempDir,
    pub(crate) clock: ManualClock,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: ManualClock::at(NOW_MS),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("turnlane.db")
    }

    /// One more open store on the database: another worker.
    pub(crate) fn store(&self) -> Arc<SqliteStore> {
        open(&self.database(), &self.clock)
    }

    /// A runtime with this script and the usual options.
    pub(crate) async fn start(&self, script: &str) -> World {
        self.start_with(script, Options::default()).await
    }

    pub(crate) async fn start_with(&self, script: &str, options: Options) -> World {
        let engine = scripted(script, &self.clock);
        let gates = engine.gates();
        let world = self.start_engine(Arc::new(engine), options).await;
        World { gates, ..world }
    }

    /// A runtime of another worker, whose clock is its own.
    pub(crate) async fn start_other(&self, script: &str, clock: &ManualClock) -> World {
        let engine = scripted(script, clock);
        let gates = engine.gates();
        let store: Arc<dyn Store> = open(&self.database(), clock);
        let clock = Arc::new(clock.clone());
        let runtime = Runtime::start(store, vec![Arc::new(engine)], clock, Options::default())
            .await
            .unwrap();
        World {
            handle: runtime.handle(),
            runtime,
            gates,
        }
    }

    pub(crate) async fn start_engine(&self, engine: Arc<dyn Engine>, options: Options) -> World {
        let store = self.store();
        let clock = Arc::new(self.clock.clone());
        let store: Arc<dyn Store> = store;
        let runtime = Runtime::start(store, vec![engine], clock, options)
            .await
            .unwrap();
        World {
            handle: runtime.handle(),
            runtime,
            gates: Gates::default(),
        }
    }
}

pub(crate) fn open(path: &Path, clock: &ManualClock) -> Arc<SqliteStore> {
    let options = turnlane_store::sqlite::Options::new(path, this_worker("test", clock));
    Arc::new(SqliteStore::open(options).unwrap())
}

pub(crate) fn scripted(script: &str, clock: &ManualClock) -> Scripted {
    let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
    let clock = clock.clone();
    let now = move || turnlane_runtime::Clock::now_ms(&clock);
    Scripted::new(script, Arc::new(now))
}

/// A runtime that has started.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) handle: Handle,
    pub(crate) gates: Gates,
}

impl World {
    pub(crate) async fn thread(&self) -> ThreadId {
        let create = CreateThread::new("scripted", settings());
        let row = self.handle.create_thread(create).await.unwrap();
        ThreadId::from_uuid(row.id.as_uuid())
    }

    /// Adds a turn with the usual policies; its row.
    pub(crate) async fn add(&self, thread: ThreadId, text: &str) -> turnlane_store::queue::Row {
        self.add_with(thread, AddTurn::new(params(text))).await
    }

    pub(crate) async fn add_with(
        &self,
        thread: ThreadId,
        add: AddTurn,
    ) -> turnlane_store::queue::Row {
        match self.handle.add(thread, add).await.unwrap() {
            turnlane_store::queue::Appended::New(row) => row,
            turnlane_store::queue::Appended::Repeated(repeated) => repeated.row,
        }
    }

    pub(crate) async fn listen(&self, thread: ThreadId) -> (SubscriberId, Arc<Ear>) {
        let ear = Arc::new(Ear::default());
        let subscriber: Arc<dyn Subscriber> = Arc::clone(&ear) as _;
        let (id, _) = self
            .handle
            .subscribe(thread, subscriber, None)
            .await
            .unwrap();
        (id, ear)
    }

    pub(crate) async fn queue(&self, thread: ThreadId) -> QueuePage {
        self.handle.queue(queue_query(thread)).await.unwrap()
    }

    pub(crate) async fn turns(&self, thread: ThreadId) -> Vec<TurnRow> {
        turns(self.handle.store().as_ref(), thread).await
    }

    pub(crate) async fn items(&self, thread: ThreadId) -> Vec<ItemRow> {
        items(self.handle.store().as_ref(), thread).await
    }

    /// Waits until so many turns of the thread have ended and none runs.
    pub(crate) async fn ended(&self, thread: ThreadId, count: usize) -> Vec<TurnRow> {
        let what = format!("{count} turns that have ended");
        eventually(&what, DEADLINE, async || {
            let turns = self.turns(thread).await;
            turns.len() >= count && turns.iter().all(|turn| turn.completed_ms.is_some())
        })
        .await
        .unwrap();
        self.turns(thread).await
    }
}

pub(crate) fn queue_query(thread: ThreadId) -> QueueQuery {
    QueueQuery {
        thread: thread.as_uuid().into(),
        from: QueueFrom::Head,
        limit: 100,
    }
}

pub(crate) async fn turns(store: &dyn Store, thread: ThreadId) -> Vec<TurnRow> {
    let query = TurnQuery {
        thread: thread.as_uuid().into(),
        after_ord: None,
        direction: Direction::Ascending,
        limit: 100_000,
    };
    store.turns(query).await.unwrap().rows
}

pub(crate) async fn items(store: &dyn Store, thread: ThreadId) -> Vec<ItemRow> {
    let query = ItemQuery {
        thread: thread.as_uuid().into(),
        turn_ord: None,
        after_ord: None,
        direction: Direction::Ascending,
        limit: 100_000,
    };
    store.items(query).await.unwrap().rows
}

pub(crate) fn settings() -> Settings {
    Settings {
        model: "none".to_owned(),
        provider: "nobody".to_owned(),
        cwd: "/".to_owned(),
        runtime_workspace_roots: Vec::new(),
        config: serde_json::Map::new(),
        approval_policy: ApprovalPolicy::OnRequest,
        approvals_reviewer: None,
        permission_profile: None,
        sandbox_policy: SandboxPolicy::DangerFullAccess,
        effort: None,
        summary: None,
        personality: None,
        service_tier: None,
        base_instructions: None,
        developer_instructions: None,
    }
}

pub(crate) fn params(text: &str) -> TurnStartParams {
    TurnStartParams {
        input: vec![UserInput::text(text)],
        ..TurnStartParams::default()
    }
}

pub(crate) fn start(text: &str, how: StartHow) -> StartRequest {
    StartRequest {
        params: params(text),
        how,
        key: None,
        bound: Bound::No,
    }
}

/// Somebody who listens and writes down what is told.
#[derive(Default)]
pub(crate) struct Ear {
    notices: Mutex<Vec<Arc<Notice>>>,
}

impl Subscriber for Ear {
    fn tell(&self, notice: &Arc<Notice>) {
        self.notices.lock().unwrap().push(Arc::clone(notice));
    }
}

impl Ear {
    pub(crate) fn notices(&self) -> Vec<Arc<Notice>> {
        self.notices.lock().unwrap().clone()
    }

    /// What was told, one word each; deltas joined.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for notice in self.notices() {
            let word = word(&notice);
            if word.starts_with("delta") && words.last().is_some_and(|last| *last == word) {
                continue;
            }
            words.push(word);
        }
        words
    }

    /// Waits until a word was told so often.
    pub(crate) async fn hears(&self, word: &str, times: usize) {
        let heard = eventually(word, DEADLINE, async || {
            self.words().iter().filter(|told| *told == word).count() >= times
        })
        .await;
        assert!(
            heard.is_ok(),
            "{word} was not told {times} times: {:#?}",
            self.words()
        );
    }

    /// The text of all deltas of messages, joined.
    pub(crate) fn said(&self) -> String {
        let mut text = String::new();
        for notice in self.notices() {
            if let NoticeBody::Delta {
                kind: DeltaKind::AgentMessage,
                text: more,
                ..
            } = &notice.body
            {
                text.push_str(more);
            }
        }
        text
    }
}

fn word(notice: &Notice) -> String {
    match &notice.body {
        NoticeBody::Delta { kind, .. } => format!("delta {kind:?}"),
        NoticeBody::Queue(page) => {
            let held = match (&page.lane.paused, &page.lane.waiting) {
                (Some(_), _) => " paused",
                (None, Some(_)) => " waiting",
                (None, None) => "",
            };
            format!("queue {}{held}", page.rows.len())
        }
        NoticeBody::Settings(settings) => format!("settings {}", settings.model),
        NoticeBody::ApprovalRequested(_) => "approval requested".to_owned(),
        NoticeBody::ApprovalResolved { decision, .. } => format!("approval {decision:?}"),
        NoticeBody::Said(said) => match said.as_ref() {
            ServerNotification::ThreadStatusChanged(changed) => match &changed.status {
                ThreadStatus::Active { active_flags } if active_flags.is_empty() => {
                    "status active".to_owned()
                }
                ThreadStatus::Active { .. } => "status waits".to_owned(),
                ThreadStatus::Idle => "status idle".to_owned(),
                ThreadStatus::SystemError => "status error".to_owned(),
                ThreadStatus::NotLoaded => "status notLoaded".to_owned(),
            },
            ServerNotification::ItemStarted(started) => {
                format!("started {}", started.item.type_word())
            }
            ServerNotification::ItemCompleted(completed) => {
                format!("completed {}", completed.item.type_word())
            }
            ServerNotification::TurnCompleted(completed) => {
                format!("turn {:?}", completed.turn.status)
            }
            other => other.method().to_owned(),
        },
    }
}
