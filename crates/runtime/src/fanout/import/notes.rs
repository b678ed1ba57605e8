//! The notes that a job keeps of its import, the options an import reads, and the job's fingerprint.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use turnlane_store::Json;
use turnlane_store::fanout::JobRow;

use super::ImportError;
use crate::fanout::ids::OnDuplicate;
use crate::fanout::input::{Filters, InputSpec, ReaderState};
use crate::fanout::template::Missing;

/// The members of a job's `options` that its import reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputOptions {
    /// The column with an id per row.
    pub id_column: Option<String>,
    /// The treatment of equal ids.
    pub on_duplicate: OnDuplicate,
    /// True if the template may name columns that the input does not have.
    pub allow_missing: bool,
    /// True if rows with equal tasks run once.
    pub dedupe: bool,
    /// The column with each item's model.
    pub model_column: Option<String>,
    /// The column with each item's reasoning effort.
    pub effort_column: Option<String>,
}

impl InputOptions {
    /// Reads the options of a job.
    pub fn of_job(job: &JobRow) -> Result<Self, ImportError> {
        let options = serde_json::from_str(job.made.options.as_str());
        options.map_err(|error| ImportError::Stored(error.to_string()))
    }

    /// The treatment of missing columns.
    pub const fn missing(&self) -> Missing {
        if self.allow_missing {
            Missing::Allowed
        } else {
            Missing::Refused
        }
    }
}

/// The source of a job's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ImportSource {
    /// None so far.
    #[default]
    None,
    /// A file of the server.
    Path {
        /// Its path.
        path: PathBuf,
    },
    /// Chunks that a client sends.
    Stream,
    /// Rows that a client adds.
    Items,
}

/// The notes of an import, kept with its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportNotes {
    /// The source of the rows.
    pub source: ImportSource,
    /// How the source is read.
    pub input: InputSpec,
    /// The state of the reader behind the last committed record.
    pub(super) reader: Option<ReaderState>,
    /// The source was read to its end.
    pub ended: bool,
    /// For each placeholder the line of the first row that lacks it; JSONL only.
    pub(super) lacking: BTreeMap<String, u64>,
    /// Things that people should know.
    pub warnings: Vec<String>,
}

impl ImportNotes {
    /// Reads the notes of a job.
    pub fn of_job(job: &JobRow) -> Result<Self, ImportError> {
        let notes = serde_json::from_str(job.import.notes.as_str());
        notes.map_err(|error| ImportError::Stored(error.to_string()))
    }

    pub(super) fn to_stored(&self) -> Result<Json, ImportError> {
        let text = serde_json::to_string(self);
        let text = text.map_err(|error| ImportError::Stored(error.to_string()))?;
        Ok(Json::new(text))
    }
}

/// The parts of a job that make it the same run again.
#[derive(Clone, Copy, Debug)]
pub struct FingerprintParts<'a> {
    /// The hash chained over all records.
    pub records: [u8; 32],
    /// The filters.
    pub filters: &'a Filters,
    /// The template.
    pub instruction: &'a str,
    /// The schema, as text.
    pub schema: Option<&'a str>,
    /// The id column.
    pub id_column: Option<&'a str>,
    /// The engine.
    pub engine: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// The name of the job.
    pub name: Option<&'a str>,
}

/// Identifies records, filters, template, schema, id column, engine, model and name of a job.
pub fn fingerprint(parts: FingerprintParts<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(parts.records);
    let mut add = |text: Option<&str>| {
        // A length keeps texts apart; none is another than an empty one.
        let len = text.map_or(u64::MAX, |text| text.len() as u64);
        hasher.update(len.to_le_bytes());
        hasher.update(text.unwrap_or_default());
    };
    let filters = parts.filters;
    for (column, value) in &filters.values {
        add(Some(column));
        add(Some(value));
    }
    add(None);
    add(Some(&filters.offset.to_string()));
    add(filters.limit.map(|limit| limit.to_string()).as_deref());
    // Jobs without a sample keep the fingerprint they were stored with.
    if let Some(sample) = filters.sample {
        add(Some(&format!("sample {sample}")));
        add(filters.sample_key.as_deref());
    }
    add(Some(parts.instruction));
    add(parts.schema);
    add(parts.id_column);
    add(parts.engine);
    add(parts.model);
    add(parts.name);
    hasher.finalize().into()
}

/// A member of stored settings that is a text.
pub fn settings_word(settings: &Json, member: &str) -> Option<String> {
    let settings: Value = serde_json::from_str(settings.as_str()).ok()?;
    settings.get(member)?.as_str().map(str::to_owned)
}
