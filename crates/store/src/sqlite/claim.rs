//! From a row that waits to a row that is accepted as a turn, or is not.
//!
//! The invariants here: what a claim needs is checked in the transaction that claims; accepting
//! records row, turn and message together; a row that cannot be started leaves the lane idle in the
//! same transaction.
//!
//! The verdict on a row is the caller's pure function; running the turn is nobody's business here.

use rusqlite::params;

use super::Db;
use super::ends::{Return, Was, end, to_head};
use super::fault::Fault;
use super::lane::{Lane, row_of};
use super::rows::{find_row, save_row, visible_row};
use super::statement::first;
use super::threads::find_thread;
use super::turns::{begin, record_ended};
use crate::error::StoreError;
use crate::ids::{Grip, RowId};
use crate::lane::Head;
use crate::queue::{
    Acceptance, Accepting, CannotStart, Claim, Claimed, ClaimedRow, Row, RowState, Verdict, Which,
};
use crate::turn::{Accepted, Refused, TurnRow};

/// Claims a row, if it may be claimed.
pub(super) fn claim(db: &Db<'_>, claim: &Claim) -> Result<Claimed<ClaimedRow>, Fault> {
    let mut lane = Lane::find(db, claim.thread)?;
    let Some(row) = take_row(db, &mut lane, claim)? else {
        return Ok(Claimed::NotNow(lane.view(db)?));
    };
    save_claimed(db, &lane, row).map(Claimed::Ours)
}

fn save_claimed(db: &Db<'_>, lane: &Lane, row: Row) -> Result<ClaimedRow, Fault> {
    save_row(db, lane, &row)?;
    lane.save(db)?;
    Ok(ClaimedRow {
        grip: lane.grip(),
        row,
        lane: lane.view(db)?,
    })
}

/// Claims a row and accepts it, or deals with it; a long one is only claimed.
pub(super) fn claim_and_accept(
    db: &Db<'_>,
    claim: &Claim,
    accepting: &Accepting,
) -> Result<Claimed<Accepted>, Fault> {
    let mut lane = Lane::find(db, claim.thread)?;
    let Some(row) = take_row(db, &mut lane, claim)? else {
        return Ok(Claimed::NotNow(lane.view(db)?));
    };
    if !accepting.takes(&row) {
        let claimed = save_claimed(db, &lane, row)?;
        return Ok(Claimed::Ours(Accepted::Claimed(Box::new(claimed))));
    }
    accept_row(db, lane, row, accepting, claim.at_ms).map(Claimed::Ours)
}

/// Accepts a claimed row as a turn, or deals with it.
pub(super) fn accept(
    db: &Db<'_>,
    grip: Grip,
    row: RowId,
    accepting: &Accepting,
    at_ms: i64,
) -> Result<Accepted, Fault> {
    let lane = Lane::held(db, grip)?;
    let row = lane.active_row(db, row, &[RowState::Claimed])?;
    accept_row(db, lane, row, accepting, at_ms)
}

/// Notes that a foreign engine may see a claimed or started row from now on, and in which boot of the
/// machine.
pub(super) fn mark_sent(db: &Db<'_>, grip: Grip, row: RowId, at_ms: i64) -> Result<(), Fault> {
    const BOOT: &str = "SELECT boot_id FROM worker WHERE id = ?1 AND boot_id <> ''";
    let lane = Lane::held(db, grip)?;
    let mut row = lane.active_row(db, row, &[RowState::Claimed, RowState::Started])?;
    row.sent = true;
    row.sent_boot = first(db, BOOT, params![db.me], |row| row.get(0))?;
    row.updated_ms = at_ms;
    save_row(db, &lane, &row)
}

/// Deals with a claimed row that will not be accepted.
pub(super) fn unclaim(
    db: &Db<'_>,
    grip: Grip,
    row: RowId,
    how: &CannotStart,
    at_ms: i64,
) -> Result<Refused, Fault> {
    let lane = Lane::held(db, grip)?;
    let row = lane.active_row(db, row, &[RowState::Claimed])?;
    refuse(db, lane, row, how, at_ms)
}

/// Takes the row out of view and makes it ours, in memory; none when something holds the lane.
fn take_row(db: &Db<'_>, lane: &mut Lane, claim: &Claim) -> Result<Option<Row>, Fault> {
    if lane.active.is_some() || lane.owner.is_some_and(|owner| owner != db.me) {
        return Ok(None);
    }
    let picked = match claim.which {
        Which::Head => pick_due(db, lane, claim.at_ms)?,
        Which::HeadNow | Which::Row(_) => pick_now(db, lane, claim.which)?,
    };
    let Some(mut row) = picked else {
        return Ok(None);
    };
    // Whatever is left of a wait here is over.
    lane.waiting = None;
    lane.lose();
    lane.occupy(db.me, row.id);
    row.state = RowState::Claimed;
    row.position = None;
    row.failure = None;
    row.attempts += 1;
    row.sent = false;
    row.sent_boot = None;
    row.updated_ms = claim.at_ms;
    Ok(Some(row))
}

