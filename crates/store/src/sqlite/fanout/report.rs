//! The report of a result.
//!
//! The invariant here: the first result that is committed stays, also when an older attempt reports
//! it; its item never starts again.

use rusqlite::params;

use super::jobs::cancel;
use super::rows::{Job, find_attempt, find_item, save_attempt, save_item};
use crate::error::StoreError;
use crate::fanout::{
    AttemptOutcome, ItemAttempt, ItemReport, ItemState, JobCounts, JobState, Reported,
};
use crate::ids::ThreadId;
use crate::json::Json;
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::statement::{execute, first};

/// Writes the result of an item.
pub(super) fn insert_result(
    db: &Db<'_>,
    of: ItemAttempt,
    result: &Json,
    digest: &[u8; 32],
    at_ms: i64,
) -> Result<(), Fault> {
    execute(
        db,
        include_str!("../sql/fanout/insert_result.sql"),
        params![of.job, of.seq, of.attempt, result, digest, at_ms],
    )?;
    Ok(())
}

/// Records a result, unless the item has one or has ended.
pub(super) fn report(db: &Db<'_>, report: &ItemReport) -> Result<Reported, Fault> {
    const RESULT: &str = "SELECT digest FROM fanout_result WHERE job = ?1 AND seq = ?2";
    let of = report.item;
    let mut job = Job::find(db, of.job)?;
    let not_found = || Fault::Refused(StoreError::AttemptNotFound(of));
    let found = find_item(db, of.job, of.seq)?.ok_or_else(not_found)?;
    let mut attempt = find_attempt(db, of)?.ok_or_else(not_found)?;
    let known: Option<[u8; 32]> = first(db, RESULT, params![of.job, of.seq], |row| row.get(0))?;
    if let Some(digest) = known {
        return Ok(if digest == report.digest {
            Reported::Duplicate
        } else {
            Reported::Other
        });
    }
    let state = job.shown(found.clone()).state;
    if !matches!(state, ItemState::Pending | ItemState::Running) {
        return Ok(Reported::Ended(state));
    }
    insert_result(db, of, &report.result, &report.digest, report.at_ms)?;
    let usage = attempt.usage.max(report.usage);
    let mut counts = JobCounts {
        succeeded: 1,
        usage: usage - attempt.usage,
        ..JobCounts::default()
    };
    attempt.usage = usage;
    attempt.outcome = Some(AttemptOutcome::Reported);
    attempt.error = None;
    save_attempt(db, of, &attempt)?;
    let mut item = found.item;
    let mut superseded = None;
    if item.state == ItemState::Running {
        counts.running = -1;
        let newer = ItemAttempt {
            attempt: item.attempt,
            ..of
        };
        if newer != of {
            superseded = supersede(db, newer)?.filter(|thread| *thread != attempt.thread);
        }
    }
    item.state = ItemState::Succeeded;
    item.error = None;
    item.ended_ms = Some(report.at_ms);
    save_item(db, of.job, &item, None)?;
    job.count(db, &counts)?;
    let cancels = report.stop && !job.row.state.is_terminal();
    if cancels && job.row.state != JobState::Cancelling {
        let message = "cancelled by worker request".to_owned();
        cancel(&mut job, "worker", Some(&message), report.at_ms);
        job.save(db)?;
    }
    Ok(Reported::Accepted { superseded })
}

/// Marks the attempt that runs in vain from now on; its turn still ends and closes it.
fn supersede(db: &Db<'_>, newer: ItemAttempt) -> Result<Option<ThreadId>, Fault> {
    let Some(mut attempt) = find_attempt(db, newer)? else {
        return Ok(None);
    };
    attempt.outcome = Some(AttemptOutcome::Superseded);
    save_attempt(db, newer, &attempt)?;
    Ok(Some(attempt.thread))
}
