//! The native engine: it runs turns by itself, against any provider of the Responses API, with its
//! own tools on the process service.
//!
//! The invariants here: what a provider or a model sends is input, bounded and never trusted; what a
//! model is sent follows from stored entries and settings alone, so a turn after a restart sends the
//! same bytes as one before it; no value of a key leaves this module other than to the provider it
//! belongs to. Between turns it keeps running commands, one client per provider, and nothing else.
//!
//! Lanes, approvals, hooks and the store are the runtime's business; starting and ending processes is
//! the process service's. Start reading in `turn`.

mod actions;
mod config;
mod danger;
pub mod documents;
pub(crate) mod environment;
pub mod failure;
pub mod history;
mod http;
pub mod instructions;
mod model;
pub mod patch;
pub(crate) mod policy;
pub mod provider;
pub mod redact;
pub mod request;
pub mod retry;
mod rules;
pub(crate) mod sessions;
pub mod sse;
pub mod stream;
mod told;
pub(crate) mod tools;
mod turn;
pub(crate) mod words;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use turnlane_process::ProcessService;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::EngineStatus;

pub use self::config::{ConfigSource, NativeConfig};
use self::model::Models;
use self::rules::RuleCache;
use self::sessions::Sessions;
use self::told::ToldWarnings;
use crate::control::TurnControl;
use crate::engine::{BackgroundTerminal, BoxFuture, Capabilities, Engine, UsageKind};
use crate::outcome::TurnOutcome;
use crate::request::{TurnRequest, TurnSettings};
use crate::sink::Sink;

/// The names of the engine's own tools; a tool of the runtime must have another one.
pub const TOOL_NAMES: [&str; 5] = tools::schema::NAMES;

/// Looks up a variable of the process's environment.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a native engine is made of.
#[derive(Clone)]
pub struct NativeOptions {
    /// Starts and ends commands.
    pub service: ProcessService,
    /// Asked once per turn.
    pub config: Arc<dyn ConfigSource>,
    /// Milliseconds since 1970.
    pub clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// The environment of the process, for keys.
    pub variables: Variables,
    /// Where Turnlane's own files are.
    pub turnlane_home: PathBuf,
    /// Where Codex's files are, if there is such a place.
    pub codex_home: Option<PathBuf>,
}

/// The engine `native`. Cheap to clone, all clones are one.
#[derive(Clone)]
pub struct Native {
    shared: Arc<Shared>,
}

/// What the turns of an engine share.
pub(crate) struct Shared {
    service: ProcessService,
    config: Arc<dyn ConfigSource>,
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    variables: Variables,
    turnlane_home: PathBuf,
    codex_home: Option<PathBuf>,
    rules: RuleCache,
    told: ToldWarnings,
    models: Models,
    sessions: Sessions,
    /// Places of turns that are being prepared.
    preparing: Semaphore,
}

impl Native {
    /// An engine that has done nothing yet; connections are made by the first turn.
    pub fn new(options: NativeOptions) -> Self {
        let shared = Shared {
            service: options.service,
            config: options.config,
            clock: options.clock,
            variables: options.variables,
            turnlane_home: options.turnlane_home,
            codex_home: options.codex_home,
            rules: RuleCache::default(),
            told: ToldWarnings::default(),
            models: Models::new(),
            sessions: Sessions::default(),
            preparing: Semaphore::new(turn::PREPARED_AT_ONCE),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Loads the rules about commands that hold in this directory; without one, those that hold
    /// everywhere. An error is the text that a turn there would fail with. Reads the disk.
    pub fn check_rules(&self, cwd: Option<&str>) -> Result<(), String> {
        // A configuration that cannot be read is told by the turn itself.
        let Ok(config) = self.shared.config.current() else {
            return Ok(());
        };
        let loaded = turn::rules(&self.shared, &config, cwd);
        loaded.map(drop).map_err(|error| error.message)
    }

    /// The files of instructions that a turn in this directory is given, the widest first; none while
    /// the configuration cannot be read. Reads the disk.
    pub fn instruction_sources(&self, cwd: &str) -> Vec<PathBuf> {
        let Ok(config) = self.shared.config.current() else {
            return Vec::new();
        };
        let Ok(settings) = config::documents_of(&config, cwd) else {
            return Vec::new();
        };
        let found = documents::read(&turn::places(&self.shared, &settings, cwd));
        found
            .documents
            .into_iter()
            .map(|document| document.path)
            .collect()
    }
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native").finish_non_exhaustive()
    }
}

impl Engine for Native {
    fn login_file(&self) -> Option<PathBuf> {
        self.shared.config.key_file()
    }

    fn name(&self) -> &'static str {
        "native"
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
            fork: true,
            compact: true,
            revert: true,
            foreign: false,
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

    fn check<'a>(&'a self, settings: &'a TurnSettings) -> BoxFuture<'a, EngineStatus> {
        let (shared, settings) = (Arc::clone(&self.shared), settings.clone());
        Box::pin(async move {
            let checked = tokio::task::spawn_blocking(move || turn::check(&shared, &settings));
            let reason = match checked.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.message),
                Err(_lost) => Some("the check did not end".to_owned()),
            };
            EngineStatus {
                ok: reason.is_none(),
                reason,
            }
        })
    }

    fn background(&self, thread: ThreadId) -> BoxFuture<'_, Vec<BackgroundTerminal>> {
        Box::pin(async move { self.shared.sessions.background(thread) })
    }

    fn end_background(&self, thread: ThreadId, process_id: Option<String>) -> BoxFuture<'_, usize> {
        Box::pin(self.shared.sessions.end(thread, process_id))
    }

    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.sessions.close(thread))
    }
}
