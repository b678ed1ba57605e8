//! Reading what was said and done: turns, items, and what the model is sent.
//!
//! The invariant here: a place in a list is a number within the thread, so turns that are added or
//! reverted between two pages hide nothing; a muted turn can be read but is not sent.
//!
//! Nothing is written here.

use rusqlite::{Params, Row as Columns, params};

use super::Db;
use super::fault::Fault;
use super::rows;
use super::statement::{all, first};
use crate::ids::{ThreadId, TurnId};
use crate::thread::{Direction, Page};
use crate::turn::{
    EntryRow, History, HistoryEnd, ItemQuery, ItemRow, Later, TurnQuery, TurnRow, Unrecorded,
};

/// What the model is sent.
pub(super) fn history(db: &Db<'_>, thread: ThreadId) -> Result<History, Fault> {
    const EARLIER: &str = "SELECT ord FROM entry \
         WHERE thread_id = ?1 AND ord < ?2 AND turn_ord < ?3 ORDER BY ord DESC LIMIT 1";
    let compaction: Option<(i64, i64)> = first(
        db,
        include_str!("sql/last_compaction.sql"),
        params![thread],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (from_ord, from_turn_ord) = compaction.unwrap_or((i64::MIN, i64::MIN));
    // A message of the compacting turn may have its entry in front of the compaction.
    let before = params![thread, from_ord, from_turn_ord];
    let earlier: Option<i64> = first(db, EARLIER, before, |row| row.get(0))?;
    Ok(History {
        entries: entries(db, thread, from_ord)?,
        unrecorded: unrecorded(db, thread, from_turn_ord, earlier.unwrap_or(i64::MIN))?,
    })
}

/// What the model is sent behind what is known, or everything if that does not hold.
///
/// Turns that have ended change in one way only, they are taken back, and always the last ones: so
/// the known part holds as long as its last entry is there and still the same turn's.
pub(super) fn behind(db: &Db<'_>, thread: ThreadId, known: HistoryEnd) -> Result<Later, Fault> {
    let last: Option<TurnId> = first(
        db,
        include_str!("sql/turn_of_entry.sql"),
        params![thread, known.ord],
        |row| row.get(0),
    )?;
    if last != Some(known.turn) {
        return Ok(Later::Anew(history(db, thread)?));
    }
    let entries = entries(db, thread, known.ord.saturating_add(1))?;
    if entries
        .iter()
        .any(|entry| entry.kind == EntryRow::COMPACTION)
    {
        return Ok(Later::Anew(history(db, thread)?));
    }
    Ok(Later::Behind(History {
        entries,
        unrecorded: unrecorded(db, thread, known.next_turn_ord, known.ord)?,
    }))
}

fn entries(db: &Db<'_>, thread: ThreadId, from_ord: i64) -> Result<Vec<EntryRow>, Fault> {
    all(
        db,
        include_str!("sql/entries.sql"),
        params![thread, from_ord],
        rows::entry,
    )
}

/// Messages from a turn on that none of the entries behind a number names.
fn unrecorded(
    db: &Db<'_>,
    thread: ThreadId,
    from_turn_ord: i64,
    behind_ord: i64,
) -> Result<Vec<Unrecorded>, Fault> {
    all(
        db,
        include_str!("sql/unrecorded.sql"),
        params![thread, from_turn_ord, behind_ord],
        |row| {
            Ok(Unrecorded {
                turn: row.get("turn")?,
                item: rows::item(row)?,
            })
        },
    )
}

/// Some turns.
pub(super) fn turns(db: &Db<'_>, query: &TurnQuery) -> Result<Page<TurnRow, i64>, Fault> {
    const UP: &str = concat!(
        include_str!("sql/turn.sql"),
        "WHERE thread_id = ?1 AND ord > ?2 ORDER BY ord LIMIT ?3"
    );
    const DOWN: &str = concat!(
        include_str!("sql/turn.sql"),
        "WHERE thread_id = ?1 AND ord < ?2 ORDER BY ord DESC LIMIT ?3"
    );
    let (sql, from) = match query.direction {
        Direction::Ascending => (UP, query.after_ord.unwrap_or(i64::MIN)),
        Direction::Descending => (DOWN, query.after_ord.unwrap_or(i64::MAX)),
    };
    let window = params![query.thread, from, one_more(query.limit)];
    page(db, sql, window, query.limit, rows::turn, |turn| turn.ord)
}

/// Some items.
pub(super) fn items(db: &Db<'_>, query: &ItemQuery) -> Result<Page<ItemRow, i64>, Fault> {
    const UP: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 AND ord > ?2 ORDER BY ord LIMIT ?3"
    );
    const DOWN: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 AND ord < ?2 ORDER BY ord DESC LIMIT ?3"
    );
    const TURN_UP: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 AND turn_ord = ?4 AND ord > ?2 ORDER BY ord LIMIT ?3"
    );
    const TURN_DOWN: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 AND turn_ord = ?4 AND ord < ?2 ORDER BY ord DESC LIMIT ?3"
    );
    let (all_turns, one_turn, from) = match query.direction {
        Direction::Ascending => (UP, TURN_UP, query.after_ord.unwrap_or(i64::MIN)),
        Direction::Descending => (DOWN, TURN_DOWN, query.after_ord.unwrap_or(i64::MAX)),
    };
    let (thread, limit) = (query.thread, query.limit);
    match query.turn_ord {
        None => {
            let window = params![thread, from, one_more(limit)];
            page(db, all_turns, window, limit, rows::item, |item| item.ord)
        }
        Some(turn_ord) => {
            let window = params![thread, from, one_more(limit), turn_ord];
            page(db, one_turn, window, limit, rows::item, |item| item.ord)
        }
    }
}

/// One item; the first of that id. Reads the thread's items until it is found: ids of items are
/// looked for so rarely that an index would cost more than it saves.
pub(super) fn item(db: &Db<'_>, thread: ThreadId, item: &str) -> Result<Option<ItemRow>, Fault> {
    const ITEM: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 AND id = ?2 ORDER BY ord LIMIT 1"
    );
    first(db, ITEM, params![thread, item], rows::item)
}

/// Of each turn the first userMessage and the last agentMessage.
pub(super) fn summaries(
    db: &Db<'_>,
    thread: ThreadId,
    turn_ords: &[i64],
) -> Result<Vec<ItemRow>, Fault> {
    const FIRST: &str = concat!(
        include_str!("sql/item.sql"),
        include_str!("sql/first_message.sql")
    );
    const LAST: &str = concat!(
        include_str!("sql/item.sql"),
        include_str!("sql/last_message.sql")
    );
    let mut items = Vec::new();
    for turn_ord in turn_ords {
        for sql in [FIRST, LAST] {
            items.extend(first(db, sql, params![thread, turn_ord], rows::item)?);
        }
    }
    Ok(items)
}

/// One row more than asked for tells whether there are more.
fn one_more(limit: u32) -> i64 {
    i64::from(limit) + 1
}

fn page<T>(
    db: &Db<'_>,
    sql: &str,
    window: impl Params,
    limit: u32,
    read: impl FnMut(&Columns<'_>) -> rusqlite::Result<T>,
    ord: impl Fn(&T) -> i64,
) -> Result<Page<T, i64>, Fault> {
    let mut rows = all(db, sql, window, read)?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(ord);
    Ok(Page { rows, next })
}

#[cfg(test)]
mod tests;
