//! What rows that wait cost the daemon in memory.
//!
//! The invariant here: what rows cost is the difference between two daemons that did the same in homes
//! of their own, one with the rows and one without. Memory that was freed and not given back to the
//! system counts as used; pages of the database's files that are mapped count in RSS and not in the
//! private part.

use serde_json::json;
use turnlane_benchkit::{float, table};

use crate::contender::{Contender, Kind};
use crate::order::rows;
use crate::scaled;

const THREADS: usize = 1_000;
const ROWS_OF_EACH: usize = 10;

/// Megabytes: resident, and the private part of it.
type Held = [f64; 2];

/// A daemon's memory at each step.
#[derive(Default)]
struct Steps(Vec<(&'static str, Held)>);

impl Steps {
    fn note(&mut self, what: &'static str, contender: &Contender) -> anyhow::Result<()> {
        let program = &contender.program;
        self.0
            .push((what, [program.resident_mb()?, program.private_mb()?]));
        Ok(())
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let threads = scaled(THREADS, 20);
    let without = daemon(threads, 0).await?;
    let with = daemon(threads, ROWS_OF_EACH).await?;
    let rows = threads * ROWS_OF_EACH;
    turnlane_benchkit::println(&format!(
        "| MB of the daemon, {threads} threads | no rows, RSS | {rows} rows, RSS | rows cost, RSS | rows cost, private |"
    ));
    turnlane_benchkit::println("| --- | ---: | ---: | ---: | ---: |");
    for ((what, [rss, private]), (_, [rss_with, private_with])) in without.0.iter().zip(&with.0) {
        turnlane_benchkit::println(&format!(
            "| {what} | {rss:.1} | {rss_with:.1} | {:.1} | {:.1} |",
            rss_with - rss,
            private_with - private,
        ));
    }
    turnlane_benchkit::println("");
    beside_codex().await
}

async fn daemon(threads: usize, rows_of_each: usize) -> anyhow::Result<Steps> {
    let mut steps = Steps::default();
    let mut contender = Contender::start(Kind::Unix).await?;
    let Some(mut contender) = contender.take() else {
        return Ok(steps);
    };
    steps.note("a new home", &contender)?;
    let mut ids = Vec::new();
    for _ in 0..threads {
        let id = contender.thread().await?;
        contender.about("thread/queue/pause", &id).await?;
        ids.push(id);
    }
    steps.note("threads made, loaded and paused", &contender)?;
    contender.fill(&ids, rows_of_each).await?;
    steps.note("rows added", &contender)?;
    list(&mut contender, &ids).await?;
    steps.note("all queues listed", &contender)?;
    let mut contender = contender.restart().await?;
    steps.note("after a restart", &contender)?;
    list(&mut contender, &ids).await?;
    steps.note("restarted, all queues listed", &contender)?;
    for id in &ids {
        contender.about("thread/resume", id).await?;
    }
    steps.note("restarted, all threads loaded", &contender)?;
    Ok(steps)
}

async fn list(contender: &mut Contender, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        rows(contender, id).await?;
    }
    Ok(())
}

/// Rows of threads whose turns run, since that is how Codex holds rows: 100 threads of 100 rows.
async fn beside_codex() -> anyhow::Result<()> {
    let (threads, rows_of_each) = (scaled(100, 3), scaled(100, 10));
    let mut cost = [f64::NAN; 2];
    for (at, kind) in Kind::TWO.into_iter().enumerate() {
        let Some(mut contender) = Contender::start(kind).await? else {
            continue;
        };
        let mut ids = Vec::new();
        for _ in 0..threads {
            ids.push(contender.thread().await?);
        }
        contender.model.hold();
        for id in &ids {
            let input = json!([{"type": "text", "text": "first", "text_elements": []}]);
            let params = json!({"threadId": id, "input": input});
            contender.wire.confirm("turn/start", &params).await?;
        }
        let before = contender.program.resident_mb()?;
        contender.fill(&ids, rows_of_each).await?;
        cost[at] = contender.program.resident_mb()? - before;
    }
    table::head();
    let rows = float(threads * rows_of_each);
    table::row(
        &format!("MB for {rows} rows of {threads} threads with a turn each"),
        cost,
    );
    table::row("KB per row", cost.map(|cost| cost * 1e3 / rows));
    Ok(())
}
