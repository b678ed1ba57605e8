//! Jobs, items, attempts and counts, read and written whole.
//!
//! The invariant here: columns are read in the order of the `SELECT` in the `.sql` file that the
//! function names. The states of items are those that are stored; [`Job::shown`] says how they look
//! in a job whose end was requested.

use rusqlite::{Row as Columns, params};

use crate::error::StoreError;
use crate::fanout::{
    AttemptRow, FanoutItem, ImportProgress, ItemAttempt, ItemError, ItemState, ItemUsage,
    JobCounts, JobNo, JobRow, NewJob, Streak,
};
use crate::ids::WorkerId;
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::rows::InOrder;
use crate::sqlite::statement::{all, execute, first, single};

/// The job, with what only the store needs to know.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// As callers see it.
    pub(super) row: JobRow,
    /// The sums of the counts, without what counts as cancelled by a flag.
    pub(super) stored: JobCounts,
    /// Rows that never ran are cancelled, and counted as such.
    pub(super) fresh_cancelled: bool,
    /// The counts at the last start.
    base: Streak,
    /// The worker that writes the file of the job.
    pub(super) export_worker: Option<WorkerId>,
    /// The time at which its end was requested.
    pub(super) cancelled_ms: Option<i64>,
}

impl Job {
    /// The job, unless it is being deleted.
    pub(super) fn find(db: &Db<'_>, no: JobNo) -> Result<Self, Fault> {
        Self::read(db, no)?
            .filter(|job| !job.row.deleting)
            .ok_or(Fault::Refused(StoreError::JobNotFound(no)))
    }

    /// The job, also while it is being deleted.
    pub(super) fn read(db: &Db<'_>, no: JobNo) -> Result<Option<Self>, Fault> {
        const JOB: &str = concat!(include_str!("../sql/fanout/job.sql"), "WHERE no = ?1");
        let job = first(db, JOB, params![no], job)?;
        job.map(|job| job.counted(db)).transpose()
    }

    /// Adds the counts to a job that was just read.
    pub(super) fn counted(mut self, db: &Db<'_>) -> Result<Self, Fault> {
        let no = params![self.row.no];
        self.stored = single(db, include_str!("../sql/fanout/counts.sql"), no, counts)?;
        self.show_counts();
        Ok(self)
    }

    /// Brings what callers see of the counts up to date.
    fn show_counts(&mut self) {
        self.row.counts = self.stored;
        if self.row.cancel_asked {
            self.row.counts.cancelled += self.row.pending();
        }
        let ended = self.stored.succeeded + self.stored.failed;
        self.row.streak = Streak {
            finished: ended - self.base.finished,
            failed: self.stored.failed - self.base.failed,
        };
    }

    /// Changes the counts, in the row of this worker.
    pub(super) fn count(&mut self, db: &Db<'_>, by: &JobCounts) -> Result<(), Fault> {
        if *by == JobCounts::default() {
            return Ok(());
        }
        let usage = &by.usage;
        execute(
            db,
            include_str!("../sql/fanout/count.sql"),
            params![
                self.row.no,
                db.me,
                by.running,
                by.succeeded,
                by.failed,
                by.skipped,
                by.cancelled,
                by.attempts,
                usage.input_tokens,
                usage.cached_input_tokens,
                usage.output_tokens,
                usage.reasoning_output_tokens,
                usage.total_tokens,
            ],
        )?;
        let stored = &mut self.stored;
        stored.running += by.running;
        stored.succeeded += by.succeeded;
        stored.failed += by.failed;
        stored.skipped += by.skipped;
        stored.cancelled += by.cancelled;
        stored.attempts += by.attempts;
        stored.usage = stored.usage + by.usage;
        self.show_counts();
        Ok(())
    }

    /// Begins a new count for the breaker.
    pub(super) fn begin_streak(&mut self) {
        self.base = Streak {
            finished: self.stored.succeeded + self.stored.failed,
            failed: self.stored.failed,
        };
        self.row.streak = Streak::default();
    }

    /// Writes a change of state, which the version counts.
    pub(super) fn save(&mut self, db: &Db<'_>) -> Result<(), Fault> {
        self.row.version += 1;
        let row = &self.row;
        execute(
            db,
            include_str!("../sql/fanout/save_job.sql"),
            params![
                row.no,
                row.state,
                row.reason,
                row.reason_message,
                row.resume_ms,
                row.fingerprint,
                row.version,
                row.cancel_asked,
                self.fresh_cancelled,
                row.made.owner,
                row.made.owner_worker,
                row.made.instruction,
                self.base.finished,
                self.base.failed,
                row.started_ms,
                row.ended_ms,
                self.cancelled_ms,
                row.stop_ms,
            ],
        )?;
        self.show_counts();
        Ok(())
    }

