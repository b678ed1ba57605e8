//! From what the runtime refuses about jobs to what a caller is told.

use serde_json::json;
use turnlane_protocol::error::MissingThread;
use turnlane_protocol::error::{ErrorObject, InputProblem};
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::fanout::jobs::JobError;
use turnlane_runtime::fanout::jobs::spec::state_word;
use turnlane_runtime::fanout::worktree::TreeWithWork;
use turnlane_runtime::store::fanout::JobState;

use crate::errors::{self, About};

/// The refusal of a call about jobs.
pub(crate) fn of(method: &str, error: &JobError) -> ErrorObject {
    match error {
        JobError::JobNotFound(id) => ErrorObject::job_not_found(id),
        JobError::Ambiguous { word, jobs } => ambiguous(word, jobs),
        JobError::ItemNotFound(id) => ErrorObject::job_item_not_found(id),
        JobError::BadTemplate(why) => ErrorObject::bad_template(why),
        JobError::BadSchema(why) => ErrorObject::bad_schema(why),
        JobError::BadInput(problems) => {
            let problems: Vec<_> = problems.iter().map(shown).collect();
            ErrorObject::bad_input(&problems)
        }
        JobError::BadLimit(why) => ErrorObject::bad_limit(why),
        JobError::NoPrice(model) => ErrorObject::no_price(model),
        JobError::ChannelUnsupported { engine, channel } => {
            ErrorObject::channel_unsupported(engine, channel)
        }
        JobError::NoWorktree(why) => ErrorObject::no_worktree(&why.to_string()),
        JobError::Unlanded(trees) => unlanded(trees),
        JobError::Worktree(why) => {
            errors::invalid(format!("a worktree of the job cannot be removed: {why}"))
        }
        JobError::OutputExists(path) => ErrorObject::output_exists(path),
        JobError::OutputIsInput(path) => ErrorObject::output_is_input(path),
        JobError::WrongState(state) => {
            let verb = method.rsplit('/').next().unwrap_or(method);
            ErrorObject::wrong_job_state(verb, state_word(*state))
        }
        JobError::OffsetMismatch { next } => {
            ErrorObject::offset_mismatch(u64::try_from(*next).unwrap_or(0))
        }
        JobError::Output { .. } => errors::invalid(error.to_string()),
        JobError::Runtime(error) => errors::of(error, &about()),
        JobError::Store(error) => errors::of_store(error, &about()),
        other => ErrorObject::internal(format!("{method} failed: {other}")),
    }
}

/// Names each job by the end of its id, by which a caller may name it.
fn ambiguous(word: &str, jobs: &[(String, JobState)]) -> ErrorObject {
    let ids: Vec<_> = jobs.iter().map(|(id, _)| id.clone()).collect();
    let shown = jobs.iter().map(|(id, state)| {
        let end = id.rsplit('-').next().unwrap_or(id);
        format!("{end} ({})", state_word(*state))
    });
    ErrorObject::ambiguous_job(word, &shown.collect::<Vec<_>>().join(", "), &ids)
}

fn unlanded(trees: &[TreeWithWork]) -> ErrorObject {
    let shown = trees.iter().map(|tree| {
        json!({"itemId": tree.item_id, "branch": tree.branch, "path": tree.path,
            "changedFiles": tree.changed_files, "dirty": tree.dirty, "error": tree.error})
    });
    ErrorObject::unlanded(trees.len(), shown.collect())
}

fn shown(problem: &turnlane_runtime::fanout::jobs::InputProblem) -> InputProblem {
    InputProblem {
        line: problem.line,
        message: problem.message.clone(),
    }
}

/// Errors of the store about jobs name no thread.
fn about() -> About {
    About {
        method: "fanout",
        thread: ThreadId::new(0),
        missing: MissingThread::NotFound,
    }
}
