//! What was measured of one contender.

use std::time::Duration;

/// Times of single operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The given percentile in milliseconds; nothing where nothing was measured.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.0.clone();
        times.sort_unstable();
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        let time = times.get(at);
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// The middle one of a few figures.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
