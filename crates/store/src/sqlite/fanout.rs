//! Fan-out jobs over SQLite: which function carries each method out, how durable, how urgent.
//!
//! The invariant here: the counts of a job are changed by the transaction that changes its items, and
//! by nothing else. Everything that waits in a job whose end was requested counts as cancelled, without
//! a write of its row.
//!
//! New work (a job, rows, a claim) is refused on a full disk; a report, a settlement and a change of
//! state are kept.

mod claim;
mod delete;
mod import;
mod items;
mod jobs;
mod report;
mod retry;
mod rows;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::SqliteStore;
use super::store_impl::{kept, new, visible};
use crate::fanout::{
    BegunItem, BranchChange, ChangedJob, ClaimItems, ClaimedItems, CreatedJob, DeletedJob,
    FanoutStore, ImportBatch, ImportedBatch, ItemDetail, ItemReport, ItemsPage, ItemsQuery,
    JobChange, JobKey, JobNo, JobPage, JobQuery, JobRow, NewJob, RepairItem, Reported,
    RetriedItems, RetryItems, SealJob, Settled, Settlement, UnsettledItem,
};
use crate::store::Work;

impl FanoutStore for SqliteStore {
    fn create_job(&self, job: NewJob) -> Work<CreatedJob> {
        let op = new("create a fan-out job");
        self.change(op, move |db| jobs::create(db, &job))
    }

    fn import_rows(&self, batch: ImportBatch) -> Work<ImportedBatch> {
        let op = visible(new("import fan-out rows"));
        self.change(op, move |db| import::import(db, &batch))
    }

    fn seal_job(&self, seal: SealJob) -> Work<JobRow> {
        let op = new("seal a fan-out job");
        self.change(op, move |db| import::seal(db, &seal))
    }

    fn change_job(&self, change: JobChange) -> Work<ChangedJob> {
        let op = kept("change a fan-out job");
        self.change(op, move |db| jobs::change(db, &change))
    }

    fn claim_items(&self, claim: ClaimItems) -> Work<ClaimedItems> {
        let op = new("claim fan-out items");
        self.change(op, move |db| claim::claim(db, &claim))
    }

    fn repair_item(&self, repair: RepairItem) -> Work<Option<Box<BegunItem>>> {
        let op = new("repair a fan-out item");
        self.change(op, move |db| claim::repair(db, &repair))
    }

    fn report_item(&self, report: ItemReport) -> Work<Reported> {
        let op = kept("report a fan-out result");
        self.change(op, move |db| report::report(db, &report))
    }

    fn settle_items(&self, settlements: Vec<Settlement>, at_ms: i64) -> Work<Vec<Settled>> {
        let op = kept("settle fan-out items");
        self.change(op, move |db| settle::settle(db, &settlements, at_ms))
    }

    fn unsettled_items(&self, job: JobNo, limit: u32) -> Work<Vec<UnsettledItem>> {
        self.find("find unsettled fan-out items", move |db| {
            settle::unsettled(db, job, limit)
        })
    }

    fn change_branch(&self, change: BranchChange) -> Work<bool> {
        let op = kept("change the branches of a fan-out item");
        self.change(op, move |db| items::change_branch(db, &change))
    }

    fn retry_items(&self, retry: RetryItems) -> Work<RetriedItems> {
        let op = kept("retry fan-out items");
        self.change(op, move |db| retry::retry(db, &retry))
    }

    /// The log, which holds the deleted text, is emptied once, after the last part.
    fn delete_job(&self, job: JobNo) -> Work<DeletedJob> {
        let shared = Arc::clone(&self.shared);
        self.change(kept("delete a fan-out job"), move |db| {
            let deleted = delete::delete(db, job)?;
            if matches!(deleted, DeletedJob::Done(_)) {
                shared.erased.store(true, Ordering::Relaxed);
            }
            Ok(deleted)
        })
    }

    fn job(&self, job: JobKey) -> Work<Option<JobRow>> {
        self.find("read a fan-out job", move |db| jobs::job(db, &job))
    }

    fn jobs(&self, query: JobQuery) -> Work<JobPage> {
        self.find("list fan-out jobs", move |db| jobs::jobs(db, &query))
    }

    fn active_jobs(&self) -> Work<Vec<JobRow>> {
        self.find("find active fan-out jobs", jobs::active)
    }

    fn rows_with_ids(&self, job: JobNo, ids: Vec<String>) -> Work<Vec<Option<i64>>> {
        self.find("find fan-out rows", move |db| {
            items::rows_with_ids(db, job, &ids)
        })
    }

    fn items_of_job(&self, query: ItemsQuery) -> Work<ItemsPage> {
        self.find("list fan-out items", move |db| items::items(db, &query))
    }

    fn item_of_job(&self, job: JobNo, item: String) -> Work<Option<Box<ItemDetail>>> {
        self.find("read a fan-out item", move |db| items::item(db, job, &item))
    }

    fn export_page(&self, job: JobNo, from_seq: i64, limit: u32) -> Work<Vec<ItemDetail>> {
        self.find("export fan-out rows", move |db| {
            items::export_page(db, job, from_seq, limit)
        })
    }
}
