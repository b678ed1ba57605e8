//! Shims that have nothing to do: one with its own server, and many at one daemon.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use turnlane_benchkit::{
    InstantModel, Program, Whose, float, goal, is_quick, number_argument, println, tree,
};

use crate::member::{self, Member};
use crate::table;

/// Shims that start at once in the section `lanes`.
const STARTING: usize = 8;

/// Memory and processor time of an idle shim with its server inside.
pub(crate) async fn run() -> anyhow::Result<()> {
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let native = member::engine("native")?.unwrap_or_default();
    let mut member = Member::start(&home, "bench", &native).await?;
    // A shim that has worked, and whose statistics have been told.
    member.turn(0).await?;
    member.event("SessionStats").await?;
    let seconds = if is_quick() { 2 } else { 30 };
    let mut pids = tree::descendants(member.process.pid())?;
    pids.push(member.process.pid());
    let computed = || pids.iter().map(|pid| tree::thread_seconds(*pid)).sum();
    let before: anyhow::Result<f64> = computed();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after: anyhow::Result<f64> = computed();
    let per_second = (after? - before?) * 1e3 / Duration::from_secs(seconds).as_secs_f64();
    let resident = resident_mb(&member)?;
    let shares: anyhow::Result<f64> = pids.iter().map(|pid| tree::proportional_mb(*pid)).sum();
    table::head("idle shim with its server", &["MB"]);
    table::row("resident, files included", &[resident]);
    table::row("its part of all pages, its keeper included", &[shares?]);
    let private = tree::own_memory_mb(member.process.pid())?;
    table::row("without files, its keeper included", &[private]);
    goal::head();
    goal::at_most("resident, MB", resident, 20.0);
    goal::at_most("ms of processor time per second", per_second, 1.0);
    Ok(())
}

fn resident_mb(member: &Member) -> anyhow::Result<f64> {
    Ok(float(usize::try_from(member.process.rss_bytes()?)?) / 1e6)
}

/// Memory of each of many shims that are clients of one daemon.
pub(crate) async fn lanes() -> anyhow::Result<()> {
    let lanes = number_argument("lanes").unwrap_or(if is_quick() { 16 } else { 500 });
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let daemon = Program::start(
        Whose::Ours,
        &home,
        &["serve", "--listen", "ws://127.0.0.1:0"],
    )?;
    let daemon = daemon.context("our program")?;
    daemon.ready().await?;
    let before = daemon.private_mb()?;
    let mut arguments = member::engine("native")?.unwrap_or_default();
    arguments.extend(["--daemon".to_owned(), "require".to_owned()]);
    let mut members = Vec::new();
    let mut refusal = None;
    while members.len() < lanes && refusal.is_none() {
        let count = STARTING.min(lanes - members.len());
        let first = members.len();
        for at in first..first + count {
            members.push(Member::spawn(&home, &member::id(at), &arguments)?);
        }
        for at in first..first + count {
            if let Err(error) = members[at].ready().await {
                members.truncate(at);
                refusal = Some(error);
                break;
            }
        }
    }
    // A daemon takes a limited number of connections.
    let attached = members.len();
    ensure!(attached > 0, "{refusal:?}");
    let (mut shares, mut private, mut resident) = (0.0, 0.0, 0.0);
    for member in &mut members {
        member.call("Ping").await?;
        let pid = member.process.pid();
        shares += tree::proportional_mb(pid)?;
        private += tree::own_memory_mb(pid)?;
        resident += resident_mb(member)?;
    }
    let of_daemon = daemon.private_mb()? - before;
    println(&format!(
        "{attached} idle shims, attached to one daemon, each with a lane.\n"
    ));
    if let Some(refusal) = refusal {
        println(&format!("The next one was refused: {refusal}\n"));
    }
    table::head("for each of them", &["MB"]);
    let each = |sum: f64| [sum / float(attached)];
    table::row("resident, files included", &each(resident));
    table::row("its part of all pages", &each(shares));
    table::row("without files", &each(private));
    table::row("daemon, without files", &each(of_daemon));
    goal::head();
    goal::at_least("attached shims", float(attached), float(lanes));
    let [share] = each(shares);
    goal::at_most("a shim's part of all pages, MB", share, 5.0);
    drop(members);
    daemon.end().await
}
