//! Worktrees of attempts that are over: looked at beside the runner, before the job ends.
//!
//! The invariant here: the runner never waits for git. A job ends when all its trees were looked at, so
//! that a worker which takes over an unfinished job finds those that a dead one left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use turnlane_store::fanout::{
    ItemState, JobNo, JobRow, JobState, SettleTo, Settled, Settlement, UnsettledItem,
};

use super::Runner;

/// The pause between two looks at whether the lane of an ended attempt is unloaded.
const UNLOAD_LOOK: Duration = Duration::from_millis(10);
/// The longest wait for that: a client that follows the thread keeps its lane loaded.
const UNLOAD_MAX: Duration = Duration::from_secs(5);

impl Runner {
    /// Has the tree of a closed attempt looked at, unless the next attempt goes on in it.
    pub(super) fn look_at_tree(
        &self,
        no: JobNo,
        found: &UnsettledItem,
        settlement: &Settlement,
        settled: Settled,
    ) {
        let continues = matches!(
            settlement.to,
            SettleTo::Pending {
                same_thread: true,
                ..
            }
        );
        let Some(active) = self.active.get(&no) else {
            return;
        };
        let Some(tree) = active.plan.tree(&found.item) else {
            return;
        };
        let is_newest = found.attempt.attempt == found.item.attempt;
        let goes_on = continues && settled.state == ItemState::Pending;
        if goes_on || !is_newest || self.shutdown.is_cancelled() {
            return;
        }
        let look = self.board().look_at_trees(no);
        let (lanes, trees) = (Arc::clone(&self.lanes), Arc::clone(&self.shared.trees));
        let thread = found.item.thread;
        tokio::spawn(async move {
            // Commands that the turn left running end with the lane.
            let until = Instant::now() + UNLOAD_MAX;
            while thread.is_some_and(|thread| lanes.is_loaded(thread)) && Instant::now() < until {
                sleep(UNLOAD_LOOK).await;
            }
            if let Err(error) = trees.settle(&tree).await {
                tracing::warn!(%error, "a worktree is looked at when its job ends");
            }
            drop(look);
        });
    }

    /// Returns true if all worktrees of a job that comes to an end were looked at; else they are being
    /// looked at, and the end of that wakes the runner.
    pub(super) fn trees_are_settled(&mut self, row: &JobRow) -> bool {
        let no = row.no;
        let board = Arc::clone(self.board());
        let Some(active) = self.active.get_mut(&no) else {
            return true;
        };
        let Some(trees) = active.plan.settings.worktree.clone() else {
            return true;
        };
        if board.looks_at_trees(no) {
            return false;
        }
        let goes_on = row.state == JobState::Running && row.pending() > 0;
        if active.swept || goes_on || row.state == JobState::Paused {
            return true;
        }
        active.swept = true;
        let look = board.look_at_trees(no);
        let (service, id) = (Arc::clone(&self.shared.trees), row.made.id.clone());
        tokio::spawn(async move {
            if let Err(error) = service.sweep(&trees, no, &id).await {
                tracing::warn!(%error, "worktrees of a fan-out job were not looked at");
            }
            drop(look);
        });
        false
    }
}
