//! Commands the agent ran or wanted to run.

use serde::{Deserialize, Serialize};

use super::Extra;

/// A command the agent ran or wanted to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecution {
    /// The command line as a person would type it.
    pub command: String,
    /// Where it runs.
    pub cwd: String,
    /// Where it stands.
    pub status: ItemStatus,
    /// What it does, as far as its text tells.
    pub command_actions: Vec<CommandAction>,
    /// The process, where it can be written to.
    pub process_id: Option<String>,
    /// Who wanted it.
    pub source: Option<CommandSource>,
    /// Its output, head and tail, with a mark where the middle was left out.
    pub aggregated_output: Option<String>,
    /// Its exit code; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// How long it ran.
    pub duration_ms: Option<i64>,
    /// Passed through from other engines.
    pub plugin_id: Option<String>,
    /// Passed through from other engines.
    pub script_path: Option<String>,
    /// How it ended; ours.
    #[serde(default)]
    pub outcome: Option<CommandOutcome>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where a command, patch or tool call stands.
///
/// Tool calls are never `declined`; only calls about other agents are `interrupted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ItemStatus {
    /// It has begun and not ended.
    InProgress,
    /// It did what it should.
    Completed,
    /// It did not.
    Failed,
    /// Somebody said no.
    Declined,
    /// It was stopped.
    Interrupted,
    /// A word of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// Who wanted a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CommandSource {
    /// The agent.
    Agent,
    /// A person, in the shell of the thread.
    UserShell,
    /// The agent, as the start of a session with a terminal.
    UnifiedExecStartup,
    /// The agent, within such a session.
    UnifiedExecInteraction,
    /// A word of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CommandOutcome {
    /// By itself.
    Exited,
    /// By a signal that was not ours.
    Signalled,
    /// By us, because it took too long.
    TimedOut,
    /// By us, because the turn was stopped.
    Interrupted,
    /// It never began.
    Declined,
    /// A word of a later server, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// What a command does, as far as its text tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum CommandAction {
    /// Reads a file.
    Read {
        /// The part of the command line.
        command: String,
        /// The file's name.
        name: String,
        /// Where the file is.
        path: String,
        /// Members we do not know.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Lists a directory.
    ListFiles {
        /// The part of the command line.
        command: String,
        /// The directory, if it is named.
        path: Option<String>,
        /// Members we do not know.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Searches in files.
    Search {
        /// The part of the command line.
        command: String,
        /// What is searched for.
        query: Option<String>,
        /// Where.
        path: Option<String>,
        /// Members we do not know.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Anything else.
    Unknown {
        /// The part of the command line.
        command: String,
        /// Members we do not know.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A type or shape of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(Extra),
}

impl CommandAction {
    /// An action we cannot say more about.
    pub fn unknown(command: impl Into<String>) -> Self {
        Self::Unknown {
            command: command.into(),
            extra: Extra::new(),
        }
    }
}
