//! The engine `codex-exec`: one `codex exec --json` process of the real Codex per turn.
//!
//! Codex holds the conversation; this engine keeps nothing between turns but the id of Codex's thread
//! and its token total, in the thread's engine state. The invariants: a turn is run by Codex at most
//! once per call of `run_turn`; what cannot be known about it is told as unknown; and nothing that the
//! child started outlives the turn.
//!
//! `command` makes the command line, `child` runs the process, `transcript` reads its events,
//! `outcome` decides how the turn ended, and `texts` knows Codex's error texts. Codex sandboxes its
//! commands itself; the process service contains the whole tree.

mod child;
mod command;
mod files;
mod items;
mod lines;
mod outcome;
mod read_back;
mod reconcile;
mod replay;
pub(crate) mod texts;
mod transcript;
mod usage;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::method::EngineStatus;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

pub use reconcile::{HistoryError, HistoryReader, PastTurn, PastTurnStatus};
pub use replay::Replay;

use self::child::Child;
use self::command::ExecCommand;
use self::texts::reset::ChildZone;
use crate::codex_program::{CodexProgram, CodexProgramError, CodexThreadState};
use crate::control::TurnControl;
use crate::engine::{BoxFuture, Capabilities, Engine, Reconciled, UsageKind};
use crate::event::Event;
use crate::outcome::{Accepted, EngineError, TurnOutcome};
use crate::request::{TurnKind, TurnRequest, TurnSettings};
use crate::said::Fenced;
use crate::sink::Sink;

/// The name of the engine.
pub const NAME: &str = "codex-exec";

/// Settings of the engine.
#[derive(Clone)]
pub struct CodexExecOptions {
    /// The Codex program, shared with the engine `codex`.
    pub program: CodexProgram,
    /// `engine.codex-exec.bypass`: turns with full access run with
    /// `--dangerously-bypass-approvals-and-sandbox`.
    pub bypass: bool,
    /// Milliseconds since 1970.
    pub clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Time limits.
    pub limits: CodexExecLimits,
    /// Reads Codex's history after the death of a worker; without it such turns stay unknown.
    pub history: Option<Arc<dyn HistoryReader>>,
    /// The directory for temporary files.
    pub temporary: PathBuf,
}

/// Time limits of a turn; zero switches the first two off.
#[derive(Clone, Debug)]
pub struct CodexExecLimits {
    /// Time until the first event; the child is ended then.
    pub first_event: Duration,
    /// Time without progress after which a warning is told, once.
    pub silence: Duration,
    /// Waits between tries while another process writes to the thread.
    pub busy_waits: Vec<Duration>,
}

impl Default for CodexExecLimits {
    fn default() -> Self {
        Self {
            first_event: Duration::from_mins(1),
            silence: Duration::from_mins(10),
            busy_waits: [1, 2, 5, 10, 30].map(Duration::from_secs).into(),
        }
    }
}

/// The engine `codex-exec`. Cheap to clone.
#[derive(Clone)]
pub struct CodexExec {
    shared: Arc<Shared>,
}

/// Settings that the turns share.
pub(crate) struct Shared {
    program: CodexProgram,
    bypass: bool,
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    limits: CodexExecLimits,
    history: Option<Arc<dyn HistoryReader>>,
    temporary: PathBuf,
}

impl CodexExec {
    /// An engine; nothing is started before its first turn.
    pub fn new(options: CodexExecOptions) -> Self {
        let shared = Shared {
            program: options.program,
            bypass: options.bypass,
            clock: options.clock,
            limits: options.limits,
            history: options.history,
            temporary: options.temporary,
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl std::fmt::Debug for CodexExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexExec").finish_non_exhaustive()
    }
}

impl Engine for CodexExec {
    fn login_file(&self) -> Option<PathBuf> {
        self.shared.program.login_file()
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn continues(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: false,
            steer: false,
            deltas: false,
            resume: true,
            fork: false,
            compact: false,
            revert: false,
            foreign: true,
            // Codex tells totals; the engine tells the growth of each turn.
            usage: UsageKind::Turn,
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let outcome = run(&shared, request, &events, &control).await;
            // The lane is gone or has another owner. It does not listen to this outcome.
            outcome.unwrap_or_else(|Fenced| TurnOutcome {
                accepted: Accepted::Unknown,
                ..TurnOutcome::interrupted()
            })
        })
    }

    fn reconcile(&self, request: TurnRequest) -> BoxFuture<'_, Reconciled> {
        Box::pin(async move { self.shared.reconcile(&request).await })
    }

    fn check<'a>(&'a self, settings: &'a TurnSettings) -> BoxFuture<'a, EngineStatus> {
        Box::pin(async move {
            match self.shared.check(settings).await {
                Ok(()) => EngineStatus {
                    ok: true,
                    reason: None,
                },
                Err(error) => EngineStatus {
                    ok: false,
                    reason: Some(error.message),
                },
            }
        })
    }
}

