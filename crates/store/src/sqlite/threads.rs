//! Threads: made, changed, deleted, listed.
//!
//! The invariants here: a thread and its lane are made and deleted together; a thread that a live
//! worker owns is changed by nobody else; a name that is given is unique among the threads that are not
//! archived, as far as this version gave them; a list goes on behind a place, not behind a count.
//!
//! What a turn changes of its thread is written in `turns`; copies are made in `forks`; bindings are
//! found and passed on in `binding`.

use rusqlite::params;

use super::Db;
use super::binding;
use super::fault::Fault;
use super::lane::Lane;
use super::rows;
use super::statement::{all, execute, first};
use crate::error::StoreError;
use crate::ids::ThreadId;
use crate::json::Json;
use crate::lane::Changed;
use crate::thread::{
    Direction, IdleQuery, IdleScope, IdleThread, Listed, NewThread, Page, ThreadChange,
    ThreadPlace, ThreadQuery, ThreadRow, ThreadSort,
};

/// One thread that must be there.
pub(super) fn find_thread(db: &Db<'_>, id: ThreadId) -> Result<ThreadRow, Fault> {
    thread(db, id)?.ok_or(Fault::Refused(StoreError::ThreadNotFound(id)))
}

/// One thread.
pub(super) fn thread(db: &Db<'_>, id: ThreadId) -> Result<Option<ThreadRow>, Fault> {
    const THREAD: &str = concat!(include_str!("sql/thread.sql"), "WHERE id = ?1");
    first(db, THREAD, params![id], rows::thread)
}

/// Makes a thread with an empty lane.
pub(super) fn create(db: &Db<'_>, new: &NewThread) -> Result<ThreadRow, Fault> {
    insert(db, new, None, "")?;
    find_thread(db, new.id)
}

/// Writes a thread and its lane.
pub(super) fn insert(
    db: &Db<'_>,
    new: &NewThread,
    usage: Option<&Json>,
    preview: &str,
) -> Result<(), Fault> {
    const LANE: &str = "INSERT INTO lane(thread_id, max_depth) VALUES (?1, ?2)";
    if thread(db, new.id)?.is_some() {
        return Err(StoreError::ThreadExists(new.id).into());
    }
    if let Some(name) = &new.name {
        refuse_taken(db, name, new.id)?;
    }
    if let Some(key) = &new.binding
        && let Some(thread) = binding::holder(db, key)?
    {
        let key = key.clone();
        return Err(StoreError::BindingTaken { key, thread }.into());
    }
    let listed = match new.listed {
        Listed::Yes => true,
        Listed::FromFirstTurn => false,
    };
    execute(
        db,
        include_str!("sql/insert_thread.sql"),
        params![
            new.id,
            new.engine,
            new.settings,
            new.facts,
            new.name,
            new.cwd,
            new.source,
            new.provider,
            new.parent,
            new.binding,
            listed,
            new.at_ms,
            usage,
            preview,
        ],
    )?;
    execute(db, LANE, params![new.id, new.max_depth])?;
    Ok(())
}

/// Changes a thread that is nobody's or ours.
pub(super) fn change(db: &Db<'_>, change: &ThreadChange) -> Result<Changed<ThreadRow>, Fault> {
    let mut lane = changeable(db, change.thread)?;
    if change.archived == Some(true) && lane.active.is_some() {
        return Err(StoreError::Busy(change.thread).into());
    }
    match change.archived {
        Some(true) if lane.archived => return Err(StoreError::Archived(change.thread).into()),
        Some(false) if !lane.archived => return Err(StoreError::NotArchived(change.thread).into()),
        Some(_) | None => {}
    }
    let stored = find_thread(db, change.thread)?;
    if let Some(were) = &change.settings_were
        && stored.settings != *were
    {
        return Err(StoreError::SettingsChanged(change.thread).into());
    }
    if let Some(name) = name_to_check(&stored, change) {
        refuse_taken(db, name, change.thread)?;
    }
    if change.archived == Some(false) {
        binding::drop_if_taken(db, &stored)?;
    }
    execute(
        db,
        include_str!("sql/change_thread.sql"),
        params![
            change.thread,
            change.settings,
            change.facts,
            change.name.is_some(),
            change.name.as_ref().and_then(Option::as_ref),
            change.cwd,
            change.archived,
            change.at_ms,
        ],
    )?;
    if let Some(archived) = change
        .archived
        .filter(|archived| *archived != lane.archived)
    {
        lane.archived = archived;
        lane.look_again();
        lane.save(db)?;
    }
    Ok(Changed {
        value: find_thread(db, change.thread)?,
        lane: lane.view(db)?,
    })
}

