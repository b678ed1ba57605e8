//! What a job is made with, and how it is stored.
//!
//! The invariant here: what is stored with a job is read back by every later version: fields are
//! added with a default and never change their meaning.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_store::fanout::JobState;

use crate::fanout::export::ExportFormat;
use crate::fanout::ids::OnDuplicate;
use crate::fanout::prompt::ResultChannel;
use crate::fanout::worktree::JobTrees;
use crate::settings::Settings;

/// The longest template, in bytes.
pub const INSTRUCTION_BYTES_MAX: usize = 256 * 1024;
/// The most items of one job that run at once.
pub const CONCURRENCY_MAX: u32 = 1_024;

/// A job to be made.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The name, for people.
    pub name: Option<String>,
    /// The client's key: a second job with it is not made.
    pub client_job_id: Option<String>,
    /// The template.
    pub instruction: String,
    /// The JSON Schema that every result fits.
    pub output_schema: Option<Value>,
    /// The way results arrive.
    pub channel: ChannelChoice,
    /// The owner.
    pub owner: Owner,
    /// The engine of the items' threads.
    pub engine: String,
    /// The settings of the items' threads.
    pub settings: Settings,
    /// The kind of directory in which an item works.
    pub worktree: WorktreeChoice,
    /// The limits.
    pub limits: JobLimits,
    /// The other options.
    pub options: JobOptions,
    /// The file that results are written to when the job ends.
    pub export_path: Option<String>,
}

impl JobSpec {
    /// A detached job with this template, engine and settings, and the usual rest.
    pub fn new(
        instruction: impl Into<String>,
        engine: impl Into<String>,
        settings: Settings,
    ) -> Self {
        let engine = engine.into();
        Self {
            name: None,
            client_job_id: None,
            instruction: instruction.into(),
            output_schema: None,
            channel: ChannelChoice::Auto,
            owner: Owner::Detached,
            limits: JobLimits::for_engine(&engine),
            engine,
            settings,
            worktree: WorktreeChoice::None,
            options: JobOptions::default(),
            export_path: None,
        }
    }
}

/// The owner of a job that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// None: every serving worker continues it.
    Detached,
    /// The process that started it.
    Connection,
    /// The turn whose agent called for it.
    Turn {
        /// Its thread.
        thread: ThreadId,
        /// The turn.
        turn: TurnId,
    },
}

/// The kind of directory in which an item works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeChoice {
    /// The directory of the job, as all items do.
    None,
    /// A git worktree of its own.
    Item,
}

/// The channel that the caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelChoice {
    /// The usual one of the engine.
    Auto,
    /// This one, or the job is refused.
    Only(ResultChannel),
}

/// The limits of a job, as they are stored and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLimits {
    /// Items that run at once, over all workers.
    pub concurrency: u32,
    /// Item starts per second; none without a limit.
    #[serde(default)]
    pub start_rate: Option<u32>,
    /// Further attempts of an item after its first.
    pub retries: u32,
    /// The longest attempt, in milliseconds.
    pub timeout_ms: u64,
    /// The longest silence of an engine that runs no command, in milliseconds.
    #[serde(default = "ten_minutes_ms")]
    pub idle_timeout_ms: u64,
    /// The longest run of the whole job, in milliseconds.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// The failures at which the job pauses.
    #[serde(default)]
    pub max_failures: Option<MaxFailures>,
    /// The most tokens of all attempts.
    #[serde(default)]
    pub max_tokens: Option<i64>,
    /// The most money of all attempts.
    #[serde(default)]
    pub max_cost_usd: Option<f64>,
    /// The most attempts of all items.
    #[serde(default)]
    pub max_attempts: Option<i64>,
    /// The time between a request to stop and the interrupt, in milliseconds.
    pub grace_ms: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            concurrency: 8,
            start_rate: None,
            retries: 2,
            timeout_ms: 30 * 60 * 1_000,
            idle_timeout_ms: ten_minutes_ms(),
            deadline_ms: None,
            max_failures: Some(MaxFailures::Percent(20)),
            max_tokens: None,
            max_cost_usd: None,
            max_attempts: None,
            grace_ms: 30_000,
        }
    }
}

impl JobLimits {
    /// The usual limits of a job on this engine.
    pub fn for_engine(engine: &str) -> Self {
        if is_own_engine(engine) {
            return Self::default();
        }
        // Each item of such an engine is a process.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            concurrency: 4,
            start_rate: u32::try_from(cores * 2).ok(),
            ..Self::default()
        }
    }

    /// The reason why the limits cannot be used.
    pub fn problem(&self) -> Option<String> {
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Some(format!("concurrency must be 1 to {CONCURRENCY_MAX}"));
        }
        let positive = [
            ("timeoutMs", Some(self.timeout_ms) == Some(0)),
            ("idleTimeoutMs", self.idle_timeout_ms == 0),
            ("startRate", self.start_rate == Some(0)),
            ("deadlineMs", self.deadline_ms == Some(0)),
            ("maxTokens", self.max_tokens.is_some_and(|max| max < 1)),
            ("maxAttempts", self.max_attempts.is_some_and(|max| max < 1)),
        ];
        let wrong = positive.into_iter().find(|(_, is_wrong)| *is_wrong);
        if let Some((name, _)) = wrong {
            return Some(format!("{name} must be >= 1"));
        }
        match self.max_failures {
            Some(MaxFailures::Percent(percent)) if percent > 100 => {
                Some("maxFailures must be at most 100%".to_owned())
            }
            _ => None,
        }
    }
}

