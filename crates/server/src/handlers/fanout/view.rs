//! Jobs and items as clients see them.

use serde_json::Value;
use turnlane_protocol::fanout as wire;
use turnlane_protocol::fanout::{
    ItemWorktree, Job, JobAttempt, JobCounts, JobHold, JobImport, JobItem, JobItemDetail,
    JobItemError, JobItemState, JobItemUsage, JobOptions, JobSettings, JobState, JobStatus,
    JobUsage, JobWorktrees, KeepThreads, OnDuplicate, OnItemLoss, RawJson, ResultChannel,
    SharedFile, Worktree, WorktreeState,
};
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_runtime::fanout::ids;
use turnlane_runtime::fanout::jobs::{self, spec};
use turnlane_runtime::fanout::worktree::{TreeRecord, TreeState, TreesNote};
use turnlane_runtime::store::Json;
use turnlane_runtime::store::fanout as stored;

/// A job. `now_ms` turns the rest of a hold into a time.
pub(crate) fn job(job: &jobs::Job, now_ms: i64) -> Job {
    let made = &job.row.made;
    let thread = &job.settings.thread;
    Job {
        status: status(job, now_ms),
        instruction: made.instruction.clone(),
        output_schema: made.schema.as_ref().and_then(read),
        settings: JobSettings {
            engine: Some(job.settings.engine.clone()),
            model: Some(thread.model.clone()),
            model_provider: Some(thread.provider.clone()),
            effort: thread.effort.clone(),
            cwd: Some(thread.cwd.clone()),
            sandbox: Some(thread.sandbox_policy.clone()),
            approval_policy: Some(thread.approval_policy),
            model_column: job.options.model_column.clone(),
            effort_column: job.options.effort_column.clone(),
            worktree: Some(match job.settings.worktree {
                None => Worktree::None,
                Some(_) => Worktree::Item,
            }),
            ..JobSettings::default()
        },
        options: options(&job.options),
    }
}

fn options(options: &jobs::JobOptions) -> JobOptions {
    JobOptions {
        on_duplicate: match options.on_duplicate {
            ids::OnDuplicate::Error => OnDuplicate::Error,
            ids::OnDuplicate::Skip => OnDuplicate::Skip,
            ids::OnDuplicate::Suffix => OnDuplicate::Suffix,
        },
        allow_missing: options.allow_missing,
        on_crash: match options.on_crash {
            spec::OnCrash::Continue => OnItemLoss::Continue,
            spec::OnCrash::Restart => OnItemLoss::Restart,
            spec::OnCrash::Fail => OnItemLoss::Fail,
        },
        keep_threads: options.keep_threads.map(|keep| match keep {
            spec::KeepThreads::All => KeepThreads::All,
            spec::KeepThreads::Failed => KeepThreads::Failed,
            spec::KeepThreads::None => KeepThreads::None,
        }),
        end_on_report: options.end_on_report,
        repair_turns: options.repair_turns,
        dedupe: options.dedupe,
    }
}

fn status(job: &jobs::Job, now_ms: i64) -> JobStatus {
    let row = &job.row;
    let made = &row.made;
    let held_ms = job.hold_ms.and_then(|left| i64::try_from(left).ok());
    JobStatus {
        id: made.id.clone(),
        name: made.name.clone(),
        state: state(row.state),
        reason: row.reason.clone(),
        reason_message: row.reason_message.clone(),
        resume_at_ms: row.resume_ms,
        owner: match made.owner {
            stored::JobOwner::Detached => wire::JobOwner::Detached,
            stored::JobOwner::Connection => wire::JobOwner::Connection,
            stored::JobOwner::Turn => wire::JobOwner::Turn,
        },
        parent_thread_id: made
            .parent_thread
            .map(|id| ThreadId::from_uuid(id.as_uuid())),
        parent_turn_id: made.parent_turn.map(|id| TurnId::from_uuid(id.as_uuid())),
        version: row.version,
        result_channel: match made.channel.as_str() {
            "message" => ResultChannel::Message,
            "text" => ResultChannel::Text,
            _ => ResultChannel::Tool,
        },
        id_column: job.options.id_column.clone(),
        columns: read(&row.columns).unwrap_or_default(),
        limits: read(&made.limits).unwrap_or_default(),
        current_limit: made.current_limit,
        hold: held_ms.map(|left| JobHold {
            kind: "rate_limited".to_owned(),
            message: None,
            until_ms: Some(now_ms.saturating_add(left)),
        }),
        import: JobImport {
            bytes: row.import.offset,
            rows: row.total,
            blank_rows: row.import.blank_rows,
            hash: hex(&row.import.hash),
            warnings: warnings(&row.import.notes),
        },
        counts: JobCounts {
            total: row.total,
            pending: row.pending(),
            running: row.counts.running,
            succeeded: row.counts.succeeded,
            failed: row.counts.failed,
            skipped: row.counts.skipped,
            cancelled: row.counts.cancelled,
        },
        usage: JobUsage {
            tokens: usage(row.counts.usage),
            attempts: row.counts.attempts,
        },
        worktrees: worktrees(job),
        export_path: made.export_path.clone(),
        export_error: row.export_error.clone(),
        created_at_ms: made.at_ms,
        started_at_ms: row.started_ms,
        ended_at_ms: row.ended_ms,
    }
}

