//! Exports: the rows of a job with their results, as CSV or JSONL, to a file or in chunks.
//!
//! The invariants here: every imported row is in the export, in input order, as it is when its page is
//! read. Memory does not grow with the rows. A file is whole or not there: it is written beside its name
//! and renamed.

mod record;
mod target;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnlane_store::fanout::{ChangedJob, ItemDetail, JobChange, JobKey, JobRow, JobTo};
use turnlane_store::{Store, StoreError};

use super::import::{ImportNotes, ImportSource, blocking};
use super::row::Members;
use crate::clock::Clock;

use record::Records;
pub use record::{guarded, is_plain_number};
use target::Target;
pub use target::{LastExport, Output, Overwrite, check_output};

/// The rows that are read at once.
const PAGE_ROWS: u32 = 1_000;

/// The most bytes of a chunk, unless one row is longer.
const CHUNK_BYTES_MAX: usize = 1_048_576;

/// The most fields of results that become columns.
const FIELDS_MAX: usize = 1_024;

/// How often the record of an export is tried against other changes of the job.
const CHANGE_TRIES: usize = 16;

/// The format of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// A table with a header.
    #[default]
    Csv,
    /// One JSON object per line.
    Jsonl,
}

impl ExportFormat {
    /// Finds the format of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "csv" => Some(Self::Csv),
            "jsonl" => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// Chooses the format by the suffix of a path.
    pub fn from_path(path: &Path) -> Self {
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        match suffix.map(str::to_ascii_lowercase).as_deref() {
            Some("jsonl" | "ndjson") => Self::Jsonl,
            _ => Self::Csv,
        }
    }
}

/// What an export holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// The format.
    pub format: ExportFormat,
    /// True for columns about error, thread, tokens, time and branch; CSV only.
    pub wide: bool,
    /// True for a column per top-level field of the results; CSV only.
    pub flatten: bool,
    /// True if cells that a spreadsheet takes for formulas stay as they are; CSV only.
    pub raw: bool,
}

/// An export that was not written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    // The path is wrong: the person names another one.
    /// The path is that of the input.
    #[error("cannot write {0}: it is the input file")]
    OutputIsInput(String),
    /// A file is there that the job may not replace.
    #[error("cannot write {0}: the file exists")]
    OutputExists(String),
    /// The path cannot be written.
    #[error("cannot write {path}: {reason}")]
    Unwritable {
        /// The path.
        path: String,
        /// The reason of the system.
        reason: String,
    },
    /// The cursor is not one of an earlier answer.
    #[error("the cursor is not valid")]
    BadCursor,

    // Nothing that the caller can change.
    /// Something that the store holds of the job cannot be read back.
    #[error("the stored job cannot be read: {0}")]
    Stored(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ExportError {
    fn unwritable(path: &Path, error: &std::io::Error) -> Self {
        let text = error.to_string();
        let end = text.find(" (os error").unwrap_or(text.len());
        Self::Unwritable {
            path: path.display().to_string(),
            reason: text[..end].to_owned(),
        }
    }
}

/// An export that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// The path as it was given.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
    /// The digest of its content.
    pub digest: [u8; 32],
}

/// A part of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportChunk {
    /// Whole lines.
    pub data: String,
    /// The cursor of the next part; none behind the last one.
    pub next_cursor: Option<String>,
}

/// Runs the exports of a worker.
#[derive(Clone)]
pub struct Exports {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exports").finish_non_exhaustive()
    }
}

impl Exports {
    /// Exports from this store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Writes the job to a file and records the outcome in the job, where the path is the job's own.
    ///
    /// When this returns the file is on disk, whole. A call that is dropped leaves the old file.
    pub async fn export_to(
        &self,
        job: &JobRow,
        path: &Path,
        options: ExportOptions,
        overwrite: Overwrite,
    ) -> Result<ExportedFile, ExportError> {
        let shown = path.display().to_string();
        let own = job.made.export_path.as_ref();
        let is_own = own.is_none_or(|own| *own == shown);
        let written = self.write_to(job, path, options, overwrite, is_own).await;
        if is_own {
            let outcome = match &written {
                Ok(file) => Ok(file.digest),
                Err(error) => Err(error.to_string()),
            };
            self.record(
                job,
                JobTo::Exported {
                    path: shown,
                    outcome,
                },
            )
            .await?;
        }
        written
    }

