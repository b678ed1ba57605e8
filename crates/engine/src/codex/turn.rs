//! One turn on a Codex thread, from its hand-over to its end.
//!
//! The invariants here: the input leaves us only after [`Sink::handing_over`] returned; a turn whose
//! child died is looked up in Codex's history before anything is sent again; the outcome says only what
//! is known. Codex's turns on a thread never overlap: its `turn/start` would silently join a running
//! turn, so a delivery waits until the thread is idle.
//!
//! # Theory of operation
//!
//! [`Turn::play`] runs attempts until one ends. An attempt connects, opens the thread, reconciles if
//! something was sent before, delivers the message and listens to the end of Codex's turn. A steer that
//! Codex refused because its turn had just ended becomes the message of a further delivery. The death of
//! the child ends an attempt; [`DEATHS_MAX`] of them within [`DEATHS_WITHIN`] end the turn.

mod active;
mod deliver;
mod ending;
mod listen;
mod notices;
mod questions;
mod shapes;
mod steering;
mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;
use turnlane_protocol::turn_error::{ErrorKind, TurnError};

use super::Shared;
use super::connection::Connection;
use super::errors::ours;
use super::items::ItemLog;
use super::params::Message;
use super::supervisor::Handle;
use super::usage::UsageMeter;
use crate::cancel::CancelToken;
use crate::codex_program::{CodexThreadState, passed_config};
use crate::control::{Ask, TurnControl};
use crate::event::Event;
use crate::outcome::{Accepted, EngineError, OutcomeStatus, TurnOutcome};
use crate::request::{TurnKind, TurnRequest};
use crate::said::Fenced;
use crate::sink::Sink;
use crate::steer::SteerReceiver;
use steering::SteerMessage;

/// This many deaths of the child …
const DEATHS_MAX: usize = 5;
/// … within this time end the turn that was active in all of them.
const DEATHS_WITHIN: Duration = Duration::from_mins(1);

/// Runs one turn.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut request: TurnRequest,
    sink: Sink,
    control: TurnControl,
) -> TurnOutcome {
    let state = request.engine_state.as_deref().map(CodexThreadState::read);
    let state = match state.transpose() {
        Ok(state) => state,
        Err(error) => return unsent(TurnOutcome::cannot_start(error.to_error())),
    };
    match passed_config(&request.settings) {
        Ok(config) => request.settings.config = config,
        Err(refused) => return unsent(TurnOutcome::cannot_start(refused.to_error())),
    }
    let handle = shared.servers.handle_for(request.thread_id);
    shared.threads.open(request.thread_id, &handle);
    let message = Message {
        input: request.input.clone(),
        client_id: request.client_id.clone(),
        context: request.context.clone(),
    };
    let turn = Turn {
        kind: request.kind,
        items: ItemLog::new(request.turn_id),
        shared,
        request,
        sink,
        cancel: control.cancel,
        ask: control.ask,
        steer: control.steer,
        handle,
        state,
        message,
        announced: None,
        progress: Progress::default(),
        deaths: VecDeque::new(),
        unanswered: 0,
        items_before: 0,
        meter: UsageMeter::default(),
        limits: Map::new(),
        error: None,
        refused_steer: None,
    };
    turn.play().await
}

fn unsent(outcome: TurnOutcome) -> TurnOutcome {
    TurnOutcome {
        accepted: Accepted::No,
        ..outcome
    }
}

/// How far a turn has come.
#[derive(Debug, Default)]
struct Progress {
    /// The input may have left us.
    is_sent: bool,
    /// Codex has answered and told the begin of its turn.
    is_accepted: bool,
    /// Codex's turn of the last delivery.
    codex_turn: Option<String>,
}

/// Why an attempt ended without the end of the turn.
enum Halt {
    /// The child died.
    Died,
    /// The lane is not ours any more.
    Fenced,
    /// The turn is to stop, and Codex did not confirm that it has.
    Cancelled,
    /// The turn is over.
    Over(Box<TurnOutcome>),
}

impl From<Fenced> for Halt {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}

struct Turn {
    shared: Arc<Shared>,
    request: TurnRequest,
    sink: Sink,
    cancel: CancelToken,
    ask: Ask,
    steer: SteerReceiver,
    handle: Handle,
    state: Option<CodexThreadState>,
    /// What is delivered next, or was delivered last.
    kind: TurnKind,
    message: Message,
    /// The steer that `message` came from; its item is told when Codex has answered.
    announced: Option<SteerMessage>,
    progress: Progress,
    deaths: VecDeque<Instant>,
    /// Deliveries that the child never answered.
    unanswered: u32,
    items: ItemLog,
    /// How many items were told before the last delivery.
    items_before: usize,
    meter: UsageMeter,
    /// The rate limits that Codex told last.
    limits: Map<String, Value>,
    /// The last error that Codex told of the running turn.
    error: Option<TurnError>,
    /// A steer that Codex refused because its turn had ended.
    refused_steer: Option<SteerMessage>,
}

