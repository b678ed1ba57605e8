//! What one run of `turnlane exec` costs: ours beside `codex exec`.
//!
//! Both are started anew for each prompt, with `--json`, a home of their own and the same mock model
//! behind them that answers without delay. The contenders take turns in rounds, so that a noisy moment
//! of the machine falls on both; what counts are the ratios.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it its columns stay empty. Named
//! sections (`runs`, `cost`, `many`, `interrupt`, `version`) run alone.

mod cost;
mod many;
mod program;
mod runs;

fn main() -> anyhow::Result<()> {
    // First: this program is also the keeper of the processes whose cost it measures.
    turnlane_process::keeper_hook();
    let sections = ["runs", "cost", "many", "interrupt", "version"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "runs" => runs::run().await,
        "cost" => cost::run().await,
        "many" => many::run().await,
        "interrupt" => runs::interrupt().await,
        _ => runs::version().await,
    })
}