/// The name that a change would newly give to a thread that is not archived then.
///
/// A name that the thread keeps is not checked: earlier versions let two threads share one.
fn name_to_check<'a>(stored: &'a ThreadRow, change: &'a ThreadChange) -> Option<&'a str> {
    let name = match &change.name {
        Some(name) => name.as_deref(),
        None => stored.name.as_deref(),
    };
    let archived = change.archived.unwrap_or(stored.archived);
    let is_new = stored.archived || name != stored.name.as_deref();
    name.filter(|_| !archived && is_new)
}

/// Refuses a name that another thread has which is not archived.
fn refuse_taken(db: &Db<'_>, name: &str, thread: ThreadId) -> Result<(), Fault> {
    const TAKEN: &str = "SELECT id FROM thread \
         WHERE name = ?1 AND name IS NOT NULL AND archived = 0 AND id <> ?2 LIMIT 1";
    match first(db, TAKEN, params![name, thread], |row| row.get(0))? {
        None => Ok(()),
        Some(thread) => {
            let name = name.to_owned();
            Err(StoreError::NameInUse { name, thread }.into())
        }
    }
}

/// Deletes a thread that is nobody's or ours and runs nothing, with all it has.
pub(super) fn delete(db: &Db<'_>, thread: ThreadId) -> Result<(), Fault> {
    idle(db, thread)?;
    execute(db, "DELETE FROM thread WHERE id = ?1", params![thread])?;
    Ok(())
}

const IDLE: &str = include_str!("sql/idle_threads.sql");

fn idle_thread(row: &rusqlite::Row<'_>) -> rusqlite::Result<IdleThread> {
    Ok(IdleThread {
        id: row.get(0)?,
        name: row.get(1)?,
        archived: row.get(2)?,
        last_ms: row.get(3)?,
    })
}

/// Threads that nothing happened on for a while and that nobody else uses, the oldest first.
pub(super) fn idle_since(db: &Db<'_>, query: IdleQuery) -> Result<Vec<IdleThread>, Fault> {
    // No thread changed before it was made: this ends the walk over the index.
    const OF_ITEMS: &str = "thread.source = 'subAgentOther' AND thread.created_ms < ?1";
    let also = match query.scope {
        IdleScope::Archived => 1,
        IdleScope::All => 0,
    };
    let values = params![query.before_ms, also, None::<ThreadId>, query.limit];
    let mut idle = Vec::new();
    for class in [Class::Others.condition(), OF_ITEMS] {
        idle.extend(all(db, &IDLE.replace("CLASS", class), values, idle_thread)?);
    }
    idle.sort_by_key(|idle: &IdleThread| idle.last_ms);
    idle.truncate(query.limit as usize);
    let mut found = Vec::new();
    for idle in idle {
        if Lane::find(db, idle.id)?.held_elsewhere(db).is_none() {
            found.push(idle);
        }
    }
    Ok(found)
}

/// Deletes a thread if it is still idle; whether it was.
pub(super) fn delete_if_idle(db: &Db<'_>, thread: ThreadId, before_ms: i64) -> Result<bool, Fault> {
    let values = params![before_ms, 0, thread, 1];
    let found = all(
        db,
        &IDLE.replace("CLASS", "thread.id = ?3"),
        values,
        idle_thread,
    )?;
    if found.is_empty() || Lane::find(db, thread)?.held_elsewhere(db).is_some() {
        return Ok(false);
    }
    execute(db, "DELETE FROM thread WHERE id = ?1", params![thread])?;
    Ok(true)
}

/// Deletes the turns from this number on from a thread that is nobody's or ours and runs nothing.
pub(super) fn revert(
    db: &Db<'_>,
    thread: ThreadId,
    from_turn_ord: i64,
    at_ms: i64,
) -> Result<(), Fault> {
    const TURNS: &str = "DELETE FROM turn WHERE thread_id = ?1 AND ord >= ?2";
    const ITEMS: &str = "DELETE FROM item WHERE thread_id = ?1 AND turn_ord >= ?2";
    const ENTRIES: &str = "DELETE FROM entry WHERE thread_id = ?1 AND turn_ord >= ?2";
    const NOTE: &str = "UPDATE thread SET updated_ms = ?2 WHERE id = ?1";
    const CONTINUED: &str = include_str!("sql/revert_continued.sql");
    idle(db, thread)?;
    for sql in [CONTINUED, TURNS, ITEMS, ENTRIES] {
        execute(db, sql, params![thread, from_turn_ord])?;
    }
    execute(db, NOTE, params![thread, at_ms])?;
    Ok(())
}

/// The lane of a thread that may be changed.
pub(super) fn changeable(db: &Db<'_>, thread: ThreadId) -> Result<Lane, Fault> {
    let lane = Lane::find(db, thread)?;
    match lane.held_elsewhere(db) {
        None => Ok(lane),
        Some(worker) => Err(StoreError::OwnedElsewhere { thread, worker }.into()),
    }
}

