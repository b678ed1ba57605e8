//! Memory of our processes for each turn of `codex-exec` that runs.
//!
//! The threads have run a turn before, so that only what a running turn needs is counted. The model is
//! held while the turns run. Codex's own memory is not counted.

use turnlane_benchkit::goal;
use turnlane_benchkit::{InstantModel, float, is_quick};

use crate::server::Server;

pub(crate) async fn run() -> anyhow::Result<()> {
    let turns = if is_quick() { 2 } else { 6 };
    let model = InstantModel::start().await?;
    let mut per_turn = f64::NAN;
    if let Some(mut server) = Server::ours("codex-exec", &model).await? {
        let mut threads = Vec::new();
        for _ in 0..turns {
            threads.push(server.start_thread().await?);
        }
        // Twice: the first time every thread at once needs memory that the server keeps for later.
        run_all(&mut server, &model, &threads).await?;
        let idle = server.own_memory_mb()?;
        let running = run_all(&mut server, &model, &threads).await?;
        per_turn = (running - idle) / float(turns);
    }
    goal::head();
    goal::at_most("MB of ours per running turn of `codex-exec`", per_turn, 1.0);
    Ok(())
}

/// Runs a turn on each thread at once; returns the memory while all of them wait for the model.
async fn run_all(
    server: &mut Server,
    model: &InstantModel,
    threads: &[String],
) -> anyhow::Result<f64> {
    model.hold();
    let before = model.asked();
    for thread in threads {
        server.start_turn(thread).await?;
    }
    model.asked_by(before + threads.len()).await?;
    let running = server.own_memory_mb()?;
    model.release();
    for _ in threads {
        server.end_turn().await?;
    }
    Ok(running)
}
