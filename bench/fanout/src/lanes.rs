//! `thread/queue/add` while a million rows are imported, beside the same adds without an import.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_benchkit::{Figures, Wire, goal, now, println};
use turnlane_testkit::TempHome;

use crate::daemon::{Daemon, create, import};
use crate::million::write_rows;
use crate::model::WorkerModel;
use crate::run::home;
use crate::scaled;

/// Threads whose paused queues take the adds in turn; each holds at most 1,000.
const THREADS: usize = 100;

/// A client that adds rows to paused queues.
struct Adder {
    wire: Wire,
    threads: Vec<String>,
    added: usize,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let rows = scaled(1_000_000, 2_000);
    let rounds = scaled(3, 1);
    let model = WorkerModel::start(Duration::ZERO).await?;
    let home = home(&model)?;
    let input = home.workspace().join("in.csv");
    write_rows(&input, rows)?;
    let mut daemon = Daemon::start(&home, &[]).await?;
    let mut adder = Adder::new(&home).await?;
    let (mut without, mut with) = (Figures::default(), Figures::default());
    let mut counts = [0; 2];
    for round in 0..rounds {
        let before = adder.added;
        for _ in 0..scaled(2_000, 20) {
            without.add(adder.add().await?);
        }
        counts[0] += adder.added - before;
        let params = json!({"name": format!("round {round}"), "instruction": "Describe {path}"});
        let job = create(&mut daemon.wire, &params).await?;
        let before = adder.added;
        let params = import(&job, &input);
        let importing = daemon.wire.confirm("fanout/import", &params);
        tokio::pin!(importing);
        loop {
            // The add is never cut off: its answer belongs to it.
            let (time, imported) = beside(adder.add(), importing.as_mut()).await?;
            with.add(time);
            if imported {
                break;
            }
        }
        counts[1] += adder.added - before;
    }
    daemon.end().await?;
    println(&format!(
        "| `thread/queue/add`, {rounds} imports of {rows} rows | adds | p50 ms | p99 ms |"
    ));
    println("| --- | ---: | ---: | ---: |");
    for (what, figures, count) in [
        ("without an import", &without, counts[0]),
        ("during the import", &with, counts[1]),
    ] {
        let (p50, p99) = (figures.percentile(50), figures.percentile(99));
        println(&format!("| {what} | {count} | {p50:.2} | {p99:.2} |"));
    }
    goal::head();
    let ratio = with.percentile(99) / without.percentile(99);
    goal::at_most("p99 during the import ÷ without", ratio, 3.0);
    Ok(())
}

/// Awaits `add` to its end and moves `importing` on meanwhile; whether the import has ended.
async fn beside(
    add: impl Future<Output = anyhow::Result<f64>>,
    importing: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<(f64, bool)> {
    tokio::pin!(add, importing);
    tokio::select! {
        biased;
        time = &mut add => Ok((time?, false)),
        imported = &mut importing => {
            imported?;
            Ok((add.await?, true))
        }
    }
}

impl Adder {
    async fn new(home: &TempHome) -> anyhow::Result<Self> {
        let mut wire = Daemon::client(home).await?;
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let params = json!({"cwd": home.workspace()});
            let started = wire.call("thread/start", &params).await?;
            let id = started["thread"]["id"].as_str().context("a thread's id")?;
            let params = json!({"threadId": id});
            wire.confirm("thread/queue/pause", &params).await?;
            wire.confirm("thread/unsubscribe", &params).await?;
            threads.push(id.to_owned());
        }
        Ok(Self {
            wire,
            threads,
            added: 0,
        })
    }

    /// Adds a row; milliseconds until its answer.
    async fn add(&mut self) -> anyhow::Result<f64> {
        let thread = &self.threads[self.added % self.threads.len()];
        self.added += 1;
        let params = row(thread, self.added);
        let began = now();
        self.wire.confirm("thread/queue/add", &params).await?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }
}

fn row(thread: &str, number: usize) -> Value {
    let text = format!("please do the work with the number {number}");
    json!({"threadId": thread, "clientUserMessageId": format!("row-{number}"),
        "input": [{"type": "text", "text": text, "text_elements": []}]})
}
