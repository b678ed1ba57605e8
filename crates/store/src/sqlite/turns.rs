//! A turn from its beginning to its end: what it becomes, what it produces, what is left of its row.
//!
//! The invariants here: a turn begins and ends in the transaction that also changes its row and its
//! lane; everything between is written only under the fence of its claim.
//!
//! Rows that wait are claimed in `claim`, direct turns are started in `start`.

use rusqlite::params;

use super::Db;
use super::approvals::{ask, interrupt_open, resolve};
use super::ends::{Return, Was, end, to_head};
use super::fault::Fault;
use super::lane::Lane;
use super::rows::{self, find_turn, insert_entry, insert_item, save_row};
use super::statement::{execute, first, single};
use super::threads::find_thread;
use crate::error::StoreError;
use crate::ids::{Grip, ThreadId};
use crate::lane::Changed;
use crate::queue::{Back, Fate, Row, RowState};
use crate::turn::{
    Accept, AcceptedTurn, Complete, EndedTurn, ItemRow, Keep, PauseChange, PauseWhen, Put, TurnEnd,
    TurnRow, TurnStatus, WaitingChange,
};

const NEXT_TURN: &str = "SELECT coalesce(max(ord), 0) + 1 FROM turn WHERE thread_id = ?1";
const NEXT_ITEM: &str = "SELECT coalesce(max(ord), 0) + 1 FROM item WHERE thread_id = ?1";
const NEXT_ENTRY: &str = "SELECT coalesce(max(ord), 0) + 1 FROM entry WHERE thread_id = ?1";

/// Begins the turn of a row that occupies its lane; both are saved already.
pub(super) fn begin(
    db: &Db<'_>,
    lane: &Lane,
    row: Row,
    accept: &Accept,
    at_ms: i64,
) -> Result<AcceptedTurn, Fault> {
    let turn = TurnRow {
        ord: next(db, NEXT_TURN, lane.thread)?,
        id: row.turn,
        row: Some(row.id),
        attempt: row.attempts,
        source: row.source.clone(),
        status: TurnStatus::InProgress,
        muted: false,
        error: None,
        usage: None,
        started_ms: at_ms,
        completed_ms: None,
    };
    let item = record(db, lane.thread, &turn, accept)?;
    Ok(AcceptedTurn {
        grip: lane.grip(),
        row,
        turn,
        item,
        next_item_ord: next(db, NEXT_ITEM, lane.thread)?,
        next_entry_ord: next(db, NEXT_ENTRY, lane.thread)?,
        thread: find_thread(db, lane.thread)?,
        settings_changed: accept.settings.is_some(),
        lane: lane.view(db)?,
    })
}

/// Reads the turn of the row that is being decided, as its acceptance showed it.
pub(super) fn undecided(db: &Db<'_>, grip: Grip) -> Result<AcceptedTurn, Fault> {
    const FIRST_MESSAGE: &str = concat!(
        include_str!("sql/item.sql"),
        include_str!("sql/first_message.sql")
    );
    let lane = Lane::held(db, grip)?;
    let active = lane
        .active
        .ok_or(Fault::Refused(StoreError::TurnNotFound))?;
    let row = lane.active_row(db, active, &[RowState::Reconcile])?;
    let turn = find_turn(db, lane.thread, row.turn)?;
    let turn = turn.ok_or(Fault::Refused(StoreError::TurnNotFound))?;
    let place = params![lane.thread, turn.ord];
    Ok(AcceptedTurn {
        grip: lane.grip(),
        row,
        item: first(db, FIRST_MESSAGE, place, rows::item)?,
        turn,
        next_item_ord: next(db, NEXT_ITEM, lane.thread)?,
        next_entry_ord: next(db, NEXT_ENTRY, lane.thread)?,
        thread: find_thread(db, lane.thread)?,
        settings_changed: false,
        lane: lane.view(db)?,
    })
}

/// Records a turn that has ended before it could run.
pub(super) fn record_ended(
    db: &Db<'_>,
    thread: ThreadId,
    row: &Row,
    ended: &EndedTurn,
    at_ms: i64,
) -> Result<TurnRow, Fault> {
    let turn = TurnRow {
        ord: next(db, NEXT_TURN, thread)?,
        id: row.turn,
        row: Some(row.id),
        attempt: row.attempts,
        source: row.source.clone(),
        status: ended.end.status,
        muted: ended.end.muted,
        error: ended.end.error.clone(),
        usage: ended.end.usage.clone(),
        started_ms: at_ms,
        completed_ms: Some(at_ms),
    };
    record(db, thread, &turn, &ended.accept)?;
    Ok(turn)
}

/// Writes a turn, its first item and what it changes of its thread.
fn record(
    db: &Db<'_>,
    thread: ThreadId,
    turn: &TurnRow,
    accept: &Accept,
) -> Result<Option<ItemRow>, Fault> {
    insert_turn(db, thread, turn)?;
    let item = match &accept.item {
        None => None,
        Some(said) => Some(ItemRow {
            ord: next(db, NEXT_ITEM, thread)?,
            turn_ord: turn.ord,
            id: said.id.clone(),
            kind: said.kind.clone(),
            body: said.body.clone(),
            started_ms: turn.started_ms,
            completed_ms: turn.started_ms,
        }),
    };
    if let Some(item) = &item {
        insert_item(db, thread, item)?;
    }
    execute(
        db,
        include_str!("sql/accept_thread.sql"),
        params![
            thread,
            accept.settings,
            accept.cwd,
            accept.preview,
            item.is_some(),
            turn.started_ms,
        ],
    )?;
    Ok(item)
}

