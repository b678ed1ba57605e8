//! Fan-out jobs as clients see them: the job, its items, their attempts.
//!
//! The invariant here: every member of a job and of an item is always written, null where there is
//! no value. Rows and results keep the text they were stored with ([`RawJson`]): numbers keep their
//! digits, and members keep their order.
//!
//! What a job does, and when, is decided by the runtime. Params and answers are in
//! [`method::fanout`](crate::method::fanout).

mod item;
mod limits;
mod raw;
mod settings;
mod worktree;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ThreadId, TurnId};

pub use item::{
    AttemptOutcome, JobAttempt, JobItem, JobItemDetail, JobItemError, JobItemState, JobItemUsage,
};
pub use limits::{InvalidMaxFailures, JobLimits, MaxFailures};
pub use raw::RawJson;
pub use settings::{
    ExportFormat, ImportFormat, JobOptions, JobOwner, JobSettings, KeepThreads, OnDuplicate,
    OnItemLoss, ResultChannel, Worktree,
};
pub use worktree::{ItemWorktree, JobWorktrees, SharedFile, WorktreeState};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum JobState {
    /// Rows are being added.
    Importing,
    /// All rows are stored; nothing was started.
    Ready,
    /// Items are claimed.
    Running,
    /// No item is claimed until the job is resumed.
    Paused,
    /// Its end was requested; some items still run.
    Cancelling,
    /// Every item succeeded or was skipped.
    Succeeded,
    /// All items have ended, and some failed.
    FinishedWithFailures,
    /// It was cancelled.
    Cancelled,
    /// Its import or the runner failed.
    Failed,
}

impl JobState {
    /// Every state, in the order in which a job may pass through them.
    pub const ALL: [Self; 9] = [
        Self::Importing,
        Self::Ready,
        Self::Running,
        Self::Paused,
        Self::Cancelling,
        Self::Succeeded,
        Self::FinishedWithFailures,
        Self::Cancelled,
        Self::Failed,
    ];

    /// Returns true if the job has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::FinishedWithFailures | Self::Cancelled | Self::Failed
        )
    }

    /// The word as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Importing => "importing",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::FinishedWithFailures => "finishedWithFailures",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// State, counts and everything else that changes while the job runs.
    #[serde(flatten)]
    pub status: JobStatus,
    /// The template of every item's task.
    pub instruction: String,
    /// The JSON Schema of every result.
    pub output_schema: Option<Value>,
    /// The settings of the items' threads.
    pub settings: JobSettings,
    /// The other choices that it was created with.
    #[serde(default)]
    pub options: JobOptions,
}

/// A job without its template, schema, settings and options, as `fanout/updated` carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// Its state.
    pub state: JobState,
    /// The cause of a pause, a cancellation or a failure, in one word.
    pub reason: Option<String>,
    /// The same cause, for people.
    pub reason_message: Option<String>,
    /// The time at which a paused job resumes by itself, in milliseconds since 1970.
    pub resume_at_ms: Option<i64>,
    /// Its owner; the job stops with it.
    pub owner: JobOwner,
    /// The thread whose turn created it.
    pub parent_thread_id: Option<ThreadId>,
    /// The turn that created it.
    pub parent_turn_id: Option<TurnId>,
    /// Grows with every change of state; a client ignores older versions.
    pub version: i64,
    /// The channel on which workers deliver results.
    pub result_channel: ResultChannel,
    /// The column that holds the items' ids.
    pub id_column: Option<String>,
    /// The names of the columns, in input order.
    pub columns: Vec<String>,
    /// Its limits.
    pub limits: JobLimits,
    /// The number of items that may run at once now.
    pub current_limit: u32,
    /// The hold of the provider, while there is one.
    pub hold: Option<JobHold>,
    /// The progress of the import.
    pub import: JobImport,
    /// The number of items in each state.
    pub counts: JobCounts,
    /// The tokens and the cost of all attempts.
    pub usage: JobUsage,
    /// The worktrees of its items; null where all items work in one directory.
    #[serde(default)]
    pub worktrees: Option<JobWorktrees>,
    /// The file that results are written to.
    pub export_path: Option<String>,
    /// The reason why that file could not be written.
    pub export_error: Option<String>,
    /// The time at which it was created, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The time of its first start.
    pub started_at_ms: Option<i64>,
    /// The time of its end.
    pub ended_at_ms: Option<i64>,
}

impl JobStatus {
    /// Returns true if nothing happens any more until a client acts: the job has ended, or it is
    /// paused and none of its items run.
    pub fn is_settled(&self) -> bool {
        self.state.is_terminal() || (self.state == JobState::Paused && self.counts.running == 0)
    }
}

/// A provider that takes no requests for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobHold {
    /// The kind of limit, as `rate_limited`.
    pub kind: String,
    /// The provider's message.
    pub message: Option<String>,
    /// The time at which the hold ends, in milliseconds since 1970; null if it is not known.
    pub until_ms: Option<i64>,
}

/// The progress of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobImport {
    /// Bytes of the input that were imported.
    pub bytes: i64,
    /// Rows that were imported.
    pub rows: i64,
    /// Records with only empty cells, which were skipped.
    pub blank_rows: i64,
    /// The hash chained over the imported records, in hexadecimal.
    pub hash: String,
    /// Remarks about the input, for people.
    pub warnings: Vec<String>,
}

/// The number of items in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobCounts {
    /// All items.
    pub total: i64,
    /// Items that wait.
    pub pending: i64,
    /// Items that run.
    pub running: i64,
    /// Items with a result.
    pub succeeded: i64,
    /// Items that were given up.
    pub failed: i64,
    /// Items that were not run on purpose.
    pub skipped: i64,
    /// Items that ended with the job.
    pub cancelled: i64,
}

impl JobCounts {
    /// The number of items that have ended.
    pub const fn ended(&self) -> i64 {
        self.succeeded + self.failed + self.skipped + self.cancelled
    }
}

/// The tokens and the cost of all attempts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobUsage {
    /// The sums.
    #[serde(flatten)]
    pub tokens: JobItemUsage,
    /// Attempts that were begun.
    pub attempts: i64,
}