    async fn write_to(
        &self,
        job: &JobRow,
        path: &Path,
        options: ExportOptions,
        overwrite: Overwrite,
        is_own: bool,
    ) -> Result<ExportedFile, ExportError> {
        let target = self.target(job, path, overwrite).await?;
        let failed = |error: &std::io::Error| ExportError::unwritable(path, error);
        let mut records = self.records(job, options).await?;
        let mut output = blocking(move || target.begin()).await;
        let mut text = records.header();
        let (mut from, mut rows, mut hasher) = (0, 0_u64, Sha256::new());
        loop {
            let file = output.map_err(|error| failed(&error))?;
            hasher.update(text.as_bytes());
            output = blocking(move || file.written(text.as_bytes())).await;
            let page = self.store.export_page(job.no, from, PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            from = last.item.seq + 1;
            rows += page.len() as u64;
            text = String::new();
            for detail in &page {
                records.push(&mut text, detail)?;
            }
        }
        let file = output.map_err(|error| failed(&error))?;
        let digest: [u8; 32] = hasher.finalize().into();
        if is_own {
            // A worker that dies behind the rename could not tell its file from a stranger's.
            let path = path.display().to_string();
            self.record(job, JobTo::Renaming { path, digest }).await?;
        }
        let finished = blocking(move || file.finish()).await;
        finished.map_err(|error| failed(&error))?;
        Ok(ExportedFile {
            path: path.to_owned(),
            rows,
            digest,
        })
    }

    /// Refuses a path that the job may not write.
    async fn target(
        &self,
        job: &JobRow,
        path: &Path,
        overwrite: Overwrite,
    ) -> Result<Target, ExportError> {
        let notes = ImportNotes::of_job(job);
        let notes = notes.map_err(|error| ExportError::Stored(error.to_string()))?;
        let input = match notes.source {
            ImportSource::Path { path } => Some(path),
            ImportSource::None | ImportSource::Stream | ImportSource::Items => None,
        };
        let output = Output {
            path: path.to_owned(),
            input,
            overwrite,
            last: LastExport::of_job(job),
        };
        let checked = tokio::task::spawn_blocking(move || target::check(&output)).await;
        checked.unwrap_or_else(|error| Err(ExportError::Stored(error.to_string())))
    }

    async fn record(&self, job: &JobRow, to: JobTo) -> Result<(), ExportError> {
        let mut version = job.version;
        for _ in 0..CHANGE_TRIES {
            let change = JobChange {
                job: job.no,
                version,
                to: to.clone(),
                at_ms: self.clock.now_ms(),
            };
            match self.store.change_job(change).await? {
                ChangedJob::Changed(_) => return Ok(()),
                ChangedJob::Unchanged(job) => version = job.version,
            }
        }
        // The job changes all the time. The next export records itself.
        Ok(())
    }

    /// A part of the job as text, at most a mebibyte unless one row is longer.
    pub async fn export_chunk(
        &self,
        job: &JobRow,
        options: ExportOptions,
        cursor: Option<&str>,
    ) -> Result<ExportChunk, ExportError> {
        let mut records = self.records(job, options).await?;
        let (mut data, mut from) = match cursor {
            None => (records.header(), 0),
            Some(cursor) => {
                let from = cursor.parse().map_err(|_| ExportError::BadCursor)?;
                (String::new(), from)
            }
        };
        loop {
            let page = self.store.export_page(job.no, from, PAGE_ROWS).await?;
            if page.is_empty() {
                return Ok(ExportChunk {
                    data,
                    next_cursor: None,
                });
            }
            for detail in &page {
                let before = data.len();
                records.push(&mut data, detail)?;
                if data.len() > CHUNK_BYTES_MAX && before > 0 {
                    data.truncate(before);
                    return Ok(ExportChunk {
                        data,
                        next_cursor: Some(detail.item.seq.to_string()),
                    });
                }
                from = detail.item.seq + 1;
            }
        }
    }

    async fn records(&self, job: &JobRow, options: ExportOptions) -> Result<Records, ExportError> {
        // The columns may have grown since the caller read the job.
        let found = self.store.job(JobKey::No(job.no)).await?;
        let fields = if options.flatten && options.format == ExportFormat::Csv {
            self.fields(job).await?
        } else {
            BTreeSet::new()
        };
        Records::new(found.as_ref().unwrap_or(job), options, fields)
    }

    /// The top-level fields of all results.
    async fn fields(&self, job: &JobRow) -> Result<BTreeSet<String>, ExportError> {
        let mut fields = BTreeSet::new();
        let mut from = 0;
        loop {
            let page: Vec<ItemDetail> = self.store.export_page(job.no, from, PAGE_ROWS).await?;
            let Some(last) = page.last() else {
                return Ok(fields);
            };
            from = last.item.seq + 1;
            for result in page.iter().filter_map(|detail| detail.result.as_ref()) {
                let Ok(members) = Members::parse(result.as_str()) else {
                    continue;
                };
                for name in members.names() {
                    if fields.len() < FIELDS_MAX && !fields.contains(name) {
                        fields.insert(name.to_owned());
                    }
                }
            }
        }
    }
}
