//! Turns through the store alone: claimed and accepted, then completed, both on disk.
//!
//! The invariant here: a cycle is two durable operations that depend on each other, so one lane can
//! never be faster than two syncs per turn; lanes beside each other share them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::{Store as _, ThreadId};

use crate::ours::{all, begin, callers, complete, fill, open, threads};
use crate::{ROUNDS, now, println};
use turnlane_benchkit::{Disk, Sample};

const LANES: [usize; 2] = [1, 64];
/// How long one round takes.
const LENGTH: Duration = Duration::from_secs(1);
/// More than can run within a round, on one lane or all.
const ROWS: usize = 40_000;

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = callers()?;
    let store = open(folder.path())?;
    println("| lanes | claim + accept + complete/s | p50 µs | p99 µs | per fdatasync pair |");
    println("| ---: | ---: | ---: | ---: | ---: |");
    for count in LANES {
        let lanes = runtime.block_on(threads(&store, count))?;
        let mut disk = Disk::in_folder(folder.path())?;
        let mut ours = Sample::default();
        for _ in 0..ROUNDS {
            runtime.block_on(fill(&store, &lanes, ROWS / count / ROUNDS))?;
            disk.round(LENGTH)?;
            runtime.block_on(round(&store, &lanes, &mut ours))?;
        }
        println(&format!(
            "| {count} | {:.0} | {:.0} | {:.0} | {:.2} |",
            ours.rate(),
            ours.percentile(50),
            ours.percentile(99),
            ours.rate() / (disk.sample().rate() / 2.0),
        ));
    }
    Ok(())
}

async fn round(
    store: &Arc<SqliteStore>,
    lanes: &[ThreadId],
    sample: &mut Sample,
) -> anyhow::Result<()> {
    let start = now();
    let mut tasks = JoinSet::new();
    for lane in lanes.iter().copied() {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let mut times = Vec::new();
            while start.elapsed() < LENGTH {
                let sent = now();
                let begun = begin(&store, lane).await?;
                store.complete(complete(&begun)).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let times = all(tasks).await?;
    sample.add(times, start.elapsed());
    Ok(())
}
