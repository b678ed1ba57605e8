//! Fan-out jobs of a Turnlane server: one template over many rows, one result per row.
//!
//! The invariant here: a job lives on the server. A handle names it and owns nothing; dropping a handle,
//! or the whole client, leaves the job as it is. Calls that the server recognises when they come again
//! are repeated after a lost connection.
//!
//! Rows, results and states are the types of the wire, re-exported at the top of the crate.

mod events;
mod import;
mod job;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::{Map, Value};
use turnlane_protocol::fanout::{
    Job as JobView, JobLimits, JobOwner, JobSettings, JobState, KeepThreads, OnDuplicate,
    OnItemLoss, ResultChannel, Worktree,
};
use turnlane_protocol::method::fanout;
use turnlane_protocol::method::{
    FanoutCreateParams, FanoutExportTarget, FanoutJobAnswer, FanoutListParams,
};

pub use self::events::{JobEvent, JobEvents};
pub use self::import::{ImportOptions, JobImportError};
pub use self::job::{ItemsOfInterest, Job, JobExport, JobItems, PauseMode, RetrySelection};
use crate::call::CallOptions;
use crate::core::Owner;
use crate::error::CallError;
use crate::link::Repeat;
use crate::thread::{Entries, Listing};

/// The jobs that one call of a list fetches.
const PAGE: u32 = 100;

/// The jobs of a server.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub(crate) owner: Arc<Owner>,
}

/// A job to be created: the template, and everything else by its default.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct JobSpec {
    params: FanoutCreateParams,
}

impl JobSpec {
    /// A job with this template; `{column}` stands for the value of a row.
    pub fn new(instruction: impl Into<String>) -> Self {
        Self {
            params: FanoutCreateParams {
                instruction: instruction.into(),
                ..FanoutCreateParams::default()
            },
        }
    }

    /// A job with all params of `fanout/create`.
    pub fn from_params(params: FanoutCreateParams) -> Self {
        Self { params }
    }

    /// Its name for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.params.name = Some(name.into());
        self
    }

    /// The caller's own key. Creating a job with the same key again finds the job that has it, so that
    /// a creation whose answer was lost can be repeated.
    pub fn client_job_id(mut self, key: impl Into<String>) -> Self {
        self.params.client_job_id = Some(key.into());
        self
    }

    /// The column that holds the items' ids; row numbers without one.
    pub fn id_column(mut self, column: impl Into<String>) -> Self {
        self.params.id_column = Some(column.into());
        self
    }

    /// The treatment of a second row with the same id.
    pub fn on_duplicate(mut self, treatment: OnDuplicate) -> Self {
        self.params.on_duplicate = Some(treatment);
        self
    }

    /// The JSON Schema of every result.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.params.output_schema = Some(schema);
        self
    }

    /// The channel on which workers deliver results.
    pub fn result_channel(mut self, channel: ResultChannel) -> Self {
        self.params.result_channel = Some(channel);
        self
    }

    /// The owner; the job stops with it.
    pub fn owner(mut self, owner: JobOwner) -> Self {
        self.params.owner = Some(owner);
        self
    }

    /// The treatment of an item whose worker died.
    pub fn on_crash(mut self, treatment: OnItemLoss) -> Self {
        self.params.on_crash = Some(treatment);
        self
    }

    /// The threads that stay after their items have ended.
    pub fn keep_threads(mut self, keep: KeepThreads) -> Self {
        self.params.keep_threads = Some(keep);
        self
    }

    /// Run items with equal tasks once; the others are skipped and have the same result.
    pub fn dedupe(mut self) -> Self {
        self.params.dedupe = Some(true);
        self
    }

    /// The settings of the items' threads.
    pub fn settings(mut self, settings: JobSettings) -> Self {
        self.params.settings = Some(settings);
        self
    }

    /// The working directory of an item: that of the job, or a git worktree of its own.
    pub fn worktree(mut self, worktree: Worktree) -> Self {
        let settings = self.params.settings.get_or_insert_default();
        settings.worktree = Some(worktree);
        self
    }

    /// The limits.
    pub fn limits(mut self, limits: JobLimits) -> Self {
        self.params.limits = Some(limits);
        self
    }

    /// The file of the server that results are written to at the end.
    pub fn export_to(mut self, target: FanoutExportTarget) -> Self {
        self.params.export = Some(target);
        self
    }
}

impl Jobs {
    /// Creates a job without rows, in state `importing`. With a client job id the call is repeated
    /// after a lost connection, since the server knows it again.
    pub async fn create(&self, spec: JobSpec) -> Result<Job, CallError> {
        let repeat = match spec.params.client_job_id {
            Some(_) => Repeat::Harmless,
            None => Repeat::Never,
        };
        let options = CallOptions::default();
        let answer: FanoutJobAnswer = self
            .owner
            .call_as(fanout::CREATE, &spec.params, repeat, options)
            .await?;
        Ok(self.handle(answer.job.status.id))
    }

    /// The job with this id; the server's refusal has the reason `jobNotFound` where there is none.
    pub async fn get(&self, id: impl Into<String>) -> Result<Job, CallError> {
        let job = self.handle(id.into()).status().await?;
        // A server may find a job by less than its whole id.
        Ok(self.handle(job.status.id))
    }

    /// All jobs, the newest first.
    pub fn list(&self) -> JobList {
        self.list_with(&FanoutListParams::default())
    }

    /// Jobs in some states or of one parent thread, the newest first.
    pub fn list_with(&self, params: &FanoutListParams) -> JobList {
        let limit = params.limit.or(Some(PAGE));
        let listing = Listing::new(fanout::LIST, object(params), limit);
        let entries = Entries::new(Arc::clone(&self.owner), listing, read_job);
        JobList { entries }
    }

    /// Jobs that have not ended, the newest first.
    pub fn unfinished(&self) -> JobList {
        let open = JobState::ALL.into_iter().filter(|it| !it.is_terminal());
        self.list_with(&FanoutListParams {
            states: Some(open.collect()),
            ..FanoutListParams::default()
        })
    }

    fn handle(&self, id: String) -> Job {
        Job {
            owner: Arc::clone(&self.owner),
            id,
        }
    }
}

/// A list of jobs: a stream that fetches page after page.
#[derive(Debug)]
pub struct JobList {
    entries: Entries<JobView>,
}

impl JobList {
    /// The next job; none behind the last.
    pub async fn next(&mut self) -> Option<Result<JobView, CallError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for JobList {
    type Item = Result<JobView, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.entries).poll_next(cx)
    }
}

fn read_job(value: Value) -> Option<JobView> {
    serde_json::from_value(value).ok()
}

/// Params as the members of an object.
fn object(params: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(params) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
