//! How close the process service and the exec-server come to what the kernel allows.
//!
//! Each table stands beside its physical limit (a bare `posix_spawn` and wait, a bare pipe, a bare
//! loopback websocket with base64, a bare terminal) and beside Codex's own exec-server, measured in
//! the same run with the same client. The contenders take turns in rounds, so that a noisy moment
//! of the machine falls on all alike; what counts are the ratios.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it its columns stay empty. Named
//! sections (`spawn`, `library`, `many`, `output`, `terminal`, `echo`, `memory`, `terminate`) run
//! alone.

mod bare;
mod echo;
mod library;
mod many;
mod memory;
mod output;
mod sample;
mod servers;
mod spawn;
mod terminate;
mod wire;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

type Section = (&'static str, fn() -> anyhow::Result<()>);

const SECTIONS: [Section; 8] = [
    ("memory", memory::run),
    ("spawn", spawn::run),
    ("library", library::run),
    ("many", many::run),
    ("output", output::pipes),
    ("terminal", output::terminals),
    ("echo", echo::run),
    ("terminate", terminate::run),
];

fn main() -> anyhow::Result<()> {
    // This program is the keeper of the library rows.
    turnlane_process::keeper_hook();
    let named: Vec<String> = std::env::args().skip(1).collect();
    for (name, run) in SECTIONS {
        if named.is_empty() || named.iter().any(|named| named == name) {
            println(&format!("### {name}\n"));
            run()?;
            println("");
        }
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
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Seconds this process has computed so far, without its children.
fn cpu_time() -> f64 {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))
        .unwrap_or_default()
        .as_secs_f64()
}

/// A runtime with two workers, as the server's own.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
