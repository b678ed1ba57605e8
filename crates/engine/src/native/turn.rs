//! One turn of the native engine, from its checks to its outcome.
//!
//! The invariants here: nothing has an effect before the call that asked for it is durable; every
//! call that was recorded is answered in the same turn, whatever ends it; after the outcome nothing
//! is said. What is recorded is what was sent, in that order, so a turn after a restart repeats its
//! bytes.
//!
//! Theory of operation: one task runs the loop of `rounds`; the calls of a response run beside it as
//! tasks of a set that ends with the turn (`calls`). Tools are stopped by a token of their own, which
//! the loop fires on an interrupt, and also when a hook or a person ends the turn from inside a call.
//!
//! Not here: requests and retries (`model`), what tools do (`tools`), and what a failed turn means
//! for its lane (the runtime).

mod call;
mod calls;
mod compact;
mod ending;
mod listen;
mod prepare;
mod rounds;
mod rules;

use std::sync::Arc;

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_protocol::usage::{TokenCounts, TokenUsage};

use self::prepare::{Opening, Prepared};
use super::Shared;
use super::history::{Author, Load};
use super::request::Body;
use super::sessions::ThreadSessions;
use super::tools::{ToolTurn, diff};
use crate::cancel::{self, CancelHandle, CancelToken, Cancelled};
use crate::control::{Ask, TurnControl};
use crate::entry::Entry;
use crate::event::Event;
use crate::outcome::{EngineError, TurnOutcome};
use crate::request::{TurnKind, TurnRequest};
use crate::said::Fenced;
use crate::sink::Sink;
use crate::steer::SteerReceiver;

pub(crate) use prepare::{PREPARED_AT_ONCE, Setup, check, places};
pub(crate) use rules::rules;

/// Why a turn does not go on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Somebody stopped it; with an error when a hook did.
    Interrupted(Option<Box<EngineError>>),
    Failed(Box<EngineError>),
    /// The lane is not ours: not another word.
    Fenced,
}

impl Halt {
    fn by_hook(text: String) -> Self {
        let error = EngineError::new(text, CodexErrorInfo::Other, ErrorKind::Interrupted);
        Self::Interrupted(Some(Box::new(error)))
    }

    fn failed(text: &str, info: CodexErrorInfo, kind: ErrorKind) -> Self {
        Self::Failed(Box::new(EngineError::new(text, info, kind)))
    }
}

impl From<Fenced> for Halt {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}

impl From<Cancelled> for Halt {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted(None)
    }
}

/// A turn on its way.
pub(crate) struct Turn {
    shared: Arc<Shared>,
    setup: Arc<Setup>,
    author: Author,
    /// What the model knew when the turn began, from the last compaction on.
    past: Arc<Vec<Entry>>,
    /// What was added since.
    added: Vec<Entry>,
    /// The same as a request.
    body: Body,
    load: Load,
    sink: Sink,
    ask: Ask,
    cancel: CancelToken,
    steer: SteerReceiver,
    tools: Arc<ToolTurn>,
    /// Stops the tools.
    stop_tools: CancelHandle,
    used: Option<TokenCounts>,
    last_message: Option<String>,
    rounds_made: u32,
    /// Whether the history was compacted after the last response.
    compacted: Compacted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compacted {
    SinceResponse,
    NotSince,
}

/// Runs a turn.
pub(crate) async fn run(
    shared: Arc<Shared>,
    request: TurnRequest,
    sink: Sink,
    control: TurnControl,
) -> TurnOutcome {
    match prepare::prepare(Arc::clone(&shared), request).await {
        Err(error) => TurnOutcome::cannot_start(*error),
        Ok(prepared) => {
            let (thread_id, turn_id) = (prepared.setup.thread_id, prepared.author.turn_id);
            let in_turn = shared.sessions.enter(thread_id, turn_id);
            let voice = (sink, control);
            let (turn, opening) = Turn::new(shared, prepared, voice, in_turn.sessions());
            turn.play(opening, in_turn).await
        }
    }
}

impl Turn {
    fn new(
        shared: Arc<Shared>,
        prepared: Prepared,
        (sink, control): (Sink, TurnControl),
        sessions: &Arc<ThreadSessions>,
    ) -> (Self, Opening) {
        let Prepared {
            setup,
            author,
            past,
            opening,
        } = prepared;
        let setup = Arc::new(setup);
        let (stop_tools, stopped) = cancel::channel();
        let tools = Arc::new(ToolTurn {
            turn_id: author.turn_id,
            settings: Arc::clone(&setup.settings),
            tools: setup.config.tools.clone(),
            sink: sink.clone(),
            ask: control.ask.stopped_by(stopped.clone()),
            cancel: stopped,
            rules: Arc::clone(&setup.rules),
            redactor: Arc::new(setup.provider.redactor.clone()),
            service: shared.service.clone(),
            sessions: Arc::clone(sessions),
            diff: tokio::sync::Mutex::new(diff::TurnDiff::default()),
            clock: Arc::clone(&shared.clock),
        });
        let body = Body::new(&setup.fields(), setup.view.clone(), &past);
        let turn = Self {
            load: prepare::load(&setup, &past, &body),
            shared,
            setup,
            author,
            past,
            added: Vec::new(),
            body,
            sink,
            ask: control.ask,
            cancel: control.cancel,
            steer: control.steer,
            tools,
            stop_tools,
            used: None,
            last_message: None,
            rounds_made: 0,
            compacted: Compacted::NotSince,
        };
        (turn, opening)
    }

