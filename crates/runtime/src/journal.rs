//! The log of a worker: one line for the end of each turn and for each hold of a lane.
//!
//! The invariant here: a line holds ids, words of the protocol, numbers and the name of a thread. It
//! never holds a prompt, an answer, a command or the text of a provider, which may repeat any of them.
//! Lanes that a dead worker left are logged here as well: they are decided before a server exists.

use std::sync::Arc;

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::turn::{Turn, TurnStatus};
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_protocol::usage::TurnUsage;
use turnlane_store::lane::{Head, LaneView};
use turnlane_store::recovery::RecoveredLane;
use turnlane_store::turn::{Refused, TurnRow, TurnStatus as StoredStatus};
use turnlane_store::{Store, ThreadId as StoredThreadId};

use crate::ids;
use crate::lane::rows;
use crate::options::Drain;
use crate::shared::Shared;

/// The longest name of a thread in a line.
const NAME_CHARS: usize = 80;

/// A turn has ended, and its end is on disk. Does not wait: what has to be read is read in another task.
pub(crate) fn turn_ended(shared: &Arc<Shared>, thread: ThreadId, turn: &Turn) {
    if !tracing::enabled!(tracing::Level::WARN) {
        return;
    }
    let (shared, turn) = (Arc::clone(shared), TurnLine::new(thread, turn));
    tokio::spawn(async move {
        let store = shared.store.as_ref();
        turn.write(&name(store, thread).await);
        if let Ok(lane) = store.look(ids::thread(thread)).await {
            held(thread, &lane, shared.clock.now_ms());
        }
    });
}

/// Writes the hold of a lane, if something holds it at this time.
pub(crate) fn held(thread: ThreadId, lane: &LaneView, now_ms: i64) {
    if let Some(hold) = Hold::of(lane, now_ms) {
        hold.write(thread);
    }
}

/// A dead worker's lane was taken over; where this worker drains it, also what that leaves.
///
/// A worker that runs a single command does not warn of the lanes of others.
pub(crate) async fn taken_over(shared: &Shared, recovered: &RecoveredLane) {
    let thread = ids::wire_thread(recovered.thread);
    tracing::info!(%thread, "a dead worker's lane was taken over");
    if shared.options.drain != Drain::All {
        return;
    }
    if let Some(turn) = &recovered.turn {
        let name = name(shared.store.as_ref(), thread).await;
        TurnLine::of_row(thread, turn).write(&name);
    }
    // A lane that is to be decided by its engine is logged when that is done.
    if recovered.grip.is_none() {
        held(thread, &recovered.lane, shared.clock.now_ms());
    }
}

/// A queued turn could not start: its row holds the lane, or a failed turn is in the history.
pub(crate) fn could_not_start(shared: &Arc<Shared>, thread: StoredThreadId, refused: &Refused) {
    let thread = ids::wire_thread(thread);
    if let Some(turn) = &refused.turn {
        let (shared, line) = (Arc::clone(shared), TurnLine::of_row(thread, turn));
        tokio::spawn(async move {
            line.write(&name(shared.store.as_ref(), thread).await);
        });
    }
    held(thread, &refused.lane, shared.clock.now_ms());
}

/// A client paused the queue. A desk has no log: the command that paused says so itself.
pub(crate) fn paused(shared: &Shared, thread: ThreadId, lane: &LaneView) {
    if shared.options.max_running > 0 {
        held(thread, lane, shared.clock.now_ms());
    }
}

async fn name(store: &dyn Store, thread: ThreadId) -> String {
    let row = store.thread(ids::thread(thread)).await.ok().flatten();
    row.and_then(|row| row.name).unwrap_or_default()
}

/// What a line says about the end of a turn.
struct TurnLine {
    thread: ThreadId,
    turn: String,
    status: TurnStatus,
    kind: Option<ErrorKind>,
    duration_ms: i64,
    input_tokens: i64,
    output_tokens: i64,
}

impl TurnLine {
    fn new(thread: ThreadId, turn: &Turn) -> Self {
        let counts = turn.usage.and_then(|usage| usage.turn).unwrap_or_default();
        let error = turn.error.as_ref();
        Self {
            thread,
            turn: turn.id.to_string(),
            status: turn.status,
            kind: error.map(|error| error.kind.clone().unwrap_or(ErrorKind::Unknown)),
            duration_ms: turn.duration_ms.unwrap_or(0),
            input_tokens: counts.input_tokens,
            output_tokens: counts.output_tokens,
        }
    }

