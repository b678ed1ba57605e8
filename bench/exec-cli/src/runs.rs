//! Single runs, one after the other: how long until the first line, and until the exit.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use turnlane_benchkit::{Figures, Whose, both, table};
use turnlane_testkit::mock_model::{MockModel, Reply};

use crate::program::{Contender, model};

/// How often each kind of run is measured.
const ROUNDS: usize = 60;
/// How often each is interrupted.
const INTERRUPTS: usize = 15;

/// New threads, resumed ones, ephemeral ones.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = model().await?;
    let mut first = [Figures::default(), Figures::default()];
    let mut new = first.clone();
    let mut resumed = first.clone();
    let mut ephemeral = first.clone();
    let contenders = contenders(&mock)?;
    for round in 0..=ROUNDS {
        for (at, contender) in &contenders {
            let fresh = contender.run(&[]).await?;
            let again = contender.run(&["resume", &fresh.thread]).await?;
            let unsaved = contender.run(&["--ephemeral"]).await?;
            // The first round finds a new home.
            if round > 0 {
                first[*at].add_time(fresh.first);
                new[*at].add_time(fresh.exit);
                resumed[*at].add_time(again.exit);
                ephemeral[*at].add_time(unsaved.exit);
            }
        }
        mock.take_requests();
    }
    table::head();
    for (what, figures) in [
        ("first event, new thread", &first),
        ("exit, new thread", &new),
        ("exit, resume", &resumed),
        ("exit, ephemeral", &ephemeral),
    ] {
        for percent in [50, 99] {
            table::row(&format!("{what}, p{percent} ms"), both(figures, percent));
        }
    }
    Ok(())
}

/// From SIGINT while a command runs to the exit.
pub(crate) async fn interrupt() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    mock.choose_with(|_request| {
        Some(Reply::function_call(
            "exec_command",
            r#"{"cmd":"sleep 60"}"#,
        ))
    });
    let mut exits = [Figures::default(), Figures::default()];
    let contenders = contenders(&mock)?;
    for _ in 0..INTERRUPTS {
        for (at, contender) in &contenders {
            let mut process = contender.start(Contender::args(&[]))?;
            let stdout = process.take_stdout().context("no standard output")?;
            let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
            while let Some(line) = lines.next_line().await? {
                if line.contains("item.started") {
                    break;
                }
            }
            let pid = Pid::from_raw(process.pid()).context("a pid")?;
            let began = turnlane_benchkit::now();
            kill_process(pid, Signal::INT)?;
            process.wait(Duration::from_secs(30)).await?;
            exits[*at].add_time(began.elapsed());
        }
    }
    table::head();
    table::row("SIGINT during a command to exit, p50 ms", both(&exits, 50));
    Ok(())
}

/// `--version`: what starting the program costs at least.
pub(crate) async fn version() -> anyhow::Result<()> {
    let mock = model().await?;
    let mut exits = [Figures::default(), Figures::default()];
    let contenders = contenders(&mock)?;
    for _ in 0..ROUNDS {
        for (at, contender) in &contenders {
            let began = turnlane_benchkit::now();
            let mut process = contender.start(vec!["--version".into()])?;
            process.wait(Duration::from_secs(30)).await?;
            exits[*at].add_time(began.elapsed());
        }
    }
    table::head();
    table::row("`--version`, p50 ms", both(&exits, 50));
    Ok(())
}

/// Those that are there, with their column.
fn contenders(mock: &MockModel) -> anyhow::Result<Vec<(usize, Contender)>> {
    let mut all = Vec::new();
    for (at, whose) in Whose::BOTH.into_iter().enumerate() {
        all.extend(Contender::new(whose, mock)?.map(|contender| (at, contender)));
    }
    Ok(all)
}