/// The head, if it is due and nothing holds the lane. If not, the lane's `ready_ms` is corrected, so
/// that it is not looked at again before that is of use.
fn pick_due(db: &Db<'_>, lane: &mut Lane, at_ms: i64) -> Result<Option<Row>, Fault> {
    if lane.archived || lane.paused.is_some() {
        return Ok(None);
    }
    let worth_a_look_ms = match (&lane.waiting, lane.head(db)?) {
        (Some(waiting), _) if waiting.holds(at_ms) => waiting.until_ms,
        (_, Head::Due { row, at_ms: due_ms }) if due_ms <= at_ms => {
            return find_row(db, lane.thread, row);
        }
        (_, Head::Due { at_ms: due_ms, .. }) => Some(due_ms),
        (_, Head::Failed { .. } | Head::None) => None,
        // Its worker is to find it.
        (_, Head::BoundElsewhere { .. }) => lane.ready_ms,
    };
    if lane.ready_ms != worth_a_look_ms {
        lane.ready_ms = worth_a_look_ms;
        lane.save(db)?;
    }
    Ok(None)
}

/// The head, unless it failed, or a named row, failed or not; due or not. Ends a pause and a wait.
fn pick_now(db: &Db<'_>, lane: &mut Lane, which: Which) -> Result<Option<Row>, Fault> {
    if lane.archived {
        return Err(StoreError::Archived(lane.thread).into());
    }
    let id = match which {
        Which::Row(row) => row,
        Which::Head | Which::HeadNow => match lane.head(db)? {
            // A caller that names no row may not know that rows fail.
            Head::Failed { row, failure } => {
                return Err(StoreError::HeadFailed { row, failure }.into());
            }
            head => row_of(&head).ok_or(Fault::Refused(StoreError::QueueEmpty))?,
        },
    };
    let row = visible_row(db, lane.thread, id)?;
    if row.bound.is_some_and(|worker| worker != db.me) {
        return Ok(None);
    }
    if lane.end_holds(db)? {
        // The wait that ended may have been this row's.
        return visible_row(db, lane.thread, id).map(Some);
    }
    Ok(Some(row))
}

/// Accepts a row that is claimed, in the database or in memory only.
fn accept_row(
    db: &Db<'_>,
    lane: Lane,
    mut row: Row,
    accepting: &Accepting,
    at_ms: i64,
) -> Result<Accepted, Fault> {
    let thread = find_thread(db, lane.thread)?;
    let verdict = accepting.decide(Acceptance {
        row: &row,
        thread: &thread,
    });
    match verdict {
        Verdict::Accept(accept) => {
            row.state = RowState::Started;
            row.updated_ms = at_ms;
            save_row(db, &lane, &row)?;
            lane.save(db)?;
            let begun = begin(db, &lane, row, &accept, at_ms)?;
            Ok(Accepted::Begun(Box::new(begun)))
        }
        Verdict::CannotStart(how) => {
            let refused = refuse(db, lane, row, &how, at_ms)?;
            Ok(Accepted::CannotStart(Box::new(refused)))
        }
    }
}

/// Deals with a claimed row that is not accepted, and leaves the lane idle.
fn refuse(
    db: &Db<'_>,
    mut lane: Lane,
    mut row: Row,
    how: &CannotStart,
    at_ms: i64,
) -> Result<Refused, Fault> {
    row.updated_ms = at_ms;
    let mut recorded: Option<TurnRow> = None;
    match how {
        CannotStart::Block { failure, turn } => {
            let failed = Return::Failed(failure);
            to_head(db, &mut lane, &mut row, *turn, Was::Nothing, &failed)?;
        }
        CannotStart::Fail(ended) => {
            recorded = Some(record_ended(db, lane.thread, &row, ended, at_ms)?);
            end(&mut row, RowState::Done, at_ms);
        }
        CannotStart::Back {
            turn,
            not_before_ms,
            waiting,
        } => {
            to_head(
                db,
                &mut lane,
                &mut row,
                *turn,
                Was::Nothing,
                &Return::Waiting,
            )?;
            row.not_before_ms = *not_before_ms;
            if let Some(waiting) = waiting {
                lane.waiting = Some(waiting.clone());
            }
        }
        CannotStart::Dead { failure } => {
            end(&mut row, RowState::Dead, at_ms);
            row.failure = Some(failure.clone());
        }
        CannotStart::Cancel => end(&mut row, RowState::Cancelled, at_ms),
    }
    lane.vacate();
    save_row(db, &lane, &row)?;
    lane.save(db)?;
    Ok(Refused {
        row,
        turn: recorded,
        lane: lane.view(db)?,
    })
}

#[cfg(test)]
mod tests;
