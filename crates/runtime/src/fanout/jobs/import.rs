//! Rows of jobs: imports of files and streams, added rows, the seal, the preview.
//!
//! The invariant here: a job whose input has a problem ends as failed, and that end is told as any
//! other.

use std::path::Path;

use turnlane_store::fanout::{JobKey, JobState};

use super::{InputProblem, Job, JobError, JobEvent, Jobs};
use crate::error::Error;
use crate::fanout::import::{AddItems, ImportError, StreamChunk};
use crate::fanout::input::InputSpec;
use crate::fanout::preview::{self, Preview};

impl Jobs {
    /// Imports a file into a job and seals it; continues where an earlier import was cut off.
    pub async fn import_path(
        &self,
        job: &str,
        path: &Path,
        spec: InputSpec,
    ) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let no = row.no;
        let imported = self.shared.imports.import_path(row, path, spec).await;
        let row = self.imported(no, imported).await?;
        self.tell_changed(&row);
        self.show(row).await
    }

    /// Begins an import of bytes that the client sends; the offset at which it goes on.
    pub async fn import_begin(&self, job: &str, spec: InputSpec) -> Result<(Job, i64), JobError> {
        let row = self.find(job).await?;
        let no = row.no;
        let begun = self.shared.imports.begin_stream(row, spec).await;
        let state = self.imported(no, begun).await?;
        Ok((self.show(state.job).await?, state.next))
    }

    /// Takes bytes of an import; the offset at which it goes on. The last ones seal the job.
    pub async fn import_write(&self, job: &str, chunk: StreamChunk<'_>) -> Result<i64, JobError> {
        let row = self.find(job).await?;
        let no = row.no;
        let written = self.shared.imports.write_stream(row, chunk).await;
        let state = self.imported(no, written).await?;
        if state.job.state != JobState::Importing {
            self.tell_changed(&state.job);
        }
        Ok(state.next)
    }

    /// Adds rows that a client has in memory; the number of the next one.
    pub async fn add_items(&self, job: &str, items: AddItems<'_>) -> Result<i64, JobError> {
        let row = self.find(job).await?;
        let no = row.no;
        let added = self.shared.imports.add_items(row, items).await;
        Ok(self.imported(no, added).await?.next)
    }

    /// Ends an import: template and ids are checked, then the job is ready. Durable.
    pub async fn seal(&self, job: &str) -> Result<Job, JobError> {
        let row = self.find(job).await?;
        let no = row.no;
        let sealed = self.shared.imports.seal(row).await;
        let row = self.imported(no, sealed).await?;
        self.tell_changed(&row);
        self.show(row).await
    }

    /// Shows the prompts of the first items, without a model call.
    pub async fn preview(&self, job: &str, count: u32) -> Result<Preview, JobError> {
        let row = self.find(job).await?;
        let shown = preview::preview(&self.shared.store, &row, count.clamp(1, 20)).await;
        shown.map_err(JobError::from)
    }

    /// The outcome of a step of an import; the end of a job that failed by it is told.
    async fn imported<T>(
        &self,
        job: turnlane_store::fanout::JobNo,
        outcome: Result<T, ImportError>,
    ) -> Result<T, JobError> {
        let ends = matches!(
            &outcome,
            Err(ImportError::Problems(_) | ImportError::Unreadable { .. } | ImportError::Changed)
        );
        if ends
            && let Ok(Some(row)) = self.store().job(JobKey::No(job)).await
            && row.state.is_terminal()
        {
            self.board().tell_job(JobEvent::Ended(Box::new(row)));
        }
        outcome.map_err(JobError::from)
    }
}

impl From<ImportError> for JobError {
    fn from(error: ImportError) -> Self {
        let message = error.to_string();
        match error {
            ImportError::Problems(problems) => Self::BadInput(
                problems
                    .into_iter()
                    .map(|problem| InputProblem {
                        line: problem.line,
                        message: problem.message,
                    })
                    .collect(),
            ),
            ImportError::Unreadable { .. } | ImportError::Changed | ImportError::OtherSource => {
                Self::BadInput(vec![InputProblem {
                    line: None,
                    message,
                }])
            }
            ImportError::WrongState(state) => Self::WrongState(state),
            ImportError::Unfinished | ImportError::UnderWay => {
                Self::WrongState(JobState::Importing)
            }
            ImportError::OffsetMismatch { next } => Self::OffsetMismatch { next },
            ImportError::Store(error) => Self::Store(error),
            _ => Self::Runtime(Error::InvalidParams(message)),
        }
    }
}