    /// The error of items that ended with the job.
    pub(super) fn cancellation(&self) -> ItemError {
        let message = self.row.reason_message.as_deref();
        ItemError {
            kind: "cancelled".to_owned(),
            message: message.unwrap_or("the job was cancelled").to_owned(),
        }
    }

    /// The item as callers see it.
    pub(super) fn shown(&self, found: StoredItem) -> FanoutItem {
        let StoredItem { mut item, exists } = found;
        let fresh = !exists && self.fresh_cancelled;
        if item.state == ItemState::Pending && (self.row.cancel_asked || fresh) {
            item.state = ItemState::Cancelled;
            item.error = Some(self.cancellation());
            item.ended_ms = self.cancelled_ms.or(self.row.ended_ms);
        }
        item
    }
}

/// Reads what `job.sql` selects; the counts come later.
pub(super) fn job(columns: &Columns<'_>) -> rusqlite::Result<Job> {
    let mut from = InOrder::of(columns);
    let no = from.next()?;
    let made = NewJob {
        id: from.next()?,
        name: from.next()?,
        owner: from.next()?,
        owner_worker: from.next()?,
        parent_thread: from.next()?,
        parent_turn: from.next()?,
        client_job_id: from.next()?,
        instruction: from.next()?,
        schema: from.next()?,
        channel: from.next()?,
        settings: from.next()?,
        limits: from.next()?,
        options: from.next()?,
        current_limit: from.next()?,
        input_ref: from.next()?,
        export_path: from.next()?,
        at_ms: from.next()?,
    };
    let mut row = JobRow {
        no,
        made,
        state: from.next()?,
        reason: from.next()?,
        reason_message: from.next()?,
        resume_ms: from.next()?,
        stop_ms: None,
        fingerprint: from.next()?,
        version: from.next()?,
        cancel_asked: from.next()?,
        deleting: from.next()?,
        columns: from.next()?,
        import: ImportProgress {
            offset: from.next()?,
            hash: from.next()?,
            blank_rows: from.next()?,
            notes: from.next()?,
        },
        total: from.next()?,
        next_seq: from.next()?,
        export_error: from.next()?,
        export_digest: from.next()?,
        export_next: from.next()?,
        streak: Streak::default(),
        counts: JobCounts::default(),
        started_ms: from.next()?,
        ended_ms: from.next()?,
    };
    let fresh_cancelled = from.next()?;
    let base = Streak {
        finished: from.next()?,
        failed: from.next()?,
    };
    row.stop_ms = from.next()?;
    Ok(Job {
        row,
        stored: JobCounts::default(),
        fresh_cancelled,
        base,
        export_worker: from.next()?,
        cancelled_ms: from.next()?,
    })
}

fn counts(columns: &Columns<'_>) -> rusqlite::Result<JobCounts> {
    let mut from = InOrder::of(columns);
    Ok(JobCounts {
        running: from.next()?,
        succeeded: from.next()?,
        failed: from.next()?,
        skipped: from.next()?,
        cancelled: from.next()?,
        attempts: from.next()?,
        usage: usage(&mut from)?,
    })
}

fn usage(from: &mut InOrder<'_>) -> rusqlite::Result<ItemUsage> {
    Ok(ItemUsage {
        input_tokens: from.next()?,
        cached_input_tokens: from.next()?,
        output_tokens: from.next()?,
        reasoning_output_tokens: from.next()?,
        total_tokens: from.next()?,
    })
}

fn error(from: &mut InOrder<'_>) -> rusqlite::Result<Option<ItemError>> {
    let kind: Option<String> = from.next()?;
    let message: Option<String> = from.next()?;
    Ok(kind
        .zip(message)
        .map(|(kind, message)| ItemError { kind, message }))
}

/// The id of a row that has none of its own.
pub(super) fn computed_id(seq: i64) -> String {
    format!("row-{}", seq.saturating_add(1))
}

/// An item with the state that is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredItem {
    /// The item; its usage is not read.
    pub(super) item: FanoutItem,
    /// False for a row that never ran.
    pub(super) exists: bool,
}

