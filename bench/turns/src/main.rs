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
mod figures;
mod memory;
mod server;
mod start;
mod table;
mod turns;

use std::time::Instant;

use anyhow::Context as _;

const SECTIONS: [&str; 8] = [
    "start", "threads", "turns", "many", "memory", "delta", "list", "engine",
];

fn main() -> anyhow::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    for name in SECTIONS {
        if !named.is_empty() && !named.iter().any(|named| named == name) {
            continue;
        }
        println(&format!("### {name}\n"));
        runtime.block_on(async {
            match name {
                "start" => start::run().await,
                "threads" => turns::threads().await,
                "turns" => turns::run().await,
                "many" => turns::many().await,
                "memory" => memory::run().await,
                "delta" => turns::delta().await,
                "list" => turns::list().await,
                _ => engine::run(),
            }
        })?;
        println("");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
fn println(line: &str) {
    println!("{line}");
}

/// The one clock of the benchmark.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring is what this program is for"
)]
fn now() -> Instant {
    Instant::now()
}
