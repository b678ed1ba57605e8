//! The worktrees of this worker: made before a turn begins, looked at when its attempt is over.
//!
//! The invariant here: what is on record changes by compare and set, since the next attempt of an item
//! may open a tree while the tree of the one before is looked at.
//!
//! Registrations of trees in a repository are made and removed one at a time: git reads all of them, and
//! fails over one that is half there. Files are checked out in a few trees at once.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use turnlane_engine::BoxFuture;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::fanout::{
    BranchChange, ChangedJob, FanoutItem, ItemState, ItemsQuery, JobChange, JobKey, JobNo, JobTo,
};
use turnlane_store::{Json, Store, StoreError, crash};

use super::record::{TreeRecord, TreeState};
use super::repository::{Branch, Made, Repository, make_private};
use super::shared_files::{FilesOfItems, TreesNote};
use super::{JobTrees, TreePlan, WorktreeError, WorktreeOptions, job_directory};

/// Trees that are made at once.
const MADE_AT_ONCE: u32 = 64;
/// Those of them whose files are checked out at once.
const CHECKED_OUT_AT_ONCE: usize = 4;
/// Items that are read at once.
pub(super) const PAGE: u32 = 500;
/// The most changes of others that one change of a record waits for.
const TRIES_MAX: u32 = 20;
/// The word of an item whose tree could not be made.
const KIND: &str = "worktree";

/// A tree of an item of a job.
#[derive(Clone, Debug)]
pub(crate) struct ItemTree {
    pub trees: JobTrees,
    pub job: JobNo,
    pub job_id: String,
    pub seq: i64,
    pub item_id: String,
    /// The number of the first attempt that works in it.
    pub tree: u32,
}

impl ItemTree {
    fn plan(&self) -> TreePlan {
        self.trees.plan(&self.job_id, &self.item_id, self.tree)
    }
}

/// The worktrees of this worker; see the module.
pub(crate) struct Trees {
    store: Arc<dyn Store>,
    pub(super) options: Option<WorktreeOptions>,
    check_outs: Semaphore,
    /// One permit is held while a tree is made; a task that has all of them knows that none is.
    making: Semaphore,
    /// The one permit is held while a registration is made or removed.
    pub(super) registrations: Semaphore,
}

impl Trees {
    pub(crate) fn new(store: Arc<dyn Store>, options: Option<WorktreeOptions>) -> Self {
        Self {
            store,
            options,
            check_outs: Semaphore::new(CHECKED_OUT_AT_ONCE),
            making: Semaphore::new(MADE_AT_ONCE as usize),
            registrations: Semaphore::new(1),
        }
    }

    /// Checks that a job can have worktrees, and pins the commit from which its items start.
    pub(crate) async fn pin(&self, job_id: &str, cwd: &Path) -> Result<JobTrees, WorktreeError> {
        let options = self.options.as_ref().ok_or(WorktreeError::NotHere)?;
        let repository = Repository::find(&options.processes, cwd).await?;
        let base = repository.head().await?;
        let dir = options.dir.as_ref().ok_or(WorktreeError::NoDirectory)?;
        make_private(dir)?;
        // The sandbox takes no directory behind a link, and places are compared below.
        let dir = resolved(dir)?;
        let top = resolved(repository.work_tree())?;
        let home = options.home.as_ref().and_then(|home| resolved(home).ok());
        for place in [home.as_ref(), Some(&top)].into_iter().flatten() {
            if dir.starts_with(place) {
                return Err(WorktreeError::Inside {
                    dir: dir.display().to_string(),
                    place: place.display().to_string(),
                });
            }
        }
        let cwd = resolved(cwd)?;
        let place = cwd.strip_prefix(&top).unwrap_or(Path::new(""));
        Ok(JobTrees {
            directory: text(&dir.join(job_directory(job_id)))?,
            place: text(place)?,
            repository: text(&top)?,
            base,
        })
    }

    pub(super) async fn repository(&self, trees: &JobTrees) -> Result<Repository, WorktreeError> {
        let options = self.options.as_ref().ok_or(WorktreeError::NotHere)?;
        Repository::find(&options.processes, Path::new(&trees.repository)).await
    }

