//! The ends of jobs and of this worker: stops, exports, the last settlements.
//!
//! The invariant here: the end of a job is told when nothing of it runs here any more and its export is
//! written, and it is told once.

use std::time::Duration;

use tokio::time::Instant;
use turnlane_store::fanout::{JobKey, JobNo, JobRow, JobState, JobTo};
use turnlane_store::{StoreError, crash};

use super::Runner;
use crate::fanout::board::STOPPED_BY_JOB;
use crate::fanout::jobs::JobEvent;
use crate::lane::command::{Command, Reply};
use crate::lane::event::AfterInterrupt;

/// The reason of a cancellation that an item's report asked for: other items finish.
const BY_WORKER: &str = "worker";

impl Runner {
    /// Interrupts the turns whose time has come.
    pub(super) fn carry_out_stops(&mut self) {
        let (due, next) = self.board().take_stops();
        self.next_stop = next;
        for thread in due {
            let lanes = std::sync::Arc::clone(&self.lanes);
            tokio::spawn(async move {
                let command = Command::Interrupt {
                    turn: None,
                    queue: AfterInterrupt::Continue,
                    by: Some(STOPPED_BY_JOB.to_owned()),
                    // The end of the turn wakes the runner.
                    reply: Reply::new(|_| ()),
                };
                // A lane that is not loaded runs nothing.
                let _ = lanes.send_if_loaded(thread, command).await;
            });
        }
    }

    /// Stops the items of a job that a person cancels, after its grace.
    pub(super) fn stop_if_cancelling(&self, no: JobNo) {
        let Some(active) = self.active.get(&no) else {
            return;
        };
        let by_worker = active.row.reason.as_deref() == Some(BY_WORKER);
        if active.row.state != JobState::Cancelling || by_worker {
            return;
        }
        let grace = Duration::from_millis(active.plan.limits.grace_ms);
        // An earlier time stays.
        self.board().stop_job_at(no, Instant::now() + grace);
    }

    /// Ends a job that has nothing left to do, and tells the end of a pause's last item.
    pub(super) async fn end_if_done(&mut self, no: JobNo) -> Result<(), StoreError> {
        if !self.board().attempts_of(no).is_empty() {
            return Ok(());
        }
        let Some(active) = self.active.get(&no) else {
            return Ok(());
        };
        let row = active.row.clone();
        if row.counts.running > 0 {
            return Ok(());
        }
        let ended = match row.state {
            JobState::Running if row.pending() > 0 => return Ok(()),
            JobState::Running | JobState::Cancelling => {
                crash::point("fanout:end:before-submit");
                self.change(&row, JobTo::EndIfDone).await?
            }
            JobState::Paused if active.told_end => None,
            _ => Some(row),
        };
        let Some(row) = ended else {
            return Ok(());
        };
        let row = self.export(row).await?;
        self.board()
            .tell_job(JobEvent::Ended(Box::new(row.clone())));
        let resumes = row.state == JobState::Paused && row.resume_ms.is_some();
        match self.active.get_mut(&no) {
            Some(active) if resumes => active.told_end = true,
            _ => self.forget(no),
        }
        Ok(())
    }

    /// Settles everything that the lanes of this worker left when they stopped.
    pub(super) async fn settle_all(&mut self) {
        let jobs: Vec<JobNo> = self.active.keys().copied().collect();
        for no in jobs {
            if let Err(error) = self.settle(no).await {
                tracing::warn!(%error, "items of a fan-out job are settled by the next worker");
            }
        }
    }

    /// Writes the file of a job that has ended or whose pause has come to rest.
    async fn export(&mut self, row: JobRow) -> Result<JobRow, StoreError> {
        if row.made.export_path.is_none() {
            return Ok(row);
        }
        crash::point("fanout:export:before-write");
        if let Err(error) = self.jobs().export_at_end(&row).await {
            tracing::warn!(%error, "the results of a fan-out job were not written to its file");
        }
        crash::point("fanout:export:after-write");
        let found = self.shared.store.job(JobKey::No(row.no)).await?;
        Ok(found.unwrap_or(row))
    }
}
