//! Fan-out jobs, for the wire, the command line and the agent tools: made, filled, run, read, ended.
//!
//! The invariants here: an answer means that the change is on disk; every request may be repeated, and
//! the second one changes nothing or is refused with the state that the job has. A request never waits
//! for items.
//!
//! What the end of an item means is decided in `rules`; claiming and settling is done by `runner`.

mod changes;
mod create;
mod error;
pub mod events;
mod export;
mod import;
mod read;
pub mod spec;

use std::sync::Arc;

use turnlane_protocol::ids::ThreadId;
use turnlane_store::Store;
use turnlane_store::fanout::{JobKey, JobNo, JobRow, JobState};

pub(crate) use changes::keeps_all_threads;
pub use changes::{DeleteWork, PauseJob, RetryJob};
pub(crate) use create::new_id;
pub use error::{InputProblem, JobError};
pub use events::{ItemEvent, JobEvent, Watch, Watched};
pub use read::{Item, ItemList, Job, JobList, JobsQuery};
pub use spec::{JobLimits, JobOptions, JobSpec, Owner};

use super::board::Board;
use crate::ids;
use crate::lanes::Lanes;
use crate::shared::Shared;

/// The shortest end of an id by which a job is found.
const ID_SUFFIX_MIN: usize = 6;
/// Jobs that are looked through for a name or the end of an id.
const LOOKED_THROUGH: u32 = 100;
/// Jobs that are named where several fit.
const AMBIGUOUS_NAMED: usize = 6;

/// Fan-out jobs; cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
}

impl Jobs {
    pub(crate) fn new(shared: Arc<Shared>, lanes: Arc<Lanes>) -> Self {
        Self { shared, lanes }
    }

    fn store(&self) -> &dyn Store {
        self.shared.store.as_ref()
    }

    fn board(&self) -> &Arc<Board> {
        &self.shared.board
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// Returns true if a thread is gone when it is unloaded.
    pub(super) fn is_ephemeral(&self, thread: ThreadId) -> bool {
        self.lanes.ephemeral.of(ids::thread(thread)).is_some()
    }

    /// Watches the changes of all jobs.
    pub fn watch(&self) -> Watch<JobEvent> {
        Watch::new(self.board().job_events())
    }

    /// Watches the ends and starts of all items.
    pub fn watch_items(&self) -> Watch<ItemEvent> {
        Watch::new(self.board().item_events())
    }

    /// The number of notices of items' threads that only their own subscribers got.
    pub fn item_notices(&self) -> u64 {
        self.board().notices()
    }

    /// The number of items that run in this worker.
    pub fn running_items(&self) -> usize {
        self.board().running_count()
    }

    /// Finds a job by its id, by the end of its id, or by its name where only one job has it. A job
    /// whose import failed has nothing to be named for, so it gives way to the others.
    pub(super) async fn find(&self, job: &str) -> Result<JobRow, JobError> {
        let found = self.store().job(JobKey::Id(job.to_owned())).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let mut fitting = Vec::new();
        let mut unimported = Vec::new();
        let mut after = None;
        loop {
            let page = self
                .store()
                .jobs(turnlane_store::fanout::JobQuery {
                    after: after.take(),
                    states: Vec::new(),
                    parent: None,
                    limit: LOOKED_THROUGH,
                })
                .await?;
            for row in page.jobs {
                let by_suffix = job.len() >= ID_SUFFIX_MIN && row.made.id.ends_with(job);
                if !by_suffix && row.made.name.as_deref() != Some(job) {
                    continue;
                }
                let is_unimported =
                    row.state == JobState::Failed && row.reason.as_deref() == Some("import");
                let fits = if is_unimported {
                    &mut unimported
                } else {
                    &mut fitting
                };
                if fits.len() < AMBIGUOUS_NAMED {
                    fits.push(row);
                }
            }
            match page.next {
                Some(next) if fitting.len() < AMBIGUOUS_NAMED => after = Some(next),
                _ => break,
            }
        }
        if fitting.is_empty() {
            fitting = unimported;
        }
        match <[JobRow; 1]>::try_from(fitting) {
            Ok([only]) => Ok(only),
            Err(none) if none.is_empty() => Err(JobError::JobNotFound(job.to_owned())),
            Err(several) => {
                let jobs = several.into_iter().map(|row| (row.made.id, row.state));
                Err(JobError::Ambiguous {
                    word: job.to_owned(),
                    jobs: jobs.collect(),
                })
            }
        }
    }

    /// Has this worker run a job, unless it runs nothing at all.
    pub(super) fn adopt(&self, job: JobNo) {
        if self.shared.options.max_running > 0 {
            self.board().adopt(job);
        }
    }

    pub(super) fn tell_changed(&self, row: &JobRow) {
        self.board()
            .tell_job(JobEvent::Changed(Box::new(row.clone())));
    }
}
