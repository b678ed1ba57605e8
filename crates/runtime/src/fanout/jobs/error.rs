//! What can go wrong with a request about a fan-out job, sorted by what the caller does about it.
//!
//! The invariant here: every variant that a client meets has one word of the wire's `data.reason`.

use turnlane_store::StoreError;
use turnlane_store::fanout::JobState;

use super::spec::state_word;
use crate::error::Error;
use crate::fanout::worktree::{TreeWithWork, WorktreeError};

/// A problem of the input, with the physical line where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    /// The line, from 1; none where the problem has no line.
    pub line: Option<u64>,
    /// The message, for people.
    pub message: String,
}

/// An error of a request about a job.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    // The request is wrong: fix it.
    /// There is no such job.
    #[error("there is no fan-out job {0}")]
    JobNotFound(String),
    /// Several jobs have this name, or ids that end so.
    #[error("several fan-out jobs fit {word}")]
    Ambiguous {
        /// The name, or the end of an id.
        word: String,
        /// Some of the jobs, the newest first.
        jobs: Vec<(String, JobState)>,
    },
    /// The job has no such item.
    #[error("the job has no item {0}")]
    ItemNotFound(String),
    /// The template cannot be used.
    #[error("{0}")]
    BadTemplate(String),
    /// The schema of results cannot be used.
    #[error("{0}")]
    BadSchema(String),
    /// The input cannot be imported; nothing of the job has started.
    #[error("{}", first_message(.0))]
    BadInput(Vec<InputProblem>),
    /// A limit is out of its range.
    #[error("{0}")]
    BadLimit(String),
    /// A cap on cost was asked for, and the model has no known price.
    #[error("the price of model {0} is not known, so its cost cannot be limited")]
    NoPrice(String),
    /// The engine cannot deliver results through this channel.
    #[error("the engine {engine} cannot report results by {channel}")]
    ChannelUnsupported {
        /// The engine.
        engine: String,
        /// The channel.
        channel: &'static str,
    },
    /// The items cannot have worktrees.
    #[error("a worktree per item is not possible: {0}")]
    NoWorktree(WorktreeError),
    /// The output file exists.
    #[error("the output file {0} exists")]
    OutputExists(String),
    /// The output file is the input file.
    #[error("the output file {0} is the input file")]
    OutputIsInput(String),
    /// The output file cannot be written.
    #[error("cannot write {path}: {message}")]
    Output {
        /// The file.
        path: String,
        /// The reason.
        message: String,
    },

    // The job is in another state: read it, then decide.
    /// The state of the job does not allow this.
    #[error("the job is {}", state_word(*.0))]
    WrongState(JobState),
    /// Worktrees of the job have work in them that a deletion would lose.
    #[error("{} worktrees of the job have work in them", .0.len())]
    Unlanded(Vec<TreeWithWork>),
    /// The bytes do not follow the last ones.
    #[error("the next offset is {next}")]
    OffsetMismatch {
        /// The offset at which the import goes on.
        next: i64,
    },

    // Nothing is wrong with the request: try later.
    /// A worktree could not be removed.
    #[error("a worktree of the job cannot be removed: {0}")]
    Worktree(WorktreeError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime refused or failed.
    #[error(transparent)]
    Runtime(#[from] Error),
}

impl JobError {
    /// The wire's word for the error; none where it is not about jobs.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::JobNotFound(_) => Some("jobNotFound"),
            Self::Ambiguous { .. } => Some("ambiguousJob"),
            Self::ItemNotFound(_) => Some("itemNotFound"),
            Self::BadTemplate(_) => Some("badTemplate"),
            Self::BadSchema(_) => Some("badSchema"),
            Self::BadInput(_) => Some("badInput"),
            Self::BadLimit(_) => Some("badLimit"),
            Self::NoPrice(_) => Some("noPrice"),
            Self::ChannelUnsupported { .. } => Some("channelUnsupported"),
            Self::NoWorktree(_) => Some("noWorktree"),
            Self::Unlanded(_) => Some("unlanded"),
            Self::OutputExists(_) => Some("outputExists"),
            Self::OutputIsInput(_) => Some("outputIsInput"),
            Self::WrongState(_) => Some("wrongState"),
            Self::OffsetMismatch { .. } => Some("offsetMismatch"),
            Self::Output { .. } | Self::Worktree(_) | Self::Store(_) | Self::Runtime(_) => None,
        }
    }
}

fn first_message(problems: &[InputProblem]) -> &str {
    let first = problems.first();
    first.map_or("the input cannot be imported", |problem| &problem.message)
}
