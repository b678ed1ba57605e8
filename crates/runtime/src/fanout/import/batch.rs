//! Batches of rows: their ids, their size, their commit; the checks behind the last one.
//!
//! The invariant here: once a problem was found nothing more is committed. Later records are read for
//! further problems only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_store::Json;
use turnlane_store::fanout::{
    ChangedJob, ImportBatch, ImportProgress, ImportedBatch, JobChange, JobRow, JobTo, NewItemRow,
    SealJob,
};

use super::notes::{
    FingerprintParts, ImportNotes, ImportSource, InputOptions, fingerprint, settings_word,
};
use super::sample::Sample;
use super::sink::Sink;
use super::tasks::{self, TaskHash, Tasks};
use super::{ImportError, PROBLEMS_MAX};
use crate::clock::Clock;
use crate::fanout::ids::{IdAssigner, KnownIds, OnDuplicate, RowName, RowToName, computed_id};
use crate::fanout::input::{Format, InputSpec, Problem, TableRow};
use crate::fanout::row::{Columns, Row};
use crate::fanout::template::Template;

/// The most rows of a batch.
const BATCH_ROWS_MAX: usize = 500;

/// The bytes of cells behind which a batch is full.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The fewest rows of a full batch, however slow the disk is.
const BATCH_ROWS_MIN: usize = 8;

/// The time of a commit behind which batches become smaller: lanes wait for it.
const COMMIT_SLOW: Duration = Duration::from_millis(20);

/// The most ids of rows behind a problem that are remembered.
const UNCOMMITTED_MAX: usize = 200_000;

/// The longest message of a failed import, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// Rows that are read at once to learn their tasks.
const LEARNED_ROWS: u32 = 1_000;

/// How often a state change is tried against other changes of the job.
const CHANGE_TRIES: usize = 16;

/// The parts that every import starts with.
pub(super) struct Parts {
    pub(super) sink: Sink,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) job: JobRow,
}

/// A row that waits for its batch.
pub(super) struct PendingRow {
    seq: i64,
    line: Option<u64>,
    id_cell: Option<String>,
    task: Option<TaskHash>,
    cells: Json,
}

/// Commits the rows of one job.
pub(super) struct Batches {
    pub(super) sink: Sink,
    clock: Arc<dyn Clock>,
    pub(super) job: JobRow,
    pub(super) notes: ImportNotes,
    pub(super) columns: Columns,
    pub(super) problems: Vec<Problem>,
    options: InputOptions,
    template: Template,
    /// The texts in braces of which every JSONL row must have the column.
    candidates: Vec<String>,
    ids: IdAssigner,
    tasks: Tasks,
    /// The ids of rows that were not committed because of a problem, to find further duplicates.
    uncommitted: HashMap<String, i64>,
    rows: Vec<PendingRow>,
    rows_bytes: usize,
    rows_max: usize,
}