    /// Makes the tree of an item that was claimed, before its turn begins. The making goes on when its
    /// turn is given up.
    pub(crate) fn prepare(self: &Arc<Self>, tree: ItemTree) -> BoxFuture<'static, TreeMade> {
        let trees = Arc::clone(self);
        let making = async move {
            crash::point("fanout:tree:before-make");
            let made = trees.make(&tree).await;
            crash::point("fanout:tree:made");
            made
        };
        Box::pin(async move {
            let made = match tokio::spawn(making).await {
                Ok(made) => made.map_err(|error| error.to_string()),
                Err(_) => Err("the task that made the worktree failed".to_owned()),
            };
            made.map_err(|reason| {
                let message = format!("the worktree of the item could not be made: {reason}");
                let kind = ErrorKind::Unlisted(KIND.to_owned());
                TurnError::new(message, CodexErrorInfo::Other, kind)
            })
        })
    }

    async fn make(&self, tree: &ItemTree) -> Result<(), WorktreeError> {
        // None of the semaphores is ever closed.
        let _making = self.making.acquire().await;
        let repository = self.repository(&tree.trees).await?;
        let plan = tree.plan();
        let registering = self.registrations.acquire().await;
        let made = repository.register(&plan).await?;
        drop(registering);
        crash::point("fanout:tree:registered");
        if made == Made::Now {
            let _permit = self.check_outs.acquire().await;
            repository.check_out(&plan).await?;
        }
        let cwd = plan.path.join(&tree.trees.place);
        // Git keeps no empty directories, and the commit may not have this one.
        std::fs::create_dir_all(&cwd).map_err(|error| WorktreeError::io(&cwd, &error))
    }

    /// Looks at the tree of an attempt that is over: removes it if it has no work in it, and writes
    /// into the item what it has.
    pub(crate) async fn settle(&self, tree: &ItemTree) -> Result<(), StoreError> {
        crash::point("fanout:tree:before-inspect");
        if let Err(error) = self.try_settle(tree).await? {
            // It may have work in it, so it stays, and people are told why.
            let (reason, exists) = (error.to_string(), tree.plan().path.exists());
            self.record(tree, |record| {
                if exists {
                    record.state = TreeState::Kept;
                } else {
                    record.state = TreeState::Removed;
                    record.branch = None;
                }
                record.error = Some(reason.clone());
            })
            .await?;
        }
        Ok(())
    }

    async fn try_settle(&self, tree: &ItemTree) -> Result<Result<(), WorktreeError>, StoreError> {
        let repository = match self.repository(&tree.trees).await {
            Ok(repository) => repository,
            Err(error) => return Ok(Err(error)),
        };
        let plan = tree.plan();
        let Some(state) = self.state_of(tree).await? else {
            return Ok(Ok(()));
        };
        if state != TreeState::Removing {
            match self.has_work(&repository, &plan).await {
                Err(error) => return Ok(Err(error)),
                Ok(None) => {}
                Ok(Some(work)) => {
                    // An unlocked tree is people's to move; one that is not locked is so already.
                    let _ = repository.unlock(&plan);
                    self.record(tree, |record| {
                        record.state = TreeState::Kept;
                        record.head = Some(work.head.clone());
                        record.changed_files.clone_from(&work.changed_files);
                        record.changed_count = work.changed_count;
                        record.dirty = work.dirty;
                        record.error = None;
                    })
                    .await?;
                    return Ok(Ok(()));
                }
            }
            self.record(tree, |record| record.state = TreeState::Removing)
                .await?;
        }
        crash::point("fanout:tree:before-remove");
        let removing = self.registrations.acquire().await;
        let removed = repository.remove(&plan).await;
        drop(removing);
        let branch = match removed {
            Ok(branch) => branch,
            Err(error) => return Ok(Err(error)),
        };
        crash::point("fanout:tree:removed");
        self.record(tree, |record| {
            record.state = TreeState::Removed;
            if branch == Branch::Gone {
                record.branch = None;
            }
        })
        .await?;
        Ok(Ok(()))
    }

    /// The work in a tree; none where the tree is clean, was never made, or was made in part.
    async fn has_work(
        &self,
        repository: &Repository,
        plan: &TreePlan,
    ) -> Result<Option<super::repository::Work>, WorktreeError> {
        match repository.tree(plan)? {
            None if plan.path.exists() => return Err(unregistered(plan)),
            None => return Ok(None),
            Some(tree) if tree.is_initializing() => {
                // Nobody makes it any more once this worker makes nothing: its maker is dead.
                drop(self.making.acquire_many(MADE_AT_ONCE).await);
                if repository.tree(plan)?.is_none_or(|it| it.is_initializing()) {
                    return Ok(None);
                }
            }
            Some(_) if !plan.path.exists() => return Ok(None),
            Some(_) => {}
        }
        let work = repository.inspect(plan).await?;
        Ok((!work.is_none(plan)).then_some(work))
    }

    async fn state_of(&self, tree: &ItemTree) -> Result<Option<TreeState>, StoreError> {
        let item = self.store.item_of_job(tree.job, tree.item_id.clone());
        let item = item.await?.map(|detail| detail.item);
        let record = TreeRecord::of_item(item.and_then(|item| item.branch).as_ref());
        Ok(record.and_then(|mut record| Some(record.tree_mut(tree.tree)?.state)))
    }

    /// Changes what is on record of a tree, however often others change the record meanwhile.
    async fn record(
        &self,
        tree: &ItemTree,
        change: impl Fn(&mut TreeRecord),
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            let item = self.store.item_of_job(tree.job, tree.item_id.clone());
            let Some(seen) = item.await?.and_then(|detail| detail.item.branch) else {
                return Ok(());
            };
            let Some(mut record) = TreeRecord::of_item(Some(&seen)) else {
                return Ok(());
            };
            match record.tree_mut(tree.tree) {
                Some(record) => change(record),
                None => return Ok(()),
            }
            record.forget_removed();
            let changing = BranchChange {
                job: tree.job,
                seq: tree.seq,
                seen: Some(seen),
                to: Some(record.to_stored()),
            };
            if self.store.change_branch(changing).await? {
                return Ok(());
            }
        }
        tracing::warn!("what became of a worktree was not recorded; the next look does it");
        Ok(())
    }

    /// Looks at every tree of a job that no attempt works in and that nobody has looked at since, and
    /// lists the files that several items changed.
    pub(crate) async fn sweep(
        &self,
        trees: &JobTrees,
        job: JobNo,
        job_id: &str,
    ) -> Result<(), StoreError> {
        let mut files = FilesOfItems::default();
        let (mut kept, mut from_seq) = (0, 0);
        loop {
            let page = self.page(job, from_seq).await?;
            for item in page.items {
                if let Some(record) = self.sweep_item(trees, job_id, job, &item).await? {
                    files.add(&item.item_id, &record.changed_files);
                    let trees = record.all();
                    kept += trees.filter(|tree| tree.state == TreeState::Kept).count();
                }
            }
            match page.next_seq {
                Some(next) => from_seq = next,
                None => break,
            }
        }
        let shared_files = files.shared();
        self.note(job, &TreesNote { kept, shared_files }).await
    }

    /// Looks at the trees of an item; what is on record of them afterwards.
    async fn sweep_item(
        &self,
        trees: &JobTrees,
        job_id: &str,
        job: JobNo,
        item: &FanoutItem,
    ) -> Result<Option<TreeRecord>, StoreError> {
        let Some(record) = TreeRecord::of_item(item.branch.as_ref()) else {
            return Ok(None);
        };
        let continues = item.state == ItemState::Pending && item.same_thread;
        let is_open = item.state == ItemState::Running || continues;
        if is_open || !record.all().any(TreeRecord::is_unsettled) {
            return Ok(Some(record));
        }
        for tree in record.all().filter(|tree| tree.is_unsettled()) {
            self.settle(&ItemTree {
                trees: trees.clone(),
                job,
                job_id: job_id.to_owned(),
                seq: item.seq,
                item_id: item.item_id.clone(),
                tree: tree.tree,
            })
            .await?;
        }
        let detail = self.store.item_of_job(job, item.item_id.clone()).await?;
        let branch = detail.and_then(|detail| detail.item.branch);
        Ok(TreeRecord::of_item(branch.as_ref()))
    }

    pub(super) async fn page(
        &self,
        job: JobNo,
        from_seq: i64,
    ) -> Result<turnlane_store::fanout::ItemsPage, StoreError> {
        let query = ItemsQuery {
            job,
            from_seq,
            states: Vec::new(),
            limit: PAGE,
        };
        self.store.items_of_job(query).await
    }

    async fn note(&self, job: JobNo, note: &TreesNote) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            let Some(row) = self.store.job(JobKey::No(job)).await? else {
                return Ok(());
            };
            if TreesNote::of_notes(&row.import.notes) == *note {
                return Ok(());
            }
            let Some(notes) = note.added_to(&row.import.notes) else {
                return Ok(());
            };
            let change = JobChange {
                job,
                version: row.version,
                to: JobTo::Notes(notes),
                at_ms: row.made.at_ms,
            };
            if let ChangedJob::Changed(_) = self.store.change_job(change).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The end of the making of a tree.
pub(crate) type TreeMade = Result<(), TurnError>;

/// What an item keeps of a tree that is about to be made, with the trees that it has.
pub(crate) fn opened(plan: &TreePlan, tree: u32, before: Option<&Json>) -> Json {
    let path = plan.path.display().to_string();
    let before = TreeRecord::of_item(before);
    TreeRecord::opened(tree, plan.branch.clone(), path, before).to_stored()
}

fn unregistered(plan: &TreePlan) -> WorktreeError {
    WorktreeError::Unregistered(plan.path.display().to_string())
}

fn resolved(path: &Path) -> Result<std::path::PathBuf, WorktreeError> {
    let found = std::fs::canonicalize(path);
    found.map_err(|error| WorktreeError::io(path, &error))
}

fn text(path: &Path) -> Result<String, WorktreeError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| WorktreeError::NotText(path.display().to_string()))
}
