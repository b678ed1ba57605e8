//! The handle of one job.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use turnlane_protocol::fanout::{Job as JobView, JobItem, JobItemDetail, JobItemState, RawJson};
use turnlane_protocol::method::fanout;
use turnlane_protocol::method::{
    Done, FanoutDeleteParams, FanoutExportAnswer, FanoutExportParams, FanoutItemsListParams,
    FanoutItemsReadAnswer, FanoutItemsReadParams, FanoutJobAnswer, FanoutJobParams,
    FanoutPauseParams, FanoutPreviewAnswer, FanoutPreviewParams, FanoutRetryAnswer,
    FanoutRetryParams,
};

use super::events::{JobEvent, JobEvents, subscribe};
use super::object;
use crate::call::CallOptions;
use crate::core::Owner;
use crate::error::CallError;
use crate::link::Repeat;
use crate::thread::{Entries, Listing};

/// The items that one call of a list fetches.
const PAGE: u32 = 1_000;

/// The longest time without news after which [`Job::wait`] asks the server again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest import, export or deletion.
pub(super) const LONG_CALL: Duration = Duration::from_hours(24);

/// A job; clones are the same one.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) owner: Arc<Owner>,
    pub(super) id: String,
}

/// The treatment of items that run when their job is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseMode {
    /// They finish.
    #[default]
    Drain,
    /// They are interrupted after this time, or after the job's own grace, and wait again.
    Now {
        /// The time until the interrupt.
        grace: Option<Duration>,
    },
}

/// The ended items that run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetrySelection {
    /// Items in these states: failed, cancelled.
    States(Vec<JobItemState>),
    /// These items.
    Items(Vec<String>),
}

/// The notifications that [`Job::events`] brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemsOfInterest {
    /// Those about the job.
    #[default]
    None,
    /// Those about every item too.
    All,
}

/// The outcome of an export to a file of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobExport {
    /// The file.
    pub path: String,
    /// The number of rows in it.
    pub rows: u64,
}

impl Job {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The job as it is now.
    pub async fn status(&self) -> Result<JobView, CallError> {
        self.on_job(fanout::READ).await
    }

    /// The prompts of the first `count` items, at most 20. Calls no model.
    pub async fn preview(&self, count: u32) -> Result<FanoutPreviewAnswer, CallError> {
        let params = FanoutPreviewParams {
            job_id: self.id.clone(),
            count: Some(count),
        };
        self.call(fanout::PREVIEW, &params, Repeat::Harmless).await
    }

    /// Starts a job that is ready. A running job stays as it is.
    pub async fn start(&self) -> Result<JobView, CallError> {
        self.on_job(fanout::START).await
    }

    /// Stops the start of further items.
    pub async fn pause(&self, mode: PauseMode) -> Result<JobView, CallError> {
        let (now, grace) = match mode {
            PauseMode::Drain => (false, None),
            PauseMode::Now { grace } => (true, grace),
        };
        let grace = grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let params = FanoutPauseParams {
            job_id: self.id.clone(),
            now,
            grace_ms: grace,
        };
        let answer: FanoutJobAnswer = self.call(fanout::PAUSE, &params, Repeat::Harmless).await?;
        Ok(answer.job)
    }

    /// Ends a pause.
    pub async fn resume(&self) -> Result<JobView, CallError> {
        self.on_job(fanout::RESUME).await
    }

    /// Ends the job: running items are interrupted after the grace, pending ones never start.
    pub async fn cancel(&self) -> Result<JobView, CallError> {
        self.on_job(fanout::CANCEL).await
    }

    /// Makes failed or cancelled items wait again, with a new template where one is given. Answers
    /// with the number of items; a job that has ended runs again where there are any.
    pub async fn retry(
        &self,
        which: RetrySelection,
        instruction: Option<String>,
    ) -> Result<(JobView, i64), CallError> {
        let (states, item_ids) = match which {
            RetrySelection::States(states) => (Some(states), None),
            RetrySelection::Items(ids) => (None, Some(ids)),
        };
        let params = FanoutRetryParams {
            job_id: self.id.clone(),
            states,
            item_ids,
            instruction,
        };
        let answer: FanoutRetryAnswer = self.call(fanout::RETRY, &params, Repeat::Never).await?;
        Ok((answer.job, answer.retried))
    }

    /// All items, in input order, without rows and results.
    pub fn items(&self) -> JobItems {
        self.items_in(Vec::new())
    }

    /// The items in one of these states, in input order; all items where none is named.
    pub fn items_in(&self, states: Vec<JobItemState>) -> JobItems {
        let params = FanoutItemsListParams {
            job_id: self.id.clone(),
            states: (!states.is_empty()).then_some(states),
            ..FanoutItemsListParams::default()
        };
        let listing = Listing::new(fanout::ITEMS_LIST, object(&params), Some(PAGE));
        let entries = Entries::new(Arc::clone(&self.owner), listing, read_item);
        JobItems { entries }
    }