/// The worktrees of a job's items; none where all items work in one directory.
fn worktrees(job: &jobs::Job) -> Option<JobWorktrees> {
    let trees = job.settings.worktree.as_ref()?;
    let note = TreesNote::of_notes(&job.row.import.notes);
    let shared_files = note.shared_files.into_iter().map(|file| SharedFile {
        path: file.path,
        item_ids: file.item_ids,
        items: file.items,
    });
    Some(JobWorktrees {
        directory: trees.directory.clone(),
        base: trees.base.clone(),
        kept: note.kept,
        shared_files: shared_files.collect(),
    })
}

/// The worktrees of an item, the newest first.
fn trees_of(item: &stored::FanoutItem) -> Vec<ItemWorktree> {
    let record = TreeRecord::of_item(item.branch.as_ref());
    let trees = record.iter().flat_map(TreeRecord::all);
    let shown = trees.map(|tree| ItemWorktree {
        branch: tree.branch.clone(),
        path: tree.path.clone(),
        state: match tree.state {
            TreeState::Open => WorktreeState::Open,
            TreeState::Removing => WorktreeState::Removing,
            TreeState::Removed => WorktreeState::Removed,
            TreeState::Kept => WorktreeState::Kept,
        },
        head: tree.head.clone(),
        changed_files: tree.changed_files.clone(),
        changed_count: tree.changed_count,
        dirty: tree.dirty,
        error: tree.error.clone(),
    });
    shown.collect()
}

/// An item without row, result and attempts. `dup_of` is the id of the row whose number it has.
pub(crate) fn item(
    item: &stored::FanoutItem,
    source_id: Option<String>,
    dup_of: Option<String>,
) -> JobItem {
    let is_waiting = item.state == stored::ItemState::Pending && item.not_before_ms > 0;
    JobItem {
        item_id: item.item_id.clone(),
        seq: item.seq,
        source_id,
        state: item_state(item.state),
        attempt: item.attempt,
        not_before_ms: is_waiting.then_some(item.not_before_ms),
        thread_id: item.thread.map(|id| ThreadId::from_uuid(id.as_uuid())),
        error: item.error.as_ref().map(error),
        dup_of,
        branch: item.branch.as_ref().and_then(branch),
        usage: usage(item.usage),
        started_at_ms: item.started_ms,
        reported_at_ms: item.reported_ms,
        ended_at_ms: item.ended_ms,
    }
}

/// The cell of the id column as it was in the input.
pub(super) fn source_id(read_item: &jobs::Item, column: &str) -> Option<String> {
    let columns: Vec<String> = read(&read_item.columns).unwrap_or_default();
    cell(&read_item.detail.cells, &columns, column)
}

/// An item with its row, result and attempts; none where what is stored cannot be read.
pub(super) fn detail(
    read_item: &jobs::Item,
    id_column: Option<&str>,
    dup_of: Option<String>,
) -> Option<JobItemDetail> {
    let stored = &read_item.detail;
    let columns: Vec<String> = read(&read_item.columns).unwrap_or_default();
    let source_id = id_column.and_then(|column| source_id(read_item, column));
    Some(JobItemDetail {
        item: item(&stored.item, source_id, dup_of),
        row: row(&stored.cells, &columns)?,
        result: stored.result.as_ref().and_then(raw),
        attempts: stored.attempts.iter().map(attempt).collect(),
        worktrees: trees_of(&stored.item),
    })
}

fn attempt(attempt: &stored::AttemptRow) -> JobAttempt {
    JobAttempt {
        attempt: attempt.attempt,
        thread_id: ThreadId::from_uuid(attempt.thread.as_uuid()),
        turn_id: TurnId::from_uuid(attempt.turn.as_uuid()),
        outcome: attempt.outcome.map(|outcome| match outcome {
            stored::AttemptOutcome::Reported => wire::AttemptOutcome::Reported,
            stored::AttemptOutcome::Failed => wire::AttemptOutcome::Failed,
            stored::AttemptOutcome::Lost => wire::AttemptOutcome::Lost,
            stored::AttemptOutcome::Superseded => wire::AttemptOutcome::Superseded,
            stored::AttemptOutcome::Interrupted => wire::AttemptOutcome::Interrupted,
        }),
        error: attempt.error.as_ref().map(error),
        started_at_ms: attempt.started_ms,
        ended_at_ms: attempt.ended_ms,
        usage: usage(attempt.usage),
    }
}

/// The row as an object with the columns in input order. Cells of a table are stored as an array.
fn row(cells: &Json, columns: &[String]) -> Option<RawJson> {
    let text = cells.as_str();
    if !text.starts_with('[') {
        return raw(cells);
    }
    let cells: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).ok()?;
    let mut object = String::from("{");
    for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if index > 0 {
            object.push(',');
        }
        object.push_str(&Value::from(column.as_str()).to_string());
        object.push(':');
        object.push_str(cell.get());
    }
    object.push('}');
    RawJson::new(object).ok()
}

