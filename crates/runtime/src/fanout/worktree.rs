//! Git worktrees of items: a directory and a branch per item, from the commit that the job pinned.
//!
//! The invariants here: no work that exists nowhere else is deleted. A tree that has changes or commits
//! stays, whatever became of its item; each fresh start of an item has a tree of its own. A repository
//! cannot make git run a program: hooks, filters and monitors are switched off in every call.

mod git;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use turnlane_process::ProcessService;
use turnlane_store::Json;

use git::Git;

/// The most changed files that an item keeps by name.
const FILES_MAX: usize = 1_000;

/// A worktree that could not be made, read or removed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// The directory of the job is in no repository.
    #[error("{0} is not in a git repository")]
    NoRepository(String),
    /// The repository has no commit to start from.
    #[error("the repository has no commit")]
    NoCommit,
    /// Commands in the sandbox could not see the worktree.
    #[error("worktrees cannot be inside of {0}")]
    InsideHome(String),
    /// Git failed.
    #[error("git {command} failed: {reason}")]
    Git {
        /// The command.
        command: String,
        /// Its first line of errors.
        reason: String,
    },
    /// The system failed.
    #[error("{path}: {reason}")]
    Io {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// The worktree of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreePlan {
    /// Its directory.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit it starts from.
    pub base: String,
}

/// An item that needs a worktree.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeItem<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The item.
    pub item_id: &'a str,
    /// The first attempt that works in the tree, from 1: an attempt that continues keeps the tree, a
    /// retry starts a new one.
    pub first_attempt: u32,
    /// The commit that the job pinned.
    pub base: &'a str,
}

/// Chooses directory and branch of an item. Ids may hold anything, so only their hashes become names.
pub fn plan_worktree(
    workspace_dir: &Path,
    home: &Path,
    item: WorktreeItem<'_>,
) -> Result<WorktreePlan, WorktreeError> {
    if workspace_dir.starts_with(home) {
        return Err(WorktreeError::InsideHome(home.display().to_string()));
    }
    let job = hash(item.job_id);
    let mut name = hash(item.item_id);
    if item.first_attempt > 1 {
        name = format!("{name}-{}", item.first_attempt);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let directory = if !item.job_id.is_empty() && item.job_id.chars().all(plain) {
        item.job_id
    } else {
        &job
    };
    Ok(WorktreePlan {
        path: workspace_dir.join(directory).join(&name),
        branch: format!("fanout/{}/{name}", &job[..8]),
        base: item.base.to_owned(),
    })
}

/// 16 hex digits of the hash of an id.
fn hash(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    let first = hash.iter().take(8);
    let number = first.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    format!("{number:016x}")
}

/// The work in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeState {
    /// Its branch.
    pub branch: String,
    /// The commit that is checked out.
    pub head: String,
    /// Files that differ from the pinned commit, at most 1,000.
    pub changed_files: Vec<String>,
    /// True if some changes are in no commit.
    pub dirty: bool,
    /// The pinned commit.
    #[serde(skip)]
    base: String,
}

impl WorktreeState {
    /// Returns true if the tree has neither changes nor commits of its own.
    pub fn is_clean(&self) -> bool {
        !self.dirty && self.head == self.base && self.changed_files.is_empty()
    }

    /// Writes the state as an item keeps it.
    pub fn to_stored(&self) -> Json {
        Json::new(serde_json::json!(self).to_string())
    }
}

/// The files that several items changed, each with those items.
pub fn shared_files<'a>(
    items: impl IntoIterator<Item = (&'a str, &'a [String])>,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut items_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (item, files) in items {
        for file in files {
            items_of.entry(file).or_default().push(item);
        }
    }
    items_of.retain(|_, items| items.len() > 1);
    items_of
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The tree is gone; its branch is too, unless it has commits of its own.
    Yes,
    /// The tree has work in it and stays.
    HasWork,
}

/// The permission to remove a tree that has changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveForce {
    /// A tree with work stays.
    Off,
    /// Changes that are in no commit are lost. A branch with commits stays.
    On,
}

/// The repository in which the items of a job work.
#[derive(Clone, Debug)]
pub struct Repository {
    git: Git,
}

