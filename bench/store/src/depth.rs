//! What a claim costs, by how many rows wait.
//!
//! The invariant here: every claim leaves the depth as it found it. On a busy lane it finds nothing;
//! on an idle one the row goes back to the head before the next claim. Claims are not durable, so no
//! sync is in these times.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use turnlane_store::queue::{CannotStart, Claimed};
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::{Store as _, ThreadId};

use crate::ours::{AT_MS, begin, callers, claim_of, complete, fill, next_id, open, threads};
use crate::{ROUNDS, now, println};
use turnlane_benchkit::Sample;

/// Lanes and rows per lane.
const SHAPES: [(usize, usize); 4] = [(1, 10), (1, 10_000), (1_000, 1_000), (1, 1_000_000)];
/// Claims of each kind in one round.
const CLAIMS: usize = 200;

struct Filled {
    lanes: Vec<ThreadId>,
    rows: usize,
    store: Arc<SqliteStore>,
    busy: Sample,
    real: Sample,
    took: Duration,
    _folder: TempDir,
}

pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = callers()?;
    let mut all = Vec::new();
    for (lanes, rows) in SHAPES {
        all.push(runtime.block_on(filled(lanes, rows))?);
    }
    for _ in 0..ROUNDS {
        for one in &mut all {
            runtime.block_on(one.busy_round())?;
            runtime.block_on(one.real_round())?;
        }
    }
    println(
        "| rows | lanes | filled, rows/s | claim on a busy lane, p50 µs | ÷ 10 rows | claim of the head, p50 µs | ÷ 10 rows |",
    );
    println("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let (busy, real) = (all[0].busy.percentile(50), all[0].real.percentile(50));
    for one in &all {
        let rows = one.rows * one.lanes.len();
        println(&format!(
            "| {rows} | {} | {:.0} | {:.1} | {:.2} | {:.1} | {:.2} |",
            one.lanes.len(),
            turnlane_benchkit::per_second(rows, one.took),
            one.busy.percentile(50),
            one.busy.percentile(50) / busy,
            one.real.percentile(50),
            one.real.percentile(50) / real,
        ));
    }
    Ok(())
}

async fn filled(lanes: usize, rows: usize) -> anyhow::Result<Filled> {
    let folder = tempfile::tempdir()?;
    let store = open(folder.path())?;
    let lanes = threads(&store, lanes).await?;
    let start = now();
    fill(&store, &lanes, rows).await?;
    Ok(Filled {
        lanes,
        rows,
        took: start.elapsed(),
        store,
        busy: Sample::default(),
        real: Sample::default(),
        _folder: folder,
    })
}

impl Filled {
    /// Claims on lanes where a turn runs.
    async fn busy_round(&mut self) -> anyhow::Result<()> {
        let mut begun = Vec::new();
        for lane in &self.lanes[..self.lanes.len().min(CLAIMS)] {
            begun.push(begin(&self.store, *lane).await?);
        }
        let (mut times, start) = (Vec::new(), now());
        for lane in self.lanes[..begun.len()].iter().cycle().take(CLAIMS) {
            let sent = now();
            let claimed = self.store.claim(claim_of(*lane)).await?;
            times.push(sent.elapsed());
            anyhow::ensure!(matches!(claimed, Claimed::NotNow(_)), "a lane is busy");
        }
        self.busy.add(times, start.elapsed());
        for turn in &begun {
            self.store.complete(complete(turn)).await?;
        }
        fill(&self.store, &self.lanes[..begun.len()], 1).await?;
        Ok(())
    }

    /// Claims of a head that goes back to where it was.
    async fn real_round(&mut self) -> anyhow::Result<()> {
        let mut times = Vec::new();
        for lane in self.lanes.iter().cycle().take(CLAIMS) {
            let sent = now();
            let claimed = self.store.claim(claim_of(*lane)).await?;
            times.push(sent.elapsed());
            let Claimed::Ours(claimed) = claimed else {
                anyhow::bail!("an idle lane with rows must give one");
            };
            let back = CannotStart::Back {
                turn: next_id().into(),
                not_before_ms: 0,
                waiting: None,
            };
            let row = claimed.row.id;
            self.store.unclaim(claimed.grip, row, back, AT_MS).await?;
        }
        let elapsed = times.iter().sum();
        self.real.add(times, elapsed);
        Ok(())
    }
}