/// One cell as text.
fn cell(cells: &Json, columns: &[String], column: &str) -> Option<String> {
    let value = match serde_json::from_str(cells.as_str()).ok()? {
        Value::Array(mut cells) => {
            let index = columns.iter().position(|name| name == column)?;
            cells.get_mut(index).map(Value::take)
        }
        Value::Object(mut cells) => cells.remove(column),
        _ => None,
    };
    match value? {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn branch(branch: &Json) -> Option<String> {
    match read(branch)? {
        Value::String(name) => Some(name),
        Value::Object(mut members) => match members.remove("branch")? {
            Value::String(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

fn error(error: &stored::ItemError) -> JobItemError {
    JobItemError {
        kind: error.kind.clone(),
        message: error.message.clone(),
    }
}

fn usage(usage: stored::ItemUsage) -> JobItemUsage {
    JobItemUsage {
        input_tokens: usage.input_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_output_tokens: usage.reasoning_output_tokens,
        total_tokens: usage.total_tokens,
        cost_usd: None,
    }
}

/// The warnings among the notes of an import.
fn warnings(notes: &Json) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Notes {
        #[serde(default)]
        warnings: Vec<String>,
    }
    read::<Notes>(notes).map_or_else(Vec::new, |notes| notes.warnings)
}

fn read<T: serde::de::DeserializeOwned>(json: &Json) -> Option<T> {
    serde_json::from_str(json.as_str()).ok()
}

fn raw(json: &Json) -> Option<RawJson> {
    RawJson::new(json.as_str().to_owned()).ok()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn state(state: stored::JobState) -> JobState {
    match state {
        stored::JobState::Importing => JobState::Importing,
        stored::JobState::Ready => JobState::Ready,
        stored::JobState::Running => JobState::Running,
        stored::JobState::Paused => JobState::Paused,
        stored::JobState::Cancelling => JobState::Cancelling,
        stored::JobState::Succeeded => JobState::Succeeded,
        stored::JobState::FinishedWithFailures => JobState::FinishedWithFailures,
        stored::JobState::Cancelled => JobState::Cancelled,
        stored::JobState::Failed => JobState::Failed,
    }
}

/// The states of the store that clients name.
pub(super) fn stored_job_states(states: Option<&[JobState]>) -> Vec<stored::JobState> {
    let states = states.unwrap_or_default().iter();
    let states = states.map(|state| match state {
        JobState::Importing => stored::JobState::Importing,
        JobState::Ready => stored::JobState::Ready,
        JobState::Running => stored::JobState::Running,
        JobState::Paused => stored::JobState::Paused,
        JobState::Cancelling => stored::JobState::Cancelling,
        JobState::Succeeded => stored::JobState::Succeeded,
        JobState::FinishedWithFailures => stored::JobState::FinishedWithFailures,
        JobState::Cancelled => stored::JobState::Cancelled,
        JobState::Failed => stored::JobState::Failed,
    });
    states.collect()
}

fn item_state(state: stored::ItemState) -> JobItemState {
    match state {
        stored::ItemState::Pending => JobItemState::Pending,
        stored::ItemState::Running => JobItemState::Running,
        stored::ItemState::Succeeded => JobItemState::Succeeded,
        stored::ItemState::Failed => JobItemState::Failed,
        stored::ItemState::Skipped => JobItemState::Skipped,
        stored::ItemState::Cancelled => JobItemState::Cancelled,
    }
}

/// The same for items.
pub(super) fn stored_item_states(states: Option<&[JobItemState]>) -> Vec<stored::ItemState> {
    let states = states.unwrap_or_default().iter();
    let states = states.map(|state| match state {
        JobItemState::Pending => stored::ItemState::Pending,
        JobItemState::Running => stored::ItemState::Running,
        JobItemState::Succeeded => stored::ItemState::Succeeded,
        JobItemState::Failed => stored::ItemState::Failed,
        JobItemState::Skipped => stored::ItemState::Skipped,
        JobItemState::Cancelled => stored::ItemState::Cancelled,
    });
    states.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_become_an_object_in_the_order_of_the_columns() {
        let columns = ["b\"".to_owned(), "a".to_owned()];
        let cells = Json::new(r#"["x",1.10]"#);
        let shown = row(&cells, &columns).unwrap();
        assert_eq!(shown.as_str(), r#"{"b\"":"x","a":1.10}"#);
        assert_eq!(cell(&cells, &columns, "b\""), Some("x".to_owned()));
        let object = Json::new(r#"{"z":1,"a":" x "}"#);
        assert_eq!(row(&object, &columns).unwrap().as_str(), object.as_str());
        assert_eq!(cell(&object, &columns, "a"), Some(" x ".to_owned()));
        assert_eq!(cell(&object, &columns, "none"), None);
    }
}
