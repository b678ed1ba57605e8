//! The git worktrees of a job's items.

use serde::{Deserialize, Serialize};

/// The worktrees of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobWorktrees {
    /// The directory of the server that holds them.
    pub directory: String,
    /// The commit from which every item starts.
    pub base: String,
    /// The number of worktrees that have work in them; counted when the job ends.
    pub kept: usize,
    /// Files that several items changed, by their paths, at most 100; listed when the job ends.
    pub shared_files: Vec<SharedFile>,
}

/// A file that several items changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SharedFile {
    /// Its path in the repository.
    pub path: String,
    /// The first 20 of those items.
    pub item_ids: Vec<String>,
    /// The number of those items.
    pub items: usize,
}

/// A worktree of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemWorktree {
    /// Its branch; null once that is removed.
    pub branch: Option<String>,
    /// Its directory.
    pub path: String,
    /// Its state.
    pub state: WorktreeState,
    /// The commit that is checked out; null before the server looked at it.
    pub head: Option<String>,
    /// Files that differ from the commit of the job, at most 1,000.
    pub changed_files: Vec<String>,
    /// The number of those files.
    pub changed_count: usize,
    /// True if some changes are in no commit.
    pub dirty: bool,
    /// The reason why the server could not look at it or remove it.
    pub error: Option<String>,
}

/// The state of a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WorktreeState {
    /// It is being made or worked in.
    Open,
    /// It has no work in it and is being removed.
    Removing,
    /// It is gone, and its branch with it unless that has commits.
    Removed,
    /// It has work in it, or the server could not look at it. It stays.
    Kept,
}
