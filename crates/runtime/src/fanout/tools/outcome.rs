//! The result text of `spawn_agents_on_csv`: compact JSON with its members in a fixed order.
//!
//! The invariant here: a job in which an item failed never says that everything went well.

use std::path::Path;

use serde::Serialize;
use turnlane_store::fanout::{ItemState, JobState};

use super::status_word;
use crate::fanout::import::ImportNotes;
use crate::fanout::jobs::spec::state_word;
use crate::fanout::jobs::{Job, JobError, Jobs};
use crate::fanout::row::{Columns, Row};

/// Failed items that are named.
const FAILURES_NAMED: u32 = 5;

#[derive(Serialize)]
struct Outcome {
    job_id: String,
    status: &'static str,
    output_csv_path: String,
    total_items: i64,
    completed_items: i64,
    failed_items: i64,
    job_error: Option<String>,
    failed_item_errors: Vec<FailedItem>,
    skipped_items: i64,
    cancelled_items: i64,
    pending_items: i64,
    state: &'static str,
    warnings: Vec<String>,
    usage: Usage,
}

#[derive(Serialize)]
struct FailedItem {
    item_id: String,
    source_id: Option<String>,
    last_error: String,
}

#[derive(Serialize)]
struct Usage {
    total_tokens: i64,
}

/// The text for the model about a job that has ended, is paused, or was only started.
pub(super) async fn text(jobs: &Jobs, job: Job, output: &Path) -> Result<String, String> {
    let failures = failures(jobs, &job).await;
    let failures = failures.map_err(|error| error.to_string())?;
    let row = &job.row;
    let counts = &row.counts;
    let status = status_word(row.state, counts.succeeded, counts.failed);
    let notes = ImportNotes::of_job(row).unwrap_or_default();
    let reason = || {
        let reason = row.reason.clone().unwrap_or_default();
        let message = row.reason_message.as_ref();
        message.map_or_else(|| reason.clone(), |message| format!("{reason}: {message}"))
    };
    let job_error = match status {
        "paused" => Some(format!(
            "{}; continue it with: turnlane fanout resume {}",
            reason(),
            row.made.id
        )),
        "failed" if row.state == JobState::Failed => Some(reason()),
        "failed" => Some("no item succeeded".to_owned()),
        _ => row.export_error.clone(),
    };
    let outcome = Outcome {
        job_id: row.made.id.clone(),
        status,
        output_csv_path: output.to_string_lossy().into_owned(),
        total_items: row.total,
        completed_items: counts.succeeded,
        failed_items: counts.failed,
        job_error,
        failed_item_errors: failures,
        skipped_items: counts.skipped,
        cancelled_items: counts.cancelled,
        pending_items: row.pending(),
        state: state_word(row.state),
        warnings: notes.warnings,
        usage: Usage {
            total_tokens: counts.usage.total_tokens,
        },
    };
    serde_json::to_string(&outcome).map_err(|error| error.to_string())
}

async fn failures(jobs: &Jobs, job: &Job) -> Result<Vec<FailedItem>, JobError> {
    let id = &job.row.made.id;
    let mut failed = Vec::new();
    let mut from_seq = Some(0);
    let wanted = usize::try_from(FAILURES_NAMED).unwrap_or(usize::MAX);
    while let Some(seq) = from_seq.filter(|_| failed.len() < wanted) {
        let page = jobs
            .items(id, seq, vec![ItemState::Failed], FAILURES_NAMED)
            .await?;
        from_seq = page.next_seq;
        failed.extend(page.items);
    }
    failed.truncate(wanted);
    let mut shown = Vec::new();
    for item in failed {
        let last_error = item.error.as_ref().map_or_else(String::new, |error| {
            format!("{}: {}", error.kind, error.message)
        });
        shown.push(FailedItem {
            source_id: source_id(jobs, job, &item.item_id).await?,
            item_id: item.item_id,
            last_error,
        });
    }
    Ok(shown)
}

/// The id cell of an item as it was.
async fn source_id(jobs: &Jobs, job: &Job, item: &str) -> Result<Option<String>, JobError> {
    let Some(column) = &job.options.id_column else {
        return Ok(None);
    };
    let item = jobs.item(&job.row.made.id, item).await?;
    let (Ok(columns), Ok(row)) = (
        Columns::from_stored(&item.columns),
        Row::from_stored(&item.detail.cells),
    ) else {
        return Ok(None);
    };
    let cell = row.value(&columns, column);
    Ok(cell.map(std::borrow::Cow::into_owned))
}
