//! The engine `codex`: the real Codex as a child, spoken to by its own app-server protocol.
//!
//! The invariants here: one child serves all threads of a worker, and a thread that misbehaves costs no
//! other thread more than a restart; the conversation is Codex's, so what we keep of a thread is its id;
//! every request of ours and every question of Codex's is answered exactly once.
//!
//! Lanes, approvals and the store are the runtime's business. How the program is found and started is in
//! `codex_program`. Start reading in `turn`; the child's life is in `supervisor`.
//!
//! A turn that a graceful stop cut goes on by an empty `turn/start`: Codex's own history has the cut
//! turn, and Codex 0.166 asks its model with that history alone.

mod connection;
mod errors;
mod history;
mod items;
mod launch;
mod params;
mod reconcile;
mod routes;
mod supervisor;
#[cfg(test)]
mod tests;
mod threads;
mod turn;
mod usage;
mod version;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use turnlane_protocol::ids::{ItemId, ThreadId};
use turnlane_protocol::method::EngineStatus;

pub use history::{HistoryError, RecordedStatus, TurnRecord};
pub use launch::LaunchError;

use self::launch::{Launcher, ProgramLauncher};
use self::supervisor::{Handle, Options};
use self::threads::OpenThreads;
use crate::codex_program::{self, CodexProgram};
use crate::control::TurnControl;
use crate::engine::{BackgroundTerminal, BoxFuture, Capabilities, Engine, Reconciled, UsageKind};
use crate::outcome::TurnOutcome;
use crate::request::{TurnRequest, TurnSettings};
use crate::scripted::Clock;
use crate::sink::Sink;

/// How long a check waits for a child.
const CHECK_LIMIT: Duration = Duration::from_secs(30);
/// Pages of background terminals that are read at most.
const TERMINAL_PAGES_MAX: usize = 10;

/// The app-server children of a worker. Cheap to clone, all clones share the children; no child is
/// started before one is needed.
#[derive(Clone)]
pub struct AppServers {
    handles: Arc<[Handle]>,
    /// None for children of tests.
    program: Option<CodexProgram>,
}

impl AppServers {
    /// At most `children` children of `program`; at least one.
    pub fn new(program: CodexProgram, children: usize, clock: Clock) -> Self {
        let launcher = Arc::new(ProgramLauncher::new(program.clone()));
        Self {
            program: Some(program),
            ..Self::launched_by(launcher, children, clock)
        }
    }

    fn launched_by(launcher: Arc<dyn Launcher>, children: usize, clock: Clock) -> Self {
        let options = Options { launcher, clock };
        let handles = (0..children.max(1)).map(|_| Handle::new(options.clone()));
        Self {
            handles: handles.collect(),
            program: None,
        }
    }

    /// The turns of a thread that began at `since_s` (seconds since 1970) or later, the newest first, and
    /// those whose begin is not known. `thread` is Codex's id.
    ///
    /// Reads through a shared child, which is started if there is none, and changes nothing. Tries three
    /// times within 30 seconds.
    pub async fn turns(&self, thread: &str, since_s: i64) -> Result<Vec<TurnRecord>, HistoryError> {
        history::read_turns(self, thread, since_s).await
    }

    /// Ends the children in order and starts none from then on. Called when no turn runs any more.
    pub async fn stop(&self) {
        for handle in &*self.handles {
            handle.stop().await;
        }
    }

    fn handle_for(&self, thread: ThreadId) -> Handle {
        self.handle_by(&thread.to_string())
    }

    /// A child to ask about a thread that Codex names.
    fn handle_of(&self, codex_thread: &str) -> Handle {
        self.handle_by(codex_thread)
    }

    /// A thread keeps its child as long as the worker lives.
    fn handle_by(&self, name: &str) -> Handle {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let count = self.handles.len() as u64;
        let index = usize::try_from(hasher.finish() % count).unwrap_or_default();
        self.handles[index].clone()
    }
}

impl std::fmt::Debug for AppServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppServers")
            .field("children", &self.handles.len())
            .finish_non_exhaustive()
    }
}

/// What the engine is made of.
#[derive(Clone)]
pub struct CodexOptions {
    /// Runs the turns.
    pub servers: AppServers,
    /// Milliseconds since 1970.
    pub clock: Clock,
}

/// The engine `codex`. Cheap to clone, all clones are one.
#[derive(Clone)]
pub struct Codex {
    shared: Arc<Shared>,
}

impl Codex {
    /// Why the login does not allow a turn with these settings.
    async fn missing_login(&self, settings: &TurnSettings) -> Option<String> {
        let program = self.shared.servers.program.clone()?;
        let settings = settings.clone();
        let checking =
            tokio::task::spawn_blocking(move || codex_program::check_login(&program, &settings));
        // A task that was cancelled has found nothing.
        let checked = checking.await.ok()?;
        checked.err().map(|error| error.message)
    }
}

