//! What was measured, and what is told of it.

use std::time::Duration;

/// The rounds of one contender. A tail needs many latencies, so all are kept; a rate is the median
/// over the rounds, since one bad round must not decide.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    times: Vec<Duration>,
    values: Vec<f64>,
}

impl Sample {
    /// One operation.
    pub(crate) fn time(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// The figure of one round.
    pub(crate) fn value(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The given percentile in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times
            .get(times.len() * percent / 100)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// The middle one of the rounds.
    pub(crate) fn median(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// How much per second, and what computing it cost.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) rate: Sample,
    pub(crate) cpu: Sample,
}

impl Figures {
    /// A row with both and their ratios to a limit.
    pub(crate) fn line(&self, name: &str, limit: &Self) {
        row(&[
            name.to_owned(),
            shown(self.rate.median()),
            shown(self.rate.median() / limit.rate.median()),
            shown(self.cpu.median()),
            shown(self.cpu.median() / limit.cpu.median()),
        ]);
    }
}

/// A number for people; nothing where nothing was measured.
pub(crate) fn shown(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A row of a Markdown table.
pub(crate) fn row(cells: &[String]) {
    crate::println(&format!("| {} |", cells.join(" | ")));
}

/// The head of a Markdown table whose first column is text.
pub(crate) fn head(columns: &[&str]) {
    crate::println(&format!("| {} |", columns.join(" | ")));
    let rules: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, _)| if at == 0 { "---" } else { "---:" })
        .collect();
    crate::println(&format!("| {} |", rules.join(" | ")));
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
