//! What a loaded lane costs in memory: idle, after a turn, and after what was told is forgotten.
//!
//! The invariant here: resident memory of the whole process is read before and after, divided by the
//! lanes, with a few lanes loaded first so that what the process needs once is not counted. Memory
//! that was freed and not given back to the system counts as used.
//!
//! The runtime has one thread, whose clock can be moved: a lane forgets after a minute of idleness.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Builder;
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{Handle, Subscriber};

use crate::println;
use crate::world::{self, Ear};

const LANES: usize = 10_000;
const FIRST: usize = 500;
const PAGE: u64 = 4_096;
/// Longer than a lane remembers what was told.
const IDLE: Duration = Duration::from_secs(70);
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(measure())
}

async fn measure() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let world = world::start(folder.path()).await?;
    let handle = world.handle();
    let ear = Arc::new(Ear::default());
    let first = world::threads(&handle, FIRST).await?;
    let threads = world::threads(&handle, LANES).await?;
    join(&handle, &first, &ear).await?;
    world::add(&handle, first.iter().copied()).await?;
    ear.ended(FIRST).await;
    let before = resident()?;

    join(&handle, &threads, &ear).await?;
    let idle = resident()?;
    world::add(&handle, threads.iter().copied()).await?;
    ear.ended(LANES).await;
    let after_turn = resident()?;
    tokio::time::pause();
    tokio::time::advance(IDLE).await;
    tokio::time::resume();
    // Long enough for every lane to see that its clock has moved.
    tokio::time::sleep(SETTLE).await;
    let forgotten = resident()?;
    anyhow::ensure!(handle.loaded() == FIRST + LANES, "all lanes are loaded");

    println("| 10,000 loaded lanes with a subscriber | KiB per lane, resident |");
    println("| --- | ---: |");
    for (when, bytes) in [
        ("idle, nothing run yet", idle),
        ("right after one turn each", after_turn),
        ("a minute later", forgotten),
    ] {
        println(&format!("| {when} | {:.1} |", per_lane(bytes, before)));
    }
    world.stop(Duration::ZERO).await?;
    Ok(())
}

async fn join(handle: &Handle, threads: &[ThreadId], ear: &Arc<Ear>) -> anyhow::Result<()> {
    for thread in threads {
        let subscriber: Arc<dyn Subscriber> = Arc::clone(ear) as _;
        handle.subscribe(*thread, subscriber, None).await?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^52")]
fn per_lane(now: u64, before: u64) -> f64 {
    now.saturating_sub(before) as f64 / 1_024.0 / LANES as f64
}

/// What the process has in memory, in bytes.
fn resident() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).context("no second field")?;
    Ok(pages.parse::<u64>()? * PAGE)
}
