//! Whole rows of the tables, read and written.
//!
//! The invariant here: columns are read in the order of the `SELECT` in the `.sql` file of the same
//! name, and what the schema promises about a row is checked again when it is read back.
//!
//! Which row may change, and how, is decided by the operations.

use rusqlite::types::FromSql;
use rusqlite::{Row as Columns, params};

use super::Db;
use super::fault::Fault;
use super::lane::Lane;
use super::statement::{execute, first};
use crate::approval::{ApprovalAsked, ApprovalResolved, ApprovalRow};
use crate::error::StoreError;
use crate::ids::{RowId, ThreadId, TurnId};
use crate::queue::{NewRow, Policies, Retry, Row, RowState};
use crate::thread::ThreadRow;
use crate::turn::{EntryRow, ItemRow, TurnRow};

/// Columns from left to right.
pub(super) struct InOrder<'a> {
    columns: &'a Columns<'a>,
    next: usize,
}

impl<'a> InOrder<'a> {
    pub(super) fn of(columns: &'a Columns<'a>) -> Self {
        Self { columns, next: 0 }
    }

    /// The next column.
    pub(super) fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.columns.get(self.next);
        self.next += 1;
        value
    }
}

/// A row that is not as the schema promises.
#[derive(Debug, thiserror::Error)]
#[error("queued turn {row} is {state:?} and has {what}")]
struct Misfit {
    row: RowId,
    state: RowState,
    what: &'static str,
}

/// Reads what `row.sql` selects.
pub(super) fn row(columns: &Columns<'_>) -> rusqlite::Result<Row> {
    keyed_row(columns).map(|(row, _)| row)
}

/// Reads what `row.sql` selects, with what tells other content under the same key.
pub(super) fn keyed_row(columns: &Columns<'_>) -> rusqlite::Result<(Row, [u8; 32])> {
    let mut from = InOrder::of(columns);
    let row = Row {
        id: from.next()?,
        turn: from.next()?,
        last_turn: from.next()?,
        source: from.next()?,
        position: from.next()?,
        ahead: None,
        state: from.next()?,
        not_before_ms: from.next()?,
        attempts: from.next()?,
        losses: from.next()?,
        put_backs: from.next()?,
        stops: from.next()?,
        continues: from.next()?,
        policies: Policies {
            on_error: from.next()?,
            on_crash: from.next()?,
            on_stop: from.next()?,
            on_cannot_start: from.next()?,
            on_limit: from.next()?,
            retry: Retry {
                max_attempts: from.next()?,
                base_ms: from.next()?,
                cap_ms: from.next()?,
            },
        },
        bound: from.next()?,
        key: from.next()?,
        client_id: from.next()?,
        sent: from.next()?,
        sent_boot: from.next()?,
        params: from.next()?,
        failure: from.next()?,
        created_ms: from.next()?,
        updated_ms: from.next()?,
        ended_ms: from.next()?,
    };
    let misfit = if row.position.is_some() != row.state.is_visible() {
        Some("a position that does not fit")
    } else if row.ended_ms.is_some() != row.state.is_ended() {
        Some("an end that does not fit")
    } else if row.state == RowState::Blocked && row.failure.is_none() {
        Some("no failure")
    } else {
        None
    };
    if let Some(what) = misfit {
        return Err(rusqlite::Error::FromSqlConversionFailure(
            0,
            rusqlite::types::Type::Text,
            Box::new(Misfit {
                row: row.id,
                state: row.state,
                what,
            }),
        ));
    }
    Ok((row, from.next()?))
}

const ROW: &str = concat!(
    include_str!("sql/row.sql"),
    "WHERE thread_id = ?1 AND id = ?2"
);

/// One row in any state.
pub(super) fn find_row(db: &Db<'_>, thread: ThreadId, id: RowId) -> Result<Option<Row>, Fault> {
    first(db, ROW, params![thread, id], row)
}

