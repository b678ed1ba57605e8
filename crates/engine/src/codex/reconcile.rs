//! What became of a turn whose child or worker died.
//!
//! The invariant here: a turn is looked for by the id that its message carried, so a turn that Codex
//! has is never sent again, and one that Codex has not is known to have had no effect. A turn that was
//! still running when its process died is interrupted, with an outcome that is not known.
//!
//! The same rules serve both cases: a child that died while `run_turn` waits, and
//! [`Engine::reconcile`](crate::Engine::reconcile) after the death of a worker.

use serde_json::{Map, Value};
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::item::ItemBody;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

use super::errors::classified;
use super::history::{HistoryError, RecordedStatus, TurnRecord};
use super::items::recovered;
use super::{AppServers, Shared};
use crate::codex_program::CodexThreadState;
use crate::engine::Reconciled;
use crate::outcome::TurnOutcome;
use crate::request::{TurnKind, TurnRequest};

/// By what a turn is found in Codex's history.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnKey<'a> {
    /// Codex's id of the turn, where it is known.
    pub(super) codex_turn: Option<&'a str>,
    /// The id that the message of the turn carries.
    pub(super) client_id: &'a str,
    /// False for turns that Codex records without a user message: compactions and continued turns.
    pub(super) has_message: bool,
}

impl TurnKey<'_> {
    /// The turn among those that began after our acceptance, the newest first.
    pub(super) fn find(self, turns: Vec<TurnRecord>) -> Option<TurnRecord> {
        let fits = |turn: &TurnRecord| {
            let by_id = self.codex_turn.is_some_and(|id| turn.id == id);
            let by_message = turn.client_ids.iter().any(|id| id == self.client_id);
            by_id || by_message || (!self.has_message && turn.client_ids.is_empty())
        };
        turns.into_iter().find(fits)
    }
}

/// Returns true if Codex records a user message for a turn of this kind.
pub(super) fn has_message(kind: TurnKind) -> bool {
    match kind {
        TurnKind::Turn => true,
        TurnKind::Compact | TurnKind::Continue => false,
    }
}

/// The outcome of a turn that was read back.
pub(super) fn outcome_of(record: &TurnRecord, limits: &Map<String, Value>) -> TurnOutcome {
    let outcome = match record.status {
        RecordedStatus::Completed => TurnOutcome::completed(),
        RecordedStatus::Failed => {
            let error = record.error.clone().unwrap_or_else(unexplained);
            TurnOutcome::failed(classified(error, limits))
        }
        // No child outlives its worker, so a turn in progress was cut like an interrupted one.
        RecordedStatus::Interrupted | RecordedStatus::InProgress | RecordedStatus::Unlisted(_) => {
            TurnOutcome {
                outcome_known: false,
                ..TurnOutcome::interrupted()
            }
        }
    };
    let messages = record.items.iter().rev();
    let mut texts = messages.filter_map(|item| match &item.body {
        ItemBody::AgentMessage(message) => Some(message.text.clone()),
        _ => None,
    });
    TurnOutcome {
        last_agent_message: texts.next(),
        ..outcome
    }
}

/// The error of a failed turn that says no reason.
pub(super) fn unexplained() -> TurnError {
    let info = CodexErrorInfo::Other;
    TurnError::new("Codex gave no reason", info, ErrorKind::Other)
}

/// What became of the turn that a dead worker left.
pub(super) async fn after_worker(shared: &Shared, request: TurnRequest) -> Reconciled {
    let state = request.engine_state.as_deref().map(CodexThreadState::read);
    let Ok(state) = state.transpose() else {
        return Reconciled::Unknown;
    };
    // The id of the thread is saved before anything is handed over.
    let Some(state) = state else {
        return Reconciled::Absent;
    };
    let key = TurnKey {
        codex_turn: None,
        client_id: &request.client_id,
        has_message: has_message(request.kind),
    };
    let turn_id = request.turn_id;
    let accepted_s = request.accepted_ms.div_euclid(1_000);
    match look(&shared.servers, &state, accepted_s, key).await {
        Ok(Some(record)) => ended(&record, turn_id, (shared.clock)()),
        Ok(None) => Reconciled::Absent,
        Err(error) => {
            tracing::warn!(%error, "a turn cannot be reconciled");
            Reconciled::Unknown
        }
    }
}

async fn look(
    servers: &AppServers,
    state: &CodexThreadState,
    accepted_s: i64,
    key: TurnKey<'_>,
) -> Result<Option<TurnRecord>, HistoryError> {
    match servers.turns(&state.thread_id, accepted_s).await {
        Ok(turns) => Ok(key.find(turns)),
        // A thread that never counted a token is not written before its first turn begins.
        Err(HistoryError::Absent) if state.total.is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

fn ended(record: &TurnRecord, turn: TurnId, now_ms: i64) -> Reconciled {
    Reconciled::Ended {
        outcome: Box::new(outcome_of(record, &Map::new())),
        items: recovered(turn, record.items.clone(), now_ms),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::outcome::OutcomeStatus;

    fn record(id: &str, status: RecordedStatus, client_ids: &[&str]) -> TurnRecord {
        let message = json!({"id": "m", "type": "agentMessage", "text": "hello"});
        TurnRecord {
            id: id.to_owned(),
            started_at: None,
            status,
            user_texts: Vec::new(),
            client_ids: client_ids.iter().map(|&id| id.to_owned()).collect(),
            items: vec![serde_json::from_value(message).unwrap()],
            error: None,
        }
    }

    #[test]
    fn a_turn_is_found_by_its_message_or_its_id() {
        let turns = || {
            vec![
                record("c", RecordedStatus::Completed, &[]),
                record("b", RecordedStatus::Completed, &["row", "steer"]),
                record("a", RecordedStatus::Completed, &["older"]),
            ]
        };
        let key = TurnKey {
            codex_turn: None,
            client_id: "row",
            has_message: true,
        };
        let found = |key: TurnKey<'_>| key.find(turns()).map(|turn| turn.id);
        assert_eq!(found(key).as_deref(), Some("b"));
        let absent = TurnKey {
            client_id: "row#2",
            ..key
        };
        assert_eq!(found(absent), None);
        let known = TurnKey {
            codex_turn: Some("a"),
            ..absent
        };
        assert_eq!(found(known).as_deref(), Some("a"));
        let silent = TurnKey {
            has_message: false,
            ..absent
        };
        assert_eq!(found(silent).as_deref(), Some("c"));
    }

    #[test]
    fn outcomes_are_those_of_the_table() {
        for (status, expected, is_known) in [
            (RecordedStatus::Completed, OutcomeStatus::Completed, true),
            (RecordedStatus::Failed, OutcomeStatus::Failed, true),
            (
                RecordedStatus::Interrupted,
                OutcomeStatus::Interrupted,
                false,
            ),
            (
                RecordedStatus::InProgress,
                OutcomeStatus::Interrupted,
                false,
            ),
            (
                RecordedStatus::Unlisted("later".to_owned()),
                OutcomeStatus::Interrupted,
                false,
            ),
        ] {
            let outcome = outcome_of(&record("a", status, &[]), &Map::new());
            assert_eq!(
                (outcome.status, outcome.outcome_known),
                (expected, is_known)
            );
            assert_eq!(outcome.last_agent_message.as_deref(), Some("hello"));
        }
    }
}