impl Repository {
    /// Finds the repository of a directory.
    pub async fn find(processes: &ProcessService, cwd: &Path) -> Result<Self, WorktreeError> {
        let git = Git::find(processes, cwd).await?;
        Ok(Self { git })
    }

    /// The commit that is checked out, to be pinned by a job.
    pub async fn head(&self) -> Result<String, WorktreeError> {
        let head = self.git.resolve("HEAD^{commit}").await?;
        head.ok_or(WorktreeError::NoCommit)
    }

    /// Makes a worktree, or finds the one that was made before. A tree whose making was cut off is made
    /// again: nothing has worked in it.
    pub async fn make(&self, plan: &WorktreePlan) -> Result<(), WorktreeError> {
        if let Some(tree) = self.git.worktree(&plan.path)? {
            if !tree.is_initializing() {
                return Ok(());
            }
            self.git.unregister(&plan.path).await?;
            self.delete_branch(plan).await?;
        }
        if let Some(parent) = plan.path.parent() {
            let made = std::fs::create_dir_all(parent);
            made.map_err(|error| git::io_error(parent, &error))?;
        }
        let path = plan.path.display().to_string();
        let reason = "--reason=in use by a fan-out job of Turnlane";
        let add = ["worktree", "add", "--quiet", "--lock", reason];
        let known = self.git.resolve(&branch_ref(plan)).await?;
        let arguments: &[&str] = match known {
            // The tree was removed and its branch has the work: it is checked out again.
            Some(_) => &["--", &path, &plan.branch],
            None => &["-b", &plan.branch, "--", &path, &plan.base],
        };
        self.git.run(&[&add, arguments].concat()).await.map(drop)
    }

    /// Looks at the work in a tree.
    pub async fn inspect(&self, plan: &WorktreePlan) -> Result<WorktreeState, WorktreeError> {
        let missing = || WorktreeError::Io {
            path: plan.path.display().to_string(),
            reason: "the worktree is gone".to_owned(),
        };
        let tree = self.git.worktree(&plan.path)?.ok_or_else(missing)?;
        let git = self.git.inside(&tree, &plan.path);
        let head = git.resolve("HEAD^{commit}").await?;
        let head = head.ok_or(WorktreeError::NoCommit)?;
        let from_base = git.changed(&plan.base).await?;
        let from_head = git.changed(&head).await?;
        let untracked = git.untracked().await?;
        let dirty = !from_head.is_empty() || !untracked.is_empty();
        let mut changed_files = [from_base, untracked].concat();
        changed_files.sort();
        changed_files.dedup();
        changed_files.truncate(FILES_MAX);
        Ok(WorktreeState {
            branch: plan.branch.clone(),
            head,
            changed_files,
            dirty,
            base: plan.base.clone(),
        })
    }

    /// Removes a tree that has no work in it, or any tree by force. A tree that is gone is no error.
    pub async fn remove(
        &self,
        plan: &WorktreePlan,
        force: RemoveForce,
    ) -> Result<Removed, WorktreeError> {
        if self.git.worktree(&plan.path)?.is_some() {
            let state = self.inspect(plan).await;
            let clean = state.as_ref().is_ok_and(WorktreeState::is_clean);
            if !clean && force == RemoveForce::Off {
                // A tree that cannot be read may have work in it.
                return state.map(|_| Removed::HasWork);
            }
            self.git.unregister(&plan.path).await?;
        }
        self.delete_branch(plan).await?;
        Ok(Removed::Yes)
    }

    /// Deletes the branch of a tree unless it has commits of its own.
    async fn delete_branch(&self, plan: &WorktreePlan) -> Result<(), WorktreeError> {
        let name = branch_ref(plan);
        if self.git.resolve(&name).await?.as_deref() == Some(plan.base.as_str()) {
            // Git deletes it only if it still has the value that was seen.
            let delete = ["update-ref", "-d", &name, &plan.base];
            self.git.run(&delete).await?;
        }
        Ok(())
    }
}

fn branch_ref(plan: &WorktreePlan) -> String {
    format!("refs/heads/{}", plan.branch)
}