/// The thread whose lane has this row.
pub(super) fn thread_of_row(db: &Db<'_>, id: RowId) -> Result<Option<ThreadId>, Fault> {
    const THREAD_OF_ROW: &str = "SELECT thread_id FROM queued_turn WHERE id = ?1";
    first(db, THREAD_OF_ROW, params![id], |row| row.get(0))
}

/// The row that is this turn or will become it.
pub(super) fn find_row_of_turn(
    db: &Db<'_>,
    thread: ThreadId,
    turn: TurnId,
) -> Result<Option<Row>, Fault> {
    const ROW_OF_TURN: &str = concat!(
        include_str!("sql/row.sql"),
        "WHERE thread_id = ?1 AND turn_id = ?2"
    );
    first(db, ROW_OF_TURN, params![thread, turn], row)
}

/// One row that waits, failed or not.
pub(super) fn visible_row(db: &Db<'_>, thread: ThreadId, id: RowId) -> Result<Row, Fault> {
    find_row(db, thread, id)?
        .filter(|row| row.state.is_visible())
        .ok_or(Fault::Refused(StoreError::RowNotFound(id)))
}

/// A new row as it will be stored.
pub(super) fn born(new: &NewRow, state: RowState, at_ms: i64) -> Row {
    Row {
        id: new.id,
        turn: new.turn,
        last_turn: None,
        source: new.source.clone(),
        position: None,
        ahead: None,
        state,
        not_before_ms: new.not_before_ms,
        attempts: 0,
        losses: 0,
        put_backs: 0,
        stops: 0,
        continues: false,
        policies: new.policies,
        bound: new.bound,
        key: new.key.clone(),
        client_id: new.client_id.clone(),
        sent: false,
        sent_boot: None,
        params: new.params.clone(),
        failure: None,
        created_ms: at_ms,
        updated_ms: at_ms,
        ended_ms: None,
    }
}

/// Writes a row that is not there yet.
pub(super) fn insert_row(
    db: &Db<'_>,
    lane: &Lane,
    row: &Row,
    content_hash: &[u8; 32],
) -> Result<(), Fault> {
    let policies = &row.policies;
    execute(
        db,
        include_str!("sql/insert_row.sql"),
        params![
            lane.thread,
            row.id,
            row.turn,
            row.source,
            row.position,
            row.state,
            row.not_before_ms,
            row.attempts,
            policies.on_error,
            policies.on_crash,
            policies.on_stop,
            policies.on_cannot_start,
            policies.on_limit,
            policies.retry.max_attempts,
            policies.retry.base_ms,
            policies.retry.cap_ms,
            row.bound,
            row.key,
            row.client_id,
            row.params,
            row.created_ms,
            row.updated_ms,
            row.ended_ms,
            content_hash,
            lane.fence,
            row.failure,
        ],
    )?;
    Ok(())
}

/// Writes what its way has changed of a row; its payload is written by nobody but an update.
pub(super) fn save_row(db: &Db<'_>, lane: &Lane, row: &Row) -> Result<(), Fault> {
    execute(
        db,
        include_str!("sql/save_row.sql"),
        params![
            lane.thread,
            row.id,
            row.turn,
            row.last_turn,
            row.position,
            row.state,
            row.not_before_ms,
            row.attempts,
            row.losses,
            row.put_backs,
            row.stops,
            row.continues,
            row.state.is_active().then_some(lane.fence),
            row.sent,
            row.failure,
            row.updated_ms,
            row.ended_ms,
            row.sent_boot,
        ],
    )?;
    Ok(())
}

/// Reads what `thread.sql` selects.
pub(super) fn thread(columns: &Columns<'_>) -> rusqlite::Result<ThreadRow> {
    let mut from = InOrder::of(columns);
    Ok(ThreadRow {
        id: from.next()?,
        engine: from.next()?,
        settings: from.next()?,
        facts: from.next()?,
        engine_state: from.next()?,
        usage: from.next()?,
        name: from.next()?,
        preview: from.next()?,
        cwd: from.next()?,
        source: from.next()?,
        provider: from.next()?,
        parent: from.next()?,
        binding: from.next()?,
        archived: from.next()?,
        created_ms: from.next()?,
        updated_ms: from.next()?,
        recency_ms: from.next()?,
    })
}

