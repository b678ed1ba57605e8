//! The calls about queues: what is sent, and where a row is by what comes back.
//!
//! The invariant here: nothing is decided here about a turn; a row is in the queue, is the one that
//! runs, or is neither. Both servers' names for it are known here alone.

use serde_json::{Map, Value, json};

use super::{QueueView, QueuedRow};
use crate::call::CallOptions;
use crate::core::Core;
use crate::error::CallError;
use crate::ids::{QueuedTurnId, ThreadId, TurnId};
use crate::link::Repeat;
use crate::thread::Thread;
use crate::turn::Pages;

const LIST: &str = "thread/queue/list";
const DELETE: &str = "thread/queue/delete";

/// Where a row is.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    /// In the queue.
    Waits {
        /// How many rows are before it.
        position: u32,
        row: Value,
    },
    /// It is the turn that runs, or is about to.
    Runs,
    /// Neither.
    Gone,
    /// Neither, but the queue changed while its pages were read: it may have moved between two.
    Unseen,
}

/// A queue as its pages showed it.
struct Shown {
    rows: Vec<Value>,
    /// What the last page said of the lane.
    state: Map<String, Value>,
    /// Whether all pages are of the same queue. Codex does not tell, and is believed.
    is_one: bool,
}

/// `thread/queue/delete`.
pub(crate) async fn delete(
    core: &Core,
    thread: &ThreadId,
    row: &QueuedTurnId,
) -> Result<bool, CallError> {
    let member = if core.is_turnlane() {
        "queuedTurnId"
    } else {
        "queuedSubmissionId"
    };
    let params = json!({"threadId": thread, member: row});
    let options = CallOptions::default();
    let answer: Value = core
        .call_as(DELETE, &params, Repeat::Never, options)
        .await?;
    Ok(answer.get("deleted").and_then(Value::as_bool) == Some(true))
}

/// All rows, and what the server says of the lane.
async fn rows(core: &Core, thread: &ThreadId) -> Result<Shown, CallError> {
    let mut pages = Pages::new(LIST, json!({"threadId": thread}));
    let mut shown = Shown {
        rows: Vec::new(),
        state: Map::new(),
        is_one: true,
    };
    while let Some((page, besides)) = pages.next_with_state(core).await? {
        shown.rows.extend(page);
        let is_first = shown.state.is_empty();
        shown.is_one &= is_first || shown.state.get("revision") == besides.get("revision");
        shown.state = besides;
    }
    Ok(shown)
}

/// Where a row is among rows.
fn index_of(rows: &[Value], row: &QueuedTurnId) -> Option<u32> {
    let is_it = |shown: &Value| shown.get("id").and_then(Value::as_str) == Some(row.as_str());
    let index = rows.iter().position(is_it)?;
    u32::try_from(index).ok()
}

/// Whether a row holds its queue because it failed.
pub(super) fn is_failed(row: &Value) -> bool {
    row.pointer("/status/type").and_then(Value::as_str) == Some("failed")
}

/// Where a row is.
pub(crate) async fn whereabouts(
    core: &Core,
    thread: &ThreadId,
    row: &QueuedTurnId,
) -> Result<Whereabouts, CallError> {
    let mut shown = rows(core, thread).await?;
    if let Some(position) = index_of(&shown.rows, row) {
        let row = shown.rows.swap_remove(position as usize);
        return Ok(Whereabouts::Waits { position, row });
    }
    let is_it =
        |running: &Value| running.get("queuedTurnId").and_then(Value::as_str) == Some(row.as_str());
    match shown.state.get("running") {
        Some(running) if is_it(running) => Ok(Whereabouts::Runs),
        _ if shown.is_one => Ok(Whereabouts::Gone),
        _ => Ok(Whereabouts::Unseen),
    }
}

/// The row in which a turn waits.
pub(crate) async fn row_of(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<QueuedTurnId>, CallError> {
    let shown = rows(core, thread).await?;
    let is_it = |row: &&Value| row.get("turnId").and_then(Value::as_str) == Some(turn.as_str());
    let row = shown.rows.iter().find(is_it);
    let id = row.and_then(|row| row.get("id")).and_then(Value::as_str);
    Ok(id.map(QueuedTurnId::from))
}

/// Whether a turn waits in the queue, or is about to run from it; also when that cannot be told.
pub(crate) async fn holds(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<bool, CallError> {
    let shown = rows(core, thread).await?;
    let all = shown.rows.iter().chain(shown.state.get("running"));
    let turns = all.filter_map(|row| row.get("turnId"));
    let mut turns = turns.filter_map(Value::as_str);
    Ok(turns.any(|id| id == turn.as_str()) || !shown.is_one)
}

/// What waits in a lane.
pub(crate) async fn view(thread: &Thread) -> Result<QueueView, CallError> {
    let Shown { rows, state, .. } = rows(&thread.owner, thread.id()).await?;
    let rows = rows.into_iter().filter_map(|raw| {
        let id = QueuedTurnId::from(raw.get("id")?.as_str()?);
        let state = raw.pointer("/status/type").and_then(Value::as_str);
        Some(QueuedRow {
            id,
            state: state.unwrap_or("pending").to_owned(),
            raw,
        })
    });
    Ok(QueueView {
        rows: rows.collect(),
        paused: state.get("paused").map(|paused| !paused.is_null()),
    })
}
