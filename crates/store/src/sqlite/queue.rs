//! The visible queue of a lane: adding, changing and reading rows that wait.
//!
//! The invariants here: a key stands for one content as long as its row lives and for a while
//! after; `depth` never rises above its maximum by an add; a change of what is visible moves the
//! revision. Any worker may do all this to any lane, so owner and fence play no role.
//!
//! Order among the rows is changed in `order`, rows are taken out of view in `claim`.

use rusqlite::params;

use super::Db;
use super::ends::end;
use super::fault::Fault;
use super::lane::{Lane, STEP, row_of};
use super::rows::{self, born, find_turn, insert_row, keyed_row, save_row, visible_row};
use super::statement::{all, execute, first};
use crate::error::StoreError;
use crate::ids::{RowId, ThreadId};
use crate::lane::{Changed, LaneView, Paused};
use crate::queue::{
    Append, Appended, NewRow, QueueFrom, QueuePage, QueueQuery, Repeated, Row, RowState, Update,
};

const LIVE_KEY: &str = concat!(
    include_str!("sql/row.sql"),
    include_str!("sql/live_key.sql")
);
const ENDED_KEY: &str = concat!(
    include_str!("sql/row.sql"),
    include_str!("sql/ended_key.sql")
);

/// Adds a row behind all others, or finds the one with its key.
pub(super) fn append(db: &Db<'_>, append: &Append) -> Result<Changed<Appended>, Fault> {
    let mut lane = Lane::find_open(db, append.thread)?;
    let remembered_ms = append.at_ms.saturating_sub(append.key_window_ms);
    if let Some(repeated) = find_key(db, append.thread, &append.row, remembered_ms)? {
        return Ok(Changed {
            value: Appended::Repeated(Box::new(repeated)),
            lane: lane.view(db)?,
        });
    }
    let row = add_last(db, &mut lane, &append.row, append.at_ms)?;
    lane.save_with(db, Appended::New(row))
}

/// The row that the key of a new one stands for; rows that ended up to `remembered_ms` have none.
pub(super) fn find_key(
    db: &Db<'_>,
    thread: ThreadId,
    new: &NewRow,
    remembered_ms: i64,
) -> Result<Option<Repeated>, Fault> {
    let Some(key) = &new.key else {
        return Ok(None);
    };
    let live = first(db, LIVE_KEY, params![thread, key], keyed_row)?;
    let found = match live {
        Some(found) => Some(found),
        None => first(
            db,
            ENDED_KEY,
            params![thread, key, remembered_ms],
            keyed_row,
        )?,
    };
    let Some((row, content_hash)) = found else {
        return Ok(None);
    };
    if content_hash != new.content_hash {
        return Err(StoreError::KeyTaken { key: key.clone() }.into());
    }
    let turn = match (find_turn(db, thread, row.turn)?, row.last_turn) {
        (None, Some(last)) => find_turn(db, thread, last)?,
        (turn, _) => turn,
    };
    let row = placed(db, thread, row)?;
    Ok(Some(Repeated { row, turn }))
}

/// How many visible rows have a position up to this one.
fn up_to(db: &Db<'_>, thread: ThreadId, position: i64) -> Result<u32, Fault> {
    // Only rows that are visible have a position, so the index alone counts them.
    const UP_TO: &str = "SELECT COUNT(*) FROM queued_turn WHERE thread_id = ?1 AND pos <= ?2";
    let count = first(db, UP_TO, params![thread, position], |row| row.get(0))?;
    Ok(count.unwrap_or(0))
}

/// A row with what is in front of it, if it is visible.
pub(super) fn placed(db: &Db<'_>, thread: ThreadId, mut row: Row) -> Result<Row, Fault> {
    if let Some(position) = row.position {
        row.ahead = Some(up_to(db, thread, position)?.saturating_sub(1));
    }
    Ok(row)
}

/// Adds a row behind all others, if there is room; the lane is left to be saved.
pub(super) fn add_last(
    db: &Db<'_>,
    lane: &mut Lane,
    new: &NewRow,
    at_ms: i64,
) -> Result<Row, Fault> {
    if lane.depth >= lane.max_depth {
        return Err(StoreError::QueueFull {
            max_depth: lane.max_depth,
        }
        .into());
    }
    if lane.depth == 0 {
        // Lists show a thread that something waits for; behind other rows it is shown already.
        const LISTED: &str = "UPDATE thread SET listed = 1 WHERE id = ?1 AND listed = 0";
        execute(db, LISTED, params![lane.thread])?;
    }
    let mut row = born(new, RowState::Queued, at_ms);
    row.position = Some(lane.next_pos);
    row.ahead = Some(lane.depth);
    lane.next_pos += STEP;
    lane.gain();
    insert_row(db, lane, &row, &new.content_hash)?;
    Ok(row)
}