/// What the turns of the engine share.
struct Shared {
    servers: AppServers,
    clock: Clock,
    threads: OpenThreads,
}

impl Codex {
    /// An engine that has started no child.
    pub fn new(options: CodexOptions) -> Self {
        let shared = Shared {
            servers: options.servers,
            clock: options.clock,
            threads: OpenThreads::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl std::fmt::Debug for Codex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codex").finish_non_exhaustive()
    }
}

impl Engine for Codex {
    fn login_file(&self) -> Option<PathBuf> {
        self.shared.servers.program.as_ref()?.login_file()
    }

    fn name(&self) -> &'static str {
        "codex"
    }

    fn continues(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: true,
            steer: true,
            deltas: true,
            resume: true,
            fork: false,
            compact: true,
            revert: false,
            foreign: true,
            usage: UsageKind::Turn,
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        Box::pin(turn::run(
            Arc::clone(&self.shared),
            request,
            events,
            control,
        ))
    }

    fn reconcile(&self, request: TurnRequest) -> BoxFuture<'_, Reconciled> {
        Box::pin(reconcile::after_worker(&self.shared, request))
    }

    fn check<'a>(&'a self, settings: &'a TurnSettings) -> BoxFuture<'a, EngineStatus> {
        Box::pin(async {
            let handle = self.shared.servers.handle_by("");
            let _lease = handle.lease();
            let reason = match timeout(CHECK_LIMIT, handle.connection()).await {
                Ok(Ok(_connection)) => self.missing_login(settings).await,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_elapsed) => Some("the app-server of Codex did not answer".to_owned()),
            };
            EngineStatus {
                ok: reason.is_none(),
                reason,
            }
        })
    }

    fn background(&self, thread: ThreadId) -> BoxFuture<'_, Vec<BackgroundTerminal>> {
        Box::pin(async move { self.shared.terminals(thread).await })
    }

    fn end_background(&self, thread: ThreadId, process_id: Option<String>) -> BoxFuture<'_, usize> {
        Box::pin(async move { self.shared.end_terminals(thread, process_id).await })
    }

    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.shared.close(thread).await })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminals {
    data: Vec<Terminal>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminal {
    item_id: ItemId,
    process_id: String,
    command: String,
    cwd: String,
}

impl Shared {
    /// What earlier turns left running; nothing when the child that ran it is gone.
    async fn terminals(&self, thread: ThreadId) -> Vec<BackgroundTerminal> {
        let mut terminals = Vec::new();
        let Some(address) = self.threads.address(thread) else {
            return terminals;
        };
        let Some(connection) = address.handle.current() else {
            return terminals;
        };
        let mut cursor = Value::Null;
        for _page in 0..TERMINAL_PAGES_MAX {
            let params = json!({"threadId": address.codex_id, "cursor": cursor});
            let page = connection.call::<Terminals>("thread/backgroundTerminals/list", &params);
            let Ok(page) = page.await else {
                break;
            };
            terminals.extend(page.data.into_iter().map(|terminal| BackgroundTerminal {
                item_id: self.threads.item(thread, &terminal.item_id),
                process_id: terminal.process_id,
                command: terminal.command,
                cwd: terminal.cwd,
            }));
            match page.next_cursor {
                Some(next) => cursor = Value::String(next),
                None => break,
            }
        }
        terminals
    }

    async fn end_terminals(&self, thread: ThreadId, process_id: Option<String>) -> usize {
        #[derive(Deserialize)]
        struct Terminated {
            terminated: bool,
        }
        let ids: Vec<String> = if let Some(id) = process_id {
            vec![id]
        } else {
            let terminals = self.terminals(thread).await.into_iter();
            terminals.map(|terminal| terminal.process_id).collect()
        };
        let Some(address) = self.threads.address(thread) else {
            return 0;
        };
        let Some(connection) = address.handle.current() else {
            return 0;
        };
        let mut ended = 0;
        for id in ids {
            let params = json!({"threadId": address.codex_id, "processId": id});
            let call =
                connection.call::<Terminated>("thread/backgroundTerminals/terminate", &params);
            ended += usize::from(call.await.is_ok_and(|answer| answer.terminated));
        }
        ended
    }

    /// Ends what the thread still runs and gives its lease back.
    async fn close(&self, thread: ThreadId) {
        let address = self.threads.address(thread);
        let lease = self.threads.close(thread);
        if let Some(address) = address
            && let Some(connection) = address.handle.current()
            && connection.set_unloaded(&address.codex_id)
        {
            connection.clean(&address.codex_id).await;
            let params = json!({"threadId": address.codex_id});
            if let Err(why) = connection.ask("thread/unsubscribe", &params).await {
                tracing::debug!(error = %why, "Codex did not unload a thread");
            }
        }
        drop(lease);
    }
}
