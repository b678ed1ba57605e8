//! The trees of one item, as the item keeps them.
//!
//! The invariant here: the newest tree is the record itself, so that its branch is the item's branch;
//! older trees that still have work are kept behind it.

use serde::{Deserialize, Serialize};
use turnlane_store::Json;

/// What became of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TreeState {
    /// It is being made or worked in.
    Open,
    /// It had no work in it and is being removed.
    Removing,
    /// It is gone, and its branch with it unless that has commits.
    Removed,
    /// It has work in it, or could not be looked at, and stays.
    Kept,
}

/// A tree of an item; see the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeRecord {
    /// The number of the first attempt that works in it.
    pub tree: u32,
    /// Its branch; none once that is removed.
    pub branch: Option<String>,
    /// Its directory.
    pub path: String,
    /// What became of it.
    pub state: TreeState,
    /// The commit that is checked out; none before it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Files that differ from the commit of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<String>,
    /// The number of those files, more than are named where there are many.
    #[serde(default)]
    pub changed_count: usize,
    /// True if some changes are in no commit.
    #[serde(default)]
    pub dirty: bool,
    /// The reason why it could not be looked at or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Trees of earlier attempts that are not removed, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<TreeRecord>,
}

impl TreeRecord {
    /// Reads the record of an item; none where it has no tree.
    pub fn of_item(stored: Option<&Json>) -> Option<Self> {
        serde_json::from_str(stored?.as_str()).ok()
    }

    /// A tree that is about to be made, in front of those that the item has.
    pub(super) fn opened(tree: u32, branch: String, path: String, before: Option<Self>) -> Self {
        let mut earlier = Vec::new();
        if let Some(mut before) = before {
            let older = std::mem::take(&mut before.earlier);
            if before.state != TreeState::Removed {
                earlier.push(before);
            }
            earlier.extend(older);
        }
        Self {
            tree,
            branch: Some(branch),
            path,
            state: TreeState::Open,
            head: None,
            changed_files: Vec::new(),
            changed_count: 0,
            dirty: false,
            error: None,
            earlier,
        }
    }

    pub(super) fn to_stored(&self) -> Json {
        Json::new(serde_json::json!(self).to_string())
    }

    /// The tree with this number.
    pub(super) fn tree_mut(&mut self, tree: u32) -> Option<&mut Self> {
        if self.tree == tree {
            return Some(self);
        }
        self.earlier.iter_mut().find(|earlier| earlier.tree == tree)
    }

    /// Forgets earlier trees that are gone.
    pub(super) fn forget_removed(&mut self) {
        self.earlier
            .retain(|earlier| earlier.state != TreeState::Removed);
    }

    /// The tree and those of earlier attempts.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.earlier)
    }

    /// Returns true if it may still be worked in, or was not looked at since.
    pub(super) const fn is_unsettled(&self) -> bool {
        matches!(self.state, TreeState::Open | TreeState::Removing)
    }
}