/// Replaces what a visible row is started with.
pub(super) fn update(db: &Db<'_>, update: &Update) -> Result<Changed<Row>, Fault> {
    const UPDATE: &str = "UPDATE queued_turn SET params = ?3, updated_ms = ?4, continues = 0 \
         WHERE thread_id = ?1 AND id = ?2";
    let mut lane = Lane::find_open(db, update.thread)?;
    let mut row = visible_row(db, update.thread, update.row)?;
    row.params = update.params.rewrite(&row.params);
    // Other content is an ordinary turn: its message is not in the history.
    row.continues = false;
    row.updated_ms = update.at_ms;
    let written = params![update.thread, row.id, row.params, row.updated_ms];
    execute(db, UPDATE, written)?;
    lane.touch();
    let row = placed(db, update.thread, row)?;
    lane.save_with(db, row)
}

/// Deletes a visible row, which frees its key; false when there is none.
pub(super) fn delete(
    db: &Db<'_>,
    thread: ThreadId,
    row: RowId,
    at_ms: i64,
) -> Result<Changed<bool>, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    match visible_row(db, thread, row) {
        Ok(row) => {
            cancel_waiting(db, &mut lane, row, at_ms)?;
            lane.save_with(db, true)
        }
        Err(Fault::Refused(_)) => Ok(Changed {
            value: false,
            lane: lane.view(db)?,
        }),
        Err(fault @ Fault::Driver(_)) => Err(fault),
    }
}

/// Takes a row that waits out of the queue for good; the lane is left to be saved.
pub(super) fn cancel_waiting(
    db: &Db<'_>,
    lane: &mut Lane,
    mut row: Row,
    at_ms: i64,
) -> Result<(), Fault> {
    end(&mut row, RowState::Cancelled, at_ms);
    save_row(db, lane, &row)?;
    lane.lose();
    Ok(())
}

/// Makes a failed row wait again in its place; the head when none is named.
pub(super) fn retry(
    db: &Db<'_>,
    thread: ThreadId,
    row: Option<RowId>,
    at_ms: i64,
) -> Result<Changed<Row>, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    let id = match row {
        Some(row) => row,
        None => row_of(&lane.head(db)?).ok_or(Fault::Refused(StoreError::QueueEmpty))?,
    };
    let mut row = visible_row(db, thread, id)?;
    if row.state != RowState::Blocked {
        return Err(StoreError::RowNotFailed(id).into());
    }
    row.state = RowState::Queued;
    row.failure = None;
    row.updated_ms = at_ms;
    save_row(db, &lane, &row)?;
    lane.touch();
    let row = placed(db, thread, row)?;
    lane.save_with(db, row)
}

/// Stops the lane's claims, unless they are stopped.
pub(super) fn pause(db: &Db<'_>, thread: ThreadId, paused: &Paused) -> Result<LaneView, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    if lane.paused.is_none() {
        lane.paused = Some(paused.clone());
        lane.touch();
        lane.save(db)?;
    }
    lane.view(db)
}

/// Ends a pause and a wait, if there are any.
pub(super) fn resume(db: &Db<'_>, thread: ThreadId) -> Result<LaneView, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    if lane.end_holds(db)? {
        lane.save(db)?;
    }
    lane.view(db)
}

/// Ends a pause that has this reason.
pub(super) fn end_pause(db: &Db<'_>, thread: ThreadId, reason: &str) -> Result<LaneView, Fault> {
    let mut lane = Lane::find_open(db, thread)?;
    if lane
        .paused
        .as_ref()
        .is_some_and(|paused| paused.reason == reason)
    {
        lane.paused = None;
        lane.touch();
        lane.save(db)?;
    }
    lane.view(db)
}

/// Some visible rows and the lane.
pub(super) fn queue(db: &Db<'_>, query: &QueueQuery) -> Result<QueuePage, Fault> {
    const PAGE: &str = concat!(
        include_str!("sql/row.sql"),
        "WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos > ?2 \
         ORDER BY pos LIMIT ?3 OFFSET ?4"
    );
    let lane = Lane::find(db, query.thread)?.view(db)?;
    let (after, offset, mut ahead) = match query.from {
        QueueFrom::Head => (i64::MIN, 0, 0),
        QueueFrom::After(position) => (position, 0, up_to(db, query.thread, position)?),
        QueueFrom::Offset(rows) => (i64::MIN, rows, rows),
    };
    let one_more = i64::from(query.limit) + 1;
    let window = params![query.thread, after, one_more, offset];
    let mut rows = all(db, PAGE, window, rows::row)?;
    for row in &mut rows {
        row.ahead = Some(ahead);
        ahead += 1;
    }
    let next = if rows.len() > query.limit as usize {
        rows.truncate(query.limit as usize);
        rows.last().and_then(|row| row.position)
    } else {
        None
    };
    Ok(QueuePage { rows, next, lane })
}

/// Deletes at most 1,000 rows that ended before that time; how many there were.
pub(super) fn prune(db: &Db<'_>, ended_before_ms: i64) -> Result<u32, Fault> {
    let pruned = execute(db, include_str!("sql/prune.sql"), params![ended_before_ms])?;
    Ok(u32::try_from(pruned).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