/// Reads what `turn.sql` selects.
pub(super) fn turn(columns: &Columns<'_>) -> rusqlite::Result<TurnRow> {
    let mut from = InOrder::of(columns);
    Ok(TurnRow {
        ord: from.next()?,
        id: from.next()?,
        row: from.next()?,
        attempt: from.next()?,
        source: from.next()?,
        status: from.next()?,
        muted: from.next()?,
        error: from.next()?,
        usage: from.next()?,
        started_ms: from.next()?,
        completed_ms: from.next()?,
    })
}

const TURN: &str = concat!(
    include_str!("sql/turn.sql"),
    "WHERE thread_id = ?1 AND id = ?2"
);

/// One turn.
pub(super) fn find_turn(
    db: &Db<'_>,
    thread: ThreadId,
    id: TurnId,
) -> Result<Option<TurnRow>, Fault> {
    first(db, TURN, params![thread, id], turn)
}

/// Reads what `item.sql` selects.
pub(super) fn item(columns: &Columns<'_>) -> rusqlite::Result<ItemRow> {
    let mut from = InOrder::of(columns);
    Ok(ItemRow {
        ord: from.next()?,
        turn_ord: from.next()?,
        id: from.next()?,
        kind: from.next()?,
        body: from.next()?,
        started_ms: from.next()?,
        completed_ms: from.next()?,
    })
}

/// Writes an item under the number it has.
pub(super) fn insert_item(db: &Db<'_>, thread: ThreadId, item: &ItemRow) -> Result<(), Fault> {
    execute(
        db,
        include_str!("sql/insert_item.sql"),
        params![
            thread,
            item.ord,
            item.turn_ord,
            item.id,
            item.kind,
            item.body,
            item.started_ms,
            item.completed_ms,
        ],
    )?;
    Ok(())
}

/// Reads what `entries.sql` selects.
pub(super) fn entry(columns: &Columns<'_>) -> rusqlite::Result<EntryRow> {
    let mut from = InOrder::of(columns);
    Ok(EntryRow {
        ord: from.next()?,
        turn_ord: from.next()?,
        turn: from.next()?,
        kind: from.next()?,
        provider: from.next()?,
        model: from.next()?,
        item_id: from.next()?,
        call_ids: from.next()?,
        items: from.next()?,
    })
}

/// Writes an entry under the number it has.
pub(super) fn insert_entry(db: &Db<'_>, thread: ThreadId, entry: &EntryRow) -> Result<(), Fault> {
    execute(
        db,
        include_str!("sql/insert_entry.sql"),
        params![
            thread,
            entry.ord,
            entry.turn_ord,
            entry.kind,
            entry.provider,
            entry.model,
            entry.item_id,
            entry.call_ids,
            entry.items,
        ],
    )?;
    Ok(())
}

/// Reads what `approval.sql` selects.
pub(super) fn approval(columns: &Columns<'_>) -> rusqlite::Result<ApprovalRow> {
    let mut from = InOrder::of(columns);
    let id = from.next()?;
    let thread = from.next()?;
    let asked = ApprovalAsked {
        id,
        turn: from.next()?,
        body: from.next()?,
        requested_ms: from.next()?,
        expires_ms: from.next()?,
    };
    let decision: Option<String> = from.next()?;
    let resolved = match decision {
        None => None,
        Some(decision) => Some(ApprovalResolved {
            id,
            decision,
            decided_by: from.next()?,
            reason: from.next()?,
            resolved_ms: from.next()?,
        }),
    };
    Ok(ApprovalRow {
        thread,
        asked,
        resolved,
    })
}
