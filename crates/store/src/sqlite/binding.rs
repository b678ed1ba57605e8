//! Bindings: names by which threads are found, and threads that take over from others.
//!
//! The invariants here: a binding names at most one thread that is not archived (the database holds
//! this); a row that waits is in exactly one lane, before, during and after it moves to a successor.
//!
//! Which connection may use a binding is decided by the server. What archiving does to a thread is in
//! `threads`.

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::lane::Lane;
use super::statement::{all, execute, first, single};
use super::threads::{self, changeable, find_thread};
use crate::crash;
use crate::error::StoreError;
use crate::ids::{RowId, ThreadId};
use crate::json::Json;
use crate::lane::Changed;
use crate::queue::Rewriting;
use crate::thread::{BoundThread, NewThread, Successor, Supersede, ThreadRow};

/// The thread that has this binding and is not archived.
pub(super) fn holder(db: &Db<'_>, key: &str) -> Result<Option<ThreadId>, Fault> {
    const HOLDER: &str = "SELECT id FROM thread \
         WHERE binding = ?1 AND binding IS NOT NULL AND archived = 0";
    first(db, HOLDER, params![key], |row| row.get(0))
}

/// Takes the binding of an archived thread away if another thread has it by now.
pub(super) fn drop_if_taken(db: &Db<'_>, archived: &ThreadRow) -> Result<(), Fault> {
    match &archived.binding {
        Some(key) if holder(db, key)?.is_some() => unbind(db, archived.id),
        Some(_) | None => Ok(()),
    }
}

fn unbind(db: &Db<'_>, thread: ThreadId) -> Result<(), Fault> {
    const UNBIND: &str = "UPDATE thread SET binding = NULL WHERE id = ?1";
    execute(db, UNBIND, params![thread])?;
    Ok(())
}

/// Finds the thread that has the binding of this one, or makes this one.
pub(super) fn bind(db: &Db<'_>, new: &NewThread) -> Result<BoundThread, Fault> {
    let existing = match &new.binding {
        Some(key) => holder(db, key)?,
        None => None,
    };
    match existing {
        Some(thread) => Ok(BoundThread::Existing(find_thread(db, thread)?)),
        None => Ok(BoundThread::Made(threads::create(db, new)?)),
    }
}

/// Makes a thread that takes over the binding and the waiting rows of another.
pub(super) fn supersede(db: &Db<'_>, supersede: &Supersede) -> Result<Changed<Successor>, Fault> {
    const LISTED: &str = "UPDATE thread SET listed = 1 WHERE id = ?1 AND listed = 0";
    let new = &supersede.new;
    let mut from = changeable(db, supersede.old)?;
    let old = find_thread(db, supersede.old)?;
    if old.archived || new.binding.is_none() || old.binding != new.binding {
        let (thread, key) = (old.id, new.binding.clone().unwrap_or_default());
        return Err(StoreError::BindingNotHeld { thread, key }.into());
    }
    unbind(db, old.id)?;
    threads::insert(db, new, None, "")?;
    crash::point("supersede:thread-made");
    let moved = move_waiting(db, old.id, new, &supersede.params)?;
    let mut to = Lane::find(db, new.id)?;
    to.depth = moved;
    // Positions are kept, so that the next one must lie above those of the old lane.
    to.next_pos = from.next_pos;
    // What holds the rows holds them in the new lane too.
    to.paused.clone_from(&from.paused);
    to.waiting.clone_from(&from.waiting);
    if moved > 0 {
        execute(db, LISTED, params![new.id])?;
    }
    to.touch();
    to.save(db)?;
    crash::point("supersede:rows-moved");
    from.depth = from.depth.saturating_sub(moved);
    from.touch();
    let successor = Successor {
        thread: find_thread(db, new.id)?,
        lane: to.view(db)?,
    };
    from.save_with(db, successor)
}

/// Moves the rows that wait into the lane of the new thread; their number.
fn move_waiting(
    db: &Db<'_>,
    old: ThreadId,
    new: &NewThread,
    rewriting: &Rewriting,
) -> Result<u32, Fault> {
    const WAITING: &str = "SELECT id FROM queued_turn \
         WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos IS NOT NULL ORDER BY pos";
    const PARAMS: &str = "SELECT params FROM queued_turn WHERE thread_id = ?1 AND id = ?2";
    // The message of a turn that was cut is in the history of the old thread only, so that its row
    // runs from its beginning in the new one.
    const MOVE: &str = "UPDATE queued_turn SET thread_id = ?2, params = ?4, continues = 0, \
         updated_ms = ?5 WHERE thread_id = ?1 AND id = ?3";
    let waiting: Vec<RowId> = all(db, WAITING, params![old], |row| row.get(0))?;
    let mut moved = 0;
    for row in waiting {
        let stored: Json = single(db, PARAMS, params![old, row], |columns| columns.get(0))?;
        let params = rewriting.rewrite(&stored);
        execute(db, MOVE, params![old, new.id, row, params, new.at_ms])?;
        moved += 1;
        crash::point("supersede:row-moved");
    }
    Ok(moved)
}

#[cfg(test)]
mod tests;
