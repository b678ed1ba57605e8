//! Where the rows of an import go: into the store, or nowhere in a dry run.
//!
//! The invariant here: a dry run finds what an import would find, since only this file knows that there
//! is no store behind it.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnlane_store::fanout::{
    ChangedJob, ImportBatch, ImportedBatch, JobChange, JobNo, JobRow, JobState, SealJob,
};
use turnlane_store::{Store, StoreError};

use super::notes::InputOptions;
use crate::fanout::ids::computed_id;
use crate::fanout::preview::PromptSample;

/// The place where rows go.
pub(super) enum Sink {
    /// A store.
    Store(Arc<dyn Store>),
    /// Nowhere.
    Dry(Box<DryRows>),
}

/// The traces of rows in a dry run.
pub(super) struct DryRows {
    /// The first bytes of the hash of each id, and the row that has it: a million ids take 24 MB. None
    /// where the job has no id column.
    ids: Option<HashMap<u64, i64>>,
    pub(super) sample: PromptSample,
}

impl DryRows {
    pub(super) fn new(sample: PromptSample, options: &InputOptions) -> Self {
        Self {
            ids: options.id_column.is_some().then(HashMap::new),
            sample,
        }
    }

    fn take(&mut self, job: &JobRow, batch: &ImportBatch) -> JobRow {
        let mut job = job.clone();
        for row in &batch.rows {
            let computed = || computed_id(row.seq);
            let id = row.item_id.clone().unwrap_or_else(computed);
            if let Some(ids) = &mut self.ids {
                ids.insert(short_hash(&id), row.seq);
            }
            job.total += 1;
            match row.skipped {
                Some(_) => job.counts.skipped += 1,
                None => self.sample.take(&batch.columns, &id, &row.cells),
            }
        }
        job.import = batch.progress.clone();
        job.columns = batch.columns.clone();
        job
    }
}

fn short_hash(id: &str) -> u64 {
    let hash = Sha256::digest(id.as_bytes());
    let first = hash.iter().take(8);
    first.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

impl Sink {
    pub(super) async fn rows_with_ids(
        &self,
        job: JobNo,
        ids: Vec<String>,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        match self {
            Self::Store(store) => store.rows_with_ids(job, ids).await,
            Self::Dry(dry) => {
                let known = dry.ids.as_ref();
                let owner = |id: &String| known?.get(&short_hash(id)).copied();
                Ok(ids.iter().map(owner).collect())
            }
        }
    }

    pub(super) async fn import_rows(
        &mut self,
        job: &JobRow,
        batch: ImportBatch,
    ) -> Result<ImportedBatch, StoreError> {
        match self {
            Self::Store(store) => store.import_rows(batch).await,
            Self::Dry(dry) => Ok(ImportedBatch::Added(Box::new(dry.take(job, &batch)))),
        }
    }

    pub(super) async fn change_job(
        &self,
        job: &JobRow,
        change: JobChange,
    ) -> Result<ChangedJob, StoreError> {
        match self {
            Self::Store(store) => store.change_job(change).await,
            Self::Dry(_) => Ok(ChangedJob::Changed(Box::new(JobRow {
                state: JobState::Failed,
                ..job.clone()
            }))),
        }
    }

    pub(super) async fn seal_job(&self, job: &JobRow, seal: SealJob) -> Result<JobRow, StoreError> {
        match self {
            Self::Store(store) => store.seal_job(seal).await,
            Self::Dry(_) => Ok(JobRow {
                state: JobState::Ready,
                fingerprint: Some(seal.fingerprint),
                ..job.clone()
            }),
        }
    }
}
