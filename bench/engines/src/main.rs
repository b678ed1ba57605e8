//! What a lane around Codex costs: turns with each engine of the app-server, beside the same turns with
//! Codex itself.
//!
//! All contenders of a section have the same mock model behind them, which answers without delay, and
//! take turns one by one, in changing order, so that a noisy moment of the machine falls on all; what
//! counts are differences and ratios within a run. Processor time is read from `/proc`, for our program
//! apart from that of the Codex it started.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it all figures but those of `native` and
//! `parse` stay empty. Named sections (`codex`, `exec`, `turns`, `memory`, `parse`) run alone. `--quick`
//! shows that they work and measures little.

mod bare_exec;
mod memory;
mod parse;
mod race;
mod server;
mod turns;

fn main() -> anyhow::Result<()> {
    let sections = ["codex", "exec", "turns", "memory", "parse"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "codex" => turns::codex().await,
        "exec" => turns::exec().await,
        "turns" => turns::all().await,
        "memory" => memory::run().await,
        _ => parse::run(),
    })
}
