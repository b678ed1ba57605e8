//! How long to wait between two rounds of ending what does not end.
//!
//! Each death wakes the waiting at once, so these times only matter for those who do not die: the
//! first rounds follow quickly, because a fork loop may have slipped through, later ones once a
//! second.

use std::time::Duration;

use rustix::event::Timespec;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// After waiting this long in vain somebody counts as not killable.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(5);

/// The waiting of one end.
#[derive(Debug)]
pub(super) struct Pace {
    next: Duration,
    waited: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            next: FIRST,
            waited: Duration::ZERO,
        }
    }

    /// How long to wait now.
    pub(super) fn timeout(&self) -> Timespec {
        Timespec {
            tv_sec: i64::try_from(self.next.as_secs()).unwrap_or(1),
            tv_nsec: self.next.subsec_nanos().into(),
        }
    }

    /// The time has passed in vain; whether it has now reached [`UNKILLABLE_AFTER`], once.
    pub(super) fn passed(&mut self) -> bool {
        let before = self.waited;
        self.waited += self.next;
        self.next = (self.next * 2).min(LONGEST);
        before < UNKILLABLE_AFTER && self.waited >= UNKILLABLE_AFTER
    }

    /// Somebody died.
    pub(super) fn progress(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_seconds_in_vain_are_told_once() {
        let mut pace = Pace::new();
        let mut total = Duration::ZERO;
        let mut told = Vec::new();
        for _ in 0..20 {
            total += pace.next;
            if pace.passed() {
                told.push(total);
            }
        }
        assert_eq!(told.len(), 1);
        assert!((UNKILLABLE_AFTER..UNKILLABLE_AFTER + LONGEST).contains(&told[0]));
    }
}