/// The same, if nothing runs there.
fn idle(db: &Db<'_>, thread: ThreadId) -> Result<(), Fault> {
    if changeable(db, thread)?.active.is_some() {
        return Err(StoreError::Busy(thread).into());
    }
    Ok(())
}

/// Some threads.
pub(super) fn threads(
    db: &Db<'_>,
    query: &ThreadQuery,
) -> Result<Page<ThreadRow, ThreadPlace>, Fault> {
    let (first_key, first_id) = match query.direction {
        Direction::Ascending => (i64::MIN, String::new()),
        // Behind every id.
        Direction::Descending => (i64::MAX, String::from("~")),
    };
    let (key_ms, id) = match query.after.or(query.at) {
        None => (first_key, first_id),
        Some(place) => (place.key_ms, place.thread.to_string()),
    };
    let sought = query.search.as_deref().map(str::to_lowercase);
    let excluded: Vec<String> = query.excluded.iter().map(ToString::to_string).collect();
    let limit = query.limit as usize;
    let mut rows: Vec<ThreadRow> = Vec::new();
    for class in classes(query) {
        let mut statement = db.connection.prepare_cached(&page_sql(query, *class))?;
        let mut found = statement.query(params![
            query.archived,
            key_ms,
            id,
            any_of(&query.sources),
            any_of(&query.providers),
            any_of(&query.cwds),
            query.parent,
            any_of(&query.not_sources),
            any_of(&excluded),
        ])?;
        let mut of_class = 0;
        while let Some(columns) = found.next()? {
            let row = rows::thread(columns)?;
            if !sought.as_deref().is_none_or(|text| shows(&row, text)) {
                continue;
            }
            rows.push(row);
            of_class += 1;
            // One more than is shown tells that there is more.
            if of_class > limit {
                break;
            }
        }
    }
    let key = key_of(query.sort);
    rows.sort_by(|a, b| match query.direction {
        Direction::Ascending => (key(a), a.id).cmp(&(key(b), b.id)),
        Direction::Descending => (key(b), b.id).cmp(&(key(a), a.id)),
    });
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| ThreadPlace {
        key_ms: key(row),
        thread: row.id,
    });
    Ok(Page { rows, next })
}

/// The source of the threads of fan-out items.
const ITEM_SOURCE: &str = "subAgentOther";

/// A part of the threads that has indexes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// All but those of fan-out items.
    Others,
    /// Those of fan-out items, which may be far more than all others.
    OfItems,
}

impl Class {
    /// The condition that finds its indexes.
    fn condition(self) -> &'static str {
        match self {
            Self::Others => "thread.source <> 'subAgentOther'",
            Self::OfItems => "thread.source = 'subAgentOther'",
        }
    }
}

/// The classes that a list may find something in.
fn classes(query: &ThreadQuery) -> &'static [Class] {
    let names = |words: &[String]| words.iter().any(|word| word == ITEM_SOURCE);
    let only_items = query.sources.iter().all(|word| word == ITEM_SOURCE);
    if names(&query.not_sources) || !query.sources.is_empty() && !names(&query.sources) {
        &[Class::Others]
    } else if !query.sources.is_empty() && only_items {
        &[Class::OfItems]
    } else {
        &[Class::Others, Class::OfItems]
    }
}

/// One of 24 texts.
fn page_sql(query: &ThreadQuery, class: Class) -> String {
    const PAGE: &str = concat!(
        include_str!("sql/thread.sql"),
        include_str!("sql/threads.sql")
    );
    let key = match query.sort {
        ThreadSort::Created => "created_ms",
        ThreadSort::Updated => "updated_ms",
        ThreadSort::Recency => "recency_ms",
    };
    let with_the_place = query.after.is_none() && query.at.is_some();
    let (beyond, way) = match (query.direction, with_the_place) {
        (Direction::Ascending, false) => (">", "ASC"),
        (Direction::Ascending, true) => (">=", "ASC"),
        (Direction::Descending, false) => ("<", "DESC"),
        (Direction::Descending, true) => ("<=", "DESC"),
    };
    PAGE.replace("CLASS", class.condition())
        .replace("KEY", key)
        .replace("BEYOND", beyond)
        .replace("WAY", way)
}

fn key_of(sort: ThreadSort) -> fn(&ThreadRow) -> i64 {
    match sort {
        ThreadSort::Created => |row| row.created_ms,
        ThreadSort::Updated => |row| row.updated_ms,
        ThreadSort::Recency => |row| row.recency_ms,
    }
}

/// A list for `json_each`; none when everything goes.
fn any_of(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| serde_json::Value::from(words).to_string())
}

/// Whether name or preview hold this text, which is in lower case.
fn shows(row: &ThreadRow, text: &str) -> bool {
    let holds = |shown: &str| shown.to_lowercase().contains(text);
    row.name.as_deref().is_some_and(holds) || holds(&row.preview)
}

#[cfg(test)]
mod tests;
