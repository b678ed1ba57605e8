//! What a thread and a turn cost an app-server: ours beside `codex app-server`.
//!
//! Both are programs of their own, spoken to by the same client over standard input and output, with
//! the same mock model behind them that answers without delay. The contenders take turns in rounds,
//! so that a noisy moment of the machine falls on both; what counts are the ratios.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it its columns stay empty. Named
//! sections (`start`, `threads`, `turns`, `many`, `memory`, `delta`, `list`, `engine`) run alone; the
//! last one needs neither program.

mod engine;
mod memory;
mod server;
mod start;
mod turns;

fn main() -> anyhow::Result<()> {
    let sections = [
        "start", "threads", "turns", "many", "memory", "delta", "list", "engine",
    ];
    turnlane_benchkit::main(&sections, async |name| match name {
        "start" => start::run().await,
        "threads" => turns::threads().await,
        "turns" => turns::run().await,
        "many" => turns::many().await,
        "memory" => memory::run().await,
        "delta" => turns::delta().await,
        "list" => turns::list().await,
        _ => engine::run(),
    })
}
