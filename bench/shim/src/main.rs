//! What one member behind `turnlane shim` costs, beside the figures of the reference design, which starts one
//! `codex exec` for each message.
//!
//! Shims speak JSON lines in dialect 2; the model behind them answers without delay. Each section prints its
//! goals and whether they are met. A missed goal is only printed; a message that is lost, doubled or refused, a
//! shim that does not end in order, and a process that outlives it end the program with an error.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`).
//! `TURNLANE_TEST_CODEX` names Codex's native program; without it the figures of the engine `codex` stay empty.
//! Named sections (`accept`, `delivered`, `idle`, `cpu`, `kill`, `rate`, `lanes`) run alone; `--lanes=N` has N
//! shims in the section `lanes` instead of 500. `--quick` shows that they work and measures little.

mod accept;
mod cost;
mod idle;
mod member;
mod table;

fn main() -> anyhow::Result<()> {
    let sections = [
        "accept",
        "delivered",
        "idle",
        "cpu",
        "kill",
        "rate",
        "lanes",
    ];
    turnlane_benchkit::main(&sections, async |name| match name {
        "accept" => accept::run().await,
        "delivered" => accept::delivered().await,
        "idle" => idle::run().await,
        "cpu" => cost::cpu().await,
        "kill" => cost::kill().await,
        "rate" => accept::rate().await,
        _ => idle::lanes().await,
    })
}
