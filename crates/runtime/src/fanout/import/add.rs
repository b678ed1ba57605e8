//! Rows that a client adds one call at a time, and the seal behind them.
//!
//! The invariant here: the job's import offset is the number of the next row, so that a repeated call is
//! recognised the way a repeated chunk is.

use sha2::{Digest, Sha256};
use turnlane_store::fanout::{ImportProgress, JobRow, JobState};

use super::batch::{Batches, Parts};
use super::notes::{ImportNotes, ImportSource};
use super::{ADDED_ROWS_MAX, AddItems, ImportError, ImportState, PROBLEMS_MAX};
use crate::fanout::input::{
    ObjectFault, Problem, RECORD_BYTES_MAX, ROWS_MAX, TableRow, parse_object,
};
use crate::fanout::row::{COLUMNS_MAX, Row};

/// Adds rows to a job.
pub(super) async fn add_items(
    parts: Parts,
    items: AddItems<'_>,
) -> Result<ImportState, ImportError> {
    if parts.job.state != JobState::Importing {
        return Err(ImportError::WrongState(parts.job.state));
    }
    let mut notes = ImportNotes::of_job(&parts.job)?;
    match notes.source {
        ImportSource::None => notes.source = ImportSource::Items,
        ImportSource::Items => {}
        ImportSource::Path { .. } | ImportSource::Stream => return Err(ImportError::OtherSource),
    }
    let next = parts.job.import.offset;
    if items.seq < next {
        return Ok(ImportState {
            job: parts.job,
            next,
        });
    }
    if items.seq > next {
        return Err(ImportError::OffsetMismatch { next });
    }
    let mut batches = Batches::new(parts, notes)?;
    if batches.dedupes() {
        // Each call would have to read all rows before it.
        let message = "dedupe is for imported files; rows that are added are not compared";
        return Err(ImportError::Problems(vec![Problem::new(message)]));
    }
    let rows = read_rows(&mut batches, items)?;
    let mut progress = batches.job.import.clone();
    for (row, text) in rows.iter().zip(items.rows) {
        let columns = batches.columns.clone();
        batches.add(row, None, &columns);
        let mut hasher = Sha256::new();
        hasher.update(progress.hash);
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
        progress.hash = hasher.finalize().into();
        progress.offset = row.seq + 1;
        if batches.is_full() {
            commit(&mut batches, &progress).await?;
        }
    }
    commit(&mut batches, &progress).await?;
    Ok(ImportState {
        next: batches.job.import.offset,
        job: batches.job,
    })
}

/// Reads all rows of a call, and the columns they add, or refuses the call.
fn read_rows(batches: &mut Batches, items: AddItems<'_>) -> Result<Vec<TableRow>, ImportError> {
    if items.rows.len() > ADDED_ROWS_MAX {
        let message = format!("a call adds at most {ADDED_ROWS_MAX} rows");
        return Err(ImportError::Problems(vec![Problem::new(message)]));
    }
    let mut rows = Vec::with_capacity(items.rows.len());
    let mut problems = Vec::new();
    for (seq, text) in (items.seq..).zip(items.rows) {
        let members = if seq >= ROWS_MAX {
            Err(format!("is behind the last of {ROWS_MAX} rows"))
        } else if text.len() > RECORD_BYTES_MAX {
            Err(format!("is longer than {RECORD_BYTES_MAX} bytes"))
        } else {
            parse_object(text).map_err(|fault| match fault {
                ObjectFault::Text(message) => message,
                ObjectFault::Nul { .. } => "has a NUL character".to_owned(),
            })
        };
        match members {
            Ok(members) => {
                for name in members.names() {
                    batches.columns.add(name);
                }
                let row = Row::Object(members);
                // A row that a client adds has no line; its number stands for it.
                let line = u64::try_from(seq + 1).unwrap_or(0);
                rows.push(TableRow { seq, line, row });
            }
            Err(message) => problems.push(Problem::new(format!("row {} {message}", seq + 1))),
        }
    }
    if batches.columns.names().len() > COLUMNS_MAX {
        let message = format!("input has more than {COLUMNS_MAX} columns");
        problems.push(Problem::new(message));
    }
    problems.truncate(PROBLEMS_MAX);
    if problems.is_empty() {
        Ok(rows)
    } else {
        Err(ImportError::Problems(problems))
    }
}

async fn commit(batches: &mut Batches, progress: &ImportProgress) -> Result<(), ImportError> {
    batches.commit(progress.clone()).await?;
    if batches.problems.is_empty() {
        Ok(())
    } else {
        Err(ImportError::Problems(std::mem::take(&mut batches.problems)))
    }
}

/// Seals a job whose rows a client has added, or whose source was read to its end.
pub(super) async fn seal(parts: Parts) -> Result<JobRow, ImportError> {
    let mut notes = ImportNotes::of_job(&parts.job)?;
    match notes.source {
        _ if notes.ended => return Batches::new(parts, notes)?.seal().await,
        ImportSource::Path { .. } | ImportSource::Stream => return Err(ImportError::Unfinished),
        ImportSource::None | ImportSource::Items => {}
    }
    notes.source = ImportSource::Items;
    notes.ended = true;
    let has_rows = parts.job.total > 0;
    if !has_rows {
        notes.warnings = vec!["input has no data rows".to_owned()];
    }
    let progress = parts.job.import.clone();
    let mut batches = Batches::new(parts, notes)?;
    if has_rows {
        let spec = batches.notes.input.clone();
        batches.check_objects(&spec);
    }
    batches.commit(progress).await?;
    if !batches.problems.is_empty() {
        return Err(batches.fail().await);
    }
    batches.seal().await
}