    /// One item with its row, result and attempts.
    pub async fn item(&self, item_id: impl Into<String>) -> Result<JobItemDetail, CallError> {
        let params = FanoutItemsReadParams {
            job_id: self.id.clone(),
            item_id: item_id.into(),
        };
        let answer: FanoutItemsReadAnswer = self
            .call(fanout::ITEMS_READ, &params, Repeat::Harmless)
            .await?;
        Ok(answer.item)
    }

    /// The result of an item; none while it has none.
    pub async fn result(&self, item_id: impl Into<String>) -> Result<Option<RawJson>, CallError> {
        Ok(self.item(item_id).await?.result)
    }

    /// Writes the results to a file of the server. `params.path` is required, `params.job_id` is set
    /// here.
    pub async fn export(&self, params: FanoutExportParams) -> Result<JobExport, CallError> {
        if params.path.is_none() {
            return Err(CallError::InvalidArgument {
                what: "path",
                reason: "an export to a file needs a path".to_owned(),
            });
        }
        match self.exported(params).await? {
            FanoutExportAnswer::File { path, rows } => Ok(JobExport { path, rows }),
            FanoutExportAnswer::Part { .. } => Err(crate::call::missing(fanout::EXPORT, "`path`")),
        }
    }

    /// One part of the results as text, and the cursor of the next part. `params.path` must not be
    /// set, `params.job_id` is set here.
    pub async fn export_part(
        &self,
        params: FanoutExportParams,
    ) -> Result<(String, Option<String>), CallError> {
        match self.exported(params).await? {
            FanoutExportAnswer::Part { data, next_cursor } => Ok((data, next_cursor)),
            FanoutExportAnswer::File { .. } => Err(crate::call::missing(fanout::EXPORT, "`data`")),
        }
    }

    async fn exported(
        &self,
        mut params: FanoutExportParams,
    ) -> Result<FanoutExportAnswer, CallError> {
        params.job_id.clone_from(&self.id);
        let repeat = match params.path {
            Some(_) => Repeat::Never,
            None => Repeat::Harmless,
        };
        self.call(fanout::EXPORT, &params, repeat).await
    }

    /// Changes of the job from now on; with [`ItemsOfInterest::All`] those of its items too. The
    /// stream goes on over lost connections and ends with the client.
    pub async fn events(&self, items: ItemsOfInterest) -> Result<JobEvents, CallError> {
        let events = JobEvents::new(&self.owner, &self.id, items);
        subscribe(&self.owner, &self.id, items).await?;
        Ok(events)
    }

    /// Waits until the job has ended, or is paused and none of its items run; over lost connections.
    /// A file that the job writes at its end is complete by then.
    pub async fn wait(&self) -> Result<JobView, CallError> {
        let mut events = self.events(ItemsOfInterest::None).await?;
        loop {
            match timeout(PATIENCE, events.next()).await {
                Ok(Some(JobEvent::Ended(job))) => return Ok(*job),
                Ok(Some(_)) => {}
                Ok(None) => return Err(CallError::Closed),
                // The server answers a subscription to an ended job with its end.
                Err(_) => subscribe(&self.owner, &self.id, ItemsOfInterest::None).await?,
            }
        }
    }

    /// Deletes the job with its rows, results, threads and worktrees. A running job is not deleted, nor
    /// is one with work in its worktrees: the server's refusal has the reason `unlanded`.
    pub async fn delete(&self) -> Result<(), CallError> {
        self.delete_as(FanoutDeleteParams::default()).await
    }

    /// As [`Job::delete`], with the work in its worktrees: changes that are in no commit are lost.
    /// Branches with commits stay.
    pub async fn delete_with_work(&self) -> Result<(), CallError> {
        let params = FanoutDeleteParams {
            force: true,
            ..FanoutDeleteParams::default()
        };
        self.delete_as(params).await
    }

    async fn delete_as(&self, params: FanoutDeleteParams) -> Result<(), CallError> {
        let params = FanoutDeleteParams {
            job_id: self.id.clone(),
            ..params
        };
        let done: Result<Done, CallError> = self.call(fanout::DELETE, &params, Repeat::Never).await;
        done.map(|_| ())
    }

    async fn on_job(&self, method: &str) -> Result<JobView, CallError> {
        let params = FanoutJobParams {
            job_id: self.id.clone(),
        };
        let answer: FanoutJobAnswer = self.call(method, &params, Repeat::Harmless).await?;
        Ok(answer.job)
    }

    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        repeat: Repeat,
    ) -> Result<R, CallError> {
        let is_long = [fanout::EXPORT, fanout::DELETE, fanout::SEAL].contains(&method);
        let options = CallOptions {
            timeout: is_long.then_some(LONG_CALL),
            ..CallOptions::default()
        };
        self.owner.call_as(method, params, repeat, options).await
    }
}

/// The items of a job: a stream that fetches page after page.
#[derive(Debug)]
pub struct JobItems {
    entries: Entries<JobItem>,
}

impl JobItems {
    /// The next item; none behind the last.
    pub async fn next(&mut self) -> Option<Result<JobItem, CallError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for JobItems {
    type Item = Result<JobItem, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.entries).poll_next(cx)
    }
}

fn read_item(value: Value) -> Option<JobItem> {
    serde_json::from_value(value).ok()
}