async fn run(
    shared: &Arc<Shared>,
    request: TurnRequest,
    sink: &Sink,
    control: &TurnControl,
) -> Result<TurnOutcome, Fenced> {
    let turn_id = request.turn_id.to_string();
    let is_continued = request.kind == TurnKind::Continue;
    let mut anew = Some(request.clone());
    let (mut command, mut state, mut zone) = match shared.prepare(request).await {
        Ok(prepared) => prepared,
        Err(error) => return Ok(outcome::refused(*error)),
    };
    let mut waits = shared.limits.busy_waits.iter();
    loop {
        if control.cancel.is_cancelled() {
            return Ok(not_begun());
        }
        let child = Child {
            shared,
            command: &command,
            zone: &zone,
            sink,
            cancel: &control.cancel,
            turn_id: turn_id.clone(),
            state: state.clone(),
        };
        let outcome = child.run().await?;
        // A child that died behind `thread.started` left an id without a thread. Nothing was counted in
        // it, so that nothing is lost with it.
        let is_unwritten = state.as_ref().is_some_and(CodexThreadState::is_uncounted);
        // A turn that is continued without its thread would be a message without its task.
        if is_unwritten
            && !is_continued
            && outcome::is_thread_missing(&outcome)
            && let Some(mut request) = anew.take()
        {
            request.engine_state = None;
            (command, state, zone) = match shared.prepare(request).await {
                Ok(prepared) => prepared,
                Err(error) => return Ok(outcome::refused(*error)),
            };
            continue;
        }
        let Some(wait) = waits.next().filter(|_| outcome::is_busy(&outcome)) else {
            return Ok(outcome);
        };
        // Nothing was taken: Codex's lock on the thread refuses before the prompt is recorded.
        if let Some(error) = outcome.error {
            sink.emit(Event::Retry(Box::new(error))).await?;
        }
        let waiting = control.cancel.unless_cancelled(tokio::time::sleep(*wait));
        if waiting.await.is_err() {
            return Ok(not_begun());
        }
    }
}

/// A turn that was cancelled while no process of it ran.
fn not_begun() -> TurnOutcome {
    TurnOutcome {
        accepted: Accepted::No,
        ..TurnOutcome::interrupted()
    }
}

impl Shared {
    /// Everything that is read and written before the child starts.
    async fn prepare(
        self: &Arc<Self>,
        request: TurnRequest,
    ) -> Result<(ExecCommand, Option<CodexThreadState>, ChildZone), Box<EngineError>> {
        let shared = Arc::clone(self);
        let prepared = tokio::task::spawn_blocking(move || {
            let state = request.engine_state.as_deref().map(CodexThreadState::read);
            let state = state
                .transpose()
                .map_err(|error| Box::new(error.to_error()))?;
            let thread_id = state.as_ref().map(CodexThreadState::resumable_id);
            let thread_id = thread_id.transpose().map_err(|error| error.to_error())?;
            let temporary = shared.temporary.clone();
            let command = command::prepare(&request, thread_id, shared.bypass, temporary);
            let command = command.map_err(|error| Box::new(error.to_error()))?;
            let zone = ChildZone::of_variable(shared.program.variable("TZ"));
            Ok((command, state, zone))
        });
        prepared.await.unwrap_or_else(|_lost| Err(lost_task()))
    }

    /// Checks program, directory and settings; returns a hint about the login, if one is missing.
    async fn check(self: &Arc<Self>, settings: &TurnSettings) -> Result<(), Box<EngineError>> {
        let version = self.program.version().await;
        version.map_err(|error| Box::new(error.to_error()))?;
        let (shared, settings) = (Arc::clone(self), settings.clone());
        let checked = tokio::task::spawn_blocking(move || {
            let cwd = PathBuf::from(&settings.cwd);
            if !cwd.is_dir() {
                return Err(Box::new(CodexProgramError::Directory { cwd }.to_error()));
            }
            command::check_settings(&settings, shared.bypass, shared.temporary.clone())
                .map_err(|error| Box::new(error.to_error()))?;
            crate::codex_program::check_login(&shared.program, &settings)
        });
        checked.await.unwrap_or_else(|_lost| Err(lost_task()))
    }

    async fn reconcile(&self, request: &TurnRequest) -> Reconciled {
        let state = request.engine_state.as_deref().map(CodexThreadState::read);
        // Without a saved id the worker died before Codex named the thread, and it cannot be found.
        let (Some(history), Some(Ok(state))) = (&self.history, state) else {
            return Reconciled::Unknown;
        };
        let Ok(text) = command::prompt(request) else {
            return Reconciled::Unknown;
        };
        match history
            .read_turns(state.thread_id, request.accepted_ms)
            .await
        {
            Ok(turns) => {
                let reconciled = reconcile::decide(turns, &text, request.accepted_ms);
                reconcile::named(reconciled, request.turn_id)
            }
            Err(error) => {
                tracing::warn!(%error, "a turn of a dead worker stays unknown");
                Reconciled::Unknown
            }
        }
    }
}

fn lost_task() -> Box<EngineError> {
    Box::new(EngineError::new(
        "the preparation of the turn was cancelled",
        CodexErrorInfo::Other,
        ErrorKind::Unknown,
    ))
}
