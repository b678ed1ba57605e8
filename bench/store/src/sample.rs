//! What was measured, and what is told of it.
//!
//! The invariant here: a sample is one contender's rounds. Latencies of all rounds are kept, since
//! a tail needs many; a rate is the median over the rounds, since one bad round must not decide.

use std::time::Duration;

/// The rounds of one contender.
#[derive(Default)]
pub(crate) struct Sample {
    times: Vec<Duration>,
    rates: Vec<f64>,
}

impl Sample {
    /// Adds a round: how long each operation took, and how long all of them together.
    pub(crate) fn add(&mut self, times: Vec<Duration>, elapsed: Duration) {
        self.rates.push(per_second(times.len(), elapsed));
        self.times.extend(times);
    }

    /// The given percentile in microseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times
            .get(times.len() * percent / 100)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }

    /// Operations per second, in the middle one of the rounds.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn per_second(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
