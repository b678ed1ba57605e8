//! The end of a turn: the state that follows, and exactly one terminal receipt for its message.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Failure, Fate, LaneHold, Machine, MessageName, Outcome, TurnEnd, label};
use crate::wire::{Event, last_lines};

/// The code of a receipt whose turn may have done anything between nothing and all.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// What a failure means for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A limit of the provider that has its own event.
    Quota,
    Auth,
    /// The lane waits, and v1 has no word for why.
    Busy,
    Exhausted,
    Other,
}

impl Class {
    fn of(kind: &str) -> Self {
        match kind {
            "quota" | "plan" | "rate_limited" => Self::Quota,
            "auth" => Self::Auth,
            "overloaded" | "server_error" | "network" | "engine_unavailable" => Self::Busy,
            "context_exhausted" => Self::Exhausted,
            _ => Self::Other,
        }
    }
}

impl Machine {
    pub(super) fn turn_ended(&mut self, now: Duration, mut end: TurnEnd, events: &mut Vec<Event>) {
        if self.has_ended(&end.turn) {
            return;
        }
        let is_running = self.running() == Some(end.turn.as_str());
        let from = self.detail.shown(self.turn.is_some());
        if is_running && let Some(running) = self.turn.take() {
            end.attempt = running.attempt;
            end.message = running.message.or(end.message);
        }
        self.remember_end(&end.turn);
        self.questions = 0;
        self.is_stalled = false;
        if let Some(lane) = end.lane.take() {
            self.lane = lane;
        } else if end.outcome == Outcome::Completed
            && matches!(self.lane.hold, Some(LaneHold::Waiting { .. }))
        {
            // A turn that completes ends a wait.
            self.lane.hold = None;
        }
        if let Outcome::Failed(failure) = &end.outcome
            && Class::of(&failure.kind) == Class::Exhausted
        {
            self.lane.hold = Some(LaneHold::Exhausted);
        }
        let summary = summary(&end);
        let message = end.message.clone();
        let detail = self.derived();
        if is_running {
            self.enter_from(now, from, detail, &summary, message.as_ref(), events);
        }
        let Some(message) = message else {
            return;
        };
        self.tell_end(&end, &message, events);
        self.announce_block(Some(&message), events);
    }

    /// The receipt of a turn that ended while no shim was there.
    pub(super) fn recovered(&mut self, end: &TurnEnd, events: &mut Vec<Event>) {
        if self.has_ended(&end.turn) {
            return;
        }
        self.remember_end(&end.turn);
        let Some(message) = end.message.clone() else {
            return;
        };
        let attempts = self.attempts.entry(message.id.clone()).or_insert(0);
        *attempts = end.attempt.max(*attempts);
        let resolved = match &end.outcome {
            Outcome::Completed => {
                events.extend(self.delivered(&message, &end.turn, end.attempt));
                let completion = self.completion(end, Some(&message));
                events.push(completion.with("recovered", true).ending(end));
                self.receipt(&message, end, "ok");
                "completed"
            }
            _ if end.fate == Fate::PutBack => return,
            Outcome::Failed(failure) if !failure.is_unknown => {
                let reason = failure.message.clone();
                events.push(failed(&message, end, &reason, "turn_failed", failure));
                self.receipt(&message, end, "failed");
                "failed"
            }
            Outcome::Interrupted(failure) | Outcome::Failed(failure) => {
                let reason = "outcome unknown after restart";
                events.push(failed(&message, end, reason, OUTCOME_UNKNOWN, failure));
                self.receipt(&message, end, "unknown");
                "unknown"
            }
        };
        let recovered = Event::v2("Recovered")
            .with("message_id", message.id.as_str())
            .with("attempt", end.attempt)
            .with("resolved_as", resolved);
        events.push(recovered);
    }

