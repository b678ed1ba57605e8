//! The exact errors about fan-out jobs.
//!
//! The texts of bad templates, schemas, inputs and limits come from the runtime, which finds the
//! mistake; this file gives them their word.

use serde_json::{Value, json};

use super::{ErrorObject, INVALID_REQUEST, Reason, cut, quoted};

/// The most problems of an input that one error names.
const PROBLEMS_MAX: usize = 20;

/// A problem of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    /// The physical line of the input, from 1; none where the problem is not about a line.
    pub line: Option<u64>,
    /// The problem, for people.
    pub message: String,
}

fn refused(reason: Reason, message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_REQUEST, reason, message)
}

/// Refusals about fan-out jobs.
impl ErrorObject {
    /// No job has this id.
    pub fn job_not_found(id: &str) -> Self {
        let message = format!("job not found: {}", quoted(id));
        refused(Reason::JobNotFound, message)
    }

    /// Several jobs have this name or end of an id. `shown` names them for people, `ids` for programs.
    pub fn ambiguous_job(word: &str, shown: &str, ids: &[String]) -> Self {
        let message = format!("several jobs fit {}: {shown}", quoted(word));
        refused(Reason::AmbiguousJob, message).with("jobIds", ids)
    }

    /// No item of the job has this id.
    pub fn job_item_not_found(id: &str) -> Self {
        let message = format!("item not found: {}", quoted(id));
        refused(Reason::ItemNotFound, message)
    }

    /// The state of the job does not allow the call; `wanted` is a verb.
    pub fn wrong_job_state(wanted: &str, state: &str) -> Self {
        let message = format!("cannot {wanted} a job in state {state}");
        refused(Reason::WrongState, message).with("state", state)
    }

    /// The template cannot be used.
    pub fn bad_template(why: &str) -> Self {
        refused(Reason::BadTemplate, why)
    }

    /// The schema of results cannot be used.
    pub fn bad_schema(why: &str) -> Self {
        refused(Reason::BadSchema, why)
    }

    /// The input cannot be imported; the message is that of the first problem.
    pub fn bad_input(problems: &[InputProblem]) -> Self {
        let first = problems.first();
        let message = first.map_or("the input cannot be imported", |first| &first.message);
        let problems: Vec<Value> = problems
            .iter()
            .take(PROBLEMS_MAX)
            .map(|problem| json!({"line": problem.line, "message": cut(problem.message.clone())}))
            .collect();
        refused(Reason::BadInput, message).with("problems", problems)
    }

    /// A limit is out of range.
    pub fn bad_limit(why: &str) -> Self {
        refused(Reason::BadLimit, why)
    }

    /// The price of the model is not known, so that a cost cannot be limited.
    pub fn no_price(model: &str) -> Self {
        let message = format!(
            "the price of model {} is not known; maxCostUsd cannot be checked",
            quoted(model)
        );
        refused(Reason::NoPrice, message)
    }

    /// The engine cannot deliver results on the channel.
    pub fn channel_unsupported(engine: &str, channel: &str) -> Self {
        let message = format!("engine {engine} cannot deliver results by {channel}");
        refused(Reason::ChannelUnsupported, message).with("engine", engine)
    }

    /// The items of a job cannot have worktrees.
    pub fn no_worktree(why: &str) -> Self {
        let message = format!("a worktree per item is not possible: {why}");
        refused(Reason::NoWorktree, message)
    }

    /// Worktrees of a job have work in them; `trees` are those of the answer, `count` is all of them.
    pub fn unlanded(count: usize, trees: Vec<Value>) -> Self {
        let message = match count {
            1 => "1 worktree of the job has work in it".to_owned(),
            count => format!("{count} worktrees of the job have work in them"),
        };
        let trees: Vec<Value> = trees.into_iter().take(PROBLEMS_MAX).collect();
        refused(Reason::Unlanded, message).with("worktrees", trees)
    }

    /// The output file exists.
    pub fn output_exists(path: &str) -> Self {
        let message = format!("output file exists: {path}");
        refused(Reason::OutputExists, message).with("path", path)
    }

    /// The output file is the input file.
    pub fn output_is_input(path: &str) -> Self {
        let message = format!("output file is the input file: {path}");
        refused(Reason::OutputIsInput, message).with("path", path)
    }

    /// Bytes or rows behind the place that is wanted next.
    pub fn offset_mismatch(next: u64) -> Self {
        let message = format!("the next offset is {next}");
        refused(Reason::OffsetMismatch, message).with("nextOffset", next)
    }

    /// A path of the server in a call that came over the network.
    pub fn server_path_local_only(method: &str) -> Self {
        let message = format!("{method} takes paths of the server only on local connections");
        refused(Reason::LocalOnly, message)
    }
}
