//! Queued turns through the whole runtime: how many per second, and at what price.
//!
//! The invariant here: the queue is full before the clock starts, since the lanes are paused while it
//! is filled; a turn counts when its end was told, which is after it was on disk. CPU time is that of
//! the whole process: lanes, engine, store.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{Handle, Subscriber};

use crate::ours::callers;
use crate::world::{self, Ear};
use crate::{ROUNDS, cpu_time, now, println};
use turnlane_benchkit::{Disk, Sample, median, per_second};

/// Lanes, and turns of each in one round.
const SHAPES: [(usize, usize); 2] = [(1, 300), (32, 40)];
/// Adds to an idle lane in one round.
const WAKES: usize = 200;
const LENGTH: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Drained {
    rates: Vec<f64>,
    cpu_ms: Vec<f64>,
}

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = callers()?;
    let mut disk = Disk::in_folder(folder.path())?;
    let world = runtime.block_on(world::start(folder.path()))?;
    let handle = world.handle();
    let mut drained = SHAPES.map(|_| Drained::default());
    let mut wakes = Sample::default();
    for _ in 0..ROUNDS {
        disk.round(LENGTH)?;
        for ((lanes, turns), drained) in SHAPES.into_iter().zip(&mut drained) {
            runtime.block_on(drain(&handle, lanes, turns, drained))?;
        }
        runtime.block_on(wake(&handle, &mut wakes))?;
    }
    runtime.block_on(world.stop(Duration::ZERO))?;
    let limit = disk.sample();
    println("| lanes | turns/s | per fdatasync | CPU ms per turn |");
    println("| ---: | ---: | ---: | ---: |");
    for ((lanes, _), drained) in SHAPES.into_iter().zip(&drained) {
        let rate = median(drained.rates.clone());
        println(&format!(
            "| {lanes} | {rate:.0} | {:.2} | {:.3} |",
            rate / limit.rate(),
            median(drained.cpu_ms.clone())
        ));
    }
    println("");
    println("| an idle lane, from the call of add to | p50 ms | p99 ms | p50 ÷ fdatasync |");
    println("| --- | ---: | ---: | ---: |");
    let (p50, p99) = (wakes.percentile(50), wakes.percentile(99));
    println(&format!(
        "| its turn's begin, told | {:.2} | {:.2} | {:.2} |",
        p50 / 1e3,
        p99 / 1e3,
        p50 / limit.percentile(50)
    ));
    Ok(())
}

/// Fills new lanes, then lets them run empty.
async fn drain(
    handle: &Handle,
    lanes: usize,
    turns: usize,
    drained: &mut Drained,
) -> anyhow::Result<()> {
    let ear = Arc::new(Ear::default());
    let threads = world::threads(handle, lanes).await?;
    let mut joined = Vec::new();
    for thread in &threads {
        joined.push(join(handle, *thread, &ear).await?);
        handle.pause(*thread, None, None).await?;
    }
    let full = threads.iter().copied().cycle().take(lanes * turns);
    world::add(handle, full).await?;
    let (start, cpu) = (now(), cpu_time());
    for thread in &threads {
        handle.resume(*thread).await?;
    }
    ear.ended(lanes * turns).await;
    let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let rate = per_second(lanes * turns, elapsed);
    drained.rates.push(rate);
    drained
        .cpu_ms
        .push(cpu.as_secs_f64() * 1e3 / (rate * elapsed.as_secs_f64()));
    for (thread, id) in threads.into_iter().zip(joined) {
        handle.unsubscribe(thread, id).await;
    }
    Ok(())
}

/// Adds to a lane that is loaded and idle.
async fn wake(handle: &Handle, sample: &mut Sample) -> anyhow::Result<()> {
    let ear = Arc::new(Ear::default());
    let thread = world::threads(handle, 1).await?[0];
    let id = join(handle, thread, &ear).await?;
    let (mut times, start) = (Vec::new(), now());
    for _ in 0..WAKES {
        let sent = now();
        handle.add(thread, world::turn()).await?;
        ear.ended(1).await;
        times.extend(ear.began().map(|began| began - sent));
    }
    sample.add(times, start.elapsed());
    handle.unsubscribe(thread, id).await;
    Ok(())
}

async fn join(
    handle: &Handle,
    thread: ThreadId,
    ear: &Arc<Ear>,
) -> anyhow::Result<turnlane_runtime::SubscriberId> {
    let subscriber: Arc<dyn Subscriber> = Arc::clone(ear) as _;
    Ok(handle.subscribe(thread, subscriber, None).await?.0)
}
