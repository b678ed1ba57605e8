//! Imports of bytes: a file or a stream through a table reader into batches.
//!
//! The invariant here: a batch is committed with the state of the reader exactly behind its last row, so
//! that another reader can continue there.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use turnlane_store::fanout::{ImportProgress, JobRow, JobState};

use super::batch::{Batches, Parts};
use super::notes::{ImportNotes, ImportSource};
use super::sample::Sample;
use super::sink::Sink;
use super::{ImportError, PROBLEMS_MAX};
use crate::fanout::input::{Border, Event, InputSpec, TableReader};
use crate::fanout::preview::PromptSample;

/// The bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The bytes without a row behind which the progress is committed all the same.
const PROGRESS_BYTES: u64 = 4 << 20;

/// The import of one job from bytes.
pub(super) struct RecordImport {
    batches: Batches,
    table: TableReader,
    /// The rows so far that belong to the sample, where one is wanted.
    sample: Option<Sample>,
    /// Where the reader of an interrupted path import must come by with the same hash.
    verify: Option<(u64, [u8; 32])>,
}

impl RecordImport {
    /// Begins the import of a source, or continues it.
    pub(super) async fn open(
        parts: Parts,
        source: ImportSource,
        spec: InputSpec,
    ) -> Result<Self, ImportError> {
        if parts.job.state != JobState::Importing {
            return Err(ImportError::WrongState(parts.job.state));
        }
        let mut notes = ImportNotes::of_job(&parts.job)?;
        let begins = notes.source == ImportSource::None;
        if begins {
            notes.source = source;
            notes.input = spec;
        } else if notes.source != source || notes.input != spec {
            return Err(ImportError::OtherSource);
        }
        let progress = parts.job.import.clone();
        let mut batches = Batches::new(parts, notes)?;
        if begins {
            // The source is known from here on, so that any worker can continue.
            batches.commit(progress.clone()).await?;
        }
        batches.learn_tasks().await?;
        if batches.notes.source == ImportSource::Stream {
            return Ok(Self::continued(batches));
        }
        let offset = u64::try_from(progress.offset).unwrap_or(0);
        Ok(Self {
            table: TableReader::new(batches.notes.input.clone()),
            sample: batches.sample(),
            verify: (offset > 0).then_some((offset, progress.hash)),
            batches,
        })
    }

    /// Continues a stream behind the last committed record.
    pub(super) async fn resume_stream(parts: Parts) -> Result<Self, ImportError> {
        let notes = ImportNotes::of_job(&parts.job)?;
        match notes.source {
            ImportSource::Stream => Self::open(parts, ImportSource::Stream, notes.input).await,
            _ => Err(ImportError::OtherSource),
        }
    }

    fn continued(batches: Batches) -> Self {
        let notes = &batches.notes;
        let progress = &batches.job.import;
        let table = match notes.reader {
            None => TableReader::new(notes.input.clone()),
            Some(state) => {
                let border = Border {
                    offset: u64::try_from(progress.offset).unwrap_or(0),
                    hash: progress.hash,
                    blank_rows: u64::try_from(progress.blank_rows).unwrap_or(0),
                    state,
                };
                TableReader::resumed(notes.input.clone(), batches.columns.clone(), &border)
            }
        };
        Self {
            sample: batches.sample(),
            batches,
            table,
            verify: None,
        }
    }

    pub(super) fn job(&self) -> &JobRow {
        &self.batches.job
    }

    /// Returns true if the import reads its source by these rules.
    pub(super) fn is_of(&self, spec: &InputSpec) -> bool {
        self.batches.notes.source == ImportSource::Stream && self.batches.notes.input == *spec
    }

    /// The offset of the byte that is expected next.
    pub(super) fn next_offset(&self) -> i64 {
        i64::try_from(self.table.received()).unwrap_or(i64::MAX)
    }

    /// Returns true if the source was read to its end before.
    pub(super) fn has_ended(&self) -> bool {
        self.batches.notes.ended
    }

    /// Reads more bytes and commits the batches they fill.
    pub(super) async fn feed(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        for piece in bytes.chunks(READ_BYTES) {
            self.table.push(piece);
            self.drain().await?;
        }
        Ok(())
    }

    async fn drain(&mut self) -> Result<(), ImportError> {
        while let Some(event) = self.table.next_event() {
            let mut stops = false;
            match event {
                Event::Columns => {
                    self.batches.columns = self.table.columns().clone();
                    let spec = self.batches.notes.input.clone();
                    self.batches.check_columns(&spec);
                    stops = !self.batches.problems.is_empty();
                }
                Event::Row(_) | Event::Passed if self.verify.is_some() => self.verify().await?,
                Event::Problem(_) | Event::Fatal(_) if self.verify.is_some() => {
                    return Err(self.changed().await);
                }
                Event::Row(row) if let Some(sample) = &mut self.sample => {
                    let added = sample.add(row, self.table.columns());
                    if let Err(problem) = added {
                        self.batches.add_problem(problem);
                        stops = true;
                    }
                }
                Event::Row(row) => {
                    let line = Some(row.line);
                    self.batches.add(&row, line, self.table.columns());
                }
                Event::Passed => {}
                Event::Problem(problem) => self.batches.add_problem(problem),
                Event::Fatal(problem) => {
                    self.batches.add_problem(problem);
                    stops = true;
                }
            }
            if stops || self.batches.problems.len() >= PROBLEMS_MAX {
                return Err(self.batches.fail().await);
            }
            if self.verify.is_none() {
                self.commit_if_full().await?;
            }
        }
        Ok(())
    }

