//! How a row leaves the lane that it occupied: ended, or back among those that wait.
//!
//! The invariant here: a row that comes back stands before all others, under a new turn id, and
//! remembers the turn that it was; only an ended row has an end.
//!
//! Which of these happens is the caller's decision.

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::lane::{Lane, STEP};
use super::statement::single;
use crate::ids::TurnId;
use crate::json::Json;
use crate::queue::{Row, RowState};

/// Whether the row that comes back was accepted as a turn before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Its turn is in the history.
    ATurn,
    /// Nothing has happened.
    Nothing,
}

/// How a row comes back.
#[derive(Debug)]
pub(super) enum Return<'a> {
    /// It waits again.
    Waiting,
    /// It is shown as failed.
    Failed(&'a Json),
}

/// Puts a row back to the head of its lane, in memory but for the look at the smallest position.
pub(super) fn to_head(
    db: &Db<'_>,
    lane: &mut Lane,
    row: &mut Row,
    turn: TurnId,
    was: Was,
    how: &Return<'_>,
) -> Result<(), Fault> {
    // Not its own: a claim that is refused in its own transaction was never written.
    const SMALLEST: &str = "SELECT min(pos) FROM queued_turn \
         WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos IS NOT NULL AND id <> ?2";
    let others = params![lane.thread, row.id];
    let smallest: Option<i64> = single(db, SMALLEST, others, |row| row.get(0))?;
    row.position = Some(smallest.unwrap_or(lane.next_pos) - STEP);
    match was {
        Was::ATurn => row.last_turn = Some(row.turn),
        Was::Nothing => {}
    }
    row.turn = turn;
    row.sent = false;
    row.sent_boot = None;
    match how {
        Return::Waiting => {
            row.state = RowState::Queued;
            row.failure = None;
        }
        Return::Failed(failure) => {
            row.state = RowState::Blocked;
            row.failure = Some((*failure).clone());
        }
    }
    lane.gain();
    Ok(())
}

/// Ends a row, in memory.
pub(super) fn end(row: &mut Row, state: RowState, at_ms: i64) {
    debug_assert!(state.is_ended(), "{state:?} is no end of a row");
    row.state = state;
    row.position = None;
    row.ended_ms = Some(at_ms);
    row.updated_ms = at_ms;
}
