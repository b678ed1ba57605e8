//! Reads of jobs and items.
//!
//! The invariant here: a read changes nothing and starts nothing. A job whose owner is gone is shown
//! as paused, since no worker continues it by itself.

use turnlane_store::fanout::{
    FanoutItem, ItemDetail, ItemState, ItemsQuery, JobOwner, JobPlace, JobQuery, JobRow, JobState,
};

use super::spec::{ItemSettings, JobLimits, JobOptions};
use super::{JobError, Jobs};
use crate::ids;
use crate::lane::rows;
use turnlane_protocol::ids::ThreadId;

/// A job with what is stored in it opened.
#[derive(Clone, Debug)]
pub struct Job {
    /// The job as it is shown: state and reason name a job whose owner is gone as orphaned.
    pub row: JobRow,
    /// The engine and the settings of its items' threads.
    pub settings: ItemSettings,
    /// Its limits.
    pub limits: JobLimits,
    /// Its other options.
    pub options: JobOptions,
    /// The milliseconds for which its provider is left alone.
    pub hold_ms: Option<u64>,
}

/// A part of the jobs.
#[derive(Clone, Debug, Default)]
pub struct JobsQuery {
    /// Behind this place.
    pub after: Option<JobPlace>,
    /// Only jobs in one of these states; all where none is named.
    pub states: Vec<JobState>,
    /// Only jobs that this thread called for.
    pub parent: Option<ThreadId>,
    /// The most jobs to return.
    pub limit: u32,
}

/// Some jobs, the newest first.
#[derive(Clone, Debug)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The place behind which more follow.
    pub next: Option<JobPlace>,
}

/// Some items, by their number.
#[derive(Clone, Debug)]
pub struct ItemList {
    /// The items; there may be fewer than asked for although more follow.
    pub items: Vec<FanoutItem>,
    /// The number from which more follow.
    pub next_seq: Option<i64>,
}

/// One item with everything that is stored of it.
#[derive(Clone, Debug)]
pub struct Item {
    /// The item.
    pub detail: Box<ItemDetail>,
    /// The names of the job's columns, a JSON array.
    pub columns: turnlane_store::Json,
}

impl Jobs {
    /// Reads a job, by its id, the end of its id, or its name.
    pub async fn read(&self, job: &str) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        self.show(row).await
    }

    /// Lists jobs, the newest first.
    pub async fn list(&self, query: JobsQuery) -> Result<JobList, JobError> {
        let page = self
            .store()
            .jobs(JobQuery {
                after: query.after,
                states: query.states,
                parent: query.parent.map(ids::thread),
                limit: query.limit.clamp(1, 100),
            })
            .await?;
        let mut jobs = Vec::with_capacity(page.jobs.len());
        for row in page.jobs {
            jobs.push(self.show(row).await?);
        }
        let next = page.next;
        Ok(JobList { jobs, next })
    }

    /// Lists items of a job from a number on.
    pub async fn items(
        &self,
        job: &str,
        from_seq: i64,
        states: Vec<ItemState>,
        limit: u32,
    ) -> Result<ItemList, JobError> {
        let row = self.find(job).await?;
        let page = self
            .store()
            .items_of_job(ItemsQuery {
                job: row.no,
                from_seq,
                states,
                limit: limit.clamp(1, 1_000),
            })
            .await?;
        Ok(ItemList {
            items: page.items,
            next_seq: page.next_seq,
        })
    }

    /// Reads one item with its row, result and attempts.
    pub async fn item(&self, job: &str, item: &str) -> Result<Item, JobError> {
        let row = self.find(job).await?;
        let detail = self.store().item_of_job(row.no, item.to_owned()).await?;
        Ok(Item {
            detail: detail.ok_or_else(|| JobError::ItemNotFound(item.to_owned()))?,
            columns: row.columns,
        })
    }

    /// Opens a job for its reader.
    pub(super) async fn show(&self, row: JobRow) -> Result<Job, JobError> {
        let mut row = row;
        if self.is_orphaned(&row).await? {
            row.state = JobState::Paused;
            row.reason = Some("orphaned".to_owned());
            row.reason_message = Some("the process that ran the job has ended".to_owned());
        }
        let unreadable = |error: String| {
            JobError::Runtime(crate::error::Error::InvalidParams(format!(
                "the stored job cannot be read: {error}"
            )))
        };
        let settings: ItemSettings = rows::read(&row.made.settings).map_err(unreadable)?;
        let held = self.board().gates.held_until(&settings.thread.provider);
        let hold_ms = held.map(|until| {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
        });
        Ok(Job {
            limits: rows::read(&row.made.limits).map_err(unreadable)?,
            options: rows::read(&row.made.options).map_err(unreadable)?,
            settings,
            hold_ms,
            row,
        })
    }

    /// Returns true if a job runs only with its owner, and the owner is gone.
    pub(super) async fn is_orphaned(&self, row: &JobRow) -> Result<bool, JobError> {
        if row.state != JobState::Running || row.made.owner == JobOwner::Detached {
            return Ok(false);
        }
        let Some(worker) = row.made.owner_worker else {
            return Ok(true);
        };
        if worker == self.store().worker() {
            return Ok(false);
        }
        // The recovery of a dead worker removes its row.
        Ok(self.store().worker_row(worker).await?.is_none())
    }
}
