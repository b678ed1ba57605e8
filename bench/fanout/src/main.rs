//! What fan-out jobs cost: `turnlane fanout run` with the native engine beside `codex app-server` with
//! one thread per row, and the daemon with a million rows.
//!
//! Both contenders talk to the same local model in the same run. Codex 0.166 has no tool that fans out,
//! so a lean client gives it the worker prompt of every row, 64 turns in flight. Compare memory first,
//! then processor time, then ratios; wall time depends on what else the machine does.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it its columns stay empty. Named
//! sections (`items`, `million`, `fsync`, `lanes`, `kept`, `cut`) run alone; `--quick` runs them with few
//! rows, which shows that they work and measures nothing. The files are in the directory for temporary
//! files: `TMPDIR` says which disk is measured.

mod codex;
mod cut;
mod daemon;
mod fsync;
mod items;
mod kept;
mod lanes;
mod million;
mod model;
mod run;

fn main() -> anyhow::Result<()> {
    if turnlane_benchkit::is_quick() {
        turnlane_benchkit::println("A quick run: its figures meet or miss no goal.\n");
    }
    let sections = ["items", "million", "fsync", "lanes", "kept", "cut"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "items" => items::run().await,
        "million" => million::run().await,
        "fsync" => fsync::run().await,
        "lanes" => lanes::run().await,
        "kept" => kept::run().await,
        _ => cut::run().await,
    })
}

/// Returns the size of a full run, or the small one of a quick run.
fn scaled(full: usize, quick: usize) -> usize {
    if turnlane_benchkit::is_quick() {
        quick
    } else {
        full
    }
}
