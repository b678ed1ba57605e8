//! Tables of figures without a contender.

use turnlane_benchkit::goal::shown;
use turnlane_benchkit::println;

/// Writes the head.
pub(crate) fn head(what: &str, columns: &[&str]) {
    println(&format!("| {what} | {} |", columns.join(" | ")));
    println(&format!("| --- |{}", " ---: |".repeat(columns.len())));
}

/// Writes a row.
pub(crate) fn row(what: &str, figures: &[f64]) {
    let figures: Vec<String> = figures.iter().copied().map(shown).collect();
    println(&format!("| {what} | {} |", figures.join(" | ")));
}