/// Reads what `item.sql` selects.
pub(super) fn item(from: &mut InOrder<'_>) -> rusqlite::Result<StoredItem> {
    let seq = from.next()?;
    let item_id: Option<String> = from.next()?;
    let state: Option<ItemState> = from.next()?;
    let item = FanoutItem {
        seq,
        item_id: item_id.unwrap_or_else(|| computed_id(seq)),
        state: state.unwrap_or(ItemState::Pending),
        attempt: from.next::<Option<u32>>()?.unwrap_or(0),
        retries_used: from.next::<Option<u32>>()?.unwrap_or(0),
        losses: from.next::<Option<u32>>()?.unwrap_or(0),
        limit_returns: from.next::<Option<u32>>()?.unwrap_or(0),
        repairs: from.next::<Option<u32>>()?.unwrap_or(0),
        not_before_ms: from.next::<Option<i64>>()?.unwrap_or(0),
        thread: from.next()?,
        turn: from.next()?,
        same_thread: from.next::<Option<bool>>()?.unwrap_or(false),
        error: error(from)?,
        dup_of: from.next()?,
        branch: from.next()?,
        usage: ItemUsage::default(),
        started_ms: from.next()?,
        ended_ms: from.next()?,
        reported_ms: from.next()?,
    };
    Ok(StoredItem {
        item,
        exists: state.is_some(),
    })
}

/// The item of a row; none where there is no such row.
pub(super) fn find_item(db: &Db<'_>, job: JobNo, seq: i64) -> Result<Option<StoredItem>, Fault> {
    const ITEM: &str = concat!(
        include_str!("../sql/fanout/item.sql"),
        include_str!("../sql/fanout/item_from.sql"),
        "WHERE r.job = ?1 AND r.seq = ?2"
    );
    first(db, ITEM, params![job, seq], |row| {
        item(&mut InOrder::of(row))
    })
}

/// Writes an item; its worker stays where none is named.
pub(super) fn save_item(
    db: &Db<'_>,
    job: JobNo,
    item: &FanoutItem,
    worker: Option<WorkerId>,
) -> Result<(), Fault> {
    let error = item.error.as_ref();
    execute(
        db,
        include_str!("../sql/fanout/save_item.sql"),
        params![
            job,
            item.seq,
            item.state,
            item.attempt,
            item.retries_used,
            item.losses,
            item.limit_returns,
            item.repairs,
            item.not_before_ms,
            item.thread,
            item.turn,
            item.same_thread,
            worker,
            error.map(|error| &error.kind),
            error.map(|error| &error.message),
            item.dup_of,
            item.branch,
            item.started_ms,
            item.ended_ms,
        ],
    )?;
    Ok(())
}

/// The usage of all attempts of an item.
pub(super) fn usage_of(db: &Db<'_>, job: JobNo, seq: i64) -> Result<ItemUsage, Fault> {
    let key = params![job, seq];
    single(db, include_str!("../sql/fanout/usage.sql"), key, |row| {
        usage(&mut InOrder::of(row))
    })
}

fn attempt(columns: &Columns<'_>) -> rusqlite::Result<AttemptRow> {
    let mut from = InOrder::of(columns);
    Ok(AttemptRow {
        attempt: from.next()?,
        thread: from.next()?,
        turn: from.next()?,
        outcome: from.next()?,
        error: error(&mut from)?,
        usage: usage(&mut from)?,
        started_ms: from.next()?,
        ended_ms: from.next()?,
    })
}

/// The attempts of an item, oldest first.
pub(super) fn attempts(db: &Db<'_>, job: JobNo, seq: i64) -> Result<Vec<AttemptRow>, Fault> {
    const ATTEMPTS: &str = concat!(
        include_str!("../sql/fanout/attempt.sql"),
        "WHERE job = ?1 AND seq = ?2 ORDER BY attempt"
    );
    all(db, ATTEMPTS, params![job, seq], attempt)
}

/// One attempt.
pub(super) fn find_attempt(db: &Db<'_>, of: ItemAttempt) -> Result<Option<AttemptRow>, Fault> {
    const ATTEMPT: &str = concat!(
        include_str!("../sql/fanout/attempt.sql"),
        "WHERE job = ?1 AND seq = ?2 AND attempt = ?3"
    );
    first(db, ATTEMPT, params![of.job, of.seq, of.attempt], attempt)
}

/// Writes what has changed of an attempt.
pub(super) fn save_attempt(
    db: &Db<'_>,
    of: ItemAttempt,
    attempt: &AttemptRow,
) -> Result<(), Fault> {
    let (error, usage) = (attempt.error.as_ref(), &attempt.usage);
    execute(
        db,
        include_str!("../sql/fanout/save_attempt.sql"),
        params![
            of.job,
            of.seq,
            of.attempt,
            attempt.turn,
            attempt.outcome,
            error.map(|error| &error.kind),
            error.map(|error| &error.message),
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.output_tokens,
            usage.reasoning_output_tokens,
            usage.total_tokens,
            attempt.ended_ms,
        ],
    )?;
    Ok(())
}
