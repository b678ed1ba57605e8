//! Changes of a job's state: start, pause, resume, cancel, retry, delete.
//!
//! The invariant here: a change is made on the version that was read, and tried again when another
//! change came between, so that no change is lost and none is made twice.

use std::time::Duration;

use turnlane_store::fanout::{
    ChangedJob, DeletedJob, ItemState, JobChange, JobNo, JobOwner, JobRow, JobState, JobTo,
    RetryItems, RetryWhich,
};
use turnlane_store::{StoreError, ThreadId};

use super::spec::{ItemSettings, JobLimits, JobOptions, KeepThreads, Owner};
use super::{Job, JobError, JobEvent, Jobs};
use crate::fanout::row::Columns;
use crate::fanout::template::{Missing, Template};
use crate::fanout::worktree::{RemoveForce, RemovedTrees};
use crate::lane::rows;

/// The most changes of others that one change of ours waits for.
const TRIES_MAX: u32 = 100;

/// How a job is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseJob {
    /// Running items finish.
    Drain,
    /// Running items are interrupted after a while; none: after the job's own grace.
    Now {
        /// The time until then.
        grace: Option<Duration>,
    },
}

/// What becomes of work in the worktrees of a job that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteWork {
    /// The deletion is refused.
    Refuse,
    /// Changes that are in no commit are lost. Branches with commits stay.
    Allow,
}

/// Which ended items run again.
#[derive(Clone, Debug, Default)]
pub struct RetryJob {
    /// Those in one of these states: failed, cancelled.
    pub states: Vec<ItemState>,
    /// Those with these ids.
    pub item_ids: Vec<String>,
    /// A new template for them and for rows that have not run.
    pub instruction: Option<String>,
}

