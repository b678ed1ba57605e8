//! The repository of a job: its worktrees are made, looked at and removed by git.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use turnlane_process::{Git, GitError, LinkedTree, ProcessService};

use super::{TreePlan, WorktreeError};

/// The most changed files that an item keeps by name.
const FILES_MAX: usize = 1_000;
/// How often a call about registrations is made.
const TRIES_MAX: u32 = 4;
/// The pause before it is made again, longer each time.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The work in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// The commit that is checked out.
    pub head: String,
    /// Files that differ from the pinned commit, the first of them.
    pub changed_files: Vec<String>,
    pub changed_count: usize,
    /// True if some changes are in no commit.
    pub dirty: bool,
}

impl Work {
    /// Returns true if the tree has neither changes nor commits of its own.
    pub(super) fn is_none(&self, plan: &TreePlan) -> bool {
        !self.dirty && self.head == plan.base && self.changed_count == 0
    }
}

/// When a tree was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Before: its files are there.
    Before,
    /// Now: its files are still to be checked out.
    Now,
}

/// What is left of the branch of a tree that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    /// It is deleted.
    Gone,
    /// It has commits of its own and stays.
    HasCommits,
}

/// The repository in which the items of a job work.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    git: Git,
}

impl Repository {
    /// Finds the repository of a directory.
    pub(super) async fn find(
        processes: &ProcessService,
        cwd: &Path,
    ) -> Result<Self, WorktreeError> {
        let git = Git::find(processes, cwd).await?;
        Ok(Self { git })
    }

    /// The top directory of its work tree.
    pub(super) fn work_tree(&self) -> &Path {
        self.git.work_tree()
    }

    /// The commit that is checked out, to be pinned by a job.
    pub(super) async fn head(&self) -> Result<String, WorktreeError> {
        let head = self.git.resolve("HEAD^{commit}").await?;
        head.ok_or(WorktreeError::NoCommit)
    }

    /// The tree of a plan, as git knows it.
    pub(super) fn tree(&self, plan: &TreePlan) -> Result<Option<LinkedTree>, WorktreeError> {
        Ok(self.git.linked_tree(&plan.path)?)
    }

    /// Returns true if the making of a tree was cut off or goes on.
    pub(super) fn is_initializing(&self, plan: &TreePlan) -> bool {
        let tree = self.tree(plan).ok().flatten();
        tree.is_some_and(|tree| tree.is_initializing())
    }

    /// Registers a worktree, or finds the one that was made before; false if its files are still to be
    /// checked out. A tree whose making was cut off is made again: nothing has worked in it.
    ///
    /// Git fails over trees that are being registered or removed meanwhile, so the caller orders these
    /// calls within this worker. Other processes are met rarely; then the call is made again.
    pub(super) async fn register(&self, plan: &TreePlan) -> Result<Made, WorktreeError> {
        if let Some(tree) = self.tree(plan)? {
            if !tree.is_initializing() && plan.path.is_dir() {
                return Ok(Made::Before);
            }
            self.unregister(plan).await?;
            self.delete_branch(plan).await?;
        }
        if let Some(parent) = plan.path.parent() {
            make_private(parent)?;
        }
        let path = plan.path.display().to_string();
        // The mark stays until all files are there.
        let mark = format!("--reason={}", LinkedTree::INITIALIZING);
        let add = [
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "--lock",
            &mark,
        ];
        let known = self.git.resolve(&branch_ref(plan)).await?;
        let arguments: &[&str] = match known {
            // The tree was removed and its branch has the work: it is checked out again.
            Some(_) => &["--", &path, &plan.branch],
            None => &["-b", &plan.branch, "--", &path, &plan.base],
        };
        self.run_again(&[&add, arguments].concat()).await?;
        Ok(Made::Now)
    }

    /// Checks out the files of a tree that was registered now, and takes its mark away.
    pub(super) async fn check_out(&self, plan: &TreePlan) -> Result<(), WorktreeError> {
        let gone = || WorktreeError::Gone(plan.path.display().to_string());
        let tree = self.tree(plan)?.ok_or_else(gone)?;
        let git = self.git.inside(&tree, &plan.path).await?;
        git.run(&["reset", "--hard", "--quiet"], b"").await?;
        Ok(tree.lock("in use by a fan-out job of Turnlane")?)
    }

