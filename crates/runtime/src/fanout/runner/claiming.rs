//! Claims: free places are filled at once, in batches, in turn over the jobs.
//!
//! The invariants here: nothing is claimed for a provider that is held, for a worker that stops, or
//! beyond the caps of the job; an item that lost two workers runs alone on its worker.

use std::sync::Arc;

use turnlane_store::fanout::{
    ClaimItems, ClaimedItems, Company, ItemToStart, JobNo, JobState, Making,
};
use turnlane_store::{StoreError, crash};

use super::settling::Begins;
use super::{Alone, Runner};
use crate::fanout::rules::{Pause, claimable};

/// Items that one transaction claims.
const CLAIMED_AT_ONCE: u32 = 64;

impl Runner {
    /// Claims items of a job as long as places are free and items are due.
    pub(super) async fn claim(&mut self, no: JobNo) -> Result<(), StoreError> {
        let mut none_alone = false;
        loop {
            let Some((company, max)) = self.room(no).await? else {
                return Ok(());
            };
            let claimed = match self.claim_some(no, company, max).await {
                Ok(claimed) => claimed,
                Err(StoreError::DiskFull { .. }) => {
                    let pause = Pause {
                        reason: "store",
                        message: "the disk is full".to_owned(),
                        resume_ms: None,
                    };
                    return self.pause(no, pause).await;
                }
                Err(error) => return Err(error),
            };
            let begun = u32::try_from(claimed.begun.len()).unwrap_or(u32::MAX);
            let now_ms = self.now_ms();
            if let Some(active) = self.active.get_mut(&no) {
                active.row = claimed.job;
                active.due_ms = claimed.next_due_ms;
                active.pace.started(begun);
                active.swept &= begun == 0;
            }
            let items: Vec<_> = claimed.begun.iter().map(|one| one.item.clone()).collect();
            // All of them, before anything that can fail: nobody else runs what this worker claimed.
            for begun in claimed.begun {
                self.run_begun(no, begun, Begins::Attempt);
            }
            for item in &items {
                self.tell_item(no, item).await?;
            }
            match company {
                Company::Alone if begun > 0 => self.alone = Alone::Runs,
                Company::Alone => {
                    self.alone = Alone::No;
                    none_alone = true;
                    continue;
                }
                Company::Others if claimed.alone_waits => {
                    self.alone = Alone::Waits(no);
                    // On an empty worker nothing would wake the runner for the item that waits. An
                    // item that cannot begin yet waits for the next poll.
                    if begun == 0 && !none_alone {
                        continue;
                    }
                }
                Company::Others => {}
            }
            // A claim that looked at many rows and began few of them goes on behind them.
            let more = claimed.next_due_ms.is_some_and(|at_ms| at_ms <= now_ms);
            if !more || begun == 0 {
                return Ok(());
            }
        }
    }

    async fn claim_some(
        &self,
        no: JobNo,
        company: Company,
        max: u32,
    ) -> Result<ClaimedItems, StoreError> {
        let Some(active) = self.active.get(&no) else {
            return Err(StoreError::JobNotFound(no));
        };
        let plan = Arc::clone(&active.plan);
        let at_ms = self.now_ms();
        crash::point("fanout:claim:before-submit");
        let claimed = self.shared.store.claim_items(ClaimItems {
            job: no,
            max,
            company,
            making: Making::new(move |item: ItemToStart<'_>| plan.start(item, at_ms)),
            at_ms,
        });
        let claimed = claimed.await?;
        crash::point("fanout:claim:before-run");
        Ok(claimed)
    }

    /// The kind and number of items that may be claimed now; none if there is no room.
    async fn room(&mut self, no: JobNo) -> Result<Option<(Company, u32)>, StoreError> {
        let now_ms = self.now_ms();
        let running = self.board().running_count();
        let company = match self.alone {
            Alone::No => Company::Others,
            Alone::Waits(job) if job == no && running == 0 => Company::Alone,
            Alone::Waits(_) | Alone::Runs => return Ok(None),
        };
        if self.shutdown.is_cancelled() {
            return Ok(None);
        }
        let places = self
            .shared
            .options
            .fanout
            .max_running
            .saturating_sub(running);
        let board = Arc::clone(self.board());
        let Some(active) = self.active.get_mut(&no) else {
            return Ok(None);
        };
        let row = &active.row;
        if row.state != JobState::Running || row.pending() == 0 {
            active.due_ms = None;
            return Ok(None);
        }
        if board.gates.is_undecided(no) {
            // The end of that attempt wakes the runner.
            active.due_ms = None;
            return Ok(None);
        }
        let provider = &active.plan.settings.thread.provider;
        if let Some(until) = board.gates.held_until(provider) {
            let wait = until.saturating_duration_since(tokio::time::Instant::now());
            let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            active.due_ms = Some(now_ms.saturating_add(wait_ms).saturating_add(1));
            return Ok(None);
        }
        let capped = claimable(row, &active.plan.limits, active.usages.expected());
        if capped == 0 {
            active.due_ms = None;
            if row.counts.running > 0 {
                return Ok(None);
            }
            let pause = Pause {
                reason: "budget",
                message: "the job has used up what it may use".to_owned(),
                resume_ms: None,
            };
            self.pause(no, pause).await?;
            return Ok(None);
        }
        let starts = active.pace.starts_left(&active.plan.limits, now_ms);
        if starts == 0 {
            active.due_ms = Some((now_ms.div_euclid(1_000) + 1) * 1_000);
            return Ok(None);
        }
        let free = i64::from(row.made.current_limit) - row.counts.running;
        let free = u32::try_from(free.max(0)).unwrap_or(u32::MAX);
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let max = [CLAIMED_AT_ONCE, places, free, capped, starts];
        let max = max.into_iter().min().unwrap_or(0);
        Ok((max > 0).then_some((company, max)))
    }
}
