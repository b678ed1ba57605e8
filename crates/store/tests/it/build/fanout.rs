//! Fan-out jobs of tests: rows and turns that follow from their numbers.
//!
//! The invariant here: ids of threads, rows and turns are made of job, item and attempt, so that a test
//! can name them.

use turnlane_store::fanout::{
    AttemptOutcome, BegunItem, ChangedJob, ClaimItems, ClaimedItems, Company, CreatedJob,
    FanoutItem, ImportBatch, ImportProgress, ImportedBatch, ItemAttempt, ItemDetail, ItemError,
    ItemReport, ItemStart, ItemState, ItemToStart, ItemUsage, ItemsQuery, JobChange, JobCounts,
    JobKey, JobNo, JobOwner, JobRow, JobTo, Making, NewItemRow, NewJob, RepairItem, Reported,
    RetriedItems, RetryItems, RetryWhich, ReturnUses, SealJob, SettleTo, Settled, Settlement,
};

use super::*;

/// The source of the threads of items.
pub(crate) const ITEM_SOURCE: &str = "subAgentOther";

pub(crate) fn new_job(id: &str) -> NewJob {
    NewJob {
        id: id.to_owned(),
        name: None,
        owner: JobOwner::Detached,
        owner_worker: None,
        parent_thread: None,
        parent_turn: None,
        client_job_id: None,
        instruction: "Review {a}".to_owned(),
        schema: None,
        channel: "tool".to_owned(),
        settings: json("{}"),
        limits: json("{}"),
        options: json("{}"),
        current_limit: 100,
        input_ref: None,
        export_path: None,
        at_ms: NOW,
    }
}

pub(crate) fn new_row(seq: i64) -> NewItemRow {
    NewItemRow {
        seq,
        item_id: None,
        cells: json(&format!("[\"{seq}\"]")),
        skipped: None,
        dup_of: None,
    }
}

pub(crate) fn item_error(kind: &str) -> ItemError {
    ItemError {
        kind: kind.to_owned(),
        message: format!("it was {kind}"),
    }
}

/// A batch that moves the offset by one per row.
pub(crate) fn batch(job: JobNo, from_offset: i64, rows: Vec<NewItemRow>) -> ImportBatch {
    let offset = from_offset + i64::try_from(rows.len()).unwrap();
    ImportBatch {
        job,
        from_offset,
        progress: ImportProgress {
            offset,
            hash: [u8::try_from(offset % 256).unwrap(); 32],
            blank_rows: 0,
            notes: json("{\"w\":[]}"),
        },
        columns: json("[\"a\"]"),
        rows,
    }
}

fn numbered(kind: u8, job: JobNo, seq: i64, attempt: u32) -> Uuid {
    let number = |value: i64| u128::try_from(value).unwrap();
    let value = (number(job.0) << 80) | (number(seq) << 32) | u128::from(attempt);
    Uuid::from_u128((u128::from(kind) << 120) | value)
}

pub(crate) fn item_thread(job: JobNo, seq: i64, attempt: u32) -> ThreadId {
    numbered(0x11, job, seq, attempt).into()
}

pub(crate) fn item_turn(job: JobNo, seq: i64, attempt: u32) -> TurnId {
    numbered(0x12, job, seq, attempt).into()
}

fn item_row(job: JobNo, seq: i64, attempt: u32) -> NewRow {
    NewRow {
        id: numbered(0x13, job, seq, attempt).into(),
        turn: item_turn(job, seq, attempt),
        source: "fanout".to_owned(),
        client_id: format!("{}:{seq}:{attempt}", job.0),
        key: Some(format!("fanout:{}:{seq}:{attempt}", job.0)),
        ..row("item")
    }
}

/// Begins every item, in a new thread unless it goes on in its own.
pub(crate) fn making() -> Making {
    Making::new(begin_item)
}

