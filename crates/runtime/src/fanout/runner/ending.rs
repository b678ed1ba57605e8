//! The ends of jobs and of this worker: stops, exports, the last settlements.
//!
//! The invariant here: a job ends, and its end is told once, when nothing of it runs any more and its
//! file is written. One worker writes that file.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;
use turnlane_store::fanout::{ItemError, JobCounts, JobNo, JobRow, JobState, JobTo};
use turnlane_store::{StoreError, crash};

use super::Runner;
use crate::fanout::board::STOPPED_BY_JOB;
use crate::fanout::jobs::JobEvent;
use crate::fanout::rules::IDLE_TIMEOUT;
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

    /// Stops the items of a job that a person cancels, after its grace, and those of a paused job at the
    /// time that is stored in it. Whichever worker was asked, every worker with items of the job does
    /// the same.
    pub(super) fn stop_if_asked(&self, no: JobNo) {
        let Some(active) = self.active.get(&no) else {
            return;
        };
        let by_worker = active.row.reason.as_deref() == Some(BY_WORKER);
        let wait_ms = match active.row.state {
            JobState::Cancelling if !by_worker => active.plan.limits.grace_ms,
            JobState::Paused => {
                let Some(stop_ms) = active.row.stop_ms else {
                    return;
                };
                u64::try_from(stop_ms.saturating_sub(self.now_ms())).unwrap_or(0)
            }
            // Another worker may have been asked to resume the job.
            JobState::Running => return self.board().keep_job(no),
            _ => return,
        };
        // An earlier time stays.
        let at = Instant::now() + Duration::from_millis(wait_ms);
        self.board().stop_job_at(no, at);
    }

    /// Stops items whose engines have said nothing for too long. While the provider is held, silence is
    /// what the job asks for.
    pub(super) fn stop_if_silent(&self, no: JobNo) {
        let Some(active) = self.active.get(&no) else {
            return;
        };
        let provider = &active.plan.settings.thread.provider;
        if self.board().gates.held_until(provider).is_some() {
            return;
        }
        let longest = Duration::from_millis(active.plan.limits.idle_timeout_ms);
        let error = ItemError {
            kind: IDLE_TIMEOUT.to_owned(),
            message: format!(
                "no event from the engine and no running command for {}s",
                longest.as_millis().div_ceil(1_000)
            ),
        };
        self.board().stop_silent(no, longest, &error);
    }

    /// Ends a job that has nothing left to do, and tells the end of a pause's last item.
    ///
    /// The file is written before the job ends: a worker that dies between leaves a job that the next
    /// worker, or the same command, brings to its end.
    pub(super) async fn end_if_done(&mut self, no: JobNo) -> Result<(), StoreError> {
        if !self.board().attempts_of(no).is_empty() {
            return Ok(());
        }
        let Some(active) = self.active.get(&no) else {
            return Ok(());
        };
        let row = active.row.clone();
        let is_at_rest = match row.state {
            JobState::Running => row.pending() == 0,
            JobState::Paused => !active.told_end,
            _ => true,
        };
        if row.counts.running > 0 || !is_at_rest {
            return Ok(());
        }
        if !self.trees_are_settled(&row) {
            return Ok(());
        }
        if !row.state.is_terminal() && !self.is_exported(&row).await? {
            return Ok(());
        }
        let ended = match row.state {
            JobState::Running | JobState::Cancelling => {
                crash::point("fanout:end:before-submit");
                self.change(&row, JobTo::EndIfDone).await?
            }
            _ => Some(row),
        };
        let Some(row) = ended else {
            return Ok(());
        };
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

    /// Has the file of a job at rest written; true once it is, or where there is none.
    async fn is_exported(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        if row.made.export_path.is_none() {
            return Ok(true);
        }
        if let Some(active) = self.active.get_mut(&row.no)
            && let Some(export) = &mut active.export
        {
            if matches!(export.written.try_recv(), Err(TryRecvError::Empty)) {
                return Ok(false);
            }
            let is_current = export.of == (row.state, row.counts);
            active.export = None;
            if is_current {
                return Ok(true);
            }
        }
        // Where another worker writes the file, the next poll sees what became of it.
        if let Some(row) = self.change(row, JobTo::Exporting).await? {
            self.begin_export(row);
        }
        Ok(false)
    }

    /// Writes the file of a job in a task of its own, since other jobs do not wait for it.
    fn begin_export(&mut self, row: JobRow) {
        let (no, of) = (row.no, (row.state, row.counts));
        let (tell, written) = oneshot::channel();
        if let Some(active) = self.active.get_mut(&no) {
            active.export = Some(Export { of, written });
        }
        let (jobs, board) = (self.jobs(), std::sync::Arc::clone(self.board()));
        let shutdown = self.shutdown.clone();
        tokio::spawn(async move {
            crash::point("fanout:export:before-write");
            let exported = shutdown.run_until_cancelled(jobs.export_at_end(&row)).await;
            if let Some(Err(error)) = exported {
                tracing::warn!(%error, "the results of a fan-out job were not written to its file");
            }
            crash::point("fanout:export:after-write");
            let _ = tell.send(());
            board.look_at(no);
        });
    }
}

/// A file that is being written.
pub(super) struct Export {
    /// The job when the file was begun: what ends later is not in it.
    of: (JobState, JobCounts),
    /// Closed or filled when the task has ended.
    written: oneshot::Receiver<()>,
}
