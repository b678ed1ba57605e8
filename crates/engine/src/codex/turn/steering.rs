//! More input for a Codex turn that runs.
//!
//! The invariant here: one steer is in flight at a time, so that Codex gets them in order. A steer's
//! userMessage item is told when Codex has taken it. A steer that Codex refuses because its turn has
//! ended is kept, and becomes the message of a further turn.

use std::sync::Arc;

use tokio::task::JoinHandle;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{Extra, ItemBody, ThreadItem, UserMessage};

use super::listen::Listening;
use super::{Halt, Turn};
use crate::codex::connection::CallFailure;
use crate::codex::params::{Message, turn_steer};
use crate::event::Event;
use crate::said::Fenced;
use crate::steer::Steer;

/// A steer on its way to Codex.
#[derive(Clone, Debug)]
pub(super) struct SteerMessage {
    pub(super) message: Message,
    /// None: context of a hook, which has no item.
    item: Option<(ItemId, Option<String>)>,
}

/// A steer that Codex has not answered.
pub(super) struct SteerInFlight {
    steer: SteerMessage,
    request: JoinHandle<Result<(), CallFailure>>,
}

/// A steer and what Codex said to it.
pub(super) struct SteerAnswer {
    steer: SteerMessage,
    answer: Result<(), CallFailure>,
}

impl SteerInFlight {
    /// The answer of the steer in flight; waits for ever without one. Dropped, nothing is lost.
    pub(super) async fn next(in_flight: &mut Option<Self>) -> SteerAnswer {
        match in_flight {
            Some(in_flight) => in_flight.wait().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn answer(mut self) -> SteerAnswer {
        self.wait().await
    }

    async fn wait(&mut self) -> SteerAnswer {
        let answer = (&mut self.request).await;
        SteerAnswer {
            steer: self.steer.clone(),
            answer: answer.unwrap_or(Err(CallFailure::Died)),
        }
    }
}

impl Turn {
    /// What a steer says to Codex.
    pub(super) fn steer_message(&self, steer: Steer) -> SteerMessage {
        match steer {
            Steer::Input {
                input,
                item_id,
                client_id,
            } => SteerMessage {
                message: Message {
                    input,
                    client_id: item_id.to_string(),
                    context: Vec::new(),
                },
                item: Some((item_id, client_id)),
            },
            Steer::Note(text) => SteerMessage {
                message: Message {
                    input: Vec::new(),
                    client_id: format!("{}/note", self.request.client_id),
                    context: vec![text],
                },
                item: None,
            },
        }
    }

    pub(super) fn send_steer(&mut self, listening: &mut Listening, steer: Steer) {
        let steer = self.steer_message(steer);
        let connection = Arc::clone(listening.active.connection());
        let turn = listening.active.turn().unwrap_or_default();
        let params = turn_steer(listening.active.thread(), turn, &steer.message);
        let request = async move { connection.ask("turn/steer", &params).await };
        listening.steer = Some(SteerInFlight {
            steer,
            request: tokio::spawn(request),
        });
    }

    /// Tells a steer that Codex took; keeps one that it did not take.
    pub(super) async fn steered(&mut self, answer: SteerAnswer) -> Result<(), Halt> {
        let SteerAnswer { steer, answer } = answer;
        match answer {
            Ok(()) => self.announce(&steer).await?,
            Err(failure) if steer.item.is_none() => {
                tracing::debug!(error = %failure, "Codex did not take the context of a hook");
            }
            Err(failure) => {
                tracing::debug!(error = %failure, "Codex did not take a steer");
                self.refused_steer = Some(steer);
            }
        }
        Ok(())
    }

    /// Tells the userMessage item of a steer.
    pub(super) async fn announce(&self, steer: &SteerMessage) -> Result<(), Fenced> {
        let Some((item_id, client_id)) = &steer.item else {
            return Ok(());
        };
        let body = ItemBody::UserMessage(UserMessage {
            content: steer.message.input.clone(),
            client_id: client_id.clone(),
            extra: Extra::new(),
        });
        let now_ms = (self.shared.clock)();
        let mut item = ThreadItem::started(item_id.clone(), now_ms, body);
        self.emit(Event::ItemStarted(Box::new(item.clone())))
            .await?;
        item.completed_at_ms = Some(now_ms);
        self.emit(Event::ItemCompleted(Box::new(item))).await
    }

    /// Tells a steer that could not be delivered, so that it does not vanish.
    pub(super) async fn tell_undelivered(&mut self) -> Result<(), Fenced> {
        let Some(steer) = self.refused_steer.take().or_else(|| self.announced.take()) else {
            return Ok(());
        };
        self.announce(&steer).await?;
        let text = "a message may not have reached Codex: the turn ended before it was taken";
        self.emit(Event::Warning(text.to_owned())).await
    }
}