pub(crate) fn begin_item(item: ItemToStart<'_>) -> ItemStart {
    let (job, seq, attempt) = (item.job.no, item.seq, item.attempt);
    let thread = NewThread {
        id: item_thread(job, seq, attempt),
        source: ITEM_SOURCE.to_owned(),
        ..new_thread("t")
    };
    ItemStart::Begin {
        thread: item.thread.is_none().then(|| Box::new(thread)),
        row: Box::new(item_row(job, seq, attempt)),
        accept: Box::new(said(item.item_id)),
        branch: None,
    }
}

pub(crate) fn claiming(job: JobNo, max: u32) -> ClaimItems {
    ClaimItems {
        job,
        max,
        company: Company::Others,
        making: making(),
        at_ms: NOW,
    }
}

pub(crate) fn attempt_of(job: JobNo, seq: i64, attempt: u32) -> ItemAttempt {
    ItemAttempt { job, seq, attempt }
}

pub(crate) fn tokens(total_tokens: i64) -> ItemUsage {
    ItemUsage {
        input_tokens: total_tokens / 2,
        total_tokens,
        ..ItemUsage::default()
    }
}

pub(crate) fn reporting(item: ItemAttempt, result: &str) -> ItemReport {
    let mut digest = [0; 32];
    digest[..result.len()].copy_from_slice(result.as_bytes());
    ItemReport {
        item,
        result: json(result),
        digest,
        usage: ItemUsage::default(),
        stop: false,
        at_ms: NOW + 5,
    }
}

pub(crate) fn settling(item: ItemAttempt, outcome: AttemptOutcome, to: SettleTo) -> Settlement {
    let error = match outcome {
        AttemptOutcome::Reported | AttemptOutcome::Superseded => None,
        AttemptOutcome::Failed => Some(item_error("failed")),
        AttemptOutcome::Lost => Some(item_error("worker_lost")),
        AttemptOutcome::Interrupted => Some(item_error("interrupted")),
    };
    Settlement {
        item,
        outcome,
        error,
        usage: ItemUsage::default(),
        to,
    }
}

pub(crate) fn put_back(uses: ReturnUses) -> SettleTo {
    SettleTo::Pending {
        not_before_ms: NOW,
        same_thread: false,
        uses,
    }
}

/// A repair turn of an attempt.
pub(crate) fn repairing(of: ItemAttempt, nth: u32) -> RepairItem {
    RepairItem {
        item: of,
        row: item_row(of.job, of.seq, of.attempt * 1_000 + nth),
        accept: said("repair"),
        usage: tokens(10),
        at_ms: NOW + 2,
    }
}

/// The numbers of the items that a claim began.
pub(crate) fn seqs(claimed: &ClaimedItems) -> Vec<i64> {
    claimed.begun.iter().map(|begun| begun.item.seq).collect()
}

pub(crate) fn changed(change: ChangedJob) -> JobRow {
    match change {
        ChangedJob::Changed(job) => *job,
        ChangedJob::Unchanged(job) => panic!("unchanged: {job:?}"),
    }
}

impl Hand {
    /// Makes a job with so many rows, which is importing.
    pub(crate) async fn importing(&self, id: &str, rows: i64) -> JobRow {
        let job = match self.create_job(new_job(id)).await.unwrap() {
            CreatedJob::Made(job) => *job,
            CreatedJob::Existing(job) => panic!("there was {job:?}"),
        };
        let rows = (0..rows).map(new_row).collect();
        match self.import_rows(batch(job.no, 0, rows)).await.unwrap() {
            ImportedBatch::Added(job) => *job,
            other => panic!("not added: {other:?}"),
        }
    }

    pub(crate) async fn sealed(&self, job: JobNo) -> JobRow {
        let seal = SealJob {
            job,
            fingerprint: [7; 32],
            at_ms: NOW,
        };
        self.seal_job(seal).await.unwrap()
    }

    /// Makes a running job with so many rows.
    pub(crate) async fn running(&self, id: &str, rows: i64) -> JobRow {
        let job = self.importing(id, rows).await;
        self.sealed(job.no).await;
        self.go(job.no).await
    }

    pub(crate) async fn job_now(&self, job: JobNo) -> JobRow {
        self.job(JobKey::No(job)).await.unwrap().unwrap()
    }

