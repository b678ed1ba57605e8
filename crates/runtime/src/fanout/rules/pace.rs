//! How many items of a job may start now: adaptive limit, caps, breaker, start rate.
//!
//! The invariant here: the limit never falls below 1 and never rises above the job's own; a cap is
//! checked against what is spent and what runs, so that it is exceeded by running items alone.

use turnlane_store::fanout::{JobRow, Streak};

use crate::fanout::jobs::spec::{JobLimits, MaxFailures};

/// The limit is halved at most this often.
const HALVED_EVERY_MS: i64 = 5_000;
/// Successes in a row that add one place.
const GOOD_FOR_ONE_MORE: u32 = 20;
/// Finished items at which the breaker looks whether all of them failed.
const FIRST_FINISHED: i64 = 10;
/// Finished items from which on a percentage of failures counts.
const PERCENT_FROM: i64 = 20;
/// Usages of ended items that are remembered.
const USAGES_KEPT: usize = 256;
/// Ended items from which on their usage is looked at by percentile.
const PERCENTILE_FROM: usize = 5;

/// The adaptive limit of one job, as one worker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    good: u32,
    halved_ms: Option<i64>,
    /// Starts of the current second.
    second: i64,
    started: u32,
}

impl Pace {
    /// The provider refused a request; the new limit, if it changes.
    pub(crate) fn refused(&mut self, current: u32, now_ms: i64) -> Option<u32> {
        self.good = 0;
        let too_soon = |at_ms: i64| now_ms < at_ms.saturating_add(HALVED_EVERY_MS);
        if self.halved_ms.is_some_and(too_soon) {
            return None;
        }
        self.halved_ms = Some(now_ms);
        let halved = (current / 2).max(1);
        (halved != current).then_some(halved)
    }

    /// An item succeeded; the new limit, if it changes.
    pub(crate) fn succeeded(&mut self, current: u32, limits: &JobLimits) -> Option<u32> {
        if current >= limits.concurrency {
            self.good = 0;
            return None;
        }
        self.good += 1;
        if self.good < GOOD_FOR_ONE_MORE {
            return None;
        }
        self.good = 0;
        Some(current + 1)
    }

    /// An item failed by something else than a limit.
    pub(crate) fn failed(&mut self) {
        self.good = 0;
    }

    /// How many items may start in this second.
    pub(crate) fn starts_left(&mut self, limits: &JobLimits, now_ms: i64) -> u32 {
        let Some(rate) = limits.start_rate else {
            return u32::MAX;
        };
        let second = now_ms.div_euclid(1_000);
        if second != self.second {
            self.second = second;
            self.started = 0;
        }
        rate.saturating_sub(self.started)
    }

    /// So many items were started.
    pub(crate) fn started(&mut self, count: u32) {
        self.started = self.started.saturating_add(count);
    }
}

/// The usage of the last ended items of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageWindow {
    kept: std::collections::VecDeque<i64>,
}

impl UsageWindow {
    pub(crate) fn add(&mut self, total_tokens: i64) {
        if self.kept.len() == USAGES_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(total_tokens);
    }

    /// What one more item is expected to use: the 90th percentile, at first the largest seen.
    pub(crate) fn expected(&self) -> i64 {
        if self.kept.len() < PERCENTILE_FROM {
            return self.kept.iter().copied().max().unwrap_or(0);
        }
        let mut sorted: Vec<i64> = self.kept.iter().copied().collect();
        sorted.sort_unstable();
        sorted[(sorted.len() * 9).div_ceil(10) - 1]
    }
}

/// How many more items the caps of a job let start.
pub(crate) fn claimable(job: &JobRow, limits: &JobLimits, expected_tokens: i64) -> u32 {
    let counts = &job.counts;
    let by_attempts = limits
        .max_attempts
        .map_or(i64::MAX, |max| max - counts.attempts);
    let by_tokens = limits.max_tokens.map_or(i64::MAX, |max| {
        let left = max - counts.usage.total_tokens;
        if left <= 0 {
            return 0;
        }
        left.checked_div(expected_tokens)
            .map_or(i64::MAX, |fits| fits - counts.running)
    });
    u32::try_from(by_attempts.min(by_tokens).max(0)).unwrap_or(u32::MAX)
}

/// The message with which the breaker pauses a job; none while it may go on.
pub(crate) fn breaker(streak: Streak, max: Option<MaxFailures>) -> Option<String> {
    let Streak { finished, failed } = streak;
    if finished >= FIRST_FINISHED && failed >= finished {
        return Some(format!("the first {finished} items all failed"));
    }
    let exceeded = match max? {
        MaxFailures::Count(count) => failed > count,
        MaxFailures::Percent(percent) => {
            finished >= PERCENT_FROM && failed * 100 > finished * i64::from(percent)
        }
    };
    exceeded.then(|| format!("{failed} of {finished} items failed"))
}
