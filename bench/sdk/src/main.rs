//! What the SDK costs: connecting, a turn through it beside the same turn spoken by hand, a thousand
//! calls at once, the end of a server.
//!
//! A turn is measured on a server in this process whose engine answers at once and whose store is in
//! memory, once through the SDK and once over a bare peer that sends the same requests and waits for
//! the same notification; the difference is what the SDK adds. The rest is measured on programs:
//! ours, and Codex where `TURNLANE_TEST_CODEX` names it.
//!
//! Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`). Named sections
//! (`turn`, `connect`, `burst`) run alone.

mod servers;
mod turn;

fn main() -> anyhow::Result<()> {
    // First: this program is also the keeper of the servers it starts.
    turnlane_process::keeper_hook();
    let sections = ["turn", "connect", "burst"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "turn" => turn::run().await,
        "connect" => servers::connect().await,
        _ => servers::burst().await,
    })
}
