//! `fanout/*`: jobs that run one template over many rows.
//!
//! The invariant here: a job is named by its id in every method, and only [`CREATE`] makes one. Calls
//! that may be repeated after a lost answer say by which member they are recognised: `clientJobId`,
//! `offset`, `seq`.
//!
//! Job and item are in [`crate::fanout`]; the notifications are in [`crate::notification`].

mod items;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::thread_resume::is_false;
use crate::fanout::{
    ExportFormat, ImportFormat, Job, JobLimits, JobOwner, JobSettings, JobState, KeepThreads,
    OnDuplicate, OnItemLoss, ResultChannel,
};

pub use items::{
    FanoutExportAnswer, FanoutExportParams, FanoutItemsAddAnswer, FanoutItemsAddParams,
    FanoutItemsListAnswer, FanoutItemsListParams, FanoutItemsReadAnswer, FanoutItemsReadParams,
    FanoutPreviewAnswer, FanoutPreviewParams, FanoutPrompt,
};

/// Creates a job without rows.
pub const CREATE: &str = "fanout/create";
/// Imports rows from a file of the server, or begins an import by [`IMPORT_WRITE`].
pub const IMPORT: &str = "fanout/import";
/// Adds bytes to the input of a job.
pub const IMPORT_WRITE: &str = "fanout/import/write";
/// Adds rows to a job.
pub const ITEMS_ADD: &str = "fanout/items/add";
/// Shows the prompts of the first items.
pub const PREVIEW: &str = "fanout/preview";
/// Ends the import after the checks of template and ids.
pub const SEAL: &str = "fanout/seal";
/// Starts a job that is ready.
pub const START: &str = "fanout/start";
/// Shows one job.
pub const READ: &str = "fanout/read";
/// Lists jobs, the newest first.
pub const LIST: &str = "fanout/list";
/// Stops the start of further items.
pub const PAUSE: &str = "fanout/pause";
/// Ends a pause.
pub const RESUME: &str = "fanout/resume";
/// Ends a job.
pub const CANCEL: &str = "fanout/cancel";
/// Makes failed and cancelled items pending again.
pub const RETRY: &str = "fanout/retry";
/// Lists the items of a job, in input order.
pub const ITEMS_LIST: &str = "fanout/items/list";
/// Shows one item with its row, result and attempts.
pub const ITEMS_READ: &str = "fanout/items/read";
/// Writes the results to a file of the server, or answers with them in parts.
pub const EXPORT: &str = "fanout/export";
/// Deletes a job with its rows, results and threads.
pub const DELETE: &str = "fanout/delete";
/// Begins the notifications about one job or all jobs.
pub const SUBSCRIBE: &str = "fanout/subscribe";
/// Ends them.
pub const UNSUBSCRIBE: &str = "fanout/unsubscribe";

/// Every method, in the order of the documentation.
pub const ALL: &[&str] = &[
    CREATE,
    IMPORT,
    IMPORT_WRITE,
    ITEMS_ADD,
    PREVIEW,
    SEAL,
    START,
    READ,
    LIST,
    PAUSE,
    RESUME,
    CANCEL,
    RETRY,
    ITEMS_LIST,
    ITEMS_READ,
    EXPORT,
    DELETE,
    SUBSCRIBE,
    UNSUBSCRIBE,
];

/// The most bytes in one [`IMPORT_WRITE`], and in one part of an export.
pub const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// The most rows in one [`ITEMS_ADD`].
pub const ITEMS_ADD_MAX: usize = 1_000;

