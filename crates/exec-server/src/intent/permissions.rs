//! The shape of `permissions` as Codex 0.166 writes it.
//!
//! Strict on purpose: every object refuses keys it does not know, since a key that is not understood
//! may be a restriction. What the shapes mean is said in the parent module.

use serde::Deserialize;
use serde_json::Value;
use turnlane_process::Access;

use super::IntentError;

/// How much of a caller's own word a reason repeats.
const SHOWN_CHARS_MAX: usize = 160;

/// What is allowed.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Permissions {
    /// Nothing is applied. (Empty braces: a unit variant would take unknown keys.)
    Disabled {},
    /// Somebody else confines.
    External { network: Network },
    /// We confine.
    Managed {
        file_system: FileSystem,
        network: Network,
    },
}

impl Permissions {
    pub(super) fn read(value: &Value) -> Result<Self, IntentError> {
        Self::deserialize(value).map_err(|error| IntentError::new(shown(&error.to_string())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Network {
    Restricted,
    Enabled,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FileSystem {
    Unrestricted {},
    Restricted {
        entries: Vec<Entry>,
        #[serde(default)]
        glob_scan_max_depth: Option<u64>,
    },
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) path: EntryPath,
    pub(super) access: AccessWord,
    #[serde(default)]
    pub(super) missing_path_behavior: Option<MissingPathBehavior>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AccessWord {
    Read,
    Write,
    #[serde(alias = "none")]
    Deny,
}

impl From<AccessWord> for Access {
    fn from(word: AccessWord) -> Self {
        match word {
            AccessWord::Read => Self::Read,
            AccessWord::Write => Self::Write,
            AccessWord::Deny => Self::Deny,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MissingPathBehavior {
    Skip,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum EntryPath {
    Path { path: String },
    GlobPattern { pattern: String },
    Special { value: Special },
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Special {
    Root {},
    SlashTmp {},
    Tmpdir {},
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        #[serde(default)]
        subpath: Option<String>,
    },
    Minimal {},
}

/// A caller's word, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
