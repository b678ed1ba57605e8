//! What the durable queue costs over the wire: `turnlane serve` and our app-server beside
//! `codex app-server`.
//!
//! All are programs of their own with a home each, spoken to by the same lean client, with a model
//! behind each that answers at once. The contenders take turns in rounds, and beside each add stand a
//! 4 KiB write with fdatasync on the same file system and one of as many bytes as our add writes, made
//! just before it, so that a noisy moment of the machine falls on all; what counts are the ratios. Codex acknowledges an add before it is on the
//! disk, ours after.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it its columns stay empty. Named
//! sections (`add`, `rate`, `order`, `drain`, `wake`, `others`, `memory`) run alone; `--quick` runs them
//! with few rounds, which shows that they work and measures nothing. The files are in the folder for
//! temporary files: `TMPDIR` says which disk is measured.

mod add;
mod contender;
mod drain;
mod memory;
mod order;
mod rate;
mod wake;

fn main() -> anyhow::Result<()> {
    let sections = ["add", "rate", "order", "drain", "wake", "others", "memory"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "add" => add::run().await,
        "rate" => rate::run().await,
        "order" => order::run().await,
        "drain" => drain::run().await,
        "wake" => wake::run().await,
        "others" => wake::others().await,
        _ => memory::run().await,
    })
}

/// As many as are measured, or few in a short run.
fn scaled(full: usize, quick: usize) -> usize {
    if turnlane_benchkit::is_quick() {
        quick
    } else {
        full
    }
}
