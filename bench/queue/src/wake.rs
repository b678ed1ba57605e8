//! How soon a row that was added runs: in the server it was added to, and in another one.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use turnlane_benchkit::{Figures, Program, Whose, Wire, both, now, table};

use crate::contender::{Contender, Kind, row};
use crate::rate::columns;
use crate::scaled;

/// From the answer to an add to an idle lane, to what follows.
pub(crate) async fn run() -> anyhow::Result<()> {
    let none = || [Figures::default(), Figures::default()];
    let (mut told, mut asked, mut ended) = (none(), none(), none());
    let mut contenders = Contender::all(&Kind::TWO).await?;
    let columns = columns(&contenders);
    for _ in 0..scaled(10, 1) {
        for (contender, at) in contenders.iter_mut().zip(&columns) {
            let thread = contender.thread().await?;
            for number in 0..scaled(21, 3) {
                let woken = wake(contender, &thread).await?;
                // The first turn of a thread loads what it needs.
                if number > 0 {
                    told[*at].add_time(woken.told);
                    asked[*at].add_time(woken.asked);
                    ended[*at].add_time(woken.ended);
                }
            }
        }
    }
    table::head();
    for (what, figures) in [
        ("add's answer to turn/started", &told),
        ("add's answer to the model's being asked", &asked),
        ("add's answer to turn/completed", &ended),
    ] {
        for percent in [50, 99] {
            table::row(&format!("{what}, p{percent} ms"), both(figures, percent));
        }
    }
    Ok(())
}

struct Woken {
    told: Duration,
    asked: Duration,
    ended: Duration,
}

async fn wake(contender: &mut Contender, thread: &str) -> anyhow::Result<Woken> {
    let before = contender.model.asked();
    let params = contender.row(thread);
    let id = contender.wire.request("thread/queue/add", &params).await?;
    let (mut answered, mut told): (Option<Instant>, Option<Instant>) = (None, None);
    let ended = loop {
        let message = contender.wire.next().await?;
        if message.answers == Some(id) {
            answered = Some(now());
        }
        match message.method.as_str() {
            "turn/started" => told = Some(now()),
            // Codex may answer the add after the turn's end.
            "turn/completed" if answered.is_some() => break now(),
            _ => {}
        }
    };
    let asked = contender.model.asked_by(before + 1).await?;
    let answered = answered.context("no answer")?;
    let since = |at: Instant| at.saturating_duration_since(answered);
    Ok(Woken {
        told: since(told.context("no turn/started")?),
        asked: since(asked),
        ended: since(ended),
    })
}

/// From the answer to an add made in another process, to the model's being asked by the server that
/// has the thread loaded.
pub(crate) async fn others() -> anyhow::Result<()> {
    let mut noticed = [Figures::default(), Figures::default()];
    let mut command = Figures::default();
    for (at, kind) in Kind::TWO.into_iter().enumerate() {
        let Some(mut contender) = Contender::start(kind).await? else {
            continue;
        };
        let rounds = match kind {
            Kind::Codex => scaled(5, 1),
            Kind::Stdio | Kind::Unix | Kind::WebSocket => scaled(50, 2),
        };
        let thread = contender.thread().await?;
        // A first turn: Codex writes a thread's file with it, and the other process must find it.
        contender.add(&thread).await?;
        contender.wire.until("turn/completed").await?;
        let (_program, mut other) = beside(&contender).await?;
        for number in 0..rounds {
            let before = contender.model.asked();
            let params = row(&thread, 1_000_000 + number);
            other.confirm("thread/queue/add", &params).await?;
            let answered = now();
            let asked = contender.model.asked_by(before + 1).await?;
            noticed[at].add_time(asked.saturating_duration_since(answered));
            contender.wire.until("turn/completed").await?;
            // The moments of the two processes' looking must not fall into step.
            let pause = u64::try_from(number % 7).unwrap_or(0) * 31;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if kind == Kind::Unix {
            for _ in 0..scaled(20, 2) {
                command.add_time(by_command(&mut contender, &thread).await?);
            }
        }
    }
    table::head();
    for percent in [50, 99] {
        table::row(
            &format!("another process's row, to the model's being asked, p{percent} ms"),
            both(&noticed, percent),
        );
    }
    table::row(
        "`turnlane queue add`, start of the command to the model's being asked, p50 ms",
        [f64::NAN, command.percentile(50)],
    );
    Ok(())
}

/// A second app-server in the same home.
async fn beside(contender: &Contender) -> anyhow::Result<(Program, Wire)> {
    let whose = match contender.kind {
        Kind::Codex => Whose::Codex,
        Kind::Stdio | Kind::Unix | Kind::WebSocket => Whose::Ours,
    };
    let program = Program::start(whose, &contender.home, &["app-server"])?;
    let mut program = program.context("it was there before")?;
    let wire = Wire::greet(program.stdio()?).await?;
    Ok((program, wire))
}

/// A row by the command for people, which finds the daemon.
async fn by_command(contender: &mut Contender, thread: &str) -> anyhow::Result<Duration> {
    let before = contender.model.asked();
    let began = now();
    let arguments = ["queue", "add", "--thread", thread, "please do the work"];
    let command = Program::start(Whose::Ours, &contender.home, &arguments)?;
    let mut command = command.context("ours is there")?;
    let status = command.process.wait(Duration::from_secs(30)).await?;
    // Before anything is waited for that only a command that did its work brings about.
    anyhow::ensure!(status.success(), "{}", command.process.stderr_tail());
    let asked = contender.model.asked_by(before + 1).await?;
    contender.wire.until("turn/completed").await?;
    Ok(asked - began)
}
