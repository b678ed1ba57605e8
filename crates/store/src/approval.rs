//! Approvals: who was asked what, and what was decided.
//!
//! The invariant here: an approval is resolved at most once, and an approval of a turn that has
//! ended is not open. What is asked and answered is opaque.

use crate::ids::{ApprovalId, ThreadId, TurnId};
use crate::json::Json;

/// A decision that somebody has to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAsked {
    /// The approval.
    pub id: ApprovalId,
    /// The turn that waits for it.
    pub turn: TurnId,
    /// What is asked.
    pub body: Json,
    /// When, in milliseconds since 1970.
    pub requested_ms: i64,
    /// When it is declined by itself; none without a limit.
    pub expires_ms: Option<i64>,
}

/// A decision that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalResolved {
    /// The approval.
    pub id: ApprovalId,
    /// What was decided: a word, or what the caller encoded.
    pub decision: String,
    /// Who decided.
    pub decided_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// When, in milliseconds since 1970.
    pub resolved_ms: i64,
}

/// An approval as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRow {
    /// The thread.
    pub thread: ThreadId,
    /// What was asked.
    pub asked: ApprovalAsked,
    /// What was decided, if it was.
    pub resolved: Option<ApprovalResolved>,
}

/// Which approvals to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalQuery {
    /// All that are open, oldest first.
    Open,
    /// Those of one thread that are open, oldest first.
    OpenOf(ThreadId),
    /// One, open or not.
    One(ApprovalId),
}
