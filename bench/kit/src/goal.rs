//! A table of goals: the figure, its limit, and the verdict.

use crate::println;

/// Writes the head.
pub fn head() {
    println("");
    println("| goal | measured | limit | met |");
    println("| --- | ---: | ---: | --- |");
}

/// Writes a goal that the figure must not exceed.
pub fn at_most(what: &str, measured: f64, limit: f64) {
    row(what, measured, &format!("<= {limit}"), measured <= limit);
}

/// Writes a goal that the figure must reach.
pub fn at_least(what: &str, measured: f64, limit: f64) {
    row(what, measured, &format!(">= {limit}"), measured >= limit);
}

fn row(what: &str, measured: f64, limit: &str, is_met: bool) {
    let verdict = match (measured.is_nan(), is_met) {
        (true, _) => "not measured",
        (false, true) => "yes",
        (false, false) => "**no**",
    };
    println(&format!(
        "| {what} | {} | {limit} | {verdict} |",
        shown(measured)
    ));
}

/// A figure for people; a dash where nothing was measured.
pub fn shown(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
