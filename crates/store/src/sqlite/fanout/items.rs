//! Items: found by their id, listed, exported.
//!
//! The invariant here: a read looks at a bounded number of rows, also where few of them match. Where it
//! stops early, its answer names the row from which the caller goes on.

use rusqlite::params;

use super::rows::{Job, StoredItem, attempts, computed_id, item as read_item, usage_of};
use crate::fanout::{
    BranchChange, FanoutItem, ItemDetail, ItemState, ItemsPage, ItemsQuery, JobNo,
};
use crate::json::Json;
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::rows::InOrder;
use crate::sqlite::statement::{execute, first};

/// How many rows one list looks at in search of items in some states.
const LOOKED_AT_MAX: u32 = 10_000;

/// How many bytes of cells and results a page of the export holds, unless one row is longer.
const PAGE_BYTES_MAX: usize = 4 << 20;

const PAGE: &str = concat!(
    include_str!("../sql/fanout/item.sql"),
    include_str!("../sql/fanout/item_from.sql"),
    "WHERE r.job = ?1 AND r.seq >= ?2 ORDER BY r.seq LIMIT ?3"
);
const IN_STATE: &str = concat!(
    include_str!("../sql/fanout/item.sql"),
    include_str!("../sql/fanout/items_in.sql")
);

/// The row of a computed id; none for an id that no row can have by computation.
fn parse_computed(id: &str) -> Option<i64> {
    let number: i64 = id.strip_prefix("row-")?.parse().ok()?;
    let seq = number.checked_sub(1).filter(|seq| *seq >= 0)?;
    // Only the one way in which it is written.
    (computed_id(seq) == id).then_some(seq)
}

/// The number of the row that has this id.
pub(super) fn row_with_id(db: &Db<'_>, job: JobNo, id: &str) -> Result<Option<i64>, Fault> {
    const OWN: &str =
        "SELECT seq FROM fanout_row WHERE job = ?1 AND item_id = ?2 AND item_id IS NOT NULL";
    const COMPUTED: &str =
        "SELECT seq FROM fanout_row WHERE job = ?1 AND seq = ?2 AND item_id IS NULL";
    if let Some(seq) = first(db, OWN, params![job, id], |row| row.get(0))? {
        return Ok(Some(seq));
    }
    match parse_computed(id) {
        None => Ok(None),
        Some(seq) => first(db, COMPUTED, params![job, seq], |row| row.get(0)),
    }
}

/// The numbers of the rows that have these ids.
pub(super) fn rows_with_ids(
    db: &Db<'_>,
    job: JobNo,
    ids: &[String],
) -> Result<Vec<Option<i64>>, Fault> {
    ids.iter().map(|id| row_with_id(db, job, id)).collect()
}

/// The item as callers see it, with its usage.
pub(super) fn shown(db: &Db<'_>, job: &Job, found: StoredItem) -> Result<FanoutItem, Fault> {
    let mut item = job.shown(found);
    if item.attempt > 0 {
        item.usage = usage_of(db, job.row.no, item.seq)?;
    }
    Ok(item)
}

/// Replaces what an item shows of its branches, unless it shows something else by now.
pub(super) fn change_branch(db: &Db<'_>, change: &BranchChange) -> Result<bool, Fault> {
    const CHANGE: &str =
        "UPDATE fanout_item SET branch = ?3 WHERE job = ?1 AND seq = ?2 AND branch IS ?4";
    let BranchChange { job, seq, seen, to } = change;
    Ok(execute(db, CHANGE, params![job, seq, to, seen])? > 0)
}

/// Some items, by their number.
pub(super) fn items(db: &Db<'_>, query: &ItemsQuery) -> Result<ItemsPage, Fault> {
    let job = Job::find(db, query.job)?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    // One more than is shown tells where to go on.
    let beyond = query.limit.saturating_add(1);
    let (sql, looked_at_max) = match query.states[..] {
        [] => (PAGE.to_owned(), beyond),
        [ItemState::Running] => (IN_STATE.replace("STATE", "running"), beyond),
        [ItemState::Failed] => (IN_STATE.replace("STATE", "failed"), beyond),
        _ => (PAGE.to_owned(), LOOKED_AT_MAX),
    };
    let mut page = ItemsPage {
        items: Vec::new(),
        next_seq: None,
    };
    let mut statement = db.connection.prepare_cached(&sql)?;
    let mut found = statement.query(params![query.job, query.from_seq, looked_at_max])?;
    let mut looked_at = 0;
    while let Some(columns) = found.next()? {
        let item = job.shown(read_item(&mut InOrder::of(columns))?);
        if page.items.len() == limit {
            page.next_seq = Some(item.seq);
            break;
        }
        looked_at += 1;
        if looked_at == looked_at_max {
            page.next_seq = Some(item.seq + 1);
        }
        if query.states.is_empty() || query.states.contains(&item.state) {
            page.items.push(item);
        }
    }
    for item in page.items.iter_mut().filter(|item| item.attempt > 0) {
        item.usage = usage_of(db, query.job, item.seq)?;
    }
    Ok(page)
}

const DETAILS: &str = concat!(
    include_str!("../sql/fanout/item.sql"),
    include_str!("../sql/fanout/item_result.sql"),
    include_str!("../sql/fanout/item_from.sql"),
    "WHERE r.job = ?1 AND r.seq >= ?2 ORDER BY r.seq LIMIT ?3"
);

/// A page of every imported row, in input order; it ends early when it has become long.
pub(super) fn export_page(
    db: &Db<'_>,
    job: JobNo,
    from_seq: i64,
    limit: u32,
) -> Result<Vec<ItemDetail>, Fault> {
    let job = Job::find(db, job)?;
    let mut statement = db.connection.prepare_cached(DETAILS)?;
    let mut found = statement.query(params![job.row.no, from_seq, limit])?;
    let mut details = Vec::new();
    let mut bytes = 0;
    while let Some(columns) = found.next()? {
        let mut from = InOrder::of(columns);
        let item = read_item(&mut from)?;
        let (cells, result): (Json, Option<Json>) = (from.next()?, from.next()?);
        bytes += cells.as_str().len();
        bytes += result.as_ref().map_or(0, |result| result.as_str().len());
        if bytes > PAGE_BYTES_MAX && !details.is_empty() {
            break;
        }
        details.push(ItemDetail {
            item: shown(db, &job, item)?,
            cells,
            result,
            attempts: Vec::new(),
        });
    }
    Ok(details)
}

/// One item with everything that is stored of it.
pub(super) fn item(db: &Db<'_>, job: JobNo, id: &str) -> Result<Option<Box<ItemDetail>>, Fault> {
    let Some(seq) = row_with_id(db, job, id)? else {
        return Ok(None);
    };
    let found = export_page(db, job, seq, 1)?.into_iter().next();
    let Some(mut detail) = found else {
        return Ok(None);
    };
    detail.attempts = attempts(db, job, seq)?;
    Ok(Some(Box::new(detail)))
}
