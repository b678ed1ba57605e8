//! What holds a lane, in words for the people who follow its thread.
//!
//! The invariant here: a text says what holds the lane, until when, and what to type. Clients of
//! Codex know nothing of pauses, waits and failed rows; for them it is the only sign of a hold.
//!
//! When a hold is told, and to whom, is decided in `actor::holds`.

use turnlane_engine::limits::moment;
use turnlane_protocol::approval::Approval;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::turn_error::TurnError;
use turnlane_store::Json;
use turnlane_store::lane::{Head, LaneView, Paused, Waiting};

use super::rows;

/// How many characters of another text are told.
const QUOTED_CHARS_MAX: usize = 300;

/// Something that keeps a lane from going on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// What is told.
    pub text: String,
    /// When it began, so that the same hold again is another one; 0 where the text names a row.
    since_ms: i64,
}

/// What holds the queue of a lane now.
pub(crate) fn of_queue(thread: ThreadId, lane: &LaneView, now_ms: i64) -> Vec<Hold> {
    let mut holds = Vec::new();
    if let Some(pause) = &lane.paused {
        holds.push(paused(thread, pause));
    }
    // A wait holds nothing while nothing waits behind it.
    let wait = lane.waiting.as_ref().filter(|_| lane.depth > 0);
    if let Some(wait) = wait.filter(|wait| wait.holds(now_ms)) {
        holds.push(waiting(thread, wait));
    }
    if let Head::Failed { row, failure } = &lane.head {
        let why = message(failure);
        holds.push(Hold {
            text: format!(
                "the first turn in the queue of this thread failed and holds the turns behind it: \
                 {why}; to run it again, type: turnlane queue retry {thread}; to remove it, type: \
                 turnlane queue rm {thread} {row}"
            ),
            since_ms: 0,
        });
    }
    holds
}

fn paused(thread: ThreadId, pause: &Paused) -> Hold {
    let reason = quoted(&pause.reason);
    let by = pause.by.as_deref().map(|by| format!(", by {}", quoted(by)));
    let by = by.unwrap_or_default();
    Hold {
        text: format!(
            "the queue of this thread is paused ({reason}{by}) and starts no turn until it is \
             resumed; to resume it, type: turnlane queue resume {thread}"
        ),
        since_ms: pause.since_ms,
    }
}

fn waiting(thread: ThreadId, wait: &Waiting) -> Hold {
    let until = match wait.until_ms {
        Some(at_ms) => format!("until {}", moment(at_ms)),
        None if wait.login.is_some() => "until the login changes".to_owned(),
        None => "until it is resumed".to_owned(),
    };
    let why = quoted(&wait.message);
    Hold {
        text: format!(
            "the queue of this thread waits {until}: {why}; to go on at once, type: turnlane queue \
             resume {thread}"
        ),
        since_ms: wait.since_ms,
    }
}

/// A question that no client that follows the thread can answer.
pub(crate) fn of_question(approval: &Approval) -> Hold {
    let (id, thread) = (approval.approval_id, approval.thread_id);
    let until = match approval.expires_at_ms {
        Some(at_ms) => format!("is declined at {}", moment(at_ms)),
        None => "waits without a time limit".to_owned(),
    };
    Hold {
        text: format!(
            "the turn of thread {thread} asks for an approval, and no client that is attached can \
             answer; the question {until}; to answer, type: turnlane approvals accept {id}, or: \
             turnlane approvals decline {id}"
        ),
        since_ms: approval.requested_at_ms,
    }
}

fn message(failure: &Json) -> String {
    let error: Result<TurnError, _> = rows::read(failure);
    error.map_or_else(
        |_| "the turn failed".to_owned(),
        |error| quoted(&error.message),
    )
}

/// A text of somebody else, on one line and not too long.
fn quoted(text: &str) -> String {
    let line = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(QUOTED_CHARS_MAX).map(line).collect()
}
