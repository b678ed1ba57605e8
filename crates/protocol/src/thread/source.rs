//! What kind of program made a thread.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of program made a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SessionSource {
    /// A terminal UI.
    Cli,
    /// An editor.
    #[serde(rename = "vscode")]
    VsCode,
    /// A run without a person.
    Exec,
    /// A client of this protocol; what ours are unless their maker said otherwise.
    AppServer,
    /// Nothing is known.
    Unknown,
    /// What its maker calls itself.
    Custom(String),
    /// Work done for another thread.
    SubAgent(SubAgentSource),
    /// A word or shape of another server, kept as it came.
    #[serde(untagged)]
    Unlisted(Value),
}

/// What work is done for another thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SubAgentSource {
    /// Ours: a fan-out job.
    Other(String),
    /// A word or shape of Codex, kept as it came.
    #[serde(untagged)]
    Unlisted(Value),
}
