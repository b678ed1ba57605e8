//! The log of a server: one line for the end of each turn, for each hold of a lane, and for each
//! approval that is asked for or decided.
//!
//! The invariant here: a line holds ids, words of the protocol, numbers and the name of a thread. It
//! never holds a prompt, an answer, a command or the text of a provider, which may repeat any of them.
//! Nothing here waits: the runtime calls it from a lane's task, and what has to be read from the store
//! is read in a task of its own.

use std::sync::Arc;

use serde::Serialize;
use turnlane_protocol::approval::{Approval, Decision};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::Decider;
use turnlane_protocol::turn::{Turn, TurnStatus};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_runtime::store::lane::{Head, LaneView};

use crate::server::Shared;

/// The longest name of a thread in a line.
const NAME_CHARS: usize = 80;

/// A turn has ended, and its end is on disk.
pub(crate) fn turn_ended(shared: &Arc<Shared>, thread: ThreadId, turn: &Turn) {
    if !tracing::enabled!(tracing::Level::WARN) {
        return;
    }
    let (shared, turn) = (Arc::clone(shared), TurnLine::new(thread, turn));
    tokio::spawn(async move {
        let store = shared.options.runtime.store_of(thread);
        let id = thread.as_uuid().into();
        let row = store.thread(id).await.ok().flatten();
        turn.write(&row.and_then(|row| row.name).unwrap_or_default());
        if let Ok(lane) = store.look(id).await
            && let Some(hold) = Hold::of(&lane, shared.options.clock.now_ms())
        {
            hold.write(thread);
        }
    });
}

/// An approval is asked for.
pub(crate) fn asked(approval: &Approval) {
    tracing::info!(
        thread = %approval.thread_id, turn = %approval.turn_id, approval = %approval.approval_id,
        kind = word(&approval.kind), "an approval is asked for"
    );
}

/// An approval was decided.
pub(crate) fn decided(approval: &Approval, decision: &Decision, by: Decider) {
    tracing::info!(
        thread = %approval.thread_id, approval = %approval.approval_id, decision = word(decision),
        by = word(&by), "an approval was decided"
    );
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
            ("failed", _) => "turnlane queue retry",
            (_, Some(_)) => "goes on by itself",
            (_, None) => "turnlane queue resume",
        };
        tracing::warn!(%thread, why, kind, depth, ?until_ms, next, "a lane is held");
    }
}

/// The word that the protocol has for a value; what is no word has none here.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        // Of a decision with members only its name: the members are a client's or a command's.
        Ok(serde_json::Value::Object(members)) => {
            members.keys().next().cloned().unwrap_or_default()
        }
        Ok(_) | Err(_) => String::new(),
    }
}

fn error_word(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::Unlisted(_) => "other".to_owned(),
        kind => word(kind),
    }
}