    /// The line of a turn as it is stored.
    fn of_row(thread: ThreadId, row: &TurnRow) -> Self {
        let error = row.error.as_ref();
        let kind = error.map(|error| {
            let error: Option<TurnError> = rows::read(error).ok();
            let kind = error.and_then(|error| error.kind);
            kind.unwrap_or(ErrorKind::Unknown)
        });
        let usage: Option<TurnUsage> = row.usage.as_ref().and_then(|usage| rows::read(usage).ok());
        let counts = usage.and_then(|usage| usage.turn).unwrap_or_default();
        let ended_ms = row.completed_ms.unwrap_or(row.started_ms);
        Self {
            thread,
            turn: ids::wire_turn(row.id).to_string(),
            status: match row.status {
                StoredStatus::InProgress => TurnStatus::InProgress,
                StoredStatus::Completed => TurnStatus::Completed,
                StoredStatus::Failed => TurnStatus::Failed,
                StoredStatus::Interrupted => TurnStatus::Interrupted,
            },
            kind,
            duration_ms: (ended_ms - row.started_ms).max(0),
            input_tokens: counts.input_tokens,
            output_tokens: counts.output_tokens,
        }
    }

    fn write(&self, name: &str) {
        let name: String = name.chars().take(NAME_CHARS).collect();
        let kind = self.kind.as_ref().map(error_word).unwrap_or_default();
        let (thread, turn) = (self.thread, &self.turn);
        let (duration_ms, input_tokens, output_tokens) =
            (self.duration_ms, self.input_tokens, self.output_tokens);
        // A macro's level is fixed, so the two lines are written out.
        match self.status {
            TurnStatus::Failed => tracing::warn!(
                %thread, name, turn, error = kind, duration_ms, input_tokens, output_tokens,
                "a turn failed"
            ),
            TurnStatus::Interrupted => tracing::info!(
                %thread, name, turn, error = kind, duration_ms, input_tokens, output_tokens,
                "a turn was interrupted"
            ),
            _ => tracing::info!(
                %thread, name, turn, duration_ms, input_tokens, output_tokens,
                "a turn completed"
            ),
        }
    }
}

/// What keeps a lane from running its next turn.
#[derive(Debug, PartialEq, Eq)]
struct Hold {
    why: &'static str,
    kind: String,
    depth: u32,
    until_ms: Option<i64>,
}

impl Hold {
    /// What holds the lane at this time, if something does.
    fn of(lane: &LaneView, now_ms: i64) -> Option<Self> {
        let hold = |why, kind: &str, until_ms| {
            Some(Self {
                why,
                kind: kind.to_owned(),
                depth: lane.depth,
                until_ms,
            })
        };
        if lane.paused.is_some() {
            // The reason is a client's text.
            return hold("paused", "", None);
        }
        if let Some(waiting) = lane.waiting.as_ref().filter(|wait| wait.holds(now_ms)) {
            return hold("waiting", &waiting.kind, waiting.until_ms);
        }
        match &lane.head {
            Head::Failed { .. } => hold("failed", "", None),
            Head::None | Head::Due { .. } | Head::BoundElsewhere { .. } => None,
        }
    }

    fn write(&self, thread: ThreadId) {
        let Self {
            why,
            kind,
            depth,
            until_ms,
        } = self;
        let next = match (*why, until_ms) {
            ("failed", _) => format!("turnlane queue retry {thread}"),
            (_, Some(_)) => "goes on by itself".to_owned(),
            (_, None) => format!("turnlane queue resume {thread}"),
        };
        tracing::warn!(%thread, why, kind, depth, ?until_ms, next, "a lane is held");
    }
}

fn error_word(kind: &ErrorKind) -> String {
    match (kind, serde_json::to_value(kind)) {
        (ErrorKind::Unlisted(_), _) => "other".to_owned(),
        (_, Ok(serde_json::Value::String(word))) => word,
        (_, Ok(_) | Err(_)) => String::new(),
    }
}
