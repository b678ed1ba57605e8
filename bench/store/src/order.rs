//! Changing the order of a lane of 1,000 rows: all of it, and one row.
//!
//! The invariant here: each call changes something; the order is turned round, and the row that moves
//! goes from one end to the middle and back.

use std::time::Duration;

use turnlane_store::Store as _;
use turnlane_store::queue::{Move, MoveTo};

use crate::ours::{AT_MS, callers, fill, open, threads};
use crate::{ROUNDS, cpu_time, now, println};
use turnlane_benchkit::{Disk, Sample, median};

const ROWS: usize = 1_000;
/// Calls of each kind in one round.
const CALLS: usize = 30;
const LENGTH: Duration = Duration::from_millis(200);

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = callers()?;
    let store = open(folder.path())?;
    let lane = runtime.block_on(threads(&store, 1))?[0];
    let mut order = runtime.block_on(fill(&store, &[lane], ROWS))?;
    let mut disk = Disk::in_folder(folder.path())?;
    let (mut reorder, mut moved) = (Sample::default(), Sample::default());
    let (mut reorder_cpu, mut moved_cpu) = (Vec::new(), Vec::new());
    for _ in 0..2 * ROUNDS {
        disk.round(LENGTH)?;
        let (mut times, start, cpu) = (Vec::new(), now(), cpu_time());
        for _ in 0..CALLS {
            order.reverse();
            let sent = now();
            runtime.block_on(store.reorder(lane, order.clone(), AT_MS))?;
            times.push(sent.elapsed());
        }
        reorder.add(times, start.elapsed());
        reorder_cpu.push(per_call(cpu));
        let (mut times, start, cpu) = (Vec::new(), now(), cpu_time());
        for call in 0..CALLS {
            let to = [MoveTo::Index(500), MoveTo::Index(0)][call % 2];
            let to = Move {
                thread: lane,
                row: order[0],
                to,
                at_ms: AT_MS,
            };
            let sent = now();
            runtime.block_on(store.move_row(to))?;
            times.push(sent.elapsed());
        }
        moved.add(times, start.elapsed());
        moved_cpu.push(per_call(cpu));
    }
    println("| in a lane of 1,000 rows | p50 ms | p99 ms | p50 ÷ fdatasync | CPU ms |");
    println("| --- | ---: | ---: | ---: | ---: |");
    let limit = disk.sample();
    for (what, sample, cpu) in [
        ("fdatasync", limit, "–".to_owned()),
        (
            "reorder all",
            &reorder,
            format!("{:.2}", median(reorder_cpu.clone())),
        ),
        (
            "move one",
            &moved,
            format!("{:.2}", median(moved_cpu.clone())),
        ),
    ] {
        let (p50, p99) = (sample.percentile(50), sample.percentile(99));
        println(&format!(
            "| {what} | {:.2} | {:.2} | {:.1} | {cpu} |",
            p50 / 1e3,
            p99 / 1e3,
            p50 / limit.percentile(50)
        ));
    }
    Ok(())
}

/// Milliseconds of CPU time per call since then, of the whole process.
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn per_call(since: Duration) -> f64 {
    cpu_time().saturating_sub(since).as_secs_f64() * 1e3 / CALLS as f64
}
