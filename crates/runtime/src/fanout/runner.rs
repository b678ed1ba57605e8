//! The runner: claims items of running jobs, has their lanes run them, settles what has ended.
//!
//! The invariants here: the store is the truth. Whatever wakes the runner is a hint, and a look at a
//! job does the same whether this worker ran its items or a dead one did. What has ended is settled,
//! and a pause that follows from it is on disk, before anything more is claimed. The runner never
//! counts rows.
//!
//! Theory of operation: one task per worker. It wakes when the [`Board`] says that a place is free or
//! a job has changed, when an item or a stop is due, every [`EVERY`] while a job is active, and with
//! the dispatcher's looks in a worker that serves. In a worker that runs no job it sleeps until it is
//! woken. It ends in two steps: first it claims nothing more, then, when all lanes are gone, it settles
//! what they left.
//!
//! [`Board`]: super::board::Board

mod claiming;
mod deleting;
mod ending;
mod pacing;
mod settling;
mod trees;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnlane_store::StoreError;
use turnlane_store::fanout::{
    ChangedJob, ItemState, ItemsQuery, JobChange, JobCounts, JobKey, JobNo, JobOwner, JobRow,
    JobState, JobTo,
};

use self::deleting::Unwanted;
use super::board::{Board, Changes};
use super::jobs::{JobEvent, Jobs, keeps_all_threads};
use super::plan::JobPlan;
use super::rules::{Pace, UsageWindow};
use crate::lanes::Lanes;
use crate::options::Drain;
use crate::shared::Shared;

/// How often the store is looked at without a hint while a job is active.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// How often the counts of a job are told; the look after this time tells what was left out.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Ended items whose usage is read when a job with a cap is taken in.
const USAGES_READ: u32 = 256;

/// How far the runner has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Claiming,
    /// It claims nothing more.
    Quiet,
    /// It has settled what the lanes left.
    Ended,
}

/// Ends a runner in two steps.
pub(crate) struct RunnerEnd {
    lanes_gone: CancellationToken,
    progress: watch::Receiver<Progress>,
}

impl RunnerEnd {
    /// Waits until nothing more is claimed; the runner was told to shut down before.
    pub(crate) async fn quiet(&self) {
        self.reach(|progress| progress != Progress::Claiming).await;
    }

    /// Has the runner settle what the lanes left, and waits for it. All lanes are gone.
    pub(crate) async fn settle(&self) {
        self.lanes_gone.cancel();
        self.reach(|progress| progress == Progress::Ended).await;
    }

    async fn reach(&self, far: impl Fn(Progress) -> bool) {
        let mut progress = self.progress.clone();
        // A runner that panicked has dropped its sender.
        let _ = progress.wait_for(|progress| far(*progress)).await;
    }
}

/// A job that this worker runs.
struct ActiveJob {
    plan: Arc<JobPlan>,
    pace: Pace,
    usages: UsageWindow,
    /// True if the provider forbade a request of the job and has answered none since.
    forbidden: bool,
    /// The time at which an item becomes due.
    due_ms: Option<i64>,
    /// The job as it was read last.
    row: JobRow,
    /// True if the end of the job, or of its pause, was told.
    told_end: bool,
    /// The counts that watchers were told last, and when.
    told: (JobCounts, Instant),
    /// Its file, while that is written.
    export: Option<ending::Export>,
    /// True if all worktrees were looked at since the last item began.
    swept: bool,
}

/// The runner; see the module.
pub(crate) struct Runner {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    shutdown: CancellationToken,
    lanes_gone: CancellationToken,
    progress: watch::Sender<Progress>,
    active: HashMap<JobNo, ActiveJob>,
    /// The job that was served last; the next look begins behind it.
    served: JobNo,
    /// An item that runs alone waits or runs.
    alone: Alone,
    next_poll: Instant,
    next_stop: Option<Instant>,
    unwanted: Unwanted,
    /// Deletions of jobs that this worker continues.
    deletions: Vec<(JobNo, tokio::task::JoinHandle<()>)>,
}

/// Whether an item that lost two workers waits for an empty worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    No,
    /// An item of this job waits.
    Waits(JobNo),
    /// It runs.
    Runs,
}

