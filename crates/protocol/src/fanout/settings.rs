//! The choices that a job is created with.

use serde::{Deserialize, Serialize};

use crate::policy::{ApprovalPolicy, SandboxPolicy};

/// The owner of a job; a job stops with its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum JobOwner {
    /// None: every serving worker continues the job.
    #[default]
    Detached,
    /// The connection that runs it.
    Connection,
    /// The turn that created it.
    Turn,
}

/// The channel on which workers deliver results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ResultChannel {
    /// The server chooses by the engine and the schema; never the channel of a stored job.
    #[default]
    Auto,
    /// The tool `report_agent_job_result`.
    Tool,
    /// The final message, one JSON object.
    Message,
    /// The final message, as text.
    Text,
}

/// The treatment of a second row with the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnDuplicate {
    /// The import fails.
    #[default]
    Error,
    /// The later row is skipped.
    Skip,
    /// The later row gets another id.
    Suffix,
}

/// The treatment of an item whose worker died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnItemLoss {
    /// It continues in its thread.
    #[default]
    Continue,
    /// It starts again in a new thread.
    Restart,
    /// It fails.
    Fail,
}

/// The threads that stay after their items have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum KeepThreads {
    /// All of them.
    All,
    /// Those of failed items.
    Failed,
    /// None.
    None,
}

/// The working directory of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Worktree {
    /// The job's directory, shared by all items.
    #[default]
    None,
    /// A git worktree per item.
    Item,
}

/// The choices of a stored job that are neither settings of its threads nor limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct JobOptions {
    /// The treatment of a second row with the same id.
    pub on_duplicate: OnDuplicate,
    /// Keep placeholders without a column, and let rows lack columns.
    pub allow_missing: bool,
    /// The treatment of an item whose worker died.
    pub on_crash: OnItemLoss,
    /// The threads that stay; null: by the number of rows.
    pub keep_threads: Option<KeepThreads>,
    /// End an item's turn with its accepted report.
    pub end_on_report: bool,
    /// Turns that ask for a missing result, per attempt.
    pub repair_turns: u32,
    /// Run items with equal tasks once.
    pub dedupe: bool,
}

/// What a job has whose creator said nothing.
impl Default for JobOptions {
    fn default() -> Self {
        Self {
            on_duplicate: OnDuplicate::default(),
            allow_missing: false,
            on_crash: OnItemLoss::default(),
            keep_threads: None,
            end_on_report: true,
            repair_turns: 1,
            dedupe: false,
        }
    }
}

/// The format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ImportFormat {
    /// Comma-separated values with a header record.
    Csv,
    /// Tab-separated values with a header record.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// One value per line, in the column `line`.
    Lines,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// Comma-separated values with a header record.
    #[default]
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// The settings of the items' threads; a setting that is absent has the server's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobSettings {
    /// The engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// The reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The sandbox of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox: Option<SandboxPolicy>,
    /// When the agent asks; `never` unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::ApprovalPolicyChoice>")
    )]
    pub approval_policy: Option<ApprovalPolicy>,
    /// The column that holds each item's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_column: Option<String>,
    /// The column that holds each item's reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort_column: Option<String>,
    /// The column that holds each item's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_column: Option<String>,
    /// The kind of working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// Labels that a worker must have to run items of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}
