//! The order of the rows that wait: all anew, or one row elsewhere.
//!
//! The invariant here: positions of visible rows differ at every moment, so whatever is renumbered
//! gets fresh positions above all others; a row that is under way has none and is not moved.
//!
//! Rows that come back to the head are placed in `ends`.

use std::collections::HashSet;

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::lane::{Lane, STEP};
use super::queue::placed;
use super::rows::visible_row;
use super::statement::{all, first};
use crate::error::StoreError;
use crate::ids::{RowId, ThreadId};
use crate::lane::{Changed, LaneView};
use crate::queue::{Move, MoveTo, Row};

/// Puts the visible rows into this order.
pub(super) fn reorder(
    db: &Db<'_>,
    thread: ThreadId,
    order: &[RowId],
    at_ms: i64,
) -> Result<LaneView, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    let now = in_order(db, thread)?;
    let named: HashSet<&RowId> = order.iter().collect();
    let complete = order.len() == now.len() && named.len() == now.len();
    if !complete || !now.iter().all(|row| named.contains(row)) {
        return Err(StoreError::NotAPermutation.into());
    }
    if now != order {
        number(db, &mut lane, order, at_ms)?;
        lane.touch();
        lane.save(db)?;
    }
    lane.view(db)
}

/// Puts one visible row elsewhere.
pub(super) fn move_row(db: &Db<'_>, to: &Move) -> Result<Changed<Row>, Fault> {
    let mut lane = Lane::find_open(db, to.thread)?;
    let row = visible_row(db, to.thread, to.row)?;
    let gap = match to.to {
        // In front of or behind itself is where it is.
        MoveTo::Before(other) | MoveTo::After(other) if other == row.id => None,
        MoveTo::Before(other) => {
            let next = visible_row(db, to.thread, other)?.position;
            Some((neighbour(db, BELOW, &row, to.thread, next)?, next))
        }
        MoveTo::After(other) => {
            let previous = visible_row(db, to.thread, other)?.position;
            Some((previous, neighbour(db, ABOVE, &row, to.thread, previous)?))
        }
        MoveTo::Index(index) => Some(around(db, &row, to.thread, index)?),
    };
    let gap = gap.filter(|(previous, next)| {
        let behind = previous.is_none_or(|previous| row.position > Some(previous));
        let before = next.is_none_or(|next| row.position < Some(next));
        !(behind && before)
    });
    let Some((previous, next)) = gap else {
        return Ok(Changed {
            lane: lane.view(db)?,
            value: placed(db, to.thread, row)?,
        });
    };
    match place(&mut lane, previous, next) {
        Some(position) => set_position(db, &lane, row.id, position, to.at_ms)?,
        None => renumber_with(db, &mut lane, &row, next, to.at_ms)?,
    }
    lane.touch();
    let row = placed(db, to.thread, visible_row(db, to.thread, row.id)?)?;
    lane.save_with(db, row)
}

/// A position between two neighbours, if there is one left.
fn place(lane: &mut Lane, previous: Option<i64>, next: Option<i64>) -> Option<i64> {
    match (previous, next) {
        (_, None) => {
            let position = lane.next_pos;
            lane.next_pos += STEP;
            Some(position)
        }
        (None, Some(next)) => Some(next - STEP),
        (Some(previous), Some(next)) => {
            let middle = previous + (next - previous) / 2;
            (middle > previous).then_some(middle)
        }
    }
}

/// Renumbers the lane, with one row put in front of the one at that position.
fn renumber_with(
    db: &Db<'_>,
    lane: &mut Lane,
    row: &Row,
    next: Option<i64>,
    at_ms: i64,
) -> Result<(), Fault> {
    const AT: &str = "SELECT id FROM queued_turn \
         WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos = ?2";
    let next: Option<RowId> = first(db, AT, params![lane.thread, next], |row| row.get(0))?;
    let mut order = in_order(db, lane.thread)?;
    order.retain(|id| *id != row.id);
    let index = order
        .iter()
        .position(|id| Some(*id) == next)
        .unwrap_or(order.len());
    order.insert(index, row.id);
    number(db, lane, &order, at_ms)
}

/// Gives these rows fresh positions above all others.
fn number(db: &Db<'_>, lane: &mut Lane, order: &[RowId], at_ms: i64) -> Result<(), Fault> {
    for row in order {
        set_position(db, lane, *row, lane.next_pos, at_ms)?;
        lane.next_pos += STEP;
    }
    Ok(())
}

fn set_position(
    db: &Db<'_>,
    lane: &Lane,
    row: RowId,
    position: i64,
    at_ms: i64,
) -> Result<(), Fault> {
    const PLACE: &str =
        "UPDATE queued_turn SET pos = ?3, updated_ms = ?4 WHERE thread_id = ?1 AND id = ?2";
    let mut statement = db.connection.prepare_cached(PLACE)?;
    statement.execute(params![lane.thread, row, position, at_ms])?;
    Ok(())
}

/// The visible rows from the head on.
fn in_order(db: &Db<'_>, thread: ThreadId) -> Result<Vec<RowId>, Fault> {
    const IN_ORDER: &str = "SELECT id FROM queued_turn \
         WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos IS NOT NULL ORDER BY pos";
    all(db, IN_ORDER, params![thread], |row| row.get(0))
}

const BELOW: &str = "SELECT pos FROM queued_turn WHERE thread_id = ?1 \
     AND state IN ('queued','blocked') AND pos < ?2 AND id <> ?3 ORDER BY pos DESC LIMIT 1";
const ABOVE: &str = "SELECT pos FROM queued_turn WHERE thread_id = ?1 \
     AND state IN ('queued','blocked') AND pos > ?2 AND id <> ?3 ORDER BY pos LIMIT 1";

/// The position next to this one, not counting the row that is moved.
fn neighbour(
    db: &Db<'_>,
    side: &str,
    moved: &Row,
    thread: ThreadId,
    position: Option<i64>,
) -> Result<Option<i64>, Fault> {
    first(db, side, params![thread, position, moved.id], |row| {
        row.get(0)
    })
}

/// The positions before and behind so many rows, not counting the row that is moved.
fn around(
    db: &Db<'_>,
    moved: &Row,
    thread: ThreadId,
    index: u32,
) -> Result<(Option<i64>, Option<i64>), Fault> {
    const AROUND: &str = "SELECT pos FROM queued_turn WHERE thread_id = ?1 \
         AND state IN ('queued','blocked') AND pos IS NOT NULL AND id <> ?2 ORDER BY pos LIMIT 2 OFFSET ?3";
    const LAST: &str = "SELECT pos FROM queued_turn WHERE thread_id = ?1 \
         AND state IN ('queued','blocked') AND pos IS NOT NULL AND id <> ?2 ORDER BY pos DESC LIMIT 1";
    let Some(before) = index.checked_sub(1) else {
        let head = params![thread, moved.id, 0];
        return Ok((None, first(db, AROUND, head, |row| row.get(0))?));
    };
    let window = params![thread, moved.id, before];
    let found: Vec<i64> = all(db, AROUND, window, |row| row.get(0))?;
    if let Some(previous) = found.first() {
        return Ok((Some(*previous), found.get(1).copied()));
    }
    let last = first(db, LAST, params![thread, moved.id], |row| row.get(0))?;
    Ok((last, None))
}

#[cfg(test)]
mod tests;
