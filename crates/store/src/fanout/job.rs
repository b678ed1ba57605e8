//! A job: its making, its import, its states, its counts.
//!
//! The invariant here: `version` grows with every change of a job's state, so that a caller who read
//! the job before changes nothing by mistake.

use super::item::{ItemError, ItemUsage};
use crate::ids::{ThreadId, TurnId, WorkerId};
use crate::json::Json;

/// The number of a job in this database, so that a million rows do not repeat an id. Never used again
/// after the job is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobNo(pub i64);

/// Finds a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobKey {
    /// By its number.
    No(JobNo),
    /// By its id.
    Id(String),
    /// The newest job that has not ended and has this fingerprint.
    Unfinished([u8; 32]),
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Rows are being added.
    Importing,
    /// All rows are there; nothing was started.
    Ready,
    /// Items are claimed.
    Running,
    /// No item is claimed until the job is resumed.
    Paused,
    /// Its end was requested; some items still run.
    Cancelling,
    /// Every item succeeded or was skipped.
    Succeeded,
    /// All items have ended, some failed.
    FinishedWithFailures,
    /// It was cancelled.
    Cancelled,
    /// Its import or the runner failed.
    Failed,
}

impl JobState {
    /// Returns true if the job has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::FinishedWithFailures | Self::Cancelled | Self::Failed
        )
    }
}

/// The owner of a job; a job stops with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobOwner {
    /// None: every serving worker continues it.
    Detached,
    /// The connection that runs it.
    Connection,
    /// The turn that called for it.
    Turn,
}

/// A job to be made, in state `importing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// Its owner.
    pub owner: JobOwner,
    /// The worker that runs a job that is not detached.
    pub owner_worker: Option<WorkerId>,
    /// The thread of the turn that called for it.
    pub parent_thread: Option<ThreadId>,
    /// That turn.
    pub parent_turn: Option<TurnId>,
    /// The client's key; a second job with it is not made.
    pub client_job_id: Option<String>,
    /// The template.
    pub instruction: String,
    /// The JSON Schema of results.
    pub schema: Option<Json>,
    /// The way results arrive: `tool`, `message` or `text`.
    pub channel: String,
    /// The settings of the threads of its items.
    pub settings: Json,
    /// Its limits.
    pub limits: Json,
    /// Its other options.
    pub options: Json,
    /// How many items may run at once, at first.
    pub current_limit: u32,
    /// The source of its rows, for the import after a crash.
    pub input_ref: Option<Json>,
    /// The file that results are written to.
    pub export_path: Option<String>,
    /// Now, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The end of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedJob {
    /// It was made.
    Made(Box<JobRow>),
    /// A job with its id or its client job id was there.
    Existing(Box<JobRow>),
}

/// A job as it is stored, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// Its number.
    pub no: JobNo,
    /// The values it was made of; `current_limit`, owner, template and `export_path` are as they are
    /// now, `at_ms` is the time it was made.
    pub made: NewJob,
    /// Its state.
    pub state: JobState,
    /// The cause of a pause, a cancellation or a failure, in one word.
    pub reason: Option<String>,
    /// The same, for people.
    pub reason_message: Option<String>,
    /// The time at which a paused job goes on by itself.
    pub resume_ms: Option<i64>,
    /// The time at which the items of a paused job are interrupted; none where they finish.
    pub stop_ms: Option<i64>,
    /// Identifies records, filters, template and settings; known from the seal on.
    pub fingerprint: Option<[u8; 32]>,
    /// Grows with every change of state.
    pub version: i64,
    /// True if its end was requested.
    pub cancel_asked: bool,
    /// True if it is being deleted; only [`FanoutStore::active_jobs`](super::FanoutStore::active_jobs)
    /// shows it then.
    pub deleting: bool,
    /// The names of its columns, a JSON array.
    pub columns: Json,
    /// The state of the import.
    pub import: ImportProgress,
    /// The number of its rows.
    pub total: i64,
    /// The first row that no claim has looked at.
    pub next_seq: i64,
    /// The error of the last export, where it failed.
    pub export_error: Option<String>,
    /// The digest of the file that the last export wrote.
    pub export_digest: Option<[u8; 32]>,
    /// The digest of a file that is about to get the name of the export, or has got it.
    pub export_next: Option<[u8; 32]>,
    /// Finished items and failures since the job was last started or resumed, for the breaker.
    pub streak: Streak,
    /// Its items by state, and their usage.
    pub counts: JobCounts,
    /// The time of its first start.
    pub started_ms: Option<i64>,
    /// The time of its end.
    pub ended_ms: Option<i64>,
}

impl JobRow {
    /// How many items wait, rows that never ran included.
    pub const fn pending(&self) -> i64 {
        let counts = &self.counts;
        let ended = counts.succeeded + counts.failed + counts.skipped + counts.cancelled;
        self.total - counts.running - ended
    }
}

/// The progress of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// The byte behind the last committed record.
    pub offset: i64,
    /// The hash chained over the records before that byte.
    pub hash: [u8; 32],
    /// Records with only empty cells, which were skipped.
    pub blank_rows: i64,
    /// The state of the input's reader, and warnings for people.
    pub notes: Json,
}

impl Default for ImportProgress {
    fn default() -> Self {
        Self {
            offset: 0,
            hash: [0; 32],
            blank_rows: 0,
            notes: Json::new("{}"),
        }
    }
}

