//! A queue and its rows, as clients see them.
//!
//! The invariant here: a row is shown as it is stored, also when what it is started with cannot be
//! read any more; it is then shown without input, and never hidden.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use turnlane_protocol::ids::{QueuedTurnId, TurnId};
use turnlane_protocol::queue::{QueueRunning, QueueState, QueuedTurn, QueuedTurnStatus};
use turnlane_protocol::thread::{QueueBlocked, QueuePaused, QueueSummary, QueueWaiting};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_runtime::store::lane::{Head, LaneView};
use turnlane_runtime::store::queue::{Row, RowState};
use turnlane_runtime::store::{Json, RowId};

use super::short::shorten_queue;
use super::turn_id;

/// The wire's name of a row.
pub(crate) fn row_id(id: RowId) -> QueuedTurnId {
    QueuedTurnId::from_uuid(id.as_uuid())
}

/// A queue in short.
pub(crate) fn queue(lane: &LaneView) -> QueueSummary {
    let kind = |word: &str| serde_json::from_value(Value::from(word)).ok();
    let mut summary = QueueSummary {
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
    };
    shorten_queue(&mut summary);
    summary
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
        status: status(row),
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

/// A row as [`queued_turn`] shows it, written without reading what it is started with.
///
/// A busy queue is told with up to 100 rows twice per turn; most of them are the same as before.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ShownRow<'a> {
    /// What was stored is copied.
    Stored(Box<StoredRow<'a>>),
    /// It cannot be copied as it is.
    Read(Box<QueuedTurn>),
}

/// The fields of [`QueuedTurn`], in its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredRow<'a> {
    id: QueuedTurnId,
    status: QueuedTurnStatus,
    turn_start_params: &'a RawValue,
    input: &'a RawValue,
    client_user_message_id: &'a str,
    turn_id: TurnId,
    last_turn_id: Option<TurnId>,
    position: u32,
    attempts: u32,
    not_before_ms: Option<i64>,
    source: &'a str,
    created_at_ms: i64,
    updated_at_ms: i64,
}

/// A row of the queue, for many at once.
pub(crate) fn shown_row(row: &Row) -> ShownRow<'_> {
    let Some((turn_start_params, input)) = stored_params(row.params.as_str()) else {
        return ShownRow::Read(Box::new(queued_turn(row)));
    };
    ShownRow::Stored(Box::new(StoredRow {
        id: row_id(row.id),
        status: status(row),
        turn_start_params,
        input,
        client_user_message_id: &row.client_id,
        turn_id: turn_id(row.turn),
        last_turn_id: row.last_turn.map(turn_id),
        position: row.ahead.unwrap_or(0),
        attempts: row.attempts,
        not_before_ms: (row.not_before_ms > 0).then_some(row.not_before_ms),
        source: &row.source,
        created_at_ms: row.created_ms,
        updated_at_ms: row.updated_ms,
    }))
}

/// The whole and its `input`, if both can be copied: an object with an array in it, on one line, as
/// frames are.
fn stored_params(text: &str) -> Option<(&RawValue, &RawValue)> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        input: &'a RawValue,
    }
    if !text.starts_with('{') || text.contains(['\n', '\r']) {
        return None;
    }
    let Params { input } = serde_json::from_str(text).ok()?;
    let whole = serde_json::from_str(text).ok()?;
    input.get().starts_with('[').then_some((whole, input))
}

fn status(row: &Row) -> QueuedTurnStatus {
    match (row.state, &row.failure) {
        (RowState::Blocked, Some(failure)) => QueuedTurnStatus::Failed {
            error: Box::new(failed(failure)),
        },
        _ => QueuedTurnStatus::Pending,
    }
}

/// Why a row failed, as it was stored.
pub(crate) fn failure_message(failure: &Json) -> String {
    failed(failure).message
}

fn failed(failure: &Json) -> TurnError {
    let error = serde_json::from_str(failure.as_str());
    error.unwrap_or_else(|_| {
        let message = "the turn failed";
        TurnError::new(message, CodexErrorInfo::Other, ErrorKind::Unknown)
    })
}

#[cfg(test)]
mod tests {
    use turnlane_runtime::store::queue::Policies;

    use super::*;

    fn row(params: &str) -> Row {
        let id = |number: u128| uuid::Uuid::from_u128(number);
        Row {
            id: id(1).into(),
            turn: id(2).into(),
            last_turn: Some(id(3).into()),
            source: "queue".to_owned(),
            position: Some(7),
            ahead: Some(4),
            state: RowState::Queued,
            not_before_ms: 12,
            attempts: 2,
            losses: 0,
            put_backs: 0,
            stops: 0,
            continues: false,
            policies: Policies::default(),
            bound: None,
            key: None,
            client_id: "mine \"1\"".to_owned(),
            sent: false,
            sent_boot: None,
            params: params.to_owned().into(),
            failure: None,
            created_ms: 10,
            updated_ms: 11,
            ended_ms: None,
        }
    }

    fn both(row: &Row) -> (String, Value) {
        let shown = serde_json::to_string(&shown_row(row)).unwrap_or_default();
        (
            shown,
            serde_json::to_value(queued_turn(row)).unwrap_or_default(),
        )
    }

    #[test]
    fn a_row_that_is_copied_says_what_a_row_that_is_read_says() {
        for params in [
            r#"{"input":[{"type":"text","text":"a\nb\u00e9"}],"model":null,"x":{"input":1}}"#,
            r#"{"threadId":"t","input":[]}"#,
            "{\"input\":\n[]}",
            r#"{"input":"words"}"#,
            r#"{"model":"m"}"#,
            "[[1]]",
            "not JSON",
            "",
        ] {
            let (shown, read) = both(&row(params));
            assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(read));
            assert!(!shown.contains('\n'), "{shown}");
        }
        let failure = TurnError::new("no", CodexErrorInfo::Other, ErrorKind::Other);
        let failure = serde_json::to_string(&failure).unwrap_or_default();
        let failed = Row {
            state: RowState::Blocked,
            failure: Some(failure.into()),
            last_turn: None,
            not_before_ms: 0,
            ..row(r#"{"input":[1]}"#)
        };
        let (shown, read) = both(&failed);
        assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(read));
        assert!(shown.contains("\"failed\""), "{shown}");
    }

    #[test]
    fn what_was_stored_is_copied_byte_by_byte() {
        let params = r#"{"z":1e2,"input":[{"b":1,"a":2}]}"#;
        let (shown, _) = both(&row(params));
        assert!(
            shown.contains(&format!("\"turnStartParams\":{params},")),
            "{shown}"
        );
        assert!(shown.contains(r#""input":[{"b":1,"a":2}],"#), "{shown}");
    }
}
