//! A whole runtime on a store in a folder that vanishes, with an engine that answers at once.
//!
//! The invariant here: nothing but the lanes is measured; a turn is one short message of the
//! scripted engine, and a listener does next to nothing with what it is told.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use turnlane_engine::Engine;
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::notification::ServerNotification;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_runtime::{
    AddTurn, Clock, CreateThread, Handle, Notice, NoticeBody, Options, Runtime, Settings,
    Subscriber, SystemClock,
};
use turnlane_store::Store;

use crate::now;
use crate::ours::open;

const SCRIPT: &str = "version: 1\nfallback: {say: \"You said: {input}\"}\n";
const TEXT: &str = "Please run the tests and tell me what fails.";
/// How many calls are under way at once where it does not matter.
const AT_ONCE: usize = 512;

/// Starts a runtime on a database in this folder.
pub(crate) async fn start(folder: &Path) -> anyhow::Result<Runtime> {
    let script = Script::parse("bench.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| SystemClock.now_ms()));
    let engines: Vec<Arc<dyn Engine>> = vec![Arc::new(engine)];
    let store: Arc<dyn Store> = open(folder)?;
    let clock = Arc::new(SystemClock);
    Ok(Runtime::start(store, engines, clock, Options::default()).await?)
}

/// Makes so many threads.
pub(crate) async fn threads(handle: &Handle, count: usize) -> anyhow::Result<Vec<ThreadId>> {
    let mut made = Vec::with_capacity(count);
    while made.len() < count {
        let mut tasks = JoinSet::new();
        for _ in 0..AT_ONCE.min(count - made.len()) {
            let handle = handle.clone();
            let create = CreateThread {
                max_depth: u32::MAX,
                ..CreateThread::new("scripted", settings())
            };
            tasks.spawn(async move { handle.create_thread(create).await });
        }
        for row in tasks.join_all().await {
            made.push(ThreadId::from_uuid(row?.id.as_uuid()));
        }
    }
    Ok(made)
}

/// Adds a turn to each of these, many at a time.
pub(crate) async fn add(
    handle: &Handle,
    threads: impl Iterator<Item = ThreadId>,
) -> anyhow::Result<()> {
    let mut threads = threads.peekable();
    while threads.peek().is_some() {
        let mut tasks = JoinSet::new();
        for thread in threads.by_ref().take(AT_ONCE) {
            let handle = handle.clone();
            tasks.spawn(async move { handle.add(thread, turn()).await });
        }
        for added in tasks.join_all().await {
            added?;
        }
    }
    Ok(())
}

/// A short message.
pub(crate) fn turn() -> AddTurn {
    AddTurn::new(TurnStartParams {
        input: vec![UserInput::text(TEXT)],
        ..TurnStartParams::default()
    })
}

fn settings() -> Settings {
    Settings {
        model: "none".to_owned(),
        provider: "nobody".to_owned(),
        cwd: "/".to_owned(),
        runtime_workspace_roots: Vec::new(),
        config: serde_json::Map::new(),
        approval_policy: ApprovalPolicy::OnRequest,
        approvals_reviewer: None,
        sandbox_policy: SandboxPolicy::DangerFullAccess,
        permission_profile: None,
        effort: None,
        summary: None,
        personality: None,
        service_tier: None,
        base_instructions: None,
        developer_instructions: None,
    }
}

/// Counts the turns that have ended, and knows when the last one began.
#[derive(Default)]
pub(crate) struct Ear {
    ended: AtomicUsize,
    began: Mutex<Option<Instant>>,
    told: Notify,
}

impl Subscriber for Ear {
    fn tell(&self, notice: &Arc<Notice>) {
        let NoticeBody::Said(said) = &notice.body else {
            return;
        };
        match said.as_ref() {
            ServerNotification::TurnStarted(_) => {
                *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
            }
            ServerNotification::TurnCompleted(_) => {
                self.ended.fetch_add(1, Ordering::Relaxed);
                self.told.notify_one();
            }
            _ => {}
        }
    }
}

impl Ear {
    /// When the last turn began that was told of; only once.
    pub(crate) fn began(&self) -> Option<Instant> {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.take()
    }

    /// Waits until so many turns have ended since the last call.
    pub(crate) async fn ended(&self, count: usize) {
        while self.ended.load(Ordering::Relaxed) < count {
            self.told.notified().await;
        }
        self.ended.fetch_sub(count, Ordering::Relaxed);
    }
}
