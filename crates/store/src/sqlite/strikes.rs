//! When failed commits are too many.
//!
//! The invariant here: there is no way back. A disk that failed three times within a minute is not
//! written to again as long as this process lives; what a failure is, is decided by the writer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many failed commits within how long turn writing off.
const STRIKES_MAX: usize = 3;
const STRIKES_WITHIN: Duration = Duration::from_mins(1);

/// When commits failed, as far as that still matters.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    recent: VecDeque<Instant>,
    out: bool,
}

impl Strikes {
    /// Notes a failed commit; whether it was the one too many. There is no way back.
    pub(super) fn add(&mut self, now: Instant) -> bool {
        self.recent.push_back(now);
        self.recent
            .retain(|at| now.saturating_duration_since(*at) < STRIKES_WITHIN);
        let first = !self.out && self.recent.len() >= STRIKES_MAX;
        self.out |= first;
        first
    }

    /// Whether writing is off.
    pub(super) fn are_out(&self) -> bool {
        self.out
    }

    /// Whether a commit ever failed.
    pub(super) fn any(&self) -> bool {
        !self.recent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_within_a_minute_turn_writing_off_for_good() {
        #[expect(
            clippy::disallowed_methods,
            reason = "only its distance to others counts"
        )]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut strikes = Strikes::default();
        assert!(!strikes.add(at(0)));
        assert!(!strikes.add(at(30)));
        assert!(!strikes.add(at(61)), "the first was over a minute ago");
        assert!(!strikes.are_out());
        assert!(strikes.add(at(80)));
        assert!(!strikes.add(at(81)), "told once");
        assert!(!strikes.add(at(1_000)));
        assert!(strikes.are_out());
    }
}
