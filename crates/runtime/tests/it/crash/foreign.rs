//! A double of a foreign engine: another program that keeps its own history of turns.
//!
//! The invariant here: the history is a file that outlives the worker, as the history of the other
//! program does. A turn is taken when its line is in the file, and never before the worker was told that
//! it is handed over; what became of a turn is read from the file alone.
//!
//! What a turn does is named by its text, in the child that dies; its successor answers everything.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Event, Fenced, Reconciled, Sink, TurnControl, TurnOutcome,
    TurnRequest, UsageKind,
};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{AgentMessage, ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

use super::log::Log;

/// The name that threads have it by.
pub(crate) const NAME: &str = "foreign";

/// What the engine does with the texts of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeys {
    /// A text may say where the turn hangs.
    Texts,
    /// Every turn is answered.
    Nothing,
}

/// How a question about a turn is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answers {
    /// From the history.
    FromHistory,
    /// From the history, once somebody lets it.
    WhenAllowed(Arc<Semaphore>),
    /// It cannot tell.
    Unknown,
    /// The engine panics.
    Panics,
}

/// The engine.
#[derive(Clone)]
pub(crate) struct Foreign {
    pub(crate) history: PathBuf,
    pub(crate) log: Log,
    pub(crate) obeys: Obeys,
    pub(crate) answers: Answers,
}

impl Foreign {
    /// The engine whose history and log lie beside a database.
    pub(crate) fn beside(database: &Path, obeys: Obeys, answers: Answers) -> Self {
        Self {
            history: database.with_extension("history"),
            log: Log::open(&database.with_extension("log")),
            obeys,
            answers,
        }
    }

    fn note(&self, word: &str, request: &TurnRequest) {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.history);
        let mut file = file.unwrap();
        let line = format!("{word} {}\n", request.client_id);
        file.write_all(line.as_bytes()).unwrap();
    }

    fn has(&self, word: &str, request: &TurnRequest) -> bool {
        let history = std::fs::read_to_string(&self.history).unwrap_or_default();
        let wanted = format!("{word} {}", request.client_id);
        history.lines().any(|line| line == wanted)
    }

    async fn turn(
        self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> Result<TurnOutcome, Fenced> {
        let text = match self.obeys {
            Obeys::Texts => text(&request),
            Obeys::Nothing => String::new(),
        };
        let place = format!(
            "{} {} {}",
            std::process::id(),
            request.thread_id,
            request.turn_id
        );
        if text == "before" {
            // Nothing is handed over while it waits here.
            control.cancel.cancelled().await;
            return Ok(TurnOutcome::interrupted());
        }
        events.handing_over(None).await?;
        self.note("took", &request);
        match text.as_str() {
            "finished" | "told" => self.note("completed", &request),
            "broken" => self.note("failed", &request),
            _ => {}
        }
        self.log.begin(&place, &request.client_id);
        events.accepted().await?;
        if text == "told" || text == "stuck" {
            let item = Event::ItemCompleted(Box::new(said(&request)));
            events.emit(item).await?;
        }
        if matches!(text.as_str(), "finished" | "told" | "broken" | "stuck") {
            control.cancel.cancelled().await;
            self.log.end(&place);
            return Ok(TurnOutcome::interrupted());
        }
        let item = Event::ItemCompleted(Box::new(said(&request)));
        events.emit(item).await?;
        self.note("completed", &request);
        self.log.end(&place);
        Ok(TurnOutcome::completed())
    }
}

fn text(request: &TurnRequest) -> String {
    match request.input.first() {
        Some(UserInput::Text { text, .. }) => text.clone(),
        _ => String::new(),
    }
}

/// What the engine answers; the same item however often it is asked.
fn said(request: &TurnRequest) -> ThreadItem {
    let body = ItemBody::AgentMessage(AgentMessage {
        text: "heard".to_owned(),
        ..AgentMessage::default()
    });
    let id = format!("{}/item_0", request.turn_id);
    let mut item = ThreadItem::started(id.into(), request.accepted_ms, body);
    item.completed_at_ms = Some(request.accepted_ms);
    item
}

impl Engine for Foreign {
    fn name(&self) -> &str {
        NAME
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
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let turn = self.clone().turn(request, events, control);
        Box::pin(async move {
            turn.await
                .unwrap_or_else(|Fenced| TurnOutcome::interrupted())
        })
    }

    fn reconcile(&self, request: TurnRequest) -> BoxFuture<'_, Reconciled> {
        Box::pin(async move {
            match &self.answers {
                Answers::FromHistory => {}
                Answers::WhenAllowed(gate) => drop(gate.acquire().await.unwrap()),
                Answers::Unknown => return Reconciled::Unknown,
                Answers::Panics => panic!("an engine that breaks when it is asked"),
            }
            if !self.has("took", &request) {
                return Reconciled::Absent;
            }
            let completed = self.has("completed", &request);
            let outcome = if completed {
                TurnOutcome::completed()
            } else if self.has("failed", &request) {
                let kind = ErrorKind::Other;
                TurnOutcome::failed(TurnError::new("broken", CodexErrorInfo::Other, kind))
            } else {
                TurnOutcome {
                    outcome_known: false,
                    ..TurnOutcome::interrupted()
                }
            };
            let items = completed.then(|| said(&request)).into_iter().collect();
            Reconciled::Ended {
                outcome: Box::new(outcome),
                items,
            }
        })
    }
}
