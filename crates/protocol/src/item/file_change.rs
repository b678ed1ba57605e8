//! Patches the agent applied or wanted to apply.

use serde::{Deserialize, Serialize};

use super::{Extra, ItemStatus};

/// A patch the agent applied or wanted to apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileChange {
    /// What it does, file by file.
    pub changes: Vec<FileUpdate>,
    /// Where it stands.
    pub status: ItemStatus,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUpdate {
    /// The file.
    pub path: String,
    /// Whether it is new, gone or other than before.
    pub kind: FileUpdateKind,
    /// A unified diff; for new and removed files their content.
    pub diff: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether a file is new, gone or other than before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum FileUpdateKind {
    /// New.
    Add,
    /// Gone.
    Delete,
    /// Other than before.
    Update {
        /// Its new place, if it was moved.
        move_path: Option<String>,
    },
    /// A type of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(Extra),
}
