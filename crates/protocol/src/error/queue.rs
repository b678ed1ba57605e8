//! The exact errors about the queue.
//!
//! The invariant here: as in the files beside, each text stands once. Where the two dialects of the
//! queue have different words, the caller's own decide.
//!
//! When one of them is due is decided by the server.

use super::{ErrorObject, INVALID_REQUEST, Reason, quoted};

/// How many bytes a queued turn may have as it is stored.
pub const QUEUED_TURN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whose names a caller of the queue uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDialect {
    /// Queued turns: `turnStartParams`, `queuedTurnId`.
    Turns,
    /// Codex's queued submissions: `input`, `queuedSubmissionId`.
    Submissions,
}

fn refused(reason: Reason, message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_REQUEST, reason, message)
}

/// Refusals about the queue.
impl ErrorObject {
    /// A thread that is gone with its server has no queue.
    pub fn ephemeral_queue(dialect: QueueDialect, id: &str) -> Self {
        let what = match dialect {
            QueueDialect::Turns => "queued turns",
            QueueDialect::Submissions => "queued submissions",
        };
        let message = format!("ephemeral thread does not support {what}: {}", quoted(id));
        refused(Reason::Ephemeral, message)
    }

    /// Params of both dialects at once.
    pub fn both_queue_forms() -> Self {
        Self::invalid_request("pass either turnStartParams or input")
    }

    /// `turnStartParams` of another thread.
    pub fn other_thread() -> Self {
        let message = "`threadId` must match `turnStartParams.threadId`";
        refused(Reason::InvalidParams, message)
    }

    /// A turn with nothing to say.
    pub fn empty_queue_input() -> Self {
        let message = "only user input can be added to the user-message queue";
        refused(Reason::InvalidInput, message)
    }

    /// A turn that is too much to be kept.
    pub fn queued_turn_too_large(bytes: usize) -> Self {
        let message =
            format!("queued turn is too large: {bytes} bytes (max {QUEUED_TURN_BYTES_MAX})");
        refused(Reason::TooLarge, message)
    }

    /// A file that cannot be kept with the turn; `why` is the operating system's text.
    pub fn invalid_attachment(why: &str) -> Self {
        let message = format!("local queued attachment is invalid: {why}");
        refused(Reason::InvalidInput, message)
    }

    /// A number that is too small or too large; `member` names it.
    pub fn out_of_range(member: &str) -> Self {
        refused(Reason::InvalidParams, format!("{member} out of range"))
    }

    /// A row that does not wait.
    pub fn queued_turn_not_found(id: &str) -> Self {
        let message = format!("queued submission not found: {}", quoted(id));
        refused(Reason::QueuedTurnNotFound, message)
    }

    /// An order that is not one of the rows that wait.
    pub fn not_the_queue(dialect: QueueDialect) -> Self {
        let message = match dialect {
            QueueDialect::Turns => {
                "failed to reorder queued turns: \
                 queue reorder must include every visible queued turn exactly once"
            }
            QueueDialect::Submissions => {
                "queue reorder must include every queued submission exactly once"
            }
        };
        refused(Reason::StaleOrder, message)
    }

    /// Nothing waits.
    pub fn queue_empty() -> Self {
        refused(Reason::QueueEmpty, "queue is empty")
    }

    /// `thread/queue/start` without a row, and the head failed with this message.
    pub fn head_failed(id: &str, message: &str) -> Self {
        let message = format!(
            "the head of the queue failed: {message}; name it in queuedSubmissionId to run it \
             again, or delete it"
        );
        refused(Reason::HeadFailed, message).with("queuedTurnId", id)
    }

    /// `thread/queue/retry` of a row that only waits.
    pub fn queued_turn_not_failed(id: &str) -> Self {
        let message = format!("queued turn is not failed: {}", quoted(id));
        refused(Reason::NotFailed, message)
    }

    /// `thread/queue/move` to nowhere or to two places.
    pub fn unclear_move() -> Self {
        let message = "move needs exactly one of beforeId, afterId, position";
        refused(Reason::InvalidParams, message)
    }
}
