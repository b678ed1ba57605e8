//! The state of a thread in one word, the same in every list, and who has to act on it.
//!
//! The invariant here: a state that waits for a person comes before all others, so that no running or
//! completed turn hides it. Pure.

use turnlane_protocol::queue::QueuedTurn;
use turnlane_protocol::thread::{ActiveFlag, QueueSummary, Thread, ThreadStatus};
use turnlane_protocol::turn::TurnStatus;

use super::table::Cell;
use super::{Ink, Screen};

/// How urgently a thread needs somebody, and whom; the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// A person: the agent asks.
    Asks,
    /// A person: the queue is held.
    Held,
    /// Nobody: the queue goes on by itself at a time.
    Waits,
    /// The agent.
    Running,
    /// The daemon.
    Queued,
    /// Nobody.
    Idle,
}

/// The state of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) word: String,
    pub(crate) ink: Ink,
    pub(crate) urgency: Urgency,
}

impl State {
    fn new(urgency: Urgency, ink: Ink, word: impl Into<String>) -> Self {
        Self {
            word: word.into(),
            ink,
            urgency,
        }
    }

    pub(crate) fn cell(&self) -> Cell {
        Cell::inked(&self.word, self.ink)
    }
}

/// Whether an approval of a thread is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenApproval {
    Yes,
    No,
}

/// The state of a thread as a list shows it.
pub(crate) fn of_thread(screen: &Screen, thread: &Thread, asked: OpenApproval) -> State {
    if asked == OpenApproval::Yes {
        return State::new(Urgency::Asks, Ink::Yellow, "needs approval");
    }
    let last = thread.last_turn.as_ref().map(|turn| turn.status);
    if let ThreadStatus::Active { active_flags } = &thread.status {
        return match active_flags.first() {
            None => State::new(Urgency::Running, Ink::Green, "running"),
            Some(ActiveFlag::WaitingOnApproval) => {
                State::new(Urgency::Asks, Ink::Yellow, "needs approval")
            }
            Some(ActiveFlag::WaitingOnUserInput) => {
                State::new(Urgency::Asks, Ink::Yellow, "needs an answer")
            }
        };
    }
    // A thread that another process runs is not loaded here.
    if last == Some(TurnStatus::InProgress) {
        return State::new(Urgency::Running, Ink::Green, "running");
    }
    let queue = thread.queue.as_ref().filter(|queue| queue.depth > 0);
    if let Some(queue) = queue {
        return of_queue(screen, queue);
    }
    outcome(last).unwrap_or_else(|| match thread.status {
        ThreadStatus::SystemError => State::new(Urgency::Idle, Ink::Red, "failed"),
        // A server that does not say how the last turn ended.
        _ if thread.preview.is_empty() => State::new(Urgency::Idle, Ink::Dim, "new"),
        _ => State::new(Urgency::Idle, Ink::Plain, "idle"),
    })
}

/// The state of a queue in which something waits and nothing runs.
fn of_queue(screen: &Screen, queue: &QueueSummary) -> State {
    if queue.blocked.is_some() {
        return State::new(Urgency::Held, Ink::Red, "held: failed");
    }
    if queue.paused.is_some() {
        return State::new(Urgency::Held, Ink::Yellow, "held: paused");
    }
    match &queue.waiting {
        Some(waiting) => match waiting.until_ms {
            Some(at_ms) => {
                let word = format!("starts {}", screen.until(at_ms));
                State::new(Urgency::Waits, Ink::Yellow, word)
            }
            None => State::new(Urgency::Held, Ink::Yellow, "held: provider"),
        },
        None => State::new(Urgency::Queued, Ink::Plain, "queued"),
    }
}

/// The same state with what its next row waits for.
pub(crate) fn of_head(screen: &Screen, state: State, head: &QueuedTurn) -> State {
    match head.not_before_ms.filter(|at_ms| *at_ms > screen.now_ms) {
        Some(at_ms) if state.urgency == Urgency::Queued => {
            let word = format!("starts {}", screen.until(at_ms));
            State::new(Urgency::Waits, Ink::Yellow, word)
        }
        Some(_) | None => state,
    }
}

/// The state of a thread whose last turn has ended; none where there was no turn.
fn outcome(last: Option<TurnStatus>) -> Option<State> {
    let (ink, word) = match last? {
        TurnStatus::InProgress => (Ink::Green, "running"),
        TurnStatus::Completed => (Ink::Plain, "completed"),
        TurnStatus::Interrupted => (Ink::Yellow, "interrupted"),
        TurnStatus::Failed => (Ink::Red, "failed"),
    };
    Some(State::new(Urgency::Idle, ink, word))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn word(
        status: Value,
        depth: u32,
        queue: &Value,
        last: Option<&str>,
        asked: OpenApproval,
    ) -> String {
        let mut summary = json!({"depth": depth, "paused": null, "waiting": null, "blocked": null});
        for (key, value) in queue.as_object().unwrap() {
            summary[key] = value.clone();
        }
        let id = "0198c0de-41aa-7000-8000-0123456789ab";
        let mut thread = json!({
            "id": id, "sessionId": id, "preview": "x", "ephemeral": false, "modelProvider": "p",
            "createdAt": 0, "updatedAt": 0, "status": {"type": "notLoaded"}, "cwd": "/", "turns": [],
            "cliVersion": "1", "source": "cli", "queue": summary,
        });
        thread["status"] = status;
        if let Some(last) = last {
            thread["lastTurn"] = json!({
                "id": id, "status": last, "startedAtMs": 0, "completedAtMs": null,
            });
        }
        let thread: Thread = serde_json::from_value(thread).unwrap();
        of_thread(&Screen::plain(), &thread, asked).word
    }

    #[test]
    fn a_state_that_waits_for_a_person_is_never_hidden() {
        let idle = json!({"type": "idle"});
        let active = json!({"type": "active", "activeFlags": []});
        let none = json!({});
        let paused = json!({"paused": {"reason": "user", "by": null, "sinceMs": 0}});
        let failed = json!({"blocked": {
            "queuedTurnId": "0198c0de-41aa-7000-8000-0123456789ab", "message": "m"}});
        let waits = |until: Value| json!({"waiting": {"kind": "auth", "message": "m", "sinceMs": 0, "untilMs": until}});
        let (ended, running) = (Some("failed"), Some("inProgress"));
        let (yes, no) = (OpenApproval::Yes, OpenApproval::No);
        for (status, depth, queue, last, asked, expected) in [
            (&active, 0, &none, running, yes, "needs approval"),
            (&active, 3, &none, running, no, "running"),
            // Another process runs it.
            (&idle, 0, &none, running, no, "running"),
            (&idle, 1, &paused, ended, no, "held: paused"),
            (&idle, 1, &failed, ended, no, "held: failed"),
            (&idle, 1, &waits(Value::Null), ended, no, "held: provider"),
            (&idle, 1, &waits(json!(300_000)), ended, no, "starts in 5m"),
            (&idle, 1, &none, ended, no, "queued"),
            // Nothing waits, so nothing is held.
            (&idle, 0, &paused, ended, no, "failed"),
            (&idle, 0, &waits(Value::Null), ended, no, "failed"),
            (&idle, 0, &none, Some("completed"), no, "completed"),
            (&idle, 0, &none, Some("interrupted"), no, "interrupted"),
            (&idle, 0, &none, None, no, "idle"),
        ] {
            let said = word(status.clone(), depth, queue, last, asked);
            assert_eq!(said, expected, "{status} {queue} {last:?}");
        }
    }
}