    /// Makes a call about the registrations of trees, again where another process came between.
    async fn run_again(&self, arguments: &[&str]) -> Result<(), WorktreeError> {
        let mut tries = 1;
        loop {
            match self.git.run(arguments, b"").await {
                Err(GitError::Failed { .. }) if tries < TRIES_MAX => {
                    tokio::time::sleep(AGAIN_AFTER * tries).await;
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Looks at the work in a tree.
    pub(super) async fn inspect(&self, plan: &TreePlan) -> Result<Work, WorktreeError> {
        let gone = || WorktreeError::Gone(plan.path.display().to_string());
        let tree = self.tree(plan)?.ok_or_else(gone)?;
        if !plan.path.is_dir() {
            return Err(gone());
        }
        let git = self.git.inside(&tree, &plan.path).await?;
        let head = git.resolve("HEAD^{commit}").await?;
        let head = head.ok_or(WorktreeError::NoCommit)?;
        let from_base = git.differing_from(&plan.base).await?;
        let from_head = git.differing_from(&head).await?;
        let untracked = git.untracked().await?;
        let dirty = !from_head.is_empty() || !untracked.is_empty();
        let mut changed = [from_base, untracked].concat();
        changed.sort();
        changed.dedup();
        let changed_count = changed.len();
        changed.truncate(FILES_MAX);
        Ok(Work {
            head,
            // The names are for people: bytes that are not UTF-8 are replaced.
            changed_files: changed
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
            changed_count,
            dirty,
        })
    }

    /// Lets people move or remove a tree by git.
    pub(super) fn unlock(&self, plan: &TreePlan) -> Result<(), WorktreeError> {
        match self.tree(plan)? {
            Some(tree) => Ok(tree.unlock()?),
            None => Ok(()),
        }
    }

    /// Removes a tree with everything in it, and its branch unless it has commits of its own. A tree
    /// that is gone is no error.
    pub(super) async fn remove(&self, plan: &TreePlan) -> Result<Branch, WorktreeError> {
        if self.tree(plan)?.is_some() {
            self.unregister(plan).await?;
        }
        remove_directory(&plan.path).await?;
        self.delete_branch(plan).await
    }

    /// Removes a tree and its registration, locked or half made.
    async fn unregister(&self, plan: &TreePlan) -> Result<(), WorktreeError> {
        let path = plan.path.display().to_string();
        let remove = ["worktree", "remove", "--force", "--force", "--", &path];
        if self.git.run(&remove, b"").await.is_err() {
            // Git refuses a tree whose `.git` file is not its own any more, but not a missing one.
            remove_directory(&plan.path).await?;
            self.run_again(&remove).await?;
        }
        Ok(())
    }

    /// Deletes the branch of a tree unless it has commits of its own.
    async fn delete_branch(&self, plan: &TreePlan) -> Result<Branch, WorktreeError> {
        let name = branch_ref(plan);
        match self.git.resolve(&name).await? {
            None => Ok(Branch::Gone),
            Some(tip) if tip != plan.base => Ok(Branch::HasCommits),
            Some(_) => {
                // Git deletes it only if it still has the value that was seen.
                let delete = ["update-ref", "-d", &name, &plan.base];
                self.git.run(&delete, b"").await?;
                Ok(Branch::Gone)
            }
        }
    }
}

/// Removes a directory with everything in it; links are removed, not followed.
pub(super) async fn remove_directory(path: &Path) -> Result<(), WorktreeError> {
    let directory = path.to_owned();
    let removing = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
    match removing {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(WorktreeError::io(path, &error))
        }
        _ => Ok(()),
    }
}

fn branch_ref(plan: &TreePlan) -> String {
    format!("refs/heads/{}", plan.branch)
}

/// Makes a directory that only its owner may enter, with everything above it that is missing.
pub(super) fn make_private(directory: &Path) -> Result<(), WorktreeError> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| WorktreeError::io(directory, &error))
}
