//! Turns that another transaction has begun, and the tools that the runtime offers to a turn.
//!
//! The invariant here: a tool is answered in a task of its own, so that the lane goes on meanwhile; an
//! engine that does not wait any more ends that task.

use std::sync::Arc;

use turnlane_engine::{Hooks, NoHooks, Reply, ToolAnswer, ToolCall};

use super::{Actor, Audience};
use crate::lane::command::BegunTurn;
use crate::lane::event::Event;
use crate::runtime_tools::{ITEM_SOURCE, TurnTools};

impl Actor {
    pub(super) fn give(&mut self, begun: Box<BegunTurn>) {
        self.given = Some(begun);
        self.events.push_back(Event::Given);
    }

    /// Takes over the turn that another transaction has begun.
    pub(super) fn take_given(&mut self) {
        let Some(begun) = self.given.take() else {
            return;
        };
        let BegunTurn { accepted, place } = *begun;
        self.place = Some(place);
        self.read_history();
        let committed = self.begun(None, Box::new(accepted));
        self.events.push_back(Event::Committed(committed));
    }

    /// Notes what the thread is for: the news of an item's thread is for its subscribers alone.
    pub(super) fn note_source(&mut self, source: &str) {
        if source == ITEM_SOURCE {
            self.audience = Audience::Subscribers;
        }
    }

    /// What the engine asks before its steps.
    pub(super) fn hooks_of_turn(&self) -> Arc<dyn Hooks> {
        match &self.place {
            Some(place) => place.hooks(&self.shared.store),
            None => Arc::new(NoHooks),
        }
    }

    pub(super) fn call_tool(&self, call: &ToolCall, mut reply: Reply<ToolAnswer>) {
        let running = self.running.as_ref();
        let tools = running.and_then(|running| running.tools.clone());
        let used = running.and_then(|running| running.turn_usage);
        let answering = tools.and_then(|tools: Arc<TurnTools>| tools.call(call, used));
        let Some(answering) = answering else {
            // It was not offered to this turn, so the model made it up.
            let _ = reply.send(ToolAnswer {
                text: format!("there is no tool {}", call.tool),
                success: false,
                end_turn: false,
            });
            return;
        };
        tokio::spawn(async move {
            tokio::select! {
                answer = answering => drop(reply.send(answer)),
                // The turn was stopped; the tool ends what it waits for.
                () = reply.closed() => {}
            }
        });
    }
}