/// Ends since a job was last started, resumed or retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streak {
    /// Items that have succeeded or failed.
    pub finished: i64,
    /// Items that have failed.
    pub failed: i64,
}

/// The items of a job by state; the rest of `total` is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Claimed and not settled.
    pub running: i64,
    /// With a result.
    pub succeeded: i64,
    /// Given up.
    pub failed: i64,
    /// Not run on purpose.
    pub skipped: i64,
    /// Ended with the job.
    pub cancelled: i64,
    /// Attempts that were begun.
    pub attempts: i64,
    /// Tokens of all attempts.
    pub usage: ItemUsage,
}

/// A batch of rows in input order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportBatch {
    /// The job.
    pub job: JobNo,
    /// The byte at which the batch begins; it must be the job's offset.
    pub from_offset: i64,
    /// The progress of the import behind the batch.
    pub progress: ImportProgress,
    /// The columns known so far, a JSON array.
    pub columns: Json,
    /// The rows.
    pub rows: Vec<NewItemRow>,
}

/// One row of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItemRow {
    /// Its number, from 0: that of its record, so that skipped records leave gaps.
    pub seq: i64,
    /// Its id, where that is not `row-N`.
    pub item_id: Option<String>,
    /// Its cells: a JSON array in the order of the columns, or an object.
    pub cells: Json,
    /// The cause why it is not run: then it is an item at once, in state `skipped`.
    pub skipped: Option<ItemError>,
    /// The row whose result counts for this one.
    pub dup_of: Option<i64>,
}

/// The end of an import of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedBatch {
    /// The batch is in the store.
    Added(Box<JobRow>),
    /// The job's offset is another; nothing was changed.
    OffsetIs(i64),
    /// Rows with ids that other rows of the job have, each with the number of the row that has it;
    /// nothing was changed.
    DuplicateIds(Vec<(i64, i64)>),
    /// The job is not importing.
    WrongState(JobState),
}

/// The end of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealJob {
    /// The job.
    pub job: JobNo,
    /// Identifies records, filters, template and settings.
    pub fingerprint: [u8; 32],
    /// Now.
    pub at_ms: i64,
}

/// A change of a job's state or limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobChange {
    /// The job.
    pub job: JobNo,
    /// The version it was read with.
    pub version: i64,
    /// The change.
    pub to: JobTo,
    /// Now.
    pub at_ms: i64,
}

/// The new state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTo {
    /// Its items are claimed; a new count for the breaker begins. From `ready`, `paused` and
    /// `running`, which changes the owner.
    Running {
        /// Its owner from now on.
        owner: JobOwner,
        /// The worker that runs a job that is not detached.
        owner_worker: Option<WorkerId>,
    },
    /// Nothing more is claimed. From `running` and `paused`.
    Paused {
        /// The cause, in one word.
        reason: String,
        /// The cause, for people.
        message: Option<String>,
        /// The time at which it goes on by itself.
        resume_ms: Option<i64>,
    },
    /// Its end is requested; it is cancelled at once where nothing runs and no file is to be written.
    /// From every state that has not ended.
    Cancelling {
        /// The cause, for people.
        message: Option<String>,
    },
    /// A job that is running and has nothing pending or running ends with the state of its counts; a
    /// job that is cancelling and has nothing running is cancelled. Else nothing is changed.
    EndIfDone,
    /// It failed. From every state that has not ended.
    Failed {
        /// The cause, in one word.
        reason: String,
        /// The cause, for people.
        message: String,
    },
    /// Items that still run are interrupted at that time, by every worker that runs some; an earlier
    /// time stays. From `paused`. The version stays.
    Stop {
        /// The time.
        at_ms: i64,
    },
    /// Another number of items may run at once. The version stays.
    Limit(u32),
    /// This worker writes the file of the job, unless another one that lives does. The version stays.
    Exporting,
    /// A file is whole and gets the name of the export next. The version stays.
    Renaming {
        /// The name.
        path: String,
        /// The digest of the file.
        digest: [u8; 32],
    },
    /// Other notes of the import: its warnings have changed. The version stays.
    Notes(Json),
    /// An export has ended. The version stays.
    Exported {
        /// The file.
        path: String,
        /// The digest of the file, or the reason why it could not be written.
        outcome: Result<[u8; 32], String>,
    },
}

/// The end of a change of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedJob {
    /// The job afterwards.
    Changed(Box<JobRow>),
    /// The job as it is: it has another version, or its state does not allow the change.
    Unchanged(Box<JobRow>),
}

/// The progress of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletedJob {
    /// More rows are left; these threads belonged to the deleted ones.
    More(Vec<ThreadId>),
    /// The job is gone; these threads belonged to its last rows.
    Done(Vec<ThreadId>),
    /// Nothing was deleted: items of the job run, or may be claimed at any moment.
    WrongState(JobState),
}

/// A part of the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// Behind this place.
    pub after: Option<JobPlace>,
    /// Only jobs in one of these states; all where none is named.
    pub states: Vec<JobState>,
    /// Only jobs that this thread called for.
    pub parent: Option<ThreadId>,
    /// The most jobs to return.
    pub limit: u32,
}

/// The place of a job in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlace {
    /// The time at which it was made.
    pub created_ms: i64,
    /// Its id.
    pub id: String,
}

/// Some jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobRow>,
    /// The place behind which more follow.
    pub next: Option<JobPlace>,
}