    /// Everything between the checks and the end.
    async fn whole(&mut self, opening: Opening) -> Result<(), Halt> {
        for warning in opening.warnings {
            self.warn(&warning).await?;
        }
        if !opening.late.is_empty() {
            self.sink.record(opening.late).await?;
        }
        self.record(opening.entries).await?;
        match opening.kind {
            TurnKind::Turn | TurnKind::Continue => self.rounds().await,
            TurnKind::Compact => self.compact_by_request().await,
        }
    }

    fn now_ms(&self) -> i64 {
        (self.shared.clock)()
    }

    fn next_item_id(&self) -> ItemId {
        next_item_id(self.now_ms())
    }

    /// Text that may leave the engine.
    fn clean(&self, text: &str) -> String {
        self.tools.redactor.text(text).into_owned()
    }

    async fn warn(&self, text: &str) -> Result<(), Fenced> {
        self.sink.emit(Event::Warning(self.clean(text))).await
    }

    /// Appends to the history, here and in the store.
    async fn record(&mut self, entries: Vec<Entry>) -> Result<(), Fenced> {
        if entries.is_empty() {
            return Ok(());
        }
        self.body.append(&entries);
        self.added.extend_from_slice(&entries);
        self.sink.record(entries).await
    }

    async fn note_all(&mut self, texts: &[String]) -> Result<(), Fenced> {
        let notes = texts.iter().map(|text| self.author.note(&self.clean(text)));
        let notes = notes.collect();
        self.record(notes).await
    }

    async fn start_item(&self, id: ItemId, body: ItemBody) -> Result<ThreadItem, Fenced> {
        let item = ThreadItem::started(id, self.now_ms(), body);
        let started = Event::ItemStarted(Box::new(item.clone()));
        self.sink.emit(started).await?;
        Ok(item)
    }

    async fn complete_item(&self, mut item: ThreadItem) -> Result<(), Fenced> {
        item.completed_at_ms = Some(self.now_ms());
        self.sink.emit(Event::ItemCompleted(Box::new(item))).await
    }

    fn stop_if_cancelled(&self) -> Result<(), Halt> {
        match self.cancel.get() {
            Some(cancelled) => Err(cancelled.into()),
            None => Ok(()),
        }
    }

    fn add_usage(&mut self, usage: TokenUsage) {
        let sum = self.used.get_or_insert_default();
        sum.input_tokens += usage.input_tokens;
        sum.cached_input_tokens += usage.cached_input_tokens;
        sum.cache_write_input_tokens += usage.cache_write_input_tokens;
        sum.output_tokens += usage.output_tokens;
        sum.reasoning_output_tokens += usage.reasoning_output_tokens;
    }
}

/// A new id for an item.
fn next_item_id(now_ms: i64) -> ItemId {
    ItemId::new(u64::try_from(now_ms).unwrap_or_default())
}
