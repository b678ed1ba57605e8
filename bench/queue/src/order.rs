//! Changing the order of a queue.

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_benchkit::{Figures, both, now, table};

use crate::contender::{Contender, Kind};
use crate::rate::columns;
use crate::scaled;

/// Codex holds 100 rows.
const FEW: usize = 100;
/// Ours holds 1,000.
const MANY: usize = 1_000;
/// Rows of a page.
const PAGE: usize = 100;

pub(crate) async fn run() -> anyhow::Result<()> {
    let rounds = scaled(20, 2);
    let mut contenders = Contender::all(&Kind::TWO).await?;
    let columns = columns(&contenders);
    let none = || [Figures::default(), Figures::default()];
    let (mut few, mut many, mut moved) = (none(), none(), none());
    for (contender, at) in contenders.iter_mut().zip(&columns) {
        let thread = contender.busy_thread().await?;
        contender.fill(std::slice::from_ref(&thread), FEW).await?;
        few[*at] = reorder(contender, &thread, rounds).await?;
        if contender.kind != Kind::Codex {
            let thread = contender.busy_thread().await?;
            contender.fill(std::slice::from_ref(&thread), MANY).await?;
            many[*at] = reorder(contender, &thread, rounds).await?;
            moved[*at] = move_one(contender, &thread, rounds * 5).await?;
        }
    }
    table::head();
    for (what, figures) in [
        ("reorder 100 rows", &few),
        ("reorder 1,000 rows", &many),
        ("move the last of 1,000 rows to the head", &moved),
    ] {
        for percent in [50, 99] {
            table::row(&format!("{what}, p{percent} ms"), both(figures, percent));
        }
    }
    Ok(())
}

/// Turns the order around, again and again.
async fn reorder(
    contender: &mut Contender,
    thread: &str,
    rounds: usize,
) -> anyhow::Result<Figures> {
    let mut ids = rows(contender, thread).await?;
    let mut figures = Figures::default();
    for _ in 0..rounds {
        ids.reverse();
        let params = json!({"threadId": thread, "queuedSubmissionIds": ids});
        let began = now();
        let wire = &mut contender.wire;
        wire.confirm("thread/queue/reorder", &params).await?;
        figures.add_time(began.elapsed());
    }
    Ok(figures)
}

async fn move_one(
    contender: &mut Contender,
    thread: &str,
    rounds: usize,
) -> anyhow::Result<Figures> {
    let ids = rows(contender, thread).await?;
    let mut figures = Figures::default();
    for id in ids.iter().rev().take(rounds) {
        let params = json!({"threadId": thread, "queuedTurnId": id, "position": 0});
        let began = now();
        contender.wire.confirm("thread/queue/move", &params).await?;
        figures.add_time(began.elapsed());
    }
    Ok(figures)
}

/// The ids of all rows, in order.
pub(crate) async fn rows(contender: &mut Contender, thread: &str) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({"threadId": thread, "limit": PAGE, "cursor": cursor});
        let page = contender.wire.call("thread/queue/list", &params).await?;
        for row in page["data"].as_array().context("no rows")? {
            ids.push(row["id"].as_str().context("no id")?.to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return Ok(ids);
        }
    }
}
