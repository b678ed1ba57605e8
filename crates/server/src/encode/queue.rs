//! `thread/queue/changed`: the visible queue and what holds it.
//!
//! The invariant here: at most 100 rows and [`NOTIFICATION_BYTES_MAX`]; whoever is told `truncated`
//! lists the rest.

use serde_json::{Map, Value, json};
use turnlane_protocol::envelope::{Stamp, encode_notification};
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::store::lane::LaneView;
use turnlane_runtime::store::queue::{QueuePage, Row, RowState};

use super::NOTIFICATION_BYTES_MAX;
use crate::view;

/// The method.
pub(crate) const METHOD: &str = "thread/queue/changed";

/// The frame that tells what a queue looks like.
pub(crate) fn queue_changed(thread: ThreadId, page: &QueuePage, stamp: Stamp) -> Option<Vec<u8>> {
    let mut rows: Vec<Value> = page.rows.iter().enumerate().map(row).collect();
    let mut truncated = page.rows.len() < page.lane.depth as usize;
    loop {
        let mut params = state(&page.lane);
        params.insert("threadId".to_owned(), json!(thread));
        params.insert("queuedTurns".to_owned(), Value::Array(rows.clone()));
        params.insert("truncated".to_owned(), json!(truncated));
        let frame = encode_notification(METHOD, &params, Some(stamp)).ok()?;
        if frame.len() <= NOTIFICATION_BYTES_MAX || rows.is_empty() {
            return Some(frame);
        }
        truncated = true;
        rows.truncate(rows.len() / 2);
    }
}

/// What holds a queue, and how much waits in it.
fn state(lane: &LaneView) -> Map<String, Value> {
    let summary = serde_json::to_value(view::queue(lane)).unwrap_or_default();
    let mut state = match summary {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let running = lane.active.map(
        |active| json!({"queuedTurnId": active.row.to_string(), "turnId": active.turn.to_string()}),
    );
    state.insert("running".to_owned(), json!(running));
    state.insert("revision".to_owned(), json!(lane.revision));
    state
}

/// A row of the queue as both dialects read it.
pub(crate) fn row((position, row): (usize, &Row)) -> Value {
    let params: Value = serde_json::from_str(row.params.as_str()).unwrap_or_default();
    let status = match row.state {
        RowState::Blocked => json!({"type": "failed", "error": failure(row)}),
        _ => json!({"type": "pending"}),
    };
    json!({
        "id": row.id.to_string(),
        "status": status,
        "input": params.get("input"),
        "turnStartParams": params,
        "clientUserMessageId": row.client_id,
        "turnId": row.turn.to_string(),
        "lastTurnId": row.last_turn.map(|turn| turn.to_string()),
        "position": position,
        "attempts": row.attempts,
        "notBeforeMs": (row.not_before_ms > 0).then_some(row.not_before_ms),
        "source": row.source,
        "createdAtMs": row.created_ms,
        "updatedAtMs": row.updated_ms,
    })
}

fn failure(row: &Row) -> Option<Value> {
    serde_json::from_str(row.failure.as_ref()?.as_str()).ok()
}
