//! Processor time of a message, and the time from `Kill` to the exit of the shim.

use anyhow::ensure;
use serde_json::json;
use turnlane_benchkit::{Figures, InstantModel, float, goal, is_quick, now, tree};
use turnlane_testkit::wait::DEADLINE;

use crate::member::{self, Member, message};
use crate::table;

/// Processor time of one message with the reference design, in milliseconds.
const REFERENCE_MS: f64 = 300.0;

/// Processor time per message with each engine, everything that the shim started included.
pub(crate) async fn cpu() -> anyhow::Result<()> {
    let native = per_message("native", if is_quick() { 10 } else { 500 }).await?;
    let codex = per_message("codex", if is_quick() { 3 } else { 100 }).await?;
    let columns = ["shim and keeper", "with the processes they started"];
    table::head("ms of processor time per message", &columns);
    for (engine, (own, all)) in [("native", native), ("codex", codex)] {
        table::row(&format!("engine `{engine}`"), &[own, all]);
    }
    goal::head();
    let limit = REFERENCE_MS / 20.0;
    goal::at_most("`native`, ms per message", native.1, limit);
    let limit = REFERENCE_MS / 4.0;
    goal::at_most("`codex`, child included, ms per message", codex.1, limit);
    Ok(())
}

/// Milliseconds of the shim itself, and of the shim with everything it started; not numbers where Codex is
/// not there.
async fn per_message(engine: &str, messages: usize) -> anyhow::Result<(f64, f64)> {
    let Some(arguments) = member::engine(engine)? else {
        return Ok((f64::NAN, f64::NAN));
    };
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let mut member = Member::start(&home, "bench", &arguments).await?;
    // The first one opens the thread in the engine.
    member.turn(messages).await?;
    let pid = member.process.pid();
    let before = tree::cpu_seconds(pid)?;
    for number in 0..messages {
        member.turn(number).await?;
    }
    let after = tree::cpu_seconds(pid)?;
    ensure!(
        model.asked() == messages + 1,
        "{} model calls",
        model.asked()
    );
    let per_message = |seconds: f64| seconds * 1e3 / float(messages);
    Ok((
        per_message(after.own - before.own),
        per_message(after.all - before.all),
    ))
}

/// `Kill` to the exit of the shim while a turn waits for the model.
pub(crate) async fn kill() -> anyhow::Result<()> {
    let mut measured = Vec::new();
    for engine in ["native", "codex"] {
        let mut times = Figures::default();
        if let Some(arguments) = member::engine(engine)? {
            for _ in 0..if is_quick() { 2 } else { 20 } {
                kill_once(&arguments, &mut times).await?;
            }
        }
        measured.push((engine, times));
    }
    table::head("ms from `Kill` to the exit", &["p50", "p99"]);
    for (engine, times) in &measured {
        table::row(
            &format!("engine `{engine}`"),
            &[50, 99].map(|at| times.percentile(at)),
        );
    }
    goal::head();
    for (engine, times) in &measured {
        let what = format!("`{engine}`, a turn running, p99, ms");
        goal::at_most(&what, times.percentile(99), 500.0);
    }
    Ok(())
}

async fn kill_once(arguments: &[String], times: &mut Figures) -> anyhow::Result<()> {
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let mut member = Member::start(&home, "bench", arguments).await?;
    model.hold();
    member.send(&message(0)).await?;
    model.asked_by(1).await?;
    let started = tree::descendants(member.process.pid())?;
    let sent = now();
    member.send(&json!({"cmd": "Kill"})).await?;
    let status = member.process.wait(DEADLINE).await?;
    times.add_time(sent.elapsed());
    ensure!(status.code() == Some(0), "{status}");
    for pid in started {
        let exists = std::path::Path::new(&format!("/proc/{pid}")).exists();
        ensure!(!exists, "process {pid} outlived the shim");
    }
    Ok(())
}
