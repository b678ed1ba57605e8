//! What was measured, and what is told of it.
//!
//! The invariant here: a sample is one contender's rounds. Latencies of all rounds are kept, since
//! a tail needs many; a rate is the median over the rounds, since one bad round must not decide.

use std::time::Duration;

use crate::figures::{float, median};

/// The rounds of one contender.
#[derive(Debug, Default)]
pub struct Sample {
    times: Vec<Duration>,
    rates: Vec<f64>,
}

impl Sample {
    /// Adds a round: how long each operation took, and how long all of them together.
    pub fn add(&mut self, times: Vec<Duration>, elapsed: Duration) {
        self.rates.push(per_second(times.len(), elapsed));
        self.times.extend(times);
    }

    /// The given percentile in microseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times
            .get(times.len() * percent / 100)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }

    /// Operations per second, in the middle one of the rounds.
    pub fn rate(&self) -> f64 {
        median(self.rates.clone())
    }
}

/// How many of them a second has.
pub fn per_second(count: usize, elapsed: Duration) -> f64 {
    float(count) / elapsed.as_secs_f64()
}