impl Jobs {
    /// Starts a job that is ready. A job that runs already is left as it is.
    pub async fn start(&self, job: &str) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let row = match row.state {
            JobState::Ready => {
                self.check_export(&row).await?;
                self.run(row).await?
            }
            JobState::Running => row,
            other => return Err(JobError::WrongState(other)),
        };
        self.adopt(row.no);
        self.show(row).await
    }

    /// Goes on with a job that is paused, or whose owner is gone, for this owner. A job that runs is
    /// left as it is; one that is ready is started.
    pub async fn resume(&self, job: &str, owner: Owner) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let owner = self.owner(owner);
        let row = match row.state {
            JobState::Ready | JobState::Paused => self.run_for(row, owner).await?,
            JobState::Running if self.is_orphaned(&row).await? => self.run_for(row, owner).await?,
            JobState::Running => row,
            other => return Err(JobError::WrongState(other)),
        };
        self.board().gates.release(row.no);
        self.board().keep_job(row.no);
        self.adopt(row.no);
        self.show(row).await
    }

    fn owner(&self, owner: Owner) -> (JobOwner, Option<turnlane_store::WorkerId>) {
        let me = Some(self.store().worker());
        match owner {
            Owner::Detached => (JobOwner::Detached, None),
            Owner::Connection => (JobOwner::Connection, me),
            Owner::Turn { .. } => (JobOwner::Turn, me),
        }
    }

    async fn run(&self, row: JobRow) -> Result<JobRow, JobError> {
        let owner = match row.made.owner {
            JobOwner::Detached => (JobOwner::Detached, None),
            other => (other, Some(self.store().worker())),
        };
        self.run_for(row, owner).await
    }

    async fn run_for(
        &self,
        row: JobRow,
        (owner, owner_worker): (JobOwner, Option<turnlane_store::WorkerId>),
    ) -> Result<JobRow, JobError> {
        let to = JobTo::Running {
            owner,
            owner_worker,
        };
        let allowed = [JobState::Ready, JobState::Paused, JobState::Running];
        self.change(row, &to, &allowed).await
    }

    /// Pauses a job: nothing more is claimed. A job that is paused already may still be asked to stop
    /// its items now.
    pub async fn pause(&self, job: &str, how: PauseJob) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let limits: JobLimits = rows::read(&row.made.limits).unwrap_or_default();
        let to = JobTo::Paused {
            reason: "user".to_owned(),
            message: None,
            resume_ms: None,
        };
        let mut row = match row.state {
            JobState::Paused => row,
            _ => self.change(row, &to, &[JobState::Running]).await?,
        };
        if let PauseJob::Now { grace } = how {
            let grace = grace.unwrap_or(Duration::from_millis(limits.grace_ms));
            row = self.stop_items(row, grace).await?;
        }
        self.board().look_at(row.no);
        self.show(row).await
    }

    /// Has the items of a paused job interrupted after a while, whichever workers run them.
    async fn stop_items(&self, row: JobRow, grace: Duration) -> Result<JobRow, JobError> {
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let at_ms = self.now_ms().saturating_add(grace_ms);
        let to = JobTo::Stop { at_ms };
        self.change(row, &to, &[JobState::Paused]).await
    }

    /// Pauses a job whose owner is gone and stops its items at once.
    pub(crate) async fn orphan(&self, job: JobNo) -> Result<(), JobError> {
        let Some(row) = self
            .store()
            .job(turnlane_store::fanout::JobKey::No(job))
            .await?
        else {
            return Ok(());
        };
        let row = match row.state {
            JobState::Running => {
                let to = JobTo::Paused {
                    reason: "orphaned".to_owned(),
                    message: Some("the turn that called for the job was interrupted".to_owned()),
                    resume_ms: None,
                };
                self.change(row, &to, &[JobState::Running]).await?
            }
            _ => row,
        };
        if row.state == JobState::Paused {
            self.stop_items(row, Duration::ZERO).await?;
        }
        self.board().look_at(job);
        Ok(())
    }

    /// Cancels a job: nothing more is claimed, running items are interrupted after the job's grace.
    pub async fn cancel(&self, job: &str) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let row = match row.state {
            JobState::Cancelled => row,
            JobState::Cancelling => self.end_cancelled(row).await?,
            state if state.is_terminal() => return Err(JobError::WrongState(state)),
            _ => {
                let to = JobTo::Cancelling { message: None };
                let allowed = [
                    JobState::Importing,
                    JobState::Ready,
                    JobState::Running,
                    JobState::Paused,
                ];
                let row = self.change(row, &to, &allowed).await?;
                self.end_cancelled(row).await?
            }
        };
        self.show(row).await
    }

    /// Has a cancelled job brought to its end, also where nothing runs: its file is written, and its
    /// end is told. A worker that runs nothing has no runner for it.
    async fn end_cancelled(&self, row: JobRow) -> Result<JobRow, JobError> {
        if self.shared.options.max_running > 0 {
            self.adopt(row.no);
            return Ok(row);
        }
        let is_at_rest = row.state == JobState::Cancelling && row.counts.running == 0;
        if !is_at_rest || !self.try_change(&row, JobTo::Exporting).await? {
            return Ok(row);
        }
        if let Err(error) = self.export_at_end(&row).await {
            tracing::warn!(%error, "the results of a fan-out job were not written to its file");
        }
        self.change(row, &JobTo::EndIfDone, &[JobState::Cancelling])
            .await
    }

    /// Changes a job as it was read; false if another change came between or the change is refused.
    async fn try_change(&self, row: &JobRow, to: JobTo) -> Result<bool, JobError> {
        let changed = self
            .store()
            .change_job(JobChange {
                job: row.no,
                version: row.version,
                to,
                at_ms: self.now_ms(),
            })
            .await?;
        Ok(matches!(changed, ChangedJob::Changed(_)))
    }

    /// Makes failed or cancelled items pending again; how many there were.
    pub async fn retry(&self, job: &str, retry: RetryJob) -> Result<(Job, i64), JobError> {
        let row = self.find(job).await?;
        if let Some(instruction) = &retry.instruction {
            check_template(&row, instruction)?;
        }
        if matches!(
            row.state,
            JobState::Importing | JobState::Ready | JobState::Cancelling
        ) || row.fingerprint.is_none()
        {
            return Err(JobError::WrongState(row.state));
        }
        let failed = retry.states.contains(&ItemState::Failed);
        let cancelled = retry.states.contains(&ItemState::Cancelled);
        let which = match (retry.item_ids.is_empty(), failed, cancelled) {
            (false, _, _) => RetryWhich::Items(retry.item_ids),
            (true, true, true) => RetryWhich::FailedOrCancelled,
            (true, false, true) => RetryWhich::Cancelled,
            (true, _, false) => RetryWhich::Failed,
        };
        let retried = self
            .store()
            .retry_items(RetryItems {
                job: row.no,
                which,
                instruction: retry.instruction,
                at_ms: self.now_ms(),
            })
            .await?;
        let mut row = retried.job;
        if retried.retried > 0 && row.state == JobState::Running {
            // A job that has ended belongs to whoever retries it.
            row = self.run(row).await?;
            self.adopt(row.no);
        }
        Ok((self.show(row).await?, retried.retried))
    }

    /// Deletes a job with its items and results, and its threads unless the job keeps all of them. A
    /// deletion that is cut off goes on when it is asked for again. Worktrees with work in them are
    /// deleted only where the caller says so.
    pub async fn delete(&self, job: &str, work: DeleteWork) -> Result<(), JobError> {
        let row = self.find(job).await?;
        self.delete_trees(&row, work).await?;
        self.delete_rows(&row, keeps_all_threads(&row)).await
    }

    /// Removes the worktrees of a job that does not run.
    async fn delete_trees(&self, row: &JobRow, work: DeleteWork) -> Result<(), JobError> {
        let settings: Result<ItemSettings, _> = rows::read(&row.made.settings);
        let Some(trees) = settings.ok().and_then(|settings| settings.worktree) else {
            return Ok(());
        };
        let runs = matches!(row.state, JobState::Running | JobState::Cancelling);
        if runs || row.counts.running > 0 || self.board().looks_at_trees(row.no) {
            return Err(JobError::WrongState(row.state));
        }
        let force = match work {
            DeleteWork::Refuse => RemoveForce::Off,
            DeleteWork::Allow => RemoveForce::On,
        };
        let (no, id) = (row.no, &row.made.id);
        let removed = self.shared.trees.remove_all(&trees, no, id, force).await?;
        match removed {
            RemovedTrees::All => Ok(()),
            RemovedTrees::HaveWork(trees) => Err(JobError::Unlanded(trees)),
            RemovedTrees::Failed(error) => Err(JobError::Worktree(error)),
        }
    }

    /// Deletes a job in pieces.
    pub(crate) async fn delete_rows(&self, row: &JobRow, keeps: bool) -> Result<(), JobError> {
        loop {
            let deleted = self.store().delete_job(row.no).await?;
            let (threads, done) = match deleted {
                DeletedJob::More(threads) => (threads, false),
                DeletedJob::Done(threads) => (threads, true),
                DeletedJob::WrongState(state) => return Err(JobError::WrongState(state)),
            };
            if !keeps {
                self.delete_threads(threads).await?;
            }
            if done {
                self.board().leave(row.no);
                self.board().look_at(row.no);
                let id = row.made.id.clone();
                self.board().tell_job(JobEvent::Deleted { id });
                return Ok(());
            }
        }
    }

    async fn delete_threads(&self, threads: Vec<ThreadId>) -> Result<(), JobError> {
        for thread in threads {
            if self.lanes.is_loaded(thread) {
                continue;
            }
            match self.store().delete_thread(thread).await {
                Ok(()) | Err(StoreError::ThreadNotFound(_)) => {}
                Err(error) if is_busy(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Changes a job that is in one of these states, however often others change it meanwhile.
    pub(super) async fn change(
        &self,
        row: JobRow,
        to: &JobTo,
        allowed: &[JobState],
    ) -> Result<JobRow, JobError> {
        let mut row = row;
        for _ in 0..TRIES_MAX {
            if !allowed.contains(&row.state) {
                return Err(JobError::WrongState(row.state));
            }
            let changed = self
                .store()
                .change_job(JobChange {
                    job: row.no,
                    version: row.version,
                    to: to.clone(),
                    at_ms: self.now_ms(),
                })
                .await?;
            match changed {
                ChangedJob::Changed(row) => {
                    self.tell_changed(&row);
                    return Ok(*row);
                }
                ChangedJob::Unchanged(other) => row = *other,
            }
        }
        Err(JobError::Runtime(crate::error::Error::Overloaded))
    }
}

/// Refuses a template that does not fit the columns of a job.
fn check_template(row: &JobRow, instruction: &str) -> Result<(), JobError> {
    let bad = |error: String| JobError::BadTemplate(error);
    let options: JobOptions = rows::read(&row.made.options).map_err(bad)?;
    let missing = if options.allow_missing {
        Missing::Allowed
    } else {
        Missing::Refused
    };
    let columns = Columns::from_stored(&row.columns).map_err(|error| bad(error.to_string()))?;
    Template::parse(instruction)
        .and_then(|template| template.check(&columns, missing))
        .map_err(|error| bad(error.to_string()))
}

/// Returns true if the threads of a job outlive it.
pub(crate) fn keeps_all_threads(row: &JobRow) -> bool {
    let options: JobOptions = rows::read(&row.made.options).unwrap_or_default();
    options.keeps(row.total) == KeepThreads::All
}

/// Returns true if a thread cannot be deleted because it is in use.
fn is_busy(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Busy(_) | StoreError::OwnedElsewhere { .. } | StoreError::Fenced
    )
}