    fn tell_end(&mut self, end: &TurnEnd, message: &MessageName, events: &mut Vec<Event>) {
        let will_retry = end.fate == Fate::PutBack;
        let outcome = match &end.outcome {
            Outcome::Completed => {
                events.push(self.completion(end, Some(message)).ending(end));
                // A completed message does not run again.
                self.attempts.remove(&message.id);
                "ok"
            }
            Outcome::Failed(failure) | Outcome::Interrupted(failure) => {
                match Class::of(&failure.kind) {
                    Class::Quota => events.push(Self::quota(failure, message, will_retry)),
                    Class::Auth => {
                        let required = Event::new("AuthRequired")
                            .with("message", failure.message.as_str())
                            .with_some("message_id", message.echoed())
                            .with("will_retry", will_retry);
                        events.push(required);
                    }
                    Class::Exhausted => {
                        let exhausted = Event::new("ContextExhausted")
                            .with("message", failure.message.as_str())
                            .with("last_lines", last_lines(&end.response))
                            .with_some("message_id", message.echoed());
                        events.push(exhausted);
                    }
                    Class::Busy | Class::Other => {}
                }
                if !will_retry {
                    let code = code(&end.outcome, failure);
                    events.push(failed(message, end, &failure.message, code, failure));
                }
                outcome_word(&end.outcome, failure, will_retry)
            }
        };
        if !will_retry {
            self.receipt(message, end, outcome);
        }
        events.push(finished(end, message, outcome));
    }

    fn quota(failure: &Failure, message: &MessageName, will_retry: bool) -> Event {
        let retry_at = failure.retry_at;
        Event::new("QuotaBlocked")
            .with("message", failure.message.as_str())
            .with_some("retry_at_epoch_secs", retry_at)
            .with_some("retry_at_label", retry_at.map(label::time))
            .with("kind", failure.kind.as_str())
            .with_some("message_id", message.echoed())
            .with("will_retry", will_retry)
    }
}

/// The summary of the change of state.
fn summary(end: &TurnEnd) -> String {
    match &end.outcome {
        Outcome::Completed => last_lines(&end.response),
        Outcome::Failed(failure) | Outcome::Interrupted(failure) => {
            match Class::of(&failure.kind) {
                Class::Quota | Class::Auth | Class::Busy => format!("blocked: {}", failure.kind),
                Class::Exhausted | Class::Other => {
                    format!("failed: {}", last_lines(&failure.message))
                }
            }
        }
    }
}

fn code(outcome: &Outcome, failure: &Failure) -> &'static str {
    match outcome {
        _ if failure.is_unknown => OUTCOME_UNKNOWN,
        _ if failure.kind == "timeout" => "timeout",
        Outcome::Interrupted(_) => "interrupted",
        _ => "turn_failed",
    }
}

fn outcome_word(outcome: &Outcome, failure: &Failure, will_retry: bool) -> &'static str {
    match outcome {
        _ if will_retry => "blocked",
        _ if failure.is_unknown => "unknown",
        _ if failure.kind == "timeout" => "timed_out",
        Outcome::Interrupted(_) => "interrupted",
        _ => "failed",
    }
}

/// The terminal receipt of a turn that did not complete.
fn failed(
    message: &MessageName,
    end: &TurnEnd,
    reason: &str,
    code: &'static str,
    failure: &Failure,
) -> Event {
    let event = if message.is_given {
        Event::new("DeliveryFailed")
            .with("id", message.id.as_str())
            .with("reason", reason)
            .with("retryable", is_retryable(&failure.kind))
    } else {
        Event::new("Error")
            .with("command", "SendMessage")
            .with("reason", reason)
    };
    event
        .with("code", code)
        .with("kind", failure.kind.as_str())
        .with("turn_id", end.turn.as_str())
        .ending(end)
}

/// Returns true if the same message may succeed later without a change.
fn is_retryable(kind: &str) -> bool {
    matches!(Class::of(kind), Class::Quota | Class::Auth | Class::Busy)
        || matches!(
            kind,
            "interrupted" | "timeout" | "stopped" | "unknown" | "engine_crashed"
        )
}

fn finished(end: &TurnEnd, message: &MessageName, outcome: &'static str) -> Event {
    let error = match &end.outcome {
        Outcome::Completed => Value::Null,
        Outcome::Failed(failure) | Outcome::Interrupted(failure) => {
            let mut error = json!({"kind": failure.kind, "message": failure.message});
            if let Some(at) = failure.retry_at {
                error["retry_at"] = at.into();
            }
            error
        }
    };
    let error = Some(error).filter(|error| !error.is_null());
    Event::v2("TurnFinished")
        .with("message_id", message.id.as_str())
        .with("turn_id", end.turn.as_str())
        .with("attempt", end.attempt)
        .with("outcome", outcome)
        .with_some("error", error)
        .with("usage", end.usage.clone())
}
