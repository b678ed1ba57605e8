//! What became of a turn whose worker died: read back from Codex's own history.
//!
//! `codex exec` gives a turn no id that we could look for. The turn is known by its time and by its
//! text instead. The invariant: nothing is guessed. A history that cannot be read says nothing about
//! the turn, and no child outlives its worker, so a turn never still runs.

use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use crate::engine::{BoxFuture, Reconciled};
use crate::outcome::{EngineError, TurnOutcome};

/// Reads the history of Codex's threads, through the app-server of the same program.
pub trait HistoryReader: Send + Sync {
    /// The turns of a thread, in any order; those before `since_ms` may be left out.
    fn read_turns(
        &self,
        thread_id: String,
        since_ms: i64,
    ) -> BoxFuture<'_, Result<Vec<PastTurn>, HistoryError>>;
}

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the history of the Codex thread: {reason}")]
pub struct HistoryError {
    /// A text for people.
    pub reason: String,
}

/// One turn in a thread's history.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// When it began. Codex tells whole seconds.
    pub started_ms: i64,
    /// How it ended.
    pub status: PastTurnStatus,
    /// The text of its user message.
    pub user_text: String,
    /// Its error, as Codex tells it.
    pub error: Option<EngineError>,
    /// What it produced, in order, without its user message.
    pub items: Vec<ThreadItem>,
}

/// How a past turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastTurnStatus {
    /// By itself.
    Completed,
    /// By an error.
    Failed,
    /// By an interrupt.
    Interrupted,
    /// No end is recorded: the child died with its worker.
    InProgress,
}

/// Decides what became of the turn with this text that was accepted at `accepted_ms`.
pub(super) fn decide(turns: Vec<PastTurn>, text: &str, accepted_ms: i64) -> Reconciled {
    match find(turns, text, accepted_ms) {
        None => Reconciled::Absent,
        Some(turn) => Reconciled::Ended {
            outcome: Box::new(outcome(&turn)),
            items: turn.items,
        },
    }
}

/// Names the items as `codex exec` counts them, so that those told before the worker died are not stored
/// a second time.
pub(super) fn named(reconciled: Reconciled, turn: TurnId) -> Reconciled {
    let Reconciled::Ended { outcome, mut items } = reconciled else {
        return reconciled;
    };
    for (number, item) in items.iter_mut().enumerate() {
        item.id = ItemId::from(format!("{turn}/item_{number}"));
    }
    Reconciled::Ended { outcome, items }
}

/// The newest turn with this text that did not begin before `accepted_ms`.
fn find(turns: Vec<PastTurn>, text: &str, accepted_ms: i64) -> Option<PastTurn> {
    // In whole seconds, since Codex rounds down to them.
    let accepted = accepted_ms.div_euclid(1000);
    let is_ours = |turn: &PastTurn| {
        turn.started_ms.div_euclid(1000) >= accepted && same_text(&turn.user_text, text)
    };
    let ours = turns.into_iter().filter(is_ours);
    ours.max_by_key(|turn| turn.started_ms)
}

/// Codex may take the white space around a prompt away.
fn same_text(theirs: &str, ours: &str) -> bool {
    theirs.trim() == ours.trim()
}

fn outcome(turn: &PastTurn) -> TurnOutcome {
    let mut outcome = match turn.status {
        PastTurnStatus::Completed => TurnOutcome::completed(),
        PastTurnStatus::Failed => {
            let unnamed = || {
                let text = "the turn failed; Codex's history does not say why";
                EngineError::new(text, CodexErrorInfo::Other, ErrorKind::Other)
            };
            TurnOutcome::failed(turn.error.clone().unwrap_or_else(unnamed))
        }
        PastTurnStatus::Interrupted | PastTurnStatus::InProgress => TurnOutcome {
            outcome_known: false,
            ..TurnOutcome::interrupted()
        },
    };
    let message = |item: &ThreadItem| match &item.body {
        ItemBody::AgentMessage(message) => Some(message.text.clone()),
        _ => None,
    };
    outcome.last_agent_message = turn.items.iter().rev().find_map(message);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeStatus;

    fn turn(started_ms: i64, text: &str, status: PastTurnStatus) -> PastTurn {
        let body = super::super::items::message_body(format!("answer to {text}"));
        PastTurn {
            started_ms,
            status,
            user_text: text.to_owned(),
            error: None,
            items: vec![ThreadItem::started("i".into(), started_ms, body)],
        }
    }

    fn ended(reconciled: Reconciled) -> TurnOutcome {
        match reconciled {
            Reconciled::Ended { outcome, .. } => *outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_turn_with_our_text_decides() {
        use PastTurnStatus::{Completed, Failed};
        let turns = vec![
            turn(9_000, "ours", Failed),
            turn(12_000, "ours", Completed),
            turn(11_000, "ours", Failed),
            turn(13_000, "other", Failed),
        ];
        let outcome = ended(decide(turns.clone(), "ours", 10_500));
        assert_eq!(outcome.status, OutcomeStatus::Completed);
        assert_eq!(
            outcome.last_agent_message.as_deref(),
            Some("answer to ours")
        );
        assert!(outcome.outcome_known);
        // Codex rounds down to the second in which we accepted.
        let outcome = ended(decide(vec![turn(12_000, "ours\n", Failed)], "ours", 12_900));
        assert_eq!(outcome.status, OutcomeStatus::Failed);
        assert!(outcome.error.is_some());
        assert_eq!(decide(turns.clone(), "ours", 13_000), Reconciled::Absent);
        assert_eq!(decide(turns, "absent", 0), Reconciled::Absent);
        assert_eq!(decide(Vec::new(), "ours", 0), Reconciled::Absent);
    }

    #[test]
    fn an_unfinished_turn_was_interrupted_and_its_effects_are_unknown() {
        use PastTurnStatus::{InProgress, Interrupted};
        for status in [Interrupted, InProgress] {
            let outcome = ended(decide(vec![turn(1, "t", status)], "t", 0));
            assert_eq!(outcome.status, OutcomeStatus::Interrupted);
            assert!(!outcome.outcome_known);
        }
    }
}