    async fn commit_if_full(&mut self) -> Result<(), ImportError> {
        // Rows of a sample are known behind the last row only: an import that is cut off starts over.
        if self.sample.is_some() {
            return Ok(());
        }
        let border = self.table.border();
        let committed = u64::try_from(self.batches.job.import.offset).unwrap_or(0);
        if !self.batches.is_full() && border.offset.saturating_sub(committed) < PROGRESS_BYTES {
            return Ok(());
        }
        self.commit(border).await?;
        if self.batches.problems.len() >= PROBLEMS_MAX {
            return Err(self.batches.fail().await);
        }
        Ok(())
    }

    async fn commit(&mut self, border: Border) -> Result<(), ImportError> {
        self.batches.columns = self.table.columns().clone();
        self.batches.notes.reader = Some(border.state);
        self.batches.notes.warnings = self.table.warnings();
        let progress = ImportProgress {
            offset: i64::try_from(border.offset).unwrap_or(i64::MAX),
            hash: border.hash,
            blank_rows: i64::try_from(border.blank_rows).unwrap_or(i64::MAX),
            notes: self.batches.job.import.notes.clone(),
        };
        self.batches.commit(progress).await
    }

    /// Compares the records so far with those that were imported before.
    async fn verify(&mut self) -> Result<(), ImportError> {
        let border = self.table.border();
        if let Some((offset, hash)) = self.verify {
            if border.offset == offset && border.hash == hash {
                self.verify = None;
            } else if border.offset >= offset {
                return Err(self.changed().await);
            }
        }
        Ok(())
    }

    async fn changed(&mut self) -> ImportError {
        let changed = ImportError::Changed;
        match self.batches.fail_with(&changed.to_string()).await {
            Ok(()) => changed,
            Err(error) => error,
        }
    }

    /// Takes the end of the source: the last checks, the last batch, the seal.
    pub(super) async fn finish(&mut self) -> Result<JobRow, ImportError> {
        if self.has_ended() && self.verify.is_none() {
            return self.batches.seal().await;
        }
        self.table.end();
        self.drain().await?;
        let mut border = self.table.border();
        border.offset = self.table.received();
        if let Some(expected) = self.verify.take()
            && expected != (border.offset, border.hash)
        {
            return Err(self.changed().await);
        }
        // Ids of the last rows and columns of objects may still be wrong: everything is checked before
        // anything of the last batch is committed.
        self.batches.columns = self.table.columns().clone();
        for row in self.sample.take().into_iter().flat_map(Sample::into_rows) {
            let line = Some(row.line);
            self.batches.add(&row, line, self.table.columns());
        }
        if self.batches.has_objects() && border.state.has_rows() {
            let spec = self.batches.notes.input.clone();
            self.batches.check_objects(&spec);
        }
        self.batches.notes.ended = true;
        self.commit(border).await?;
        if !self.batches.problems.is_empty() {
            return Err(self.batches.fail().await);
        }
        self.batches.seal().await
    }

    /// The prompts that a dry run has collected.
    pub(super) fn into_sample(self) -> Option<PromptSample> {
        match self.batches.sink {
            Sink::Dry(dry) => Some(dry.sample),
            Sink::Store(_) => None,
        }
    }

    /// Ends the job since its source cannot be read.
    async fn unreadable(&mut self, path: &Path, error: &std::io::Error) -> ImportError {
        let unreadable = ImportError::Unreadable {
            path: path.display().to_string(),
            reason: reason(error),
        };
        match self.batches.fail_with(&unreadable.to_string()).await {
            Ok(()) => unreadable,
            Err(error) => error,
        }
    }
}

/// The reason of the system, without the number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Imports a file to its end.
pub(super) async fn import_file(
    records: &mut RecordImport,
    path: &Path,
) -> Result<JobRow, ImportError> {
    let owned = path.to_owned();
    let mut file = match blocking(move || open_regular(&owned)).await {
        Ok(file) => file,
        Err(error) => return Err(records.unreadable(path, &error).await),
    };
    loop {
        let read = blocking(move || {
            let mut bytes = vec![0; READ_BYTES];
            let count = file.read(&mut bytes)?;
            bytes.truncate(count);
            Ok((file, bytes))
        });
        let bytes = match read.await {
            Ok((same, bytes)) => {
                file = same;
                bytes
            }
            Err(error) => return Err(records.unreadable(path, &error).await),
        };
        if bytes.is_empty() {
            return records.finish().await;
        }
        records.feed(&bytes).await?;
    }
}

/// Opens a file that is a regular one: a FIFO would wait, a directory cannot be read.
fn open_regular(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// Runs calls of the system that wait for a disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}
