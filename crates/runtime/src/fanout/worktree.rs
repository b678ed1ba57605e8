//! Git worktrees of items: a directory and a branch per item, from the commit that the job pinned.
//!
//! The invariants here: no work that exists nowhere else is deleted. A tree that has changes or commits
//! stays, whatever became of its item, and each fresh start of an item has a tree of its own. A tree is
//! on record in its item before it is made, and on record as clean before it is removed, so that a
//! crash in between is found. Ids never become names of files or branches; their hashes do.
//!
//! Git is called by `repository`; what is on record is changed by `trees`. The rules for calls of git
//! are those of [`turnlane_process::Git`].

mod record;
mod removal;
mod repository;
mod shared_files;
mod trees;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnlane_process::{GitError, ProcessService};
use turnlane_protocol::policy::SandboxPolicy;

pub use record::{TreeRecord, TreeState};
pub use removal::TreeWithWork;
pub(crate) use removal::{RemoveForce, RemovedTrees};
pub use shared_files::{SharedFile, TreesNote};
pub(crate) use trees::{ItemTree, TreeMade, Trees, opened};

use crate::settings::Settings;

/// What worktrees are made with.
#[derive(Clone, Debug)]
pub struct WorktreeOptions {
    /// Runs git.
    pub processes: ProcessService,
    /// The directory of all worktrees; none where the environment names no directory for data.
    pub dir: Option<PathBuf>,
    /// The home of this server: sandboxed commands see nothing in it.
    pub home: Option<PathBuf>,
}

/// The directory of worktrees where the configuration names none: `turnlane/worktrees` in the user's
/// directory for data.
pub fn default_dir(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    data.map(|data| data.join("turnlane/worktrees"))
}

/// A worktree that could not be made, read or removed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// The repository has no commit to start from.
    #[error("the repository has no commit yet")]
    NoCommit,
    /// No directory for worktrees is known.
    #[error("neither workspace.dir nor HOME says where worktrees go")]
    NoDirectory,
    /// This worker runs no git.
    #[error("this server makes no worktrees")]
    NotHere,
    /// Worktrees cannot be in this directory.
    #[error("workspace.dir {dir} is inside of {place}")]
    Inside {
        /// The directory.
        dir: String,
        /// The home, or the repository.
        place: String,
    },
    /// A path cannot be stored.
    #[error("{0} is not UTF-8")]
    NotText(String),
    /// The tree is not there any more.
    #[error("the worktree {0} is gone")]
    Gone(String),
    /// A directory in the place of the tree is not known to git.
    #[error("{0} is not a worktree of its repository any more")]
    Unregistered(String),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl WorktreeError {
    fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::Git(GitError::io(path, error))
    }
}

/// The worktrees of one job, as they are stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobTrees {
    /// The directory with one worktree per item.
    pub directory: String,
    /// The work tree of the repository in which the job was made.
    pub repository: String,
    /// The place of the job's working directory in that work tree; empty at its top.
    pub place: String,
    /// The commit from which every item starts.
    pub base: String,
}

/// One worktree: where it is, what its branch is called, from what it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePlan {
    pub path: PathBuf,
    pub branch: String,
    pub base: String,
}

impl JobTrees {
    /// The worktree of an item. `tree` is the number of the first attempt that works in it: an attempt
    /// that continues keeps the tree, a retry starts in a new one.
    pub(crate) fn plan(&self, job_id: &str, item_id: &str, tree: u32) -> TreePlan {
        self.plan_of_name(job_id, &tree_name(item_id, tree))
    }

    /// The worktree with this name.
    pub(crate) fn plan_of_name(&self, job_id: &str, name: &str) -> TreePlan {
        TreePlan {
            path: Path::new(&self.directory).join(name),
            branch: format!("fanout/{}/{name}", &hash(job_id)[..8]),
            base: self.base.clone(),
        }
    }

    /// The settings of a thread that works in a tree. Everything in the user's work tree moves to the
    /// same place in the tree, so that the sandbox lets commands write there and not in the original.
    pub(crate) fn moved(&self, settings: &Settings, tree: &Path) -> Settings {
        let repository = Path::new(&self.repository);
        let moved = |path: &String| match Path::new(path).strip_prefix(repository) {
            Ok(place) => joined(tree, place),
            Err(_) => path.clone(),
        };
        let mut settings = settings.clone();
        settings.cwd = joined(tree, Path::new(&self.place));
        settings.runtime_workspace_roots =
            settings.runtime_workspace_roots.iter().map(moved).collect();
        if let SandboxPolicy::WorkspaceWrite(limits) = &mut settings.sandbox_policy {
            limits.writable_roots = limits.writable_roots.iter().map(moved).collect();
        }
        settings
    }
}

/// A place in a directory, without a slash at its end.
fn joined(directory: &Path, place: &Path) -> String {
    let path = if place.as_os_str().is_empty() {
        directory.to_owned()
    } else {
        directory.join(place)
    };
    path.display().to_string()
}

/// The directory of a job's trees. Ids of jobs are ours and plain; anything else is hashed.
fn job_directory(job_id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !job_id.is_empty() && job_id.chars().all(plain) {
        job_id.to_owned()
    } else {
        hash(job_id)
    }
}

/// The name of an item's tree.
fn tree_name(item_id: &str, tree: u32) -> String {
    match tree {
        0 | 1 => hash(item_id),
        tree => format!("{}-{tree}", hash(item_id)),
    }
}

/// 16 hexadecimal digits of the hash of an id.
fn hash(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    let first = hash.iter().take(8);
    let number = first.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    format!("{number:016x}")
}
