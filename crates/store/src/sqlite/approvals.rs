//! Approvals in the database.
//!
//! The invariant here: the first decision stays, and the end of a turn decides whatever of its
//! approvals is still open.
//!
//! Whom to ask and what a decision means is the runtime's business.

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::rows;
use super::statement::{all, execute};
use crate::approval::{ApprovalAsked, ApprovalQuery, ApprovalResolved, ApprovalRow};
use crate::ids::{ThreadId, TurnId};

/// Writes an approval that was asked for.
pub(super) fn ask(db: &Db<'_>, thread: ThreadId, asked: &ApprovalAsked) -> Result<(), Fault> {
    const ASK: &str = "INSERT INTO approval(id, thread_id, turn_id, body, requested_ms, expires_ms) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    execute(
        db,
        ASK,
        params![
            asked.id,
            thread,
            asked.turn,
            asked.body,
            asked.requested_ms,
            asked.expires_ms,
        ],
    )?;
    Ok(())
}

/// Writes a decision, unless there is one.
pub(super) fn resolve(
    db: &Db<'_>,
    thread: ThreadId,
    resolved: &ApprovalResolved,
) -> Result<(), Fault> {
    execute(
        db,
        include_str!("sql/resolve_approval.sql"),
        params![
            resolved.id,
            thread,
            resolved.decision,
            resolved.decided_by,
            resolved.reason,
            resolved.resolved_ms,
        ],
    )?;
    Ok(())
}

/// Decides what is open of a turn that has ended.
pub(super) fn interrupt_open(
    db: &Db<'_>,
    thread: ThreadId,
    turn: TurnId,
    at_ms: i64,
) -> Result<(), Fault> {
    const INTERRUPT: &str = include_str!("sql/interrupt_approvals.sql");
    execute(db, INTERRUPT, params![thread, turn, at_ms])?;
    Ok(())
}

/// Some approvals.
pub(super) fn approvals(db: &Db<'_>, query: ApprovalQuery) -> Result<Vec<ApprovalRow>, Fault> {
    const OPEN: &str = concat!(
        include_str!("sql/approval.sql"),
        "WHERE resolved_ms IS NULL ORDER BY requested_ms, id"
    );
    const OPEN_OF: &str = concat!(
        include_str!("sql/approval.sql"),
        "WHERE thread_id = ?1 AND resolved_ms IS NULL ORDER BY requested_ms, id"
    );
    const ONE: &str = concat!(include_str!("sql/approval.sql"), "WHERE id = ?1");
    match query {
        ApprovalQuery::Open => all(db, OPEN, [], rows::approval),
        ApprovalQuery::OpenOf(thread) => all(db, OPEN_OF, params![thread], rows::approval),
        ApprovalQuery::One(id) => all(db, ONE, params![id], rows::approval),
    }
}