/// The failures at which a job pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FailuresText", into = "FailuresText")]
pub enum MaxFailures {
    /// More failed items than this.
    Count(i64),
    /// More than this share of the finished items, from 20 finished items on.
    Percent(u8),
}

/// A number, or a text such as `5` or `20%`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FailuresText {
    Number(i64),
    Text(String),
}

impl TryFrom<FailuresText> for MaxFailures {
    type Error = String;

    fn try_from(text: FailuresText) -> Result<Self, String> {
        match text {
            FailuresText::Number(count) if count >= 0 => Ok(Self::Count(count)),
            FailuresText::Number(_) => Err("maxFailures must not be negative".to_owned()),
            FailuresText::Text(text) => text.parse(),
        }
    }
}

impl From<MaxFailures> for FailuresText {
    fn from(max: MaxFailures) -> Self {
        match max {
            MaxFailures::Count(count) => Self::Number(count),
            MaxFailures::Percent(percent) => Self::Text(format!("{percent}%")),
        }
    }
}

impl std::str::FromStr for MaxFailures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("maxFailures is a count or a percentage, not {text}");
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent: u8 = percent.parse().map_err(|_| wrong())?;
                (percent <= 100)
                    .then_some(Self::Percent(percent))
                    .ok_or_else(wrong)
            }
            None => text
                .parse()
                .ok()
                .filter(|count| *count >= 0)
                .map(Self::Count)
                .ok_or_else(wrong),
        }
    }
}

/// The options of a job that are no limits, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a member of the stored options"
)]
pub struct JobOptions {
    /// The column that holds the items' ids.
    #[serde(default)]
    pub id_column: Option<String>,
    /// What becomes of a row whose id another row has.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// True if placeholders without a column and rows without a used column are allowed.
    #[serde(default)]
    pub allow_missing: bool,
    /// What becomes of an item whose worker died after the first output.
    #[serde(default)]
    pub on_crash: OnCrash,
    /// The threads of ended items that are kept; none: by the number of rows.
    #[serde(default)]
    pub keep_threads: Option<KeepThreads>,
    /// True if a turn ends with its accepted report.
    #[serde(default = "yes")]
    pub end_on_report: bool,
    /// The repair turns of one attempt.
    #[serde(default = "one")]
    pub repair_turns: u32,
    /// True if items with equal prompts run once.
    #[serde(default)]
    pub dedupe: bool,
    /// The column that holds each item's model; a blank cell means that of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_column: Option<String>,
    /// The column that holds each item's reasoning effort; a blank cell means that of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort_column: Option<String>,
    /// The format of the file that results are written to.
    #[serde(default)]
    pub export_format: ExportFormat,
    /// True if an existing file is replaced.
    #[serde(default)]
    pub export_overwrite: bool,
    /// True if cells that look like formulas are written as they are.
    #[serde(default)]
    pub export_raw: bool,
    /// True if the breaker counts only the first ten items.
    #[serde(default)]
    pub agent_tool: bool,
}

impl JobOptions {
    /// The threads of ended items that a job with so many rows keeps.
    pub(crate) fn keeps(&self, rows: i64) -> KeepThreads {
        /// Rows up to which all threads of a job are kept by default.
        const KEPT_BY_DEFAULT_MAX: i64 = 10_000;
        let by_size = if rows <= KEPT_BY_DEFAULT_MAX {
            KeepThreads::All
        } else {
            KeepThreads::Failed
        };
        self.keep_threads.unwrap_or(by_size)
    }
}

fn ten_minutes_ms() -> u64 {
    10 * 60 * 1_000
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            id_column: None,
            on_duplicate: OnDuplicate::Error,
            allow_missing: false,
            on_crash: OnCrash::Continue,
            keep_threads: None,
            end_on_report: true,
            repair_turns: 1,
            dedupe: false,
            model_column: None,
            effort_column: None,
            export_format: ExportFormat::Csv,
            export_overwrite: false,
            export_raw: false,
            agent_tool: false,
        }
    }
}

/// What becomes of an item whose worker died after the first output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnCrash {
    /// It goes on in the same thread.
    #[default]
    Continue,
    /// It starts anew in a new thread.
    Restart,
    /// It fails.
    Fail,
}

/// The threads of ended items that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeepThreads {
    /// All.
    All,
    /// Those of items that failed.
    Failed,
    /// None.
    None,
}

/// The engine and the settings of the items' threads, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemSettings {
    /// The engine.
    pub engine: String,
    /// The worktrees of the items; none where all items work in one directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<JobTrees>,
    /// The settings.
    #[serde(flatten)]
    pub thread: Settings,
}

/// Returns true if the engine takes the tools of the runtime itself.
pub(crate) fn is_own_engine(engine: &str) -> bool {
    matches!(engine, "native" | "scripted")
}

/// The wire's word for the state of a job.
pub const fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Importing => "importing",
        JobState::Ready => "ready",
        JobState::Running => "running",
        JobState::Paused => "paused",
        JobState::Cancelling => "cancelling",
        JobState::Succeeded => "succeeded",
        JobState::FinishedWithFailures => "finishedWithFailures",
        JobState::Cancelled => "cancelled",
        JobState::Failed => "failed",
    }
}