impl Runner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        lanes: Arc<Lanes>,
        shutdown: CancellationToken,
    ) -> (Self, RunnerEnd) {
        let (progress, seen) = watch::channel(Progress::Claiming);
        let lanes_gone = CancellationToken::new();
        let end = RunnerEnd {
            lanes_gone: lanes_gone.clone(),
            progress: seen,
        };
        let runner = Self {
            shared,
            lanes,
            shutdown,
            lanes_gone,
            progress,
            active: HashMap::new(),
            served: JobNo(0),
            alone: Alone::No,
            next_poll: Instant::now(),
            next_stop: None,
            unwanted: Unwanted::default(),
            deletions: Vec::new(),
        };
        (runner, end)
    }

    pub(crate) async fn run(mut self) {
        while !self.shutdown.is_cancelled() {
            let wake = self.next_wake();
            let board = Arc::clone(&self.shared.board);
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                () = board.wake.notified() => {}
                () = until(wake) => {}
            }
            let changes = self.board().take_changes();
            self.look(changes).await;
        }
        self.progress.send_replace(Progress::Quiet);
        self.lanes_gone.cancelled().await;
        self.settle_all().await;
        self.delete_all_unwanted().await;
        self.progress.send_replace(Progress::Ended);
    }

    fn board(&self) -> &Arc<Board> {
        &self.shared.board
    }

    fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    fn jobs(&self) -> Jobs {
        Jobs::new(Arc::clone(&self.shared), Arc::clone(&self.lanes))
    }

    fn serves(&self) -> bool {
        self.shared.options.drain == Drain::All && self.shared.options.max_running > 0
    }

    /// The next time at which something is due by itself; none in a worker that runs no job and has
    /// nothing to delete.
    fn next_wake(&self) -> Option<Instant> {
        if self.active.is_empty() {
            let deletes = !self.unwanted.threads.is_empty();
            return deletes.then(|| Instant::now() + EVERY);
        }
        let now_ms = self.now_ms();
        let in_ms = |at_ms: i64| {
            let wait = u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0);
            Instant::now() + Duration::from_millis(wait)
        };
        let due = self.active.values().filter_map(|job| job.due_ms);
        // An item that is due and was not claimed waits for a place, which wakes the runner.
        let due = due.filter(|at_ms| *at_ms > now_ms).min().map(in_ms);
        [Some(self.next_poll), due, self.next_stop]
            .into_iter()
            .flatten()
            .min()
    }

    /// Looks at what has changed, or at every job when that is due.
    async fn look(&mut self, changes: Changes) {
        let polls = changes.all || (!self.active.is_empty() && self.next_poll <= Instant::now());
        let mut jobs: BTreeSet<JobNo> = changes.jobs.clone();
        if polls {
            self.next_poll = Instant::now() + EVERY;
            jobs.extend(self.active.keys());
            jobs.extend(self.board().adopted());
            match self.found().await {
                Ok(found) => jobs.extend(found),
                Err(error) => tracing::warn!(%error, "fan-out jobs could not be looked for"),
            }
        }
        let now_ms = self.now_ms();
        let is_due = |job: &&ActiveJob| job.due_ms.is_some_and(|at_ms| at_ms <= now_ms);
        jobs.extend(self.active.values().filter(is_due).map(|job| job.row.no));
        if self.board().running_count() == 0 {
            match self.alone {
                Alone::Waits(job) => drop(jobs.insert(job)),
                Alone::Runs => {
                    self.alone = Alone::No;
                    jobs.extend(self.active.keys());
                }
                Alone::No => {}
            }
        }
        // In turn: the job behind the one that was served last comes first.
        let behind = jobs.split_off(&JobNo(self.served.0 + 1));
        for job in behind.into_iter().chain(jobs) {
            if self.shutdown.is_cancelled() {
                return;
            }
            self.served = job;
            if let Err(error) = self.look_at(job, &changes).await {
                tracing::warn!(%error, "a fan-out job could not be looked at; it is tried again");
                self.next_poll = self.next_poll.min(Instant::now() + EVERY);
            }
        }
        self.carry_out_stops();
        self.delete_unwanted().await;
    }

    /// The jobs of the store that this worker runs by itself.
    async fn found(&mut self) -> Result<Vec<JobNo>, StoreError> {
        if !self.serves() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for row in self.shared.store.active_jobs().await? {
            if row.deleting {
                self.continue_deletion(row);
            } else if row.made.owner == JobOwner::Detached {
                found.push(row.no);
            }
        }
        Ok(found)
    }

    /// Goes on with a deletion that was cut off, in a task of its own: a large job takes a while.
    fn continue_deletion(&mut self, row: JobRow) {
        self.deletions.retain(|(_, task)| !task.is_finished());
        if self.deletions.iter().any(|(no, _)| *no == row.no) {
            return;
        }
        let jobs = self.jobs();
        let (no, shutdown) = (row.no, self.shutdown.clone());
        let task = tokio::spawn(async move {
            let deleted = jobs.delete_rows(&row, keeps_all_threads(&row));
            if let Some(Err(error)) = shutdown.run_until_cancelled(deleted).await {
                tracing::warn!(%error, "a deletion of a fan-out job was not continued");
            }
        });
        self.deletions.push((no, task));
    }

    fn runs_here(&self, row: &JobRow) -> bool {
        let serves = self.serves() && row.made.owner == JobOwner::Detached;
        serves || self.board().adopted().contains(&row.no)
    }

    /// Does everything for one job that can be done now.
    async fn look_at(&mut self, no: JobNo, changes: &Changes) -> Result<(), StoreError> {
        let Some(row) = self.shared.store.job(JobKey::No(no)).await? else {
            self.forget(no);
            return Ok(());
        };
        if !self.runs_here(&row) && !self.active.contains_key(&no) {
            return Ok(());
        }
        if !self.activate(row).await? {
            return Ok(());
        }
        self.settle(no).await?;
        self.adapt(no, changes).await?;
        self.pause_if_needed(no).await?;
        self.stop_if_asked(no);
        self.stop_if_silent(no);
        self.claim(no).await?;
        self.tell_counts(no);
        self.end_if_done(no).await
    }

    /// Tells watchers the counts of a job that have changed, not too often.
    fn tell_counts(&mut self, no: JobNo) {
        let board = Arc::clone(self.board());
        let Some(active) = self.active.get_mut(&no) else {
            return;
        };
        let (counts, at) = active.told;
        let is_soon = at.elapsed() < TOLD_EVERY;
        if counts == active.row.counts || is_soon || !board.jobs_are_watched() {
            return;
        }
        active.told = (active.row.counts, Instant::now());
        board.tell_job(JobEvent::Changed(Box::new(active.row.clone())));
    }

    fn forget(&mut self, no: JobNo) {
        self.active.remove(&no);
        self.board().leave(no);
        self.board().gates.release(no);
        if self.alone == Alone::Waits(no) {
            self.alone = Alone::No;
        }
    }

    /// Takes a job in as it was read; false if there is nothing to be done for it here.
    async fn activate(&mut self, row: JobRow) -> Result<bool, StoreError> {
        let no = row.no;
        if self.alone == Alone::Waits(no) && row.state != JobState::Running {
            self.alone = Alone::No;
        }
        if matches!(row.state, JobState::Importing | JobState::Ready) {
            self.forget(no);
            return Ok(false);
        }
        if let Some(active) = self.active.get_mut(&no) {
            active.told_end &= row.version == active.row.version;
            let same_plan = active.plan.instruction == row.made.instruction;
            active.row = row.clone();
            if same_plan {
                return Ok(true);
            }
        }
        let plan = match JobPlan::of(&row) {
            Ok(plan) => Arc::new(plan),
            Err(message) => {
                self.fail(&row, message).await?;
                return Ok(false);
            }
        };
        if let Some(active) = self.active.get_mut(&no) {
            active.plan = plan;
            return Ok(true);
        }
        let usages = self.usages(&plan).await?;
        let active = ActiveJob {
            plan,
            pace: Pace::default(),
            usages,
            forbidden: false,
            due_ms: None,
            row,
            told_end: false,
            told: (JobCounts::default(), Instant::now()),
            export: None,
            swept: false,
        };
        self.active.insert(no, active);
        Ok(true)
    }

    /// What the ended items of a job have used, where a cap depends on it.
    async fn usages(&self, plan: &JobPlan) -> Result<UsageWindow, StoreError> {
        let mut usages = UsageWindow::default();
        if plan.limits.max_tokens.is_none() {
            return Ok(usages);
        }
        let query = ItemsQuery {
            job: plan.no,
            from_seq: 0,
            states: vec![ItemState::Succeeded, ItemState::Failed],
            limit: USAGES_READ,
        };
        for item in self.shared.store.items_of_job(query).await?.items {
            usages.add(item.usage.total_tokens);
        }
        Ok(usages)
    }

    /// Ends a job that cannot be run at all: what is stored of it cannot be read.
    async fn fail(&mut self, row: &JobRow, message: String) -> Result<(), StoreError> {
        let to = JobTo::Failed {
            reason: "internal".to_owned(),
            message,
        };
        if let Some(row) = self.change(row, to).await? {
            self.board().tell_job(JobEvent::Ended(Box::new(row)));
        }
        self.forget(row.no);
        Ok(())
    }

    /// Changes a job as it was read; the job afterwards, or none if another change came between.
    async fn change(&mut self, row: &JobRow, to: JobTo) -> Result<Option<JobRow>, StoreError> {
        let changed = self
            .shared
            .store
            .change_job(JobChange {
                job: row.no,
                version: row.version,
                to,
                at_ms: self.now_ms(),
            })
            .await?;
        let (row, is_changed) = match changed {
            ChangedJob::Changed(row) => (*row, true),
            ChangedJob::Unchanged(row) => (*row, false),
        };
        if is_changed {
            self.board()
                .tell_job(JobEvent::Changed(Box::new(row.clone())));
        }
        if let Some(active) = self.active.get_mut(&row.no) {
            active.row = row.clone();
        }
        Ok(is_changed.then_some(row))
    }

    /// Reads a job again, since its counts have changed.
    async fn refresh(&mut self, no: JobNo) -> Result<(), StoreError> {
        let row = self.shared.store.job(JobKey::No(no)).await?;
        if let (Some(row), Some(active)) = (row, self.active.get_mut(&no)) {
            active.row = row;
        }
        Ok(())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