/// Params of [`CREATE`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutCreateParams {
    /// The job's name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The client's own key; the same key again answers with the job that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_job_id: Option<String>,
    /// The template of every item's task.
    pub instruction: String,
    /// The column that holds the items' ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_column: Option<String>,
    /// The treatment of a second row with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_duplicate: Option<OnDuplicate>,
    /// Keep placeholders without a column, and let rows lack columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_missing: Option<bool>,
    /// The JSON Schema of every result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The channel on which workers deliver results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_channel: Option<ResultChannel>,
    /// The owner; `detached` unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<JobOwner>,
    /// The treatment of an item whose worker died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_crash: Option<OnItemLoss>,
    /// The threads that stay; by the number of rows unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_threads: Option<KeepThreads>,
    /// End an item's turn with its accepted report; true unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_on_report: Option<bool>,
    /// Turns that ask for a missing result, per attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_turns: Option<u64>,
    /// Run items with equal tasks once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<bool>,
    /// The settings of the items' threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<JobSettings>,
    /// The limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<JobLimits>,
    /// The file that results are written to at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<FanoutExportTarget>,
}

/// The file that a job writes its results to by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutExportTarget {
    /// The file.
    pub path: String,
    /// Its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ExportFormat>,
    /// Replace a file that exists.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overwrite: bool,
}

/// The answer of methods that change or show one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FanoutJobAnswer {
    /// The job.
    pub job: Job,
}

/// Params of methods that need the job and nothing else: [`READ`], [`SEAL`], [`START`], [`RESUME`],
/// [`CANCEL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutJobParams {
    /// The job.
    pub job_id: String,
}

/// Params of [`IMPORT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutImportParams {
    /// The job.
    pub job_id: String,
    /// The origin of the rows.
    pub source: ImportSource,
    /// The format; by the suffix of the path unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImportFormat>,
    /// The separator of cells, one byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// The encoding of a text that is not UTF-8 and has no byte order mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Skip so many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Import at most so many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Import only rows whose cell in each of these columns has the value beside it.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<(String, String)>>,
    /// Import so many of those rows, from 1 to 10,000: the ones with the smallest hash of their id, or of
    /// their cells where the job has no id column, and `sampleKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
    /// Another key gives another sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_key: Option<String>,
}

/// The origin of a job's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ImportSource {
    /// A file of the server.
    Path {
        /// The file.
        path: String,
    },
    /// Bytes that the client sends by [`IMPORT_WRITE`].
    Stream,
}

/// The answer to [`IMPORT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutImportAnswer {
    /// The job.
    pub job: Job,
    /// The byte of the input that is wanted next.
    pub next_offset: u64,
}

/// Params of [`IMPORT_WRITE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutImportWriteParams {
    /// The job.
    pub job_id: String,
    /// The place of the first byte in the input.
    pub offset: u64,
    /// The bytes, at most [`CHUNK_BYTES_MAX`] of them, in base64.
    #[serde(default)]
    pub data_base64: String,
    /// The input ends behind these bytes; the job is sealed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub end: bool,
}

/// The answer to [`IMPORT_WRITE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutImportWriteAnswer {
    /// The byte of the input that is wanted next.
    pub next_offset: u64,
}

/// Params of [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutListParams {
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The most jobs, from 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only jobs in one of these states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobState>>,
    /// Only jobs that a turn of this thread created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_thread_id: Option<String>,
}

/// The answer to [`LIST`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutListAnswer {
    /// The jobs.
    pub data: Vec<Job>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of [`PAUSE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutPauseParams {
    /// The job.
    pub job_id: String,
    /// Interrupt items that still run after the grace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub now: bool,
    /// The grace of this pause, in place of the job's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Params of [`RETRY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutRetryParams {
    /// The job.
    pub job_id: String,
    /// Retry items in these states; `failed`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<crate::fanout::JobItemState>>,
    /// Retry these items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_ids: Option<Vec<String>>,
    /// A new template for them and for rows that have not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
}

/// The answer to [`RETRY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FanoutRetryAnswer {
    /// The job.
    pub job: Job,
    /// The number of items that wait again.
    pub retried: i64,
}

/// Params of [`DELETE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutDeleteParams {
    /// The job.
    pub job_id: String,
    /// Delete worktrees that have work in them too. Branches with commits stay.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// Params of [`SUBSCRIBE`] and [`UNSUBSCRIBE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutSubscribeParams {
    /// The job; all jobs where it is null.
    #[serde(default)]
    pub job_id: Option<String>,
    /// Notify about items too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub items: bool,
}
