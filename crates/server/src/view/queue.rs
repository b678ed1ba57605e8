//! A queue and its rows, as clients see them.
//!
//! The invariant here: a row is shown as it is stored, also when what it is started with cannot be
//! read any more; it is then shown without input, and never hidden.

use serde_json::Value;
use turnlane_protocol::ids::QueuedTurnId;
use turnlane_protocol::queue::{QueueRunning, QueueState, QueuedTurn, QueuedTurnStatus};
use turnlane_protocol::thread::{QueueBlocked, QueuePaused, QueueSummary, QueueWaiting};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_runtime::store::lane::{Head, LaneView};
use turnlane_runtime::store::queue::{Row, RowState};
use turnlane_runtime::store::{Json, RowId};

use super::turn_id;

/// The wire's name of a row.
pub(crate) fn row_id(id: RowId) -> QueuedTurnId {
    QueuedTurnId::from_uuid(id.as_uuid())
}

/// A queue in short.
pub(crate) fn queue(lane: &LaneView) -> QueueSummary {
    let kind = |word: &str| serde_json::from_value(Value::from(word)).ok();
    QueueSummary {
        depth: lane.depth,
        paused: lane.paused.as_ref().map(|paused| QueuePaused {
            reason: paused.reason.clone(),
            by: paused.by.clone(),
            since_ms: paused.since_ms,
        }),
        waiting: lane.waiting.as_ref().and_then(|waiting| {
            Some(QueueWaiting {
                kind: kind(&waiting.kind)?,
                message: waiting.message.clone(),
                since_ms: waiting.since_ms,
                until_ms: waiting.until_ms,
            })
        }),
        blocked: match &lane.head {
            Head::Failed { row, failure } => Some(QueueBlocked {
                queued_turn_id: row_id(*row),
                message: failed(failure).message,
            }),
            Head::None | Head::Due { .. } | Head::BoundElsewhere { .. } => None,
        },
    }
}

/// What holds a queue, and how much waits in it.
pub(crate) fn queue_state(lane: &LaneView) -> QueueState {
    QueueState {
        summary: queue(lane),
        running: lane.active.map(|active| QueueRunning {
            queued_turn_id: Some(row_id(active.row)),
            turn_id: turn_id(active.turn),
        }),
        revision: lane.revision,
    }
}

/// A row of the queue, for both dialects.
pub(crate) fn queued_turn(row: &Row) -> QueuedTurn {
    let params: Value = serde_json::from_str(row.params.as_str()).unwrap_or_default();
    let input = params.get("input").and_then(Value::as_array);
    QueuedTurn {
        id: row_id(row.id),
        status: match (row.state, &row.failure) {
            (RowState::Blocked, Some(failure)) => QueuedTurnStatus::Failed {
                error: Box::new(failed(failure)),
            },
            _ => QueuedTurnStatus::Pending,
        },
        input: input.cloned().unwrap_or_default(),
        turn_start_params: params,
        client_user_message_id: row.client_id.clone(),
        turn_id: turn_id(row.turn),
        last_turn_id: row.last_turn.map(turn_id),
        position: row.ahead.unwrap_or(0),
        attempts: row.attempts,
        not_before_ms: (row.not_before_ms > 0).then_some(row.not_before_ms),
        source: row.source.clone(),
        created_at_ms: row.created_ms,
        updated_at_ms: row.updated_ms,
    }
}

fn failed(failure: &Json) -> TurnError {
    let error = serde_json::from_str(failure.as_str());
    error.unwrap_or_else(|_| {
        let message = "the turn failed";
        TurnError::new(message, CodexErrorInfo::Other, ErrorKind::Unknown)
    })
}