impl Turn {
    async fn play(mut self) -> TurnOutcome {
        let outcome = loop {
            match self.attempt().await {
                Ok(outcome) => break outcome,
                Err(Halt::Over(outcome)) => break *outcome,
                Err(Halt::Fenced) => return self.known(TurnOutcome::interrupted()),
                Err(Halt::Cancelled) => {
                    break TurnOutcome {
                        outcome_known: !self.progress.is_sent,
                        ..TurnOutcome::interrupted()
                    };
                }
                Err(Halt::Died) => {
                    tracing::info!(turn = %self.request.turn_id, "a turn lost its app-server");
                    if let Some(outcome) = self.note_death() {
                        break outcome;
                    }
                }
            }
        };
        // Fenced or not, the outcome is the same; the lane knows which.
        let _ = self.close_items().await;
        let _ = self.tell_undelivered().await;
        let _ = self.save_total().await;
        self.known(outcome)
    }

    /// One child's part of the turn.
    async fn attempt(&mut self) -> Result<TurnOutcome, Halt> {
        let connection = self.connect().await?;
        let mut inbox = self.open_thread(&connection).await?;
        if self.progress.is_sent
            && let Some(outcome) = self.reconcile(&connection, inbox.thread()).await?
        {
            let is_completed = outcome.status == OutcomeStatus::Completed;
            if !is_completed || !self.next_message().await? {
                return Ok(outcome);
            }
        }
        loop {
            self.wait_for_idle(&connection, inbox.thread()).await?;
            self.hand_over().await?;
            let end = self.deliver(&connection, &mut inbox).await?;
            if let Some(outcome) = self.conclude(end).await? {
                return Ok(outcome);
            }
        }
    }

    async fn connect(&mut self) -> Result<Arc<Connection>, Halt> {
        let connection = self.handle.connection();
        let connection = self.cancel.unless_cancelled(connection).await;
        match connection.map_err(|_cancelled| Halt::Cancelled)? {
            Ok(connection) => Ok(connection),
            // Nothing was sent, so the turn can wait for a child as well in the queue.
            Err(error) if !self.progress.is_sent => Err(self.refused(error.to_error())),
            Err(_) => Err(Halt::Died),
        }
    }

    async fn hand_over(&mut self) -> Result<(), Halt> {
        if self.cancel.is_cancelled() {
            return Err(Halt::Cancelled);
        }
        if !self.progress.is_sent {
            self.sink.handing_over(None).await?;
            self.progress.is_sent = true;
        }
        Ok(())
    }

    async fn emit(&self, event: Event) -> Result<(), Fenced> {
        self.sink.emit(event).await
    }

    async fn emit_all(&self, events: Vec<Event>) -> Result<(), Fenced> {
        for event in events {
            self.sink.emit(event).await?;
        }
        Ok(())
    }

    /// The end of a turn that Codex did not take.
    fn refused(&self, error: EngineError) -> Halt {
        let outcome = if self.progress.is_accepted {
            TurnOutcome::failed(error)
        } else if self.deaths.is_empty() {
            unsent(TurnOutcome::cannot_start(error))
        } else {
            TurnOutcome {
                outcome_known: false,
                ..TurnOutcome::failed(error)
            }
        };
        Halt::Over(Box::new(outcome))
    }

    /// Counts a death of the child; too many end the turn.
    fn note_death(&mut self) -> Option<TurnOutcome> {
        let now = Instant::now();
        self.deaths.push_back(now);
        while self
            .deaths
            .front()
            .is_some_and(|death| now.duration_since(*death) > DEATHS_WITHIN)
        {
            self.deaths.pop_front();
        }
        (self.deaths.len() >= DEATHS_MAX).then(|| {
            let text = "the app-server of Codex died five times within a minute";
            self.crashed(text)
        })
    }

    fn crashed(&self, text: &str) -> TurnOutcome {
        let error = ours(text, ErrorKind::EngineCrashed);
        TurnOutcome {
            outcome_known: !self.progress.is_sent,
            ..TurnOutcome::failed(error)
        }
    }

    /// The outcome with everything that is known of the turn.
    fn known(&self, outcome: TurnOutcome) -> TurnOutcome {
        let accepted = match (outcome.accepted, &self.progress) {
            (Accepted::Yes, progress) if progress.is_accepted => Accepted::Yes,
            (Accepted::Yes, progress) if progress.is_sent && outcome.begun => Accepted::Unknown,
            (Accepted::Yes | Accepted::No, _) => Accepted::No,
            (Accepted::Unknown, _) => Accepted::Unknown,
        };
        let last_message = self.items.last_message().map(str::to_owned);
        TurnOutcome {
            accepted,
            usage: self.meter.of_turn(),
            last_agent_message: outcome.last_agent_message.clone().or(last_message),
            ..outcome
        }
    }
}
