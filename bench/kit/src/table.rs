//! A table with a figure of each contender and their ratio.

/// Writes the head.
pub fn head() {
    crate::println("| | Codex 0.166 | ours | Codex / ours |");
    crate::println("| --- | ---: | ---: | ---: |");
}

/// Writes a row; `both` has Codex's figure first.
pub fn row(what: &str, both: [f64; 2]) {
    let [codex, ours] = both;
    let (codex, ours, ratio) = (shown(codex), shown(ours), shown(codex / ours));
    crate::println(&format!("| {what} | {codex} | {ours} | {ratio} |"));
}

/// A number for people; nothing where nothing was measured.
fn shown(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
