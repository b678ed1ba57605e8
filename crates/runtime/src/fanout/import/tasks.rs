//! Rows with equal tasks, where a job runs them once.
//!
//! The invariant here: two rows have the same task only if their rendered instructions, models and
//! efforts are equal; the schema is that of the job. Of 128 bits of a hash per row a million rows take
//! about 50 MB, so a job of more rows is refused.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use turnlane_store::fanout::ItemError;

use super::notes::InputOptions;
use crate::fanout::row::{Columns, Row};
use crate::fanout::template::{BoundTemplate, Template};

/// The most rows whose tasks are compared.
const TASKS_MAX: usize = 1_000_000;

/// The hash of a task.
pub(super) type TaskHash = [u8; 16];

/// The tasks of a job, and the first row of each.
#[derive(Default)]
pub(super) struct Tasks {
    first: HashMap<TaskHash, i64>,
    /// The template bound to so many columns.
    bound: Option<(usize, BoundTemplate)>,
}

/// The rows of a job are too many to be compared.
#[derive(Debug, thiserror::Error)]
#[error("dedupe compares at most {TASKS_MAX} different rows")]
pub(super) struct TooManyTasks;

impl Tasks {
    /// The hash of a row's task; none where its prompt cannot be made, which the item tells later.
    pub(super) fn hash(
        &mut self,
        row: &Row,
        columns: &Columns,
        template: &Template,
        options: &InputOptions,
    ) -> Option<TaskHash> {
        let known = columns.names().len();
        if self.bound.as_ref().is_none_or(|(bound, _)| *bound != known) {
            // Unknown placeholders are refused once all columns are known.
            let missing = crate::fanout::template::Missing::Allowed;
            self.bound = Some((known, template.bind(columns, missing).ok()?));
        }
        let (_, bound) = self.bound.as_ref()?;
        let instruction = bound.render(columns, row).ok()?;
        let mut hasher = Sha256::new();
        for column in [&options.model_column, &options.effort_column] {
            let cell = column.as_ref().and_then(|name| row.value(columns, name));
            let cell = cell.as_deref().unwrap_or_default().trim().to_owned();
            hasher.update((cell.len() as u64).to_le_bytes());
            hasher.update(cell);
        }
        hasher.update(instruction);
        hasher.finalize()[..16].try_into().ok()
    }

    /// The row that has the task already; none where this is the first one.
    pub(super) fn first(&mut self, task: TaskHash, seq: i64) -> Result<Option<i64>, TooManyTasks> {
        if let Some(first) = self.first.get(&task) {
            return Ok(Some(*first));
        }
        if self.first.len() >= TASKS_MAX {
            return Err(TooManyTasks);
        }
        self.first.insert(task, seq);
        Ok(None)
    }
}

/// The error of a row that is skipped since another one has its task.
pub(super) fn skip_error(first: i64) -> ItemError {
    ItemError {
        kind: "duplicate".to_owned(),
        message: format!("row {} has the same task", first + 1),
    }
}
