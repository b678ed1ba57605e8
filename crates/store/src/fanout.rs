//! Fan-out jobs: one template over many rows, one item per row, one result per item.
//!
//! The invariants here: a row that has not run is one row of the input and nothing else; an item
//! exists from its first claim on. Thread, lane, queued turn, turn and message of an item are made in
//! the transaction that claims it. A committed result is never replaced, and its item never starts
//! again. Every write after a claim names its attempt, and an attempt that was replaced changes
//! nothing.
//!
//! The runtime decides what the end of a turn means for its item. The store carries the decision out,
//! whole or not at all.

mod claim;
mod item;
mod job;
mod settle;

pub use claim::{
    BegunItem, ClaimItems, ClaimedItems, Company, ItemStart, ItemToStart, Making, RepairItem,
};
pub use item::{
    AttemptOutcome, AttemptRow, BranchChange, FanoutItem, ItemAttempt, ItemDetail, ItemError,
    ItemState, ItemUsage, ItemsPage, ItemsQuery,
};
pub use job::{
    ChangedJob, CreatedJob, DeletedJob, ImportBatch, ImportProgress, ImportedBatch, JobChange,
    JobCounts, JobKey, JobNo, JobOwner, JobPage, JobPlace, JobQuery, JobRow, JobState, JobTo,
    NewItemRow, NewJob, SealJob, Streak,
};
pub use settle::{
    ItemReport, Reported, RetriedItems, RetryItems, RetryWhich, ReturnUses, SettleTo, Settled,
    Settlement, UnsettledItem,
};

use crate::store::Work;

/// Jobs, their input rows, items, attempts and results.
pub trait FanoutStore: Send + Sync + 'static {
    /// Makes a job without rows, or finds the job that has its id or its client job id. Durable.
    fn create_job(&self, job: NewJob) -> Work<CreatedJob>;

    /// Adds a batch of rows to a job that is importing, and moves its offset. A batch that was added
    /// before changes nothing. Visible: the seal makes it durable.
    fn import_rows(&self, batch: ImportBatch) -> Work<ImportedBatch>;

    /// Ends the import: a job that is importing becomes ready; a job in another state stays as it is.
    /// Durable, with everything imported before.
    fn seal_job(&self, seal: SealJob) -> Work<JobRow>;

    /// Changes a job that still has the named version. Durable.
    fn change_job(&self, change: JobChange) -> Work<ChangedJob>;

    /// Claims items of a running job and begins their turns. Durable.
    fn claim_items(&self, claim: ClaimItems) -> Work<ClaimedItems>;

    /// Begins another turn of a running item in its thread, to ask for a missing result. None where
    /// the attempt is over or its lane is busy. Durable.
    fn repair_item(&self, repair: RepairItem) -> Work<Option<Box<BegunItem>>>;

    /// Records the result that an agent reports. Durable.
    fn report_item(&self, report: ItemReport) -> Work<Reported>;

    /// Closes attempts and moves their items on, one answer per settlement. Durable, all of them
    /// together.
    fn settle_items(&self, settlements: Vec<Settlement>, at_ms: i64) -> Work<Vec<Settled>>;

    /// Attempts that are not closed and whose turn is no longer the active one of its lane, at most
    /// so many.
    fn unsettled_items(&self, job: JobNo, limit: u32) -> Work<Vec<UnsettledItem>>;

    /// Replaces what an item shows of the branches with its work, if it still shows `seen`; true if it
    /// did. Durable.
    fn change_branch(&self, change: BranchChange) -> Work<bool>;

    /// Makes failed and cancelled items pending again. Durable.
    fn retry_items(&self, retry: RetryItems) -> Work<RetriedItems>;

    /// Deletes at most 500 rows of a job with all that belongs to them, and at last the job. Durable;
    /// the caller repeats it until it is done. From the first call on only [`active_jobs`] shows the
    /// job, so that a deletion that was cut off is continued.
    ///
    /// [`active_jobs`]: FanoutStore::active_jobs
    fn delete_job(&self, job: JobNo) -> Work<DeletedJob>;

    /// One job.
    fn job(&self, job: JobKey) -> Work<Option<JobRow>>;

    /// Some jobs, the newest first.
    fn jobs(&self, query: JobQuery) -> Work<JobPage>;

    /// The jobs a runner looks at: those in state `running` or `cancelling`, paused ones that have a
    /// time to go on, those in any state that have attempts to be closed, and those whose deletion was
    /// cut off.
    fn active_jobs(&self) -> Work<Vec<JobRow>>;

    /// For each id the number of the row of this job that has it.
    fn rows_with_ids(&self, job: JobNo, ids: Vec<String>) -> Work<Vec<Option<i64>>>;

    /// Some items, by their number. A row that never ran is pending, or cancelled with its job.
    fn items_of_job(&self, query: ItemsQuery) -> Work<ItemsPage>;

    /// One item with its row, result and attempts.
    fn item_of_job(&self, job: JobNo, item: String) -> Work<Option<Box<ItemDetail>>>;

    /// A page of every imported row with its item and result, in input order. It may be shorter than
    /// the limit, since its bytes are bounded; only behind the last row it is empty.
    fn export_page(&self, job: JobNo, from_seq: i64, limit: u32) -> Work<Vec<ItemDetail>>;
}
