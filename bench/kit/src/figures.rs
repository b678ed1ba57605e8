//! What was measured of one contender.

use std::time::Duration;

/// Figures of single operations, in one unit.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<f64>);

impl Figures {
    /// Adds one.
    pub fn add(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Adds milliseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    /// The given percentile; not a number where nothing was measured.
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut figures = self.0.clone();
        figures.sort_unstable_by(f64::total_cmp);
        let at = (figures.len() * percent / 100).min(figures.len().saturating_sub(1));
        figures.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// A percentile of both contenders.
pub fn both(figures: &[Figures; 2], percent: usize) -> [f64; 2] {
    [
        figures[0].percentile(percent),
        figures[1].percentile(percent),
    ]
}

/// The middle one of a few figures.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn float(count: usize) -> f64 {
    count as f64
}
