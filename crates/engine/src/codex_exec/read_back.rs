//! Reads Codex's history through the app-server children of the engine `codex`.
//!
//! The invariant here: a history is read as a whole or not at all. A turn whose begin or state Codex does
//! not tell could be the one that is looked for, so it makes the whole history unreadable.

use super::reconcile::{HistoryError, HistoryReader, PastTurn, PastTurnStatus};
use crate::codex::{self, AppServers, RecordedStatus, TurnRecord};
use crate::engine::BoxFuture;

impl HistoryReader for AppServers {
    fn read_turns(
        &self,
        thread_id: String,
        since_ms: i64,
    ) -> BoxFuture<'_, Result<Vec<PastTurn>, HistoryError>> {
        Box::pin(async move {
            match self.turns(&thread_id, since_ms.div_euclid(1_000)).await {
                Ok(turns) => turns.into_iter().map(past_turn).collect(),
                // Codex writes a thread to disk with its first turn.
                Err(codex::HistoryError::Absent) => Ok(Vec::new()),
                Err(error) => Err(unreadable(error.to_string())),
            }
        })
    }
}

fn past_turn(record: TurnRecord) -> Result<PastTurn, HistoryError> {
    let status = match record.status {
        RecordedStatus::Completed => PastTurnStatus::Completed,
        RecordedStatus::Failed => PastTurnStatus::Failed,
        RecordedStatus::Interrupted => PastTurnStatus::Interrupted,
        RecordedStatus::InProgress => PastTurnStatus::InProgress,
        RecordedStatus::Unlisted(word) => {
            return Err(unreadable(format!(
                "a turn has the unknown status `{word}`"
            )));
        }
    };
    let Some(started_s) = record.started_at else {
        return Err(unreadable("a turn has no begin".to_owned()));
    };
    Ok(PastTurn {
        started_ms: started_s.saturating_mul(1_000),
        status,
        user_text: record.user_texts.into_iter().next().unwrap_or_default(),
        error: record.error,
        items: record.items,
    })
}

fn unreadable(reason: String) -> HistoryError {
    HistoryError { reason }
}
