//! Wall and processor time of a turn: our engines beside Codex itself.

use turnlane_benchkit::goal;
use turnlane_benchkit::{InstantModel, is_quick};

use crate::bare_exec::BareExec;
use crate::race::{self, Entrant};
use crate::server::Server;

/// The engine `codex` beside its child without us.
pub(crate) async fn codex() -> anyhow::Result<()> {
    let model = InstantModel::start().await?;
    let mut entrants = [
        Entrant::new("`codex app-server`", Server::codex(&model).await?),
        Entrant::new("engine `codex`", Server::ours("codex", &model).await?),
    ];
    race::run(&mut entrants, if is_quick() { 4 } else { 300 }).await?;
    let [bare, ours] = &entrants;
    race::print(&entrants, bare);
    goal::head();
    goal::at_most("added p50, ms", ours.p50() - bare.p50(), 3.0);
    let added = ours.added_to(bare);
    goal::at_most("added in a round, p50, ms", added, 3.0);
    goal::at_most("CPU of our process per turn, ms", ours.own_cpu, 3.0);
    goal::at_most("the same, stricter", ours.own_cpu, 2.0);
    Ok(())
}

/// The engine `codex-exec` beside `codex exec` without us.
pub(crate) async fn exec() -> anyhow::Result<()> {
    let model = InstantModel::start().await?;
    let mut entrants = [
        Entrant::new("`codex exec`", BareExec::new(&model)?),
        Entrant::new(
            "engine `codex-exec`",
            Server::ours("codex-exec", &model).await?,
        ),
    ];
    race::run(&mut entrants, if is_quick() { 2 } else { 100 }).await?;
    let [bare, ours] = &entrants;
    race::print(&entrants, bare);
    goal::head();
    goal::at_most("wall p50 ÷ `codex exec`", ours.p50() / bare.p50(), 1.03);
    goal::at_most("added p50, ms", ours.p50() - bare.p50(), 10.0);
    let added = ours.added_to(bare);
    goal::at_most("added in a round, p50, ms", added, 10.0);
    goal::at_most("CPU of our process per turn, ms", ours.own_cpu, 5.0);
    let added = ours.all_cpu - bare.all_cpu;
    goal::at_most("CPU added, children included, ms", added, 5.0);
    Ok(())
}

/// All engines beside one `codex exec` per turn.
pub(crate) async fn all() -> anyhow::Result<()> {
    let model = InstantModel::start().await?;
    let mut entrants = [
        Entrant::new("`codex exec`, one process per turn", BareExec::new(&model)?),
        Entrant::new("engine `native`", Server::ours("native", &model).await?),
        Entrant::new("engine `codex`", Server::ours("codex", &model).await?),
        Entrant::new(
            "engine `codex-exec`",
            Server::ours("codex-exec", &model).await?,
        ),
    ];
    race::run(&mut entrants, if is_quick() { 2 } else { 60 }).await?;
    let [bare, _, codex, codex_exec] = &entrants;
    race::print(&entrants, bare);
    goal::head();
    let ratio = codex.all_cpu / codex_exec.all_cpu;
    goal::at_most("CPU per turn, `codex` ÷ `codex-exec`", ratio, 0.25);
    Ok(())
}
