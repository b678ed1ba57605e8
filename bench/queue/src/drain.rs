//! A thousand turns that wait, run one after the other.
//!
//! The invariant here: all contenders run the same turns on one thread, whose history grows with each,
//! and a turn counts when its end was told. Ours holds all of them before the clock starts; Codex holds
//! 100, so the others are added as it goes, one for each that has ended, in the time it needs anyway.

use std::time::Duration;

use anyhow::ensure;
use turnlane_benchkit::{Program, float, now};

use crate::contender::{Contender, Kind};
use crate::scaled;

/// How many.
const TURNS: usize = 1_000;
/// What Codex holds.
const HELD: usize = 100;

/// One contender's drain.
struct Drained {
    turns: usize,
    took: Duration,
    cpu_ms: f64,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    turnlane_benchkit::println(
        "| who | client | turns | seconds | turns/s | server CPU ms per turn | times faster than Codex |",
    );
    turnlane_benchkit::println("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    let turns = scaled(TURNS, 20);
    let mut codex = f64::NAN;
    for kind in Kind::ALL {
        let Some(mut contender) = Contender::start(kind).await? else {
            continue;
        };
        let drained = listened(&mut contender, turns).await?;
        if kind == Kind::Codex {
            codex = drained.took.as_secs_f64();
        }
        shown(kind.name(), "subscribed", &drained, codex);
        if kind == Kind::Unix {
            let drained = unattended(contender, turns).await?;
            shown(kind.name(), "none", &drained, codex);
        }
    }
    Ok(())
}

/// With a client that hears everything.
async fn listened(contender: &mut Contender, turns: usize) -> anyhow::Result<Drained> {
    let thread = contender.busy_thread().await?;
    let threads = std::slice::from_ref(&thread);
    let full = match contender.kind {
        Kind::Codex => turns.min(HELD),
        Kind::Stdio | Kind::Unix | Kind::WebSocket => turns,
    };
    contender.fill(threads, full).await?;
    let cpu = contender.program.cpu_seconds()?;
    let began = now();
    contender.model.release();
    let (mut ended, mut to_add) = (0, turns - full);
    // One more than were added: the turn that held the lane.
    while ended < turns + 1 {
        let message = contender.wire.next().await?;
        if message.method != "turn/completed" {
            continue;
        }
        ended += 1;
        let end = message.value()?;
        let status = &end["params"]["turn"]["status"];
        ensure!(status == "completed", "{end}");
        // The first end is that of the turn that held the lane, whose place nobody took.
        if ended > 1 && to_add > 0 {
            let params = contender.row(&thread);
            contender.wire.request("thread/queue/add", &params).await?;
            to_add -= 1;
        }
    }
    let took = began.elapsed();
    drained(&contender.program, turns + 1, took, cpu)
}

/// With nobody connected, until the model has been asked for the last.
async fn unattended(mut contender: Contender, turns: usize) -> anyhow::Result<Drained> {
    let thread = contender.thread().await?;
    contender.about("thread/queue/pause", &thread).await?;
    contender.fill(std::slice::from_ref(&thread), turns).await?;
    contender.about("thread/unsubscribe", &thread).await?;
    let before = contender.model.asked();
    let cpu = contender.program.cpu_seconds()?;
    let began = now();
    contender.about("thread/queue/resume", &thread).await?;
    let Contender {
        wire,
        model,
        program,
        ..
    } = contender;
    drop(wire);
    let last = model.asked_by(before + turns).await?;
    drained(&program, turns, last - began, cpu)
}

fn drained(
    program: &Program,
    turns: usize,
    took: Duration,
    cpu_before: f64,
) -> anyhow::Result<Drained> {
    let cpu = program.cpu_seconds()? - cpu_before;
    Ok(Drained {
        turns,
        took,
        cpu_ms: cpu * 1e3 / float(turns),
    })
}

fn shown(who: &str, client: &str, drained: &Drained, codex_seconds: f64) {
    let seconds = drained.took.as_secs_f64();
    turnlane_benchkit::println(&format!(
        "| {who} | {client} | {} | {seconds:.2} | {:.1} | {:.2} | {:.1} |",
        drained.turns,
        float(drained.turns) / seconds,
        drained.cpu_ms,
        codex_seconds / seconds,
    ));
}
