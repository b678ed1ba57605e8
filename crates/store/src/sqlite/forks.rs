//! Copies of a thread's history: inside of one store, or from one store into another.
//!
//! The invariants here: only turns that have ended are copied, with all their items and entries and
//! under the ids and numbers they had; rows of the queue stay where they are. A copy shares nothing
//! with its origin.
//!
//! Taking turns back is in `threads`.

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::rows::{self, find_turn, insert_entry, insert_item};
use super::statement::{all, execute};
use super::threads::{find_thread, insert};
use super::turns::insert_turn;
use crate::error::StoreError;
use crate::ids::ThreadId;
use crate::thread::{Fork, NewThread, ThreadCopy, ThreadRow, UpTo};
use crate::turn::TurnStatus;

/// Makes a thread with a copy of another's ended turns.
pub(super) fn fork(db: &Db<'_>, fork: &Fork) -> Result<ThreadRow, Fault> {
    let from = find_thread(db, fork.from)?;
    let last_ord = last_ord(db, fork.from, fork.upto)?;
    let to = fork.to.id;
    insert(db, &fork.to, from.usage.as_ref(), &from.preview)?;
    let turns = params![from.id, to, last_ord];
    execute(db, include_str!("sql/fork_turns.sql"), turns)?;
    execute(db, include_str!("sql/fork_items.sql"), params![from.id, to])?;
    execute(
        db,
        include_str!("sql/fork_entries.sql"),
        params![from.id, to],
    )?;
    pasted(db, to)
}

/// A copy of a thread's ended turns.
pub(super) fn copy(db: &Db<'_>, thread: ThreadId, upto: UpTo) -> Result<ThreadCopy, Fault> {
    const TURNS: &str = concat!(
        include_str!("sql/turn.sql"),
        "WHERE thread_id = ?1 AND status <> 'inProgress' AND ord <= ?2 ORDER BY ord"
    );
    const ITEMS: &str = concat!(
        include_str!("sql/item.sql"),
        "WHERE thread_id = ?1 ORDER BY ord"
    );
    let from = find_thread(db, thread)?;
    let last_ord = last_ord(db, thread, upto)?;
    let turns = all(db, TURNS, params![thread, last_ord], rows::turn)?;
    let copied = |turn_ord: i64| {
        let place = turns.binary_search_by_key(&turn_ord, |turn| turn.ord);
        place.is_ok()
    };
    let mut items = all(db, ITEMS, params![thread], rows::item)?;
    items.retain(|item| copied(item.turn_ord));
    let entries = include_str!("sql/copy_entries.sql");
    let mut entries = all(db, entries, params![thread], rows::entry)?;
    entries.retain(|entry| copied(entry.turn_ord));
    Ok(ThreadCopy {
        usage: from.usage,
        preview: from.preview,
        turns,
        items,
        entries,
    })
}

/// Makes a thread with a history that was copied.
pub(super) fn paste(db: &Db<'_>, to: &NewThread, copy: &ThreadCopy) -> Result<ThreadRow, Fault> {
    insert(db, to, copy.usage.as_ref(), &copy.preview)?;
    for turn in &copy.turns {
        insert_turn(db, to.id, turn)?;
    }
    for item in &copy.items {
        insert_item(db, to.id, item)?;
    }
    for entry in &copy.entries {
        insert_entry(db, to.id, entry)?;
    }
    pasted(db, to.id)
}

/// Notes what the copied history means for the lists.
fn pasted(db: &Db<'_>, to: ThreadId) -> Result<ThreadRow, Fault> {
    execute(db, include_str!("sql/forked_thread.sql"), params![to])?;
    find_thread(db, to)
}

/// The number of the last turn that may be copied.
fn last_ord(db: &Db<'_>, thread: ThreadId, upto: UpTo) -> Result<i64, Fault> {
    let (turn, less) = match upto {
        UpTo::LastEnded => return Ok(i64::MAX),
        UpTo::Turn(turn) => (turn, 0),
        UpTo::Before(turn) => (turn, 1),
    };
    let found = find_turn(db, thread, turn)?.ok_or(Fault::Refused(StoreError::TurnNotFound))?;
    if found.status == TurnStatus::InProgress {
        return Err(StoreError::TurnInProgress(turn).into());
    }
    Ok(found.ord - less)
}
