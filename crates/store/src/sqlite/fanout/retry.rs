//! Ended items that run again.
//!
//! The invariant here: an item with a result is never chosen. Before some items of a cancelled job are
//! chosen, everything that only counted as cancelled is written down as cancelled, so that the others
//! stay so.

use rusqlite::params;

use super::claim::pending;
use super::items::row_with_id;
use super::rows::{Job, StoredItem, find_item, save_item};
use crate::fanout::{
    Company, ItemState, JobCounts, JobState, RetriedItems, RetryItems, RetryWhich,
};
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::statement::execute;

/// Makes failed and cancelled items pending again.
pub(super) fn retry(db: &Db<'_>, retry: &RetryItems) -> Result<RetriedItems, Fault> {
    let mut job = Job::find(db, retry.job)?;
    let is_sealed = job.row.fingerprint.is_some();
    let allowed = !matches!(
        job.row.state,
        JobState::Importing | JobState::Ready | JobState::Cancelling
    );
    if !is_sealed || !allowed {
        let job = job.row;
        return Ok(RetriedItems { job, retried: 0 });
    }
    write_cancelled(db, &mut job, retry.at_ms)?;
    let (failed, cancelled) = match &retry.which {
        RetryWhich::Failed => (put_back(db, &job, "failed", retry.at_ms)?, 0),
        RetryWhich::Cancelled => (0, put_back_cancelled(db, &mut job, retry.at_ms)?),
        RetryWhich::FailedOrCancelled => (
            put_back(db, &job, "failed", retry.at_ms)?,
            put_back_cancelled(db, &mut job, retry.at_ms)?,
        ),
        RetryWhich::Items(ids) => put_back_named(db, &job, ids, retry.at_ms)?,
    };
    let counts = JobCounts {
        failed: -failed,
        cancelled: -cancelled,
        ..JobCounts::default()
    };
    job.count(db, &counts)?;
    let retried = failed + cancelled;
    if retried > 0 {
        if let Some(instruction) = &retry.instruction {
            job.row.made.instruction.clone_from(instruction);
        }
        if job.row.state.is_terminal() {
            job.row.state = JobState::Running;
            job.row.ended_ms = None;
            job.row.reason = None;
            job.row.reason_message = None;
        }
        job.row.cancel_asked = false;
        job.begin_streak();
        job.save(db)?;
    }
    let job = job.row;
    Ok(RetriedItems { job, retried })
}

/// Writes down what only counts as cancelled, since the job was.
fn write_cancelled(db: &Db<'_>, job: &mut Job, at_ms: i64) -> Result<(), Fault> {
    const FRESH: &str = "UPDATE fanout_job SET fresh_cancelled = 1 WHERE no = ?1";
    if !job.row.cancel_asked {
        return Ok(());
    }
    let waiting = job.row.counts.cancelled - job.stored.cancelled;
    let error = job.cancellation();
    let ended_ms = job.cancelled_ms.or(job.row.ended_ms).unwrap_or(at_ms);
    for company in [Company::Others, Company::Alone] {
        let sql = pending(include_str!("../sql/fanout/cancel_pending.sql"), company);
        let values = params![job.row.no, ended_ms, error.kind, error.message];
        execute(db, &sql, values)?;
    }
    execute(db, FRESH, params![job.row.no])?;
    job.fresh_cancelled = true;
    let counts = JobCounts {
        cancelled: waiting,
        ..JobCounts::default()
    };
    job.count(db, &counts)
}

/// Puts back all items in a state; how many there were.
fn put_back(db: &Db<'_>, job: &Job, state: &str, at_ms: i64) -> Result<i64, Fault> {
    let sql = include_str!("../sql/fanout/retry.sql").replace("STATE", state);
    let changed = execute(db, &sql, params![job.row.no, at_ms])?;
    Ok(i64::try_from(changed).unwrap_or(i64::MAX))
}

/// Puts back all cancelled items, and the rows that never ran with them.
fn put_back_cancelled(db: &Db<'_>, job: &mut Job, at_ms: i64) -> Result<i64, Fault> {
    put_back(db, job, "cancelled", at_ms)?;
    job.fresh_cancelled = false;
    Ok(job.stored.cancelled)
}

/// Puts back the items with these ids that failed or were cancelled; how many of each.
fn put_back_named(db: &Db<'_>, job: &Job, ids: &[String], at_ms: i64) -> Result<(i64, i64), Fault> {
    let (mut failed, mut cancelled) = (0, 0);
    for id in ids {
        let Some(seq) = row_with_id(db, job.row.no, id)? else {
            continue;
        };
        let Some(StoredItem { mut item, exists }) = find_item(db, job.row.no, seq)? else {
            continue;
        };
        match item.state {
            ItemState::Failed => failed += 1,
            ItemState::Cancelled => cancelled += 1,
            ItemState::Pending if !exists && job.fresh_cancelled => cancelled += 1,
            _ => continue,
        }
        item.state = ItemState::Pending;
        item.ended_ms = None;
        item.retries_used = 0;
        item.limit_returns = 0;
        item.losses = item.losses.min(2);
        item.not_before_ms = at_ms;
        item.same_thread = false;
        item.error = None;
        save_item(db, job.row.no, &item, None)?;
    }
    Ok((failed, cancelled))
}
