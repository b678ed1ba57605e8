//! How long commits take that wait for the disk.
//!
//! The invariant here: the writing thread adds, anybody reads, and neither waits for the other. Plain
//! atomics: a reader may see a commit in its bucket and not yet in the sum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::census::Times;

/// Upper bounds in microseconds: from a disk that only pretends to one that is in trouble.
const BOUNDS_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_000_000,
];

/// [`Times`] while they are counted.
#[derive(Debug, Default)]
pub(super) struct SyncTimes {
    buckets: [AtomicU64; BOUNDS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl SyncTimes {
    pub(super) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.iter().position(|bound| us <= *bound);
        if let Some(bucket) = at.and_then(|at| self.buckets.get(at)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(super) fn read(&self) -> Times {
        let bounds = BOUNDS_US.iter().copied().map(Duration::from_micros);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        Times {
            buckets: bounds.zip(counts).collect(),
            count: self.count.load(Relaxed),
            sum: Duration::from_micros(self.sum_us.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_under_the_first_bound_it_fits() {
        let times = SyncTimes::default();
        for us in [100, 101, 3_000_000] {
            times.add(Duration::from_micros(us));
        }
        let read = times.read();
        assert_eq!(read.count, 3);
        assert_eq!(read.sum, Duration::from_micros(3_000_201));
        assert_eq!(read.buckets[0], (Duration::from_micros(100), 1));
        assert_eq!(read.buckets[1], (Duration::from_micros(250), 1));
        let counted: u64 = read.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, 2, "the third is above all bounds");
    }
}
