//! Messages up to the beginning of their turn: accepted, repeated, held, started.

use std::time::Duration;

use super::{Accepted, Machine, MessageName, Receipt, Repeat, RunningTurn, TurnEnd, TurnStart};
use crate::wire::{Event, last_lines};

/// Messages whose tries are counted here; beyond, counting starts again from what the rows say.
const ATTEMPTS_MAX: usize = 16_384;

impl Machine {
    pub(super) fn accept(
        &mut self,
        message: MessageName,
        row: String,
        position: u32,
        tries: u32,
        events: &mut Vec<Event>,
    ) {
        // A row that was just claimed is hidden from the queue and has no turn yet.
        let is_next = self.turn.is_none() && self.accepted.is_empty() && position == 0;
        let waits = !is_next || self.detail != super::Detail::Idle;
        if waits {
            events.push(queued(&message, position));
            let queued = Event::v2("MessageQueued")
                .with("id", message.id.as_str())
                .with("position", position)
                .with("depth", position + 1);
            events.push(queued);
        } else {
            let queued = Event::v2("MessageQueued")
                .with("id", message.id.as_str())
                .with("position", 0)
                .with("depth", 1);
            events.push(queued);
        }
        self.failed_rows.remove(&row);
        let accepted = Accepted {
            message,
            waited: waits,
            tries,
        };
        self.accepted.insert(row, accepted);
    }

    pub(super) fn repeat(&self, message: &MessageName, repeat: Repeat, events: &mut Vec<Event>) {
        match repeat {
            Repeat::Waiting { position } => {
                events.push(queued(message, position).with("duplicate", true));
            }
            Repeat::Running { turn } => {
                let attempt = self.attempts.get(&message.id).copied().unwrap_or(1);
                events.extend(self.delivered(message, &turn, attempt).map(duplicate));
            }
            Repeat::Completed(end) => {
                events.extend(
                    self.delivered(message, &end.turn, end.attempt)
                        .map(duplicate),
                );
                let completion = self.completion(&end, Some(message));
                events.push(duplicate(completion));
            }
        }
    }

    pub(super) fn row_failed(
        &mut self,
        row: String,
        message: &MessageName,
        reason: &str,
        last_turn: Option<&str>,
        events: &mut Vec<Event>,
    ) {
        // A turn whose end was reported has said the same.
        // The end of one that is known to run, such as a turn that its engine is asked about, will say so.
        let is_told =
            last_turn.is_some_and(|turn| self.has_ended(turn) || self.running() == Some(turn));
        self.accepted.remove(&row);
        if !self.failed_rows.insert(row) || is_told {
            return;
        }
        if message.is_given {
            let failed = Event::new("DeliveryFailed")
                .with("id", message.id.as_str())
                .with("reason", reason)
                .with("code", "cannot_start")
                .with("retryable", false);
            events.push(failed);
        } else {
            let error = Event::new("Error")
                .with("command", "SendMessage")
                .with("reason", reason)
                .with("code", "cannot_start");
            events.push(error);
        }
    }

    pub(super) fn turn_started(
        &mut self,
        now: Duration,
        start: TurnStart,
        events: &mut Vec<Event>,
    ) {
        if self.running() == Some(&start.turn) || self.has_ended(&start.turn) {
            return;
        }
        let accepted = start.row.as_ref().and_then(|row| self.accepted.remove(row));
        let waited = accepted.as_ref().is_some_and(|accepted| accepted.waited);
        let tries = accepted.as_ref().map_or(1, |accepted| accepted.tries);
        let of_row = start.attempt + tries.saturating_sub(1);
        let message = start
            .message
            .or_else(|| accepted.map(|accepted| accepted.message));
        let attempt = match &message {
            Some(message) if !start.is_found => self.next_attempt(&message.id, of_row),
            _ => of_row,
        };
        let from = self.detail.shown(self.turn.is_some());
        self.turn = Some(RunningTurn {
            id: start.turn.clone(),
            message: message.clone(),
            attempt,
        });
        self.questions = 0;
        self.is_stalled = false;
        self.last_activity = now;
        let summary = match (&message, waited) {
            (None, _) => "a turn of another client".to_owned(),
            (Some(_), true) => format!("delivering queued message ({} remaining)", self.lane.depth),
            (Some(_), false) => String::new(),
        };
        let detail = self.derived();
        self.enter_from(now, from, detail, &summary, message.as_ref(), events);
        let Some(message) = message else {
            return;
        };
        let delivered = self.delivered(&message, &start.turn, attempt);
        events.extend(delivered.map(|event| {
            if start.is_found {
                duplicate(event)
            } else {
                event
            }
        }));
        let started = Event::v2("TurnStarted")
            .with("message_id", message.id.as_str())
            .with("thread_id", self.thread.as_str())
            .with("turn_id", start.turn)
            .with("attempt", attempt);
        events.push(started);
    }

    /// Numbers the tries of a message without a repetition, whoever asked for them.
    fn next_attempt(&mut self, id: &str, of_row: u32) -> u32 {
        let next = self.attempts.get(id).map_or(1, |last| last + 1);
        let attempt = of_row.max(next);
        if self.attempts.len() >= ATTEMPTS_MAX {
            // The rows still count their own tries.
            self.attempts.clear();
        }
        self.attempts.insert(id.to_owned(), attempt);
        attempt
    }

    /// The receipt that a turn has begun; v1 has none for a message without an id.
    pub(super) fn delivered(
        &self,
        message: &MessageName,
        turn: &str,
        attempt: u32,
    ) -> Option<Event> {
        let delivered = Event::new("MessageDelivered")
            .with("id", message.echoed()?)
            .with("thread_id", self.thread.as_str())
            .with("turn_id", turn)
            .with("attempt", attempt);
        Some(delivered)
    }

    pub(super) fn completion(&self, end: &TurnEnd, message: Option<&MessageName>) -> Event {
        let mut completion = Event::new("Completion")
            .with_some("message_id", message.and_then(MessageName::echoed))
            .with("response", end.response.as_str())
            .with("last_lines", last_lines(&end.response))
            .with("outcome", "ok")
            .with("turn_id", end.turn.as_str())
            .with("usage", end.usage.clone());
        let thread = end.former_thread.as_ref().unwrap_or(&self.thread);
        completion.whole = Some(format!("{thread}/{}", end.turn));
        completion
    }

    pub(super) fn receipt(&mut self, message: &MessageName, end: &TurnEnd, outcome: &'static str) {
        self.record(Receipt {
            id: message.id.clone(),
            attempt: end.attempt,
            turn: end.turn.clone(),
            outcome,
        });
    }
}

fn queued(message: &MessageName, position: u32) -> Event {
    let depth = position + 1;
    Event::new("Warning")
        .with(
            "message",
            format!("message queued while agent working (depth: {depth})"),
        )
        .with("idle_secs", serde_json::Value::Null)
        .with_some("id", message.echoed())
        .with("position", position)
        .with("depth", depth)
}

fn duplicate(event: Event) -> Event {
    event.with("duplicate", true)
}
