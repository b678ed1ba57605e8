//! Exports of jobs: to a file, or in chunks.
//!
//! The invariant here: a path that a job may not write is refused before its first item starts, and
//! again when the file is written.

use std::path::{Path, PathBuf};

use turnlane_store::fanout::JobRow;

use super::spec::JobOptions;
use super::{JobError, Jobs};
use crate::error::Error;
use crate::fanout::export::{
    ExportChunk, ExportError, ExportOptions, ExportedFile, Exports, LastExport, Output, Overwrite,
    check_output,
};
use crate::fanout::import::{ImportNotes, ImportSource};
use crate::lane::rows;

impl Jobs {
    fn exports(&self) -> Exports {
        Exports::new(
            std::sync::Arc::clone(&self.shared.store),
            std::sync::Arc::clone(&self.shared.clock),
        )
    }

    /// Writes a job to a file. The file is whole or not there.
    pub async fn export_to(
        &self,
        job: &str,
        path: &Path,
        options: ExportOptions,
        overwrite: Overwrite,
    ) -> Result<ExportedFile, JobError> {
        let row = self.find(job).await?;
        let exports = self.exports();
        let written = exports.export_to(&row, path, options, overwrite).await;
        Ok(written?)
    }

    /// A part of a job as text.
    pub async fn export_chunk(
        &self,
        job: &str,
        options: ExportOptions,
        cursor: Option<&str>,
    ) -> Result<ExportChunk, JobError> {
        let row = self.find(job).await?;
        Ok(self.exports().export_chunk(&row, options, cursor).await?)
    }

    /// Writes the file that a job names, if it names one. A failure is recorded in the job.
    pub(crate) async fn export_at_end(&self, row: &JobRow) -> Result<(), JobError> {
        let Some(path) = &row.made.export_path else {
            return Ok(());
        };
        let options: JobOptions = rows::read(&row.made.options).unwrap_or_default();
        let shape = ExportOptions {
            format: options.export_format,
            raw: options.export_raw,
            ..ExportOptions::default()
        };
        let path = PathBuf::from(path);
        let overwrite = overwrites(&options);
        let written = self.exports().export_to(row, &path, shape, overwrite).await;
        written.map(drop).map_err(JobError::from)
    }

    /// Refuses a job whose file cannot be written.
    pub(super) async fn check_export(&self, row: &JobRow) -> Result<(), JobError> {
        let Some(path) = &row.made.export_path else {
            return Ok(());
        };
        let options: JobOptions = rows::read(&row.made.options).unwrap_or_default();
        let input = match ImportNotes::of_job(row).map(|notes| notes.source) {
            Ok(ImportSource::Path { path }) => Some(path),
            _ => None,
        };
        let output = Output {
            path: PathBuf::from(path),
            input,
            overwrite: overwrites(&options),
            last: LastExport::of_job(row),
        };
        let checked = tokio::task::spawn_blocking(move || check_output(&output)).await;
        match checked {
            Ok(checked) => Ok(checked?),
            Err(error) => Err(JobError::Runtime(Error::InvalidParams(error.to_string()))),
        }
    }
}

fn overwrites(options: &JobOptions) -> Overwrite {
    if options.export_overwrite {
        Overwrite::Allowed
    } else {
        Overwrite::Refused
    }
}

impl From<ExportError> for JobError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::OutputIsInput(path) => Self::OutputIsInput(path),
            ExportError::OutputExists(path) => Self::OutputExists(path),
            ExportError::Unwritable { path, reason } => Self::Output {
                path,
                message: reason,
            },
            ExportError::Store(error) => Self::Store(error),
            other => Self::Runtime(Error::InvalidParams(other.to_string())),
        }
    }
}