    /// Changes a job as it is now.
    pub(crate) async fn try_change(&self, job: JobNo, to: JobTo) -> ChangedJob {
        let version = self.job_now(job).await.version;
        let at_ms = NOW + 9;
        let change = JobChange {
            job,
            version,
            to,
            at_ms,
        };
        self.change_job(change).await.unwrap()
    }

    pub(crate) async fn go(&self, job: JobNo) -> JobRow {
        let to = JobTo::Running {
            owner: JobOwner::Detached,
            owner_worker: None,
        };
        changed(self.try_change(job, to).await)
    }

    pub(crate) async fn cancel(&self, job: JobNo) -> JobRow {
        let message = Some("enough".to_owned());
        changed(self.try_change(job, JobTo::Cancelling { message }).await)
    }

    /// Ends the job, if it is done.
    pub(crate) async fn end(&self, job: JobNo) -> ChangedJob {
        self.try_change(job, JobTo::EndIfDone).await
    }

    pub(crate) async fn claim_some(&self, job: JobNo, max: u32) -> ClaimedItems {
        self.claim_items(claiming(job, max)).await.unwrap()
    }

    /// Ends the turn of an item well, and gives its lane up.
    pub(crate) async fn end_turn(&self, begun: &BegunItem) {
        let mut complete = complete(&begun.accepted, Fate::Done);
        complete.keep = Keep::UnlessIdle;
        self.complete(complete).await.unwrap();
    }

    pub(crate) async fn report_as(&self, item: ItemAttempt, result: &str) -> Reported {
        self.report_item(reporting(item, result)).await.unwrap()
    }

    pub(crate) async fn settle_as(
        &self,
        item: ItemAttempt,
        outcome: AttemptOutcome,
        to: SettleTo,
    ) -> Settled {
        let settlements = vec![settling(item, outcome, to)];
        let settled = self.settle_items(settlements, NOW + 6).await.unwrap();
        settled[0]
    }

    pub(crate) async fn retry(&self, job: JobNo, which: RetryWhich) -> RetriedItems {
        let retry = RetryItems {
            job,
            which,
            instruction: None,
            at_ms: NOW,
        };
        self.retry_items(retry).await.unwrap()
    }

    /// The item of that number.
    pub(crate) async fn detail(&self, job: JobNo, seq: i64) -> ItemDetail {
        let page = self.export_page(job, seq, 1).await.unwrap();
        let id = page.into_iter().next().unwrap().item.item_id;
        *self.item_of_job(job, id).await.unwrap().unwrap()
    }

    pub(crate) async fn item_now(&self, job: JobNo, seq: i64) -> FanoutItem {
        self.detail(job, seq).await.item
    }

    /// The states of all items, by their number.
    pub(crate) async fn states(&self, job: JobNo) -> Vec<ItemState> {
        let query = ItemsQuery {
            job,
            from_seq: 0,
            states: Vec::new(),
            limit: 1_000,
        };
        let page = self.items_of_job(query).await.unwrap();
        page.items.into_iter().map(|item| item.state).collect()
    }

    /// The counts of a job, counted item by item.
    pub(crate) async fn recount(&self, job: JobNo) -> JobCounts {
        let mut counts = JobCounts::default();
        let ids: Vec<String> = {
            let page = self.export_page(job, 0, 1_000_000).await.unwrap();
            page.into_iter().map(|detail| detail.item.item_id).collect()
        };
        for id in ids {
            let detail = self.item_of_job(job, id).await.unwrap().unwrap();
            match detail.item.state {
                ItemState::Pending => {}
                ItemState::Running => counts.running += 1,
                ItemState::Succeeded => counts.succeeded += 1,
                ItemState::Failed => counts.failed += 1,
                ItemState::Skipped => counts.skipped += 1,
                ItemState::Cancelled => counts.cancelled += 1,
            }
            counts.attempts += i64::try_from(detail.attempts.len()).unwrap();
            counts.usage = counts.usage + detail.item.usage;
        }
        counts
    }

    /// Fails unless the stored counts are those of the items.
    pub(crate) async fn assert_counts(&self, job: JobNo) {
        assert_eq!(self.job_now(job).await.counts, self.recount(job).await);
    }
}