impl Batches {
    pub(super) fn new(parts: Parts, notes: ImportNotes) -> Result<Self, ImportError> {
        let stored = |error: &dyn std::fmt::Display| ImportError::Stored(error.to_string());
        let Parts { sink, clock, job } = parts;
        let columns = match job.columns.as_str() {
            "" => Columns::default(),
            _ => Columns::from_stored(&job.columns).map_err(|error| stored(&error))?,
        };
        let options = InputOptions::of_job(&job)?;
        let template = Template::parse(&job.made.instruction).map_err(|error| stored(&error))?;
        let candidates = if options.allow_missing {
            Vec::new()
        } else {
            template
                .candidates()
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        Ok(Self {
            sink,
            clock,
            job,
            notes,
            columns,
            problems: Vec::new(),
            ids: IdAssigner::new(options.on_duplicate),
            tasks: Tasks::default(),
            options,
            template,
            candidates,
            uncommitted: HashMap::new(),
            rows: Vec::new(),
            rows_bytes: 0,
            rows_max: BATCH_ROWS_MAX,
        })
    }

    /// Adds a row to the batch. Its line is none where the row has none.
    pub(super) fn add(&mut self, row: &TableRow, line: Option<u64>, columns: &Columns) {
        if let Row::Object(_) = row.row {
            for name in &self.candidates {
                if !self.notes.lacking.contains_key(name) && row.row.value(columns, name).is_none()
                {
                    let line = line.unwrap_or(row.line);
                    self.notes.lacking.insert(name.clone(), line);
                }
            }
        }
        let looks_for_duplicates = self.options.id_column.is_some();
        if !self.problems.is_empty() && !looks_for_duplicates {
            return;
        }
        let id_column = self.options.id_column.as_ref();
        let id_cell = id_column.and_then(|name| row.row.value(columns, name));
        let id_cell = id_cell.map(std::borrow::Cow::into_owned);
        let task = if self.options.dedupe {
            let (template, options) = (&self.template, &self.options);
            self.tasks.hash(&row.row, columns, template, options)
        } else {
            None
        };
        let row = PendingRow {
            seq: row.seq,
            line,
            id_cell,
            task,
            cells: row.row.to_stored(),
        };
        self.rows_bytes += row.cells.as_str().len();
        self.rows.push(row);
    }

    pub(super) fn is_full(&self) -> bool {
        let bytes_max = BATCH_BYTES_MAX / BATCH_ROWS_MAX * self.rows_max;
        self.rows.len() >= self.rows_max || self.rows_bytes >= bytes_max
    }

    /// Commits the batch and the progress behind it.
    pub(super) async fn commit(&mut self, progress: ImportProgress) -> Result<(), ImportError> {
        let rows = std::mem::take(&mut self.rows);
        self.rows_bytes = 0;
        let rows = self.named(rows).await?;
        if !self.problems.is_empty() {
            self.remember(&rows);
            return Ok(());
        }
        let batch = ImportBatch {
            job: self.job.no,
            from_offset: self.job.import.offset,
            progress: ImportProgress {
                notes: self.notes.to_stored()?,
                ..progress
            },
            columns: self.columns.to_stored(),
            rows,
        };
        let begun = Instant::now();
        let imported = self.sink.import_rows(&self.job, batch).await?;
        let took = begun.elapsed();
        self.rows_max = if took > COMMIT_SLOW {
            (self.rows_max / 2).max(BATCH_ROWS_MIN)
        } else if took < COMMIT_SLOW / 4 {
            (self.rows_max * 2).min(BATCH_ROWS_MAX)
        } else {
            self.rows_max
        };
        match imported {
            ImportedBatch::Added(job) => {
                self.job = *job;
                Ok(())
            }
            ImportedBatch::OffsetIs(next) => Err(ImportError::OffsetMismatch { next }),
            ImportedBatch::WrongState(state) => Err(ImportError::WrongState(state)),
            // The ids were free when they were given: another import of the job goes on.
            ImportedBatch::DuplicateIds(_) => Err(ImportError::UnderWay),
        }
    }

    /// Learns the tasks of the rows that an earlier import of the job has committed.
    pub(super) async fn learn_tasks(&mut self) -> Result<(), ImportError> {
        let Sink::Store(store) = &self.sink else {
            return Ok(());
        };
        let store = Arc::clone(store);
        let mut from_seq = 0;
        while self.options.dedupe && self.job.total > 0 {
            let page = store
                .export_page(self.job.no, from_seq, LEARNED_ROWS)
                .await?;
            let Some(last) = page.last() else { break };
            from_seq = last.item.seq + 1;
            for found in page.iter().filter(|found| found.item.dup_of.is_none()) {
                let row = Row::from_stored(&found.cells);
                let row = row.map_err(|error| ImportError::Stored(error.to_string()))?;
                let (template, options) = (&self.template, &self.options);
                let task = self.tasks.hash(&row, &self.columns, template, options);
                if let Some(task) = task
                    && let Err(error) = self.tasks.first(task, found.item.seq)
                {
                    self.add_problem(Problem::new(error.to_string()));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Gives the rows their ids; equal ones become problems where the job says so.
    async fn named(&mut self, rows: Vec<PendingRow>) -> Result<Vec<NewItemRow>, ImportError> {
        let names = self.names(&rows).await?;
        let mut named = Vec::with_capacity(rows.len());
        for (row, name) in rows.into_iter().zip(names) {
            let mut skipped = None;
            if let Some(duplicate) = name.duplicate {
                match self.options.on_duplicate {
                    OnDuplicate::Suffix => {}
                    OnDuplicate::Skip => skipped = Some(duplicate.skip_error()),
                    OnDuplicate::Error => {
                        let at = row.line.map(|line| format!(" (line {line})"));
                        let message = format!(
                            "duplicate id {:?} in row {}, first used in row {}{}",
                            duplicate.id,
                            row.seq + 1,
                            duplicate.of_seq + 1,
                            at.unwrap_or_default()
                        );
                        self.add_problem(Problem {
                            line: row.line,
                            message,
                        });
                    }
                }
            }
            let mut dup_of = None;
            if skipped.is_none()
                && let Some(task) = row.task
            {
                match self.tasks.first(task, row.seq) {
                    Ok(first) => dup_of = first,
                    Err(error) => self.add_problem(Problem::new(error.to_string())),
                }
                skipped = dup_of.map(tasks::skip_error);
            }
            named.push(NewItemRow {
                seq: row.seq,
                item_id: name.item_id,
                cells: row.cells,
                skipped,
                dup_of,
            });
        }
        Ok(named)
    }

    /// Remembers the ids of rows that are not committed, as many as a bounded map holds.
    fn remember(&mut self, rows: &[NewItemRow]) {
        for row in rows {
            if self.options.id_column.is_some() && self.uncommitted.len() < UNCOMMITTED_MAX {
                let id = row.item_id.clone();
                let id = id.unwrap_or_else(|| computed_id(row.seq));
                self.uncommitted.entry(id).or_insert(row.seq);
            }
        }
    }

    async fn names(&mut self, rows: &[PendingRow]) -> Result<Vec<RowName>, ImportError> {
        if self.options.id_column.is_none() {
            let computed = RowName {
                item_id: None,
                duplicate: None,
            };
            return Ok(vec![computed; rows.len()]);
        }
        let to_name: Vec<RowToName<'_>> = rows
            .iter()
            .map(|row| RowToName {
                seq: row.seq,
                cell: row.id_cell.as_deref(),
            })
            .collect();
        let mut known = KnownIds::new();
        let mut questions = self.ids.first_questions(&to_name);
        loop {
            let asked = questions.clone();
            let owners = self.sink.rows_with_ids(self.job.no, asked).await?;
            for (id, owner) in questions.into_iter().zip(owners) {
                let owner = owner.or_else(|| self.uncommitted.get(&id).copied());
                known.insert(id, owner);
            }
            match self.ids.assign(&to_name, &known) {
                Ok(names) => return Ok(names),
                Err(more) => questions = more,
            }
        }
    }

    pub(super) fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Checks template, id column and filters against columns that are complete.
    pub(super) fn check_columns(&mut self, spec: &InputSpec) {
        let checked = self.template.check(&self.columns, self.options.missing());
        if let Err(error) = checked {
            self.add_problem(Problem::new(error.to_string()));
        }
        if let Some(column) = self.options.id_column.clone()
            && !self.columns.contains(&column)
        {
            let message = format!("id_column {column} was not found in csv headers");
            self.add_problem(Problem::new(message));
        }
        let of_items = [
            ("model_column", self.options.model_column.clone()),
            ("effort_column", self.options.effort_column.clone()),
        ];
        for (option, column) in of_items {
            if let Some(column) = column.filter(|column| !self.columns.contains(column)) {
                let message = format!("{option} {column} was not found in csv headers");
                self.add_problem(Problem::new(message));
            }
        }
        for (column, _) in &spec.filters.values {
            if !self.columns.contains(column) {
                let message = format!("filter column {column} was not found in csv headers");
                self.add_problem(Problem::new(message));
            }
        }
    }

    /// Checks JSON rows, whose columns are known behind the last row only.
    pub(super) fn check_objects(&mut self, spec: &InputSpec) {
        for (name, line) in std::mem::take(&mut self.notes.lacking) {
            if self.columns.contains(&name) {
                let message =
                    format!("row lacks column {name}, which the instruction uses (line {line})");
                self.add_problem(Problem::at(line, message));
            }
        }
        self.check_columns(spec);
    }

    /// The sample that the import asks for.
    pub(super) fn sample(&self) -> Option<Sample> {
        let id_column = self.options.id_column.as_deref();
        Sample::new(&self.notes.input.filters, id_column)
    }

    /// Returns true if rows with equal tasks run once.
    pub(super) fn dedupes(&self) -> bool {
        self.options.dedupe
    }

    /// Returns true if the columns are known behind the last row only.
    pub(super) fn has_objects(&self) -> bool {
        self.notes.source == ImportSource::Items || self.notes.input.format == Format::Jsonl
    }

    /// Ends the job as failed by its problems.
    pub(super) async fn fail(&mut self) -> ImportError {
        let problems = std::mem::take(&mut self.problems);
        let messages: Vec<&str> = problems.iter().map(|one| one.message.as_str()).collect();
        let message = messages.join("; ");
        match self.fail_with(&message).await {
            Ok(()) => ImportError::Problems(problems),
            Err(error) => error,
        }
    }

    /// Ends the job as failed.
    pub(super) async fn fail_with(&mut self, message: &str) -> Result<(), ImportError> {
        let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        for _ in 0..CHANGE_TRIES {
            let change = JobChange {
                job: self.job.no,
                version: self.job.version,
                to: JobTo::Failed {
                    reason: "import".to_owned(),
                    message: message.clone(),
                },
                at_ms: self.clock.now_ms(),
            };
            match self.sink.change_job(&self.job, change).await? {
                ChangedJob::Changed(job) => {
                    self.job = *job;
                    return Ok(());
                }
                ChangedJob::Unchanged(job) if job.state.is_terminal() => {
                    return Err(ImportError::WrongState(job.state));
                }
                ChangedJob::Unchanged(job) => self.job = *job,
            }
        }
        Err(ImportError::UnderWay)
    }

    /// Makes the job ready. Durable.
    pub(super) async fn seal(&mut self) -> Result<JobRow, ImportError> {
        let made = &self.job.made;
        let engine = settings_word(&made.settings, "engine");
        let model = settings_word(&made.settings, "model");
        let fingerprint = fingerprint(FingerprintParts {
            records: self.job.import.hash,
            filters: &self.notes.input.filters,
            instruction: &made.instruction,
            schema: made.schema.as_ref().map(Json::as_str),
            id_column: self.options.id_column.as_deref(),
            engine: engine.as_deref(),
            model: model.as_deref(),
            name: made.name.as_deref(),
        });
        let seal = SealJob {
            job: self.job.no,
            fingerprint,
            at_ms: self.clock.now_ms(),
        };
        self.job = self.sink.seal_job(&self.job, seal).await?;
        Ok(self.job.clone())
    }
}