/// Writes a turn under the number it has.
pub(super) fn insert_turn(db: &Db<'_>, thread: ThreadId, turn: &TurnRow) -> Result<(), Fault> {
    execute(
        db,
        include_str!("sql/insert_turn.sql"),
        params![
            thread,
            turn.ord,
            turn.id,
            turn.row,
            turn.attempt,
            turn.source,
            turn.status,
            turn.muted,
            turn.error,
            turn.usage,
            turn.started_ms,
            turn.completed_ms,
        ],
    )?;
    Ok(())
}

fn next(db: &Db<'_>, sql: &str, thread: ThreadId) -> Result<i64, Fault> {
    single(db, sql, params![thread], |row| row.get(0))
}

/// Adds an item to the running turn.
pub(super) fn add_steer(db: &Db<'_>, grip: Grip, item: &ItemRow) -> Result<(), Fault> {
    let lane = Lane::held(db, grip)?;
    if lane.active.is_none() {
        return Err(StoreError::TurnNotFound.into());
    }
    insert_item(db, lane.thread, item)
}

/// Writes what a turn has produced.
pub(super) fn put(db: &Db<'_>, grip: Grip, put: &Put) -> Result<(), Fault> {
    let lane = Lane::held(db, grip)?;
    write_put(db, lane.thread, put)
}

fn write_put(db: &Db<'_>, thread: ThreadId, put: &Put) -> Result<(), Fault> {
    const KEEP: &str = "UPDATE thread SET usage = coalesce(?2, usage), \
         engine_state = coalesce(?3, engine_state) WHERE id = ?1";
    for item in &put.items {
        insert_item(db, thread, item)?;
    }
    for entry in &put.entries {
        insert_entry(db, thread, entry)?;
    }
    if put.thread_usage.is_some() || put.engine_state.is_some() {
        let kept = params![thread, put.thread_usage, put.engine_state];
        execute(db, KEEP, kept)?;
    }
    for asked in &put.asked {
        ask(db, thread, asked)?;
    }
    for resolved in &put.resolved {
        resolve(db, thread, resolved)?;
    }
    Ok(())
}

/// Ends a turn, its row's way and the lane's occupation.
pub(super) fn complete(db: &Db<'_>, complete: &Complete) -> Result<Changed<Row>, Fault> {
    const NOTE: &str = "UPDATE thread SET updated_ms = ?2, recency_ms = ?2 WHERE id = ?1";
    let at_ms = complete.at_ms;
    let mut lane = Lane::held(db, complete.grip)?;
    let under_way = [RowState::Started, RowState::Reconcile];
    let mut row = lane.active_row(db, complete.row, &under_way)?;
    write_put(db, lane.thread, &complete.put)?;
    end_turn(db, lane.thread, complete.turn_ord, &complete.end, at_ms)?;
    interrupt_open(db, lane.thread, row.turn, at_ms)?;
    execute(db, NOTE, params![lane.thread, at_ms])?;
    row.updated_ms = at_ms;
    match &complete.fate {
        Fate::Done => end(&mut row, RowState::Done, at_ms),
        Fate::Back {
            turn,
            not_before_ms,
            why,
        } => {
            to_head(db, &mut lane, &mut row, *turn, Was::ATurn, &Return::Waiting)?;
            row.not_before_ms = *not_before_ms;
            match why {
                Back::Retry => row.continues = false,
                // Its turn is muted: if it went on from the history, its next turn does.
                Back::Limit => row.put_backs += 1,
                Back::Continue => {
                    row.stops += 1;
                    row.continues = true;
                }
                Back::Anew => {
                    row.stops += 1;
                    row.continues = false;
                }
            }
        }
        Fate::Block { failure, turn } => {
            let failed = Return::Failed(failure);
            to_head(db, &mut lane, &mut row, *turn, Was::ATurn, &failed)?;
            // A muted turn counts as none: the row still stands where it stood before.
            row.continues &= complete.end.muted;
        }
    }
    hold(&mut lane, complete);
    lane.vacate();
    match complete.keep {
        Keep::UnlessIdle if lane.depth == 0 => lane.give_to(None),
        Keep::UnlessIdle | Keep::Ours => {}
    }
    save_row(db, &lane, &row)?;
    lane.save_with(db, row)
}

/// Begins or ends a wait and a pause.
fn hold(lane: &mut Lane, complete: &Complete) {
    let waiting = match &complete.waiting {
        WaitingChange::Keep => lane.waiting.clone(),
        WaitingChange::Begin(waiting) => Some(waiting.clone()),
        WaitingChange::End => None,
    };
    let paused = match (&lane.paused, &complete.pause) {
        (None, PauseChange::Begin { paused, when }) => {
            let begins = *when != PauseWhen::RowsWait || lane.depth > 0;
            begins.then(|| paused.clone())
        }
        (
            Some(present),
            PauseChange::Begin {
                paused,
                when: PauseWhen::InPlaceOf(reason),
            },
        ) if present.reason == *reason => Some(paused.clone()),
        (Some(paused), PauseChange::End { reason }) if paused.reason == *reason => None,
        (paused, _) => paused.clone(),
    };
    if waiting != lane.waiting || paused != lane.paused {
        lane.waiting = waiting;
        lane.paused = paused;
        lane.touch();
    }
}

/// Ends a turn that is in progress.
pub(super) fn end_turn(
    db: &Db<'_>,
    thread: ThreadId,
    ord: i64,
    end: &TurnEnd,
    at_ms: i64,
) -> Result<(), Fault> {
    let ended = execute(
        db,
        include_str!("sql/end_turn.sql"),
        params![
            thread, ord, end.status, end.error, end.usage, end.muted, at_ms
        ],
    )?;
    if ended == 0 {
        return Err(StoreError::TurnNotFound.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
