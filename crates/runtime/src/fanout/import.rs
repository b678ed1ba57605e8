//! Imports: the rows of an input become rows of a job in the store.
//!
//! The invariant here: an import is all or nothing. Rows are added in batches that readers may see, but
//! no item starts before the seal, and a job with a problem ends as `failed` instead. Memory does not
//! grow with the rows.
//!
//! An import that was cut off continues. A path import reads its file again up to the committed offset
//! and compares the chained hash; a stream import is continued by its client from the committed offset.

mod add;
mod batch;
mod dry_run;
mod notes;
mod records;
mod sample;
mod sink;
mod tasks;
mod underway;

use std::path::Path;
use std::sync::Arc;

use turnlane_store::fanout::{JobRow, JobState};
use turnlane_store::{Store, StoreError};

use super::input::{InputSpec, Problem};
use crate::clock::Clock;

pub use dry_run::{DryRun, DryRunReport};
pub use notes::{
    FingerprintParts, ImportNotes, ImportSource, InputOptions, fingerprint, settings_word,
};
use records::RecordImport;
pub(super) use records::blocking;
pub use sample::SAMPLE_ROWS_MAX;
use underway::Underway;

/// The most problems that are collected before an import stops.
pub const PROBLEMS_MAX: usize = 20;

/// The most rows of one `add_items`.
pub const ADDED_ROWS_MAX: usize = 1_000;

/// An import that did not go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    // The input is wrong: the person corrects it.
    /// The input has problems, at most 20 of them. Nothing starts.
    #[error("{}", first(.0))]
    Problems(Vec<Problem>),
    /// The input cannot be read.
    #[error("failed to read csv input {path}: {reason}")]
    Unreadable {
        /// Its path.
        path: String,
        /// The reason of the system.
        reason: String,
    },
    /// The input is not the one of which rows were imported before.
    #[error("input changed during import")]
    Changed,

    // The request does not fit the job: the client asks again.
    /// The job is not importing.
    #[error("the job is not importing")]
    WrongState(JobState),
    /// The job gets its rows from another source, or by other rules.
    #[error("the job imports from another source")]
    OtherSource,
    /// The chunk does not begin where the last one ended.
    #[error("the next offset is {next}")]
    OffsetMismatch {
        /// The offset that is expected.
        next: i64,
    },
    /// The stream has not ended.
    #[error("the import has not ended")]
    Unfinished,
    /// An import of this job is under way.
    #[error("an import of the job is under way")]
    UnderWay,

    // Neither can help.
    /// Something that the store holds of the job cannot be read back.
    #[error("the stored job cannot be read: {0}")]
    Stored(String),
    /// The store refused or failed. The job stays as it is and the import can be continued.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn first(problems: &[Problem]) -> String {
    let first = problems.first().map_or("", |problem| &problem.message);
    match problems.len() {
        0 | 1 => first.to_owned(),
        many => format!("{first} (and {} more problems)", many - 1),
    }
}

/// A chunk of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamChunk<'a> {
    /// The position of its first byte in the stream.
    pub offset: i64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// True if nothing follows: the job is sealed.
    pub end: bool,
}

/// Rows to be added by a client.
#[derive(Clone, Copy, Debug)]
pub struct AddItems<'a> {
    /// The number of the first row.
    pub seq: i64,
    /// JSON objects.
    pub rows: &'a [&'a str],
}

/// The state of an import that a client continues.
#[derive(Clone, Debug)]
pub struct ImportState {
    /// The job.
    pub job: JobRow,
    /// The offset of the next chunk, or the number of the next row.
    pub next: i64,
}

/// Runs the imports of a worker.
#[derive(Clone)]
pub struct Imports {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    underway: Arc<Underway>,
}

impl std::fmt::Debug for Imports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imports").finish_non_exhaustive()
    }
}

