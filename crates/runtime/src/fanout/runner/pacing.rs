//! The pace of a job: adaptive limit, pauses by themselves, the time at which a paused job goes on.
//!
//! The invariant here: a pause changes only a job that runs, and a limit that another change overtook
//! is adapted by the next refusal or success.

use turnlane_engine::limits::moment;
use turnlane_store::StoreError;
use turnlane_store::fanout::{JobNo, JobState, JobTo};

use super::Runner;
use crate::fanout::board::Changes;
use crate::fanout::rules::{Pause, breaker};

impl Runner {
    /// Pauses a job that runs; one that does not is left as it is.
    pub(super) async fn pause(&mut self, no: JobNo, pause: Pause) -> Result<(), StoreError> {
        let to = JobTo::Paused {
            reason: pause.reason.to_owned(),
            message: Some(pause.message),
            resume_ms: pause.resume_ms,
        };
        // Another change of the job may come between: then its new state counts.
        for _ in 0..3 {
            self.refresh(no).await?;
            let Some(row) = self.active.get(&no).map(|active| active.row.clone()) else {
                return Ok(());
            };
            if row.state != JobState::Running || self.change(&row, to.clone()).await?.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Has the items of a paused job interrupted at that time; another state counts by itself.
    async fn stop_items(&mut self, no: JobNo, at_ms: i64) -> Result<(), StoreError> {
        for _ in 0..3 {
            let Some(row) = self.active.get(&no).map(|active| active.row.clone()) else {
                return Ok(());
            };
            let to = JobTo::Stop { at_ms };
            if row.state != JobState::Paused || self.change(&row, to).await?.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adapts the limit to what happened since the last look.
    pub(super) async fn adapt(&mut self, no: JobNo, changes: &Changes) -> Result<(), StoreError> {
        if changes.refused.contains(&no) {
            self.halve(no).await?;
        }
        let accepted = changes.accepted.get(&no).copied().unwrap_or(0);
        for _ in 0..accepted {
            self.grow(no).await?;
        }
        Ok(())
    }

    pub(super) async fn grow(&mut self, no: JobNo) -> Result<(), StoreError> {
        let Some(active) = self.active.get_mut(&no) else {
            return Ok(());
        };
        let current = active.row.made.current_limit;
        let limits = &active.plan.limits;
        match active.pace.succeeded(current, limits) {
            Some(limit) => self.set_limit(no, limit).await,
            None => Ok(()),
        }
    }

    pub(super) async fn halve(&mut self, no: JobNo) -> Result<(), StoreError> {
        let now_ms = self.now_ms();
        let Some(active) = self.active.get_mut(&no) else {
            return Ok(());
        };
        match active.pace.refused(active.row.made.current_limit, now_ms) {
            Some(limit) => self.set_limit(no, limit).await,
            None => Ok(()),
        }
    }

    async fn set_limit(&mut self, no: JobNo, limit: u32) -> Result<(), StoreError> {
        self.refresh(no).await?;
        let Some(row) = self.active.get(&no).map(|active| active.row.clone()) else {
            return Ok(());
        };
        // Lost to another change of the job, the limit is adapted by the next refusal or success.
        self.change(&row, JobTo::Limit(limit)).await.map(drop)
    }

    /// Pauses a job whose failures, deadline or caps say so, and resumes one whose time has come.
    pub(super) async fn pause_if_needed(&mut self, no: JobNo) -> Result<(), StoreError> {
        let now_ms = self.now_ms();
        let Some(active) = self.active.get(&no) else {
            return Ok(());
        };
        let (row, limits) = (&active.row, &active.plan.limits);
        if row.state == JobState::Paused {
            let is_due = row.resume_ms.is_some_and(|at_ms| at_ms <= now_ms);
            return if is_due {
                self.resume(no).await
            } else {
                Ok(())
            };
        }
        if row.state != JobState::Running {
            return Ok(());
        }
        let deadline_ms = limits.deadline_ms.and_then(|deadline_ms| {
            let from_ms = row.started_ms?;
            Some(from_ms.saturating_add(i64::try_from(deadline_ms).unwrap_or(i64::MAX)))
        });
        if let Some(at_ms) = deadline_ms.filter(|at_ms| *at_ms <= now_ms) {
            let grace_ms = i64::try_from(limits.grace_ms).unwrap_or(i64::MAX);
            let message = format!("the job was to end by {}", moment(at_ms));
            let pause = Pause {
                reason: "deadline",
                message,
                resume_ms: None,
            };
            self.pause(no, pause).await?;
            return self.stop_items(no, now_ms.saturating_add(grace_ms)).await;
        }
        let max = limits.max_failures;
        let max = max.filter(|_| !active.plan.options.agent_tool);
        match breaker(row.streak, max) {
            Some(message) if row.pending() > 0 => {
                let pause = Pause {
                    reason: "failures",
                    message,
                    resume_ms: None,
                };
                self.pause(no, pause).await
            }
            _ => Ok(()),
        }
    }

    /// Goes on with a job whose time has come.
    async fn resume(&mut self, no: JobNo) -> Result<(), StoreError> {
        let Some(row) = self.active.get(&no).map(|active| active.row.clone()) else {
            return Ok(());
        };
        let to = JobTo::Running {
            owner: row.made.owner,
            owner_worker: row.made.owner_worker,
        };
        if self.change(&row, to).await?.is_some() {
            self.board().gates.release(no);
        }
        Ok(())
    }
}
