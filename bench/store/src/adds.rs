//! Durable adds per second and their latency, from one producer to 256.
//!
//! The invariant here: a producer submits its next row when its last one is on disk, so `n` producers
//! are `n` adds in flight; each has a lane of its own, but for the last line, where 32 share one.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::{Store as _, ThreadId};

use crate::ours::{all, append, callers, open, threads};
use crate::pool::Pool;
use crate::{ROUNDS, now, println};
use turnlane_benchkit::{Disk, Sample};

const PRODUCERS: [usize; 4] = [1, 8, 64, 256];
/// In flight on one lane.
const ON_ONE_LANE: usize = 32;
/// How long a contender has in one round. Short rounds, so that noise falls on all alike.
const LENGTH: Duration = Duration::from_millis(500);
/// Long enough for the logs of ours and of the pool to have their size.
const WARM_UP: usize = 6;

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = callers()?;
    let store = open(folder.path())?;
    let pool = Pool::start(folder.path())?;
    let lanes = runtime.block_on(threads(&store, 256))?;
    for _ in 0..WARM_UP {
        runtime.block_on(round(&store, &lanes[..8], 8, &mut Sample::default()))?;
        runtime.block_on(pool_round(&pool, &lanes[..8], 8, &mut Sample::default()))?;
    }
    println(
        "| producers | who | adds/s | p50 µs | p99 µs | adds/s ÷ pool | p50 ÷ fdatasync | p99 ÷ fdatasync | adds per commit |",
    );
    println("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut all_lanes: Vec<(usize, &str, &[ThreadId])> = PRODUCERS
        .into_iter()
        .map(|count| (count, "", &lanes[..count]))
        .collect();
    all_lanes.push((ON_ONE_LANE, ", one lane", &lanes[..1]));
    for (producers, how, lanes) in all_lanes {
        let mut disk = Disk::in_folder(folder.path())?;
        let (mut ours, mut theirs) = (Sample::default(), Sample::default());
        let before = store.counts();
        for _ in 0..2 * ROUNDS {
            disk.round(LENGTH)?;
            runtime.block_on(round(&store, lanes, producers, &mut ours))?;
            runtime.block_on(pool_round(&pool, lanes, producers, &mut theirs))?;
        }
        let after = store.counts();
        let commits = ratio(
            after.operations - before.operations,
            after.durable_commits - before.durable_commits,
        );
        let limit = disk.sample();
        for (who, sample, commits) in [
            ("fdatasync", limit, 1.0),
            ("pool of 5", &theirs, 1.0),
            ("ours", &ours, commits),
        ] {
            let (p50, p99) = (sample.percentile(50), sample.percentile(99));
            println(&format!(
                "| {producers}{how} | {who} | {:.0} | {p50:.0} | {p99:.0} | {:.2} | {:.2} | {:.2} | {commits:.1} |",
                sample.rate(),
                sample.rate() / theirs.rate(),
                p50 / limit.percentile(50),
                p99 / limit.percentile(99),
            ));
        }
    }
    Ok(())
}

async fn round(
    store: &Arc<SqliteStore>,
    lanes: &[ThreadId],
    producers: usize,
    sample: &mut Sample,
) -> anyhow::Result<()> {
    let start = now();
    let mut tasks = JoinSet::new();
    for lane in lanes.iter().copied().cycle().take(producers) {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let mut times = Vec::new();
            while start.elapsed() < LENGTH {
                let row = append(lane);
                let sent = now();
                store.append(row).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let times = all(tasks).await?;
    sample.add(times, start.elapsed());
    Ok(())
}

async fn pool_round(
    pool: &Pool,
    lanes: &[ThreadId],
    producers: usize,
    sample: &mut Sample,
) -> anyhow::Result<()> {
    static POSITION: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
    let start = now();
    let mut tasks = JoinSet::new();
    for lane in lanes.iter().copied().cycle().take(producers) {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut times = Vec::new();
            while start.elapsed() < LENGTH {
                let position = POSITION.fetch_add(1_024, std::sync::atomic::Ordering::Relaxed);
                let sent = now();
                pool.add(lane, position).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let times = all(tasks).await?;
    sample.add(times, start.elapsed());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to as f64
}
