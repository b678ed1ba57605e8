//! The removal of a job's worktrees, before the job is deleted.
//!
//! The invariant here: nothing is removed before every tree was looked at. Trees with work are removed
//! by force only, and even then a branch with commits stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnlane_process::GitError;
use turnlane_store::StoreError;
use turnlane_store::fanout::JobNo;

use super::record::{TreeRecord, TreeState};
use super::repository::{Repository, remove_directory};
use super::trees::Trees;
use super::{JobTrees, TreePlan, WorktreeError, tree_name};

/// The permission to remove trees that have work in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoveForce {
    /// They stay.
    Off,
    /// Changes that are in no commit are lost.
    On,
}

/// A tree that has work in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeWithWork {
    /// Its item; none where no item of the job has it.
    pub item_id: Option<String>,
    /// Its branch.
    pub branch: String,
    /// Its directory.
    pub path: String,
    /// The number of files that differ from the commit of the job.
    pub changed_files: usize,
    /// True if some changes are in no commit.
    pub dirty: bool,
    /// The reason why it could not be looked at.
    pub error: Option<String>,
}

/// The end of a removal of all trees.
#[derive(Debug)]
pub(crate) enum RemovedTrees {
    /// None is left.
    All,
    /// Nothing was removed, since these have work in them.
    HaveWork(Vec<TreeWithWork>),
    /// A tree could not be removed.
    Failed(WorktreeError),
}

impl Trees {
    /// Removes all trees of a job that does not run.
    pub(crate) async fn remove_all(
        &self,
        trees: &JobTrees,
        job: JobNo,
        job_id: &str,
        force: RemoveForce,
    ) -> Result<RemovedTrees, StoreError> {
        let directory = Path::new(&trees.directory);
        let (mut items, mut clean) = (BTreeMap::new(), BTreeSet::new());
        let mut names = names_in(directory);
        let mut from_seq = 0;
        loop {
            let page = self.page(job, from_seq).await?;
            for item in page.items {
                let Some(record) = TreeRecord::of_item(item.branch.as_ref()) else {
                    continue;
                };
                for tree in record.all() {
                    let name = tree_name(&item.item_id, tree.tree);
                    if tree.state != TreeState::Removed {
                        names.insert(name.clone());
                    }
                    if tree.state == TreeState::Removing {
                        clean.insert(name.clone());
                    }
                    items.insert(name, item.item_id.clone());
                }
            }
            match page.next_seq {
                Some(next) => from_seq = next,
                None => break,
            }
        }
        if names.is_empty() {
            return Ok(RemovedTrees::All);
        }
        let plans: Vec<_> = names
            .iter()
            .map(|name| (name, trees.plan_of_name(job_id, name)))
            .collect();
        let repository = self.repository(trees).await;
        if force == RemoveForce::Off {
            let mut found = Vec::new();
            for (name, plan) in plans.iter().filter(|(name, _)| !clean.contains(*name)) {
                let item_id = items.get(*name).cloned();
                found.extend(work_in(&repository, plan, item_id).await);
            }
            if !found.is_empty() {
                return Ok(RemovedTrees::HaveWork(found));
            }
        }
        let _removing = self.registrations.acquire().await;
        for (_, plan) in &plans {
            let removed = match &repository {
                Ok(repository) => repository.remove(plan).await.map(drop),
                // The repository is gone, and its branches with it.
                Err(WorktreeError::Git(GitError::NoRepository { .. })) => {
                    remove_directory(&plan.path).await
                }
                Err(error) => Err(error.clone()),
            };
            if let Err(error) = removed {
                return Ok(RemovedTrees::Failed(error));
            }
        }
        // Whatever people put there stays.
        let _ = std::fs::remove_dir(directory);
        Ok(RemovedTrees::All)
    }
}

/// The work in a tree; none where there is none. What cannot be looked at counts as work.
async fn work_in(
    repository: &Result<Repository, WorktreeError>,
    plan: &TreePlan,
    item_id: Option<String>,
) -> Option<TreeWithWork> {
    if !plan.path.exists() {
        return None;
    }
    let mut found = TreeWithWork {
        item_id,
        branch: plan.branch.clone(),
        path: plan.path.display().to_string(),
        changed_files: 0,
        dirty: false,
        error: None,
    };
    let work = match repository {
        // Its making was cut off, so nothing has worked in it.
        Ok(repository) if repository.is_initializing(plan) => return None,
        Ok(repository) => repository.inspect(plan).await,
        Err(error) => Err(error.clone()),
    };
    match work {
        Ok(work) if work.is_none(plan) => return None,
        Ok(work) => {
            found.changed_files = work.changed_count;
            found.dirty = work.dirty;
        }
        Err(error) => found.error = Some(error.to_string()),
    }
    Some(found)
}

/// The names of trees in the directory of a job.
fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
        .collect()
}
