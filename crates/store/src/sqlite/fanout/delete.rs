//! The deletion of a job, in parts.
//!
//! The invariant here: one part deletes at most 500 rows, so that no lane waits long for it; a job of
//! which a part was deleted is shown to runners only, and they go on.

use rusqlite::params;

use super::rows::Job;
use crate::fanout::{DeletedJob, JobNo, JobState};
use crate::ids::ThreadId;
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::statement::{all, execute};

/// How many rows one part deletes.
const ROWS_MAX: u32 = 500;

/// Deletes a part of a job, or the job with its last part.
pub(super) fn delete(db: &Db<'_>, no: JobNo) -> Result<DeletedJob, Fault> {
    const ROWS: &str = "SELECT seq FROM fanout_row WHERE job = ?1 ORDER BY seq LIMIT ?2";
    const DELETING: &str = "UPDATE fanout_job SET deleting = 1, client_job_id = NULL, \
         version = version + 1 WHERE no = ?1";
    let Some(job) = Job::read(db, no)? else {
        return Ok(DeletedJob::Done(Vec::new()));
    };
    let state = job.row.state;
    let runs = job.stored.running != 0 || matches!(state, JobState::Running | JobState::Cancelling);
    if !job.row.deleting && runs {
        return Ok(DeletedJob::WrongState(state));
    }
    if !job.row.deleting {
        execute(db, DELETING, params![no])?;
    }
    let rows: Vec<i64> = all(db, ROWS, params![no, ROWS_MAX], |row| row.get(0))?;
    let threads = match (rows.first(), rows.last()) {
        (Some(from), Some(to)) => delete_rows(db, no, *from, *to)?,
        _ => Vec::new(),
    };
    if rows.len() >= ROWS_MAX as usize {
        return Ok(DeletedJob::More(threads));
    }
    for sql in [
        "DELETE FROM fanout_count WHERE job = ?1",
        "DELETE FROM fanout_job WHERE no = ?1",
    ] {
        execute(db, sql, params![no])?;
    }
    Ok(DeletedJob::Done(threads))
}

/// Deletes a range of rows with their items; the threads of those.
fn delete_rows(db: &Db<'_>, no: JobNo, from: i64, to: i64) -> Result<Vec<ThreadId>, Fault> {
    let range = params![no, from, to];
    let threads = all(
        db,
        include_str!("../sql/fanout/delete_threads.sql"),
        range,
        |row| row.get(0),
    )?;
    for sql in [
        "DELETE FROM fanout_result WHERE job = ?1 AND seq BETWEEN ?2 AND ?3",
        "DELETE FROM fanout_attempt WHERE job = ?1 AND seq BETWEEN ?2 AND ?3",
        "DELETE FROM fanout_item WHERE job = ?1 AND seq BETWEEN ?2 AND ?3",
        "DELETE FROM fanout_row WHERE job = ?1 AND seq BETWEEN ?2 AND ?3",
    ] {
        execute(db, sql, range)?;
    }
    Ok(threads)
}