impl Imports {
    /// Imports into this store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            underway: Arc::default(),
        }
    }

    /// Imports a file and seals the job; continues where an earlier import of it was cut off.
    ///
    /// The returned job is durable. A call that is dropped leaves whole batches, and the next call
    /// continues behind them. A sealed job is returned as it is.
    pub async fn import_path(
        &self,
        job: JobRow,
        path: &Path,
        spec: InputSpec,
    ) -> Result<JobRow, ImportError> {
        let _use = self.underway.begin(job.no)?;
        let source = ImportSource::Path {
            path: path.to_owned(),
        };
        if job.state != JobState::Importing {
            return match job.state {
                JobState::Failed | JobState::Cancelled => Err(ImportError::WrongState(job.state)),
                _ => Ok(job),
            };
        }
        let mut records = Box::pin(RecordImport::open(self.parts(job), source, spec)).await?;
        // The future of an import is large; its callers hold a pointer.
        Box::pin(records::import_file(&mut records, path)).await
    }

    /// Continues the path import of a job that a worker left behind.
    pub async fn resume_path(&self, job: JobRow) -> Result<JobRow, ImportError> {
        let notes = ImportNotes::of_job(&job)?;
        let ImportSource::Path { path } = notes.source else {
            return Err(ImportError::OtherSource);
        };
        self.import_path(job, &path, notes.input).await
    }

    /// Begins a stream import, or finds the one that was begun with the same rules.
    pub async fn begin_stream(
        &self,
        job: JobRow,
        spec: InputSpec,
    ) -> Result<ImportState, ImportError> {
        let mut slot = self.underway.begin(job.no)?;
        let records = match slot.take() {
            Some(records) if records.is_of(&spec) => records,
            Some(_) => return Err(ImportError::OtherSource),
            None => {
                let open = RecordImport::open(self.parts(job), ImportSource::Stream, spec);
                Box::pin(open).await?
            }
        };
        let state = ImportState {
            job: records.job().clone(),
            next: records.next_offset(),
        };
        slot.keep(records);
        Ok(state)
    }

    /// Takes a chunk of a stream; the last one seals the job.
    ///
    /// A chunk that was taken before changes nothing. The bytes behind the last whole record are held in
    /// memory: after a crash the client continues from an earlier offset.
    pub async fn write_stream(
        &self,
        job: JobRow,
        chunk: StreamChunk<'_>,
    ) -> Result<ImportState, ImportError> {
        let mut slot = self.underway.begin(job.no)?;
        if job.state != JobState::Importing {
            let next = job.import.offset;
            return match job.state {
                // The answer to the last chunk was lost.
                JobState::Failed | JobState::Cancelled => Err(ImportError::WrongState(job.state)),
                _ if chunk.offset <= next => Ok(ImportState { job, next }),
                _ => Err(ImportError::OffsetMismatch { next }),
            };
        }
        let mut records = match slot.take() {
            Some(records) => records,
            None => Box::pin(RecordImport::resume_stream(self.parts(job))).await?,
        };
        let next = records.next_offset();
        if chunk.offset > next {
            slot.keep(records);
            return Err(ImportError::OffsetMismatch { next });
        }
        if records.has_ended() {
            let job = Box::pin(records.finish()).await?;
            return Ok(ImportState { job, next });
        }
        if chunk.offset == next {
            Box::pin(records.feed(chunk.bytes)).await?;
            if chunk.end {
                let job = Box::pin(records.finish()).await?;
                let next = job.import.offset;
                return Ok(ImportState { job, next });
            }
        }
        let state = ImportState {
            job: records.job().clone(),
            next: records.next_offset(),
        };
        slot.keep(records);
        Ok(state)
    }

    /// Adds rows that a client has in memory. A call with problems adds nothing and leaves the job as it
    /// is; rows that were added before are passed over.
    pub async fn add_items(
        &self,
        job: JobRow,
        items: AddItems<'_>,
    ) -> Result<ImportState, ImportError> {
        let _use = self.underway.begin(job.no)?;
        Box::pin(add::add_items(self.parts(job), items)).await
    }

    /// Ends an import: runs the checks of template and ids, then makes the job ready. Durable. A job
    /// that was sealed before is returned as it is.
    pub async fn seal(&self, job: JobRow) -> Result<JobRow, ImportError> {
        let _use = self.underway.begin(job.no)?;
        match job.state {
            JobState::Importing => Box::pin(add::seal(self.parts(job))).await,
            JobState::Failed | JobState::Cancelled => Err(ImportError::WrongState(job.state)),
            _ => Ok(job),
        }
    }

    fn parts(&self, job: JobRow) -> batch::Parts {
        batch::Parts {
            sink: sink::Sink::Store(Arc::clone(&self.store)),
            clock: Arc::clone(&self.clock),
            job,
        }
    }
}
