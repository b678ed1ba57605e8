//! Rows of the input, until the seal.
//!
//! The invariants here: a batch is added whole or not at all, with the offset behind it; no two rows
//! of a job have the same id, computed ids included.

use std::collections::HashMap;

use rusqlite::params;

use super::items::row_with_id;
use super::rows::{Job, computed_id, save_item};
use crate::fanout::{
    FanoutItem, ImportBatch, ImportedBatch, ItemState, ItemUsage, JobCounts, JobRow, JobState,
    NewItemRow, SealJob,
};
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::statement::execute;

/// Adds a batch of rows.
pub(super) fn import(db: &Db<'_>, batch: &ImportBatch) -> Result<ImportedBatch, Fault> {
    const ROW: &str = "INSERT INTO fanout_row(job, seq, item_id, cells) VALUES (?1, ?2, ?3, ?4)";
    let mut job = Job::find(db, batch.job)?;
    let offset = job.row.import.offset;
    let repeated = batch.from_offset < offset && batch.progress.offset <= offset;
    if repeated {
        return Ok(ImportedBatch::Added(Box::new(job.row)));
    }
    if job.row.state != JobState::Importing {
        return Ok(ImportedBatch::WrongState(job.row.state));
    }
    if batch.from_offset != offset {
        return Ok(ImportedBatch::OffsetIs(offset));
    }
    let duplicates = duplicates(db, batch)?;
    if !duplicates.is_empty() {
        return Ok(ImportedBatch::DuplicateIds(duplicates));
    }
    let mut skipped = 0;
    for row in &batch.rows {
        execute(db, ROW, params![batch.job, row.seq, row.item_id, row.cells])?;
        if row.skipped.is_some() {
            save_item(db, batch.job, &skipped_item(row, job.row.made.at_ms), None)?;
            skipped += 1;
        }
    }
    let progress = &batch.progress;
    execute(
        db,
        include_str!("../sql/fanout/imported.sql"),
        params![
            batch.job,
            progress.offset,
            progress.hash,
            progress.blank_rows,
            progress.notes,
            batch.columns,
            i64::try_from(batch.rows.len()).unwrap_or(i64::MAX),
        ],
    )?;
    let counts = JobCounts {
        skipped,
        ..JobCounts::default()
    };
    job.count(db, &counts)?;
    Ok(ImportedBatch::Added(Box::new(
        Job::find(db, batch.job)?.row,
    )))
}

fn skipped_item(row: &NewItemRow, at_ms: i64) -> FanoutItem {
    FanoutItem {
        seq: row.seq,
        item_id: String::new(),
        state: ItemState::Skipped,
        attempt: 0,
        retries_used: 0,
        losses: 0,
        limit_returns: 0,
        repairs: 0,
        not_before_ms: 0,
        thread: None,
        turn: None,
        same_thread: false,
        error: row.skipped.clone(),
        dup_of: row.dup_of,
        branch: None,
        usage: ItemUsage::default(),
        started_ms: None,
        reported_ms: None,
        ended_ms: Some(at_ms),
    }
}

/// The rows of a batch whose ids other rows have, in the store or in front of them in the batch.
fn duplicates(db: &Db<'_>, batch: &ImportBatch) -> Result<Vec<(i64, i64)>, Fault> {
    let mut ids: HashMap<String, i64> = HashMap::with_capacity(batch.rows.len());
    let mut found = Vec::new();
    for row in &batch.rows {
        let id = row.item_id.clone();
        let id = id.unwrap_or_else(|| computed_id(row.seq));
        let other = match ids.get(&id) {
            Some(seq) => Some(*seq),
            None => row_with_id(db, batch.job, &id)?,
        };
        match other {
            Some(other) => found.push((row.seq, other)),
            None => {
                ids.insert(id, row.seq);
            }
        }
    }
    Ok(found)
}

/// Ends the import.
pub(super) fn seal(db: &Db<'_>, seal: &SealJob) -> Result<JobRow, Fault> {
    let mut job = Job::find(db, seal.job)?;
    if job.row.state == JobState::Importing {
        job.row.state = JobState::Ready;
        job.row.fingerprint = Some(seal.fingerprint);
        job.save(db)?;
    }
    Ok(job.row)
}
