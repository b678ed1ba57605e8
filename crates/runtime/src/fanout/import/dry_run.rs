//! An import without a store: what the job would be, before anything is made.

use std::path::Path;
use std::sync::Arc;

use turnlane_store::Json;
use turnlane_store::fanout::{ImportProgress, JobCounts, JobNo, JobRow, JobState, NewJob, Streak};

use super::ImportError;
use super::batch::Parts;
use super::notes::{ImportNotes, ImportSource, InputOptions};
use super::records::{RecordImport, import_file};
use super::sink::{DryRows, Sink};
use crate::clock::Clock;
use crate::fanout::input::InputSpec;
use crate::fanout::preview::{Preview, PromptSample};

/// The outcome of a dry run.
#[derive(Clone, Debug)]
pub struct DryRunReport {
    /// The number of items that would run, the first prompts, the tokens.
    pub preview: Preview,
    /// Rows that would be skipped.
    pub skipped: i64,
    /// Records with only empty cells.
    pub blank_rows: i64,
    /// The columns, a JSON array.
    pub columns: Json,
    /// Things that people should know of the input.
    pub warnings: Vec<String>,
    /// The fingerprint that the job would have: an unfinished job with it is the same run.
    pub fingerprint: [u8; 32],
}

/// A dry run over bytes that arrive in pieces.
pub struct DryRun {
    records: Box<RecordImport>,
}

impl std::fmt::Debug for DryRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DryRun").finish_non_exhaustive()
    }
}

impl DryRun {
    /// Begins a dry run of a job that has not been made; `count` prompts are shown, at most 20.
    pub async fn begin(
        job: NewJob,
        clock: Arc<dyn Clock>,
        spec: InputSpec,
        count: u32,
    ) -> Result<Self, ImportError> {
        let job = unmade(job);
        let sample = PromptSample::new(&job, count)?;
        let options = InputOptions::of_job(&job)?;
        let parts = Parts {
            sink: Sink::Dry(Box::new(DryRows::new(sample, &options))),
            clock,
            job,
        };
        let records = Box::pin(RecordImport::open(parts, ImportSource::Stream, spec)).await?;
        Ok(Self {
            records: Box::new(records),
        })
    }

    /// Reads a file to its end.
    pub async fn read_path(mut self, path: &Path) -> Result<DryRunReport, ImportError> {
        let job = Box::pin(import_file(&mut self.records, path)).await?;
        self.report(job)
    }

    /// Takes more bytes.
    pub async fn feed(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        Box::pin(self.records.feed(bytes)).await
    }

    /// Takes the end.
    pub async fn finish(mut self) -> Result<DryRunReport, ImportError> {
        let job = Box::pin(self.records.finish()).await?;
        self.report(job)
    }

    fn report(self, job: JobRow) -> Result<DryRunReport, ImportError> {
        let notes = ImportNotes::of_job(&job)?;
        let sample = self.records.into_sample();
        let total = job.total - job.counts.skipped;
        let estimated_tokens = sample
            .as_ref()
            .map_or(0, |sample| sample.tokens(sample.rows));
        Ok(DryRunReport {
            preview: Preview {
                total,
                prompts: sample.map(|sample| sample.prompts).unwrap_or_default(),
                estimated_tokens,
            },
            skipped: job.counts.skipped,
            blank_rows: job.import.blank_rows,
            columns: job.columns,
            warnings: notes.warnings,
            fingerprint: job.fingerprint.unwrap_or_default(),
        })
    }
}

/// The job as the store would make it.
fn unmade(job: NewJob) -> JobRow {
    JobRow {
        no: JobNo(0),
        made: job,
        state: JobState::Importing,
        reason: None,
        reason_message: None,
        resume_ms: None,
        stop_ms: None,
        fingerprint: None,
        version: 0,
        cancel_asked: false,
        deleting: false,
        columns: Json::new("[]"),
        import: ImportProgress::default(),
        total: 0,
        next_seq: 0,
        export_error: None,
        export_digest: None,
        export_next: None,
        streak: Streak::default(),
        counts: JobCounts::default(),
        started_ms: None,
        ended_ms: None,
    }
}
