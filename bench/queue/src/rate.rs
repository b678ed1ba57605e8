//! Adds per second, with many under way.
//!
//! The invariant here: an add counts when it was answered, and the lanes are busy, so that nothing but
//! adds happens.

use turnlane_benchkit::{Disk, float, median, now, table};

use crate::contender::{Contender, IN_FLIGHT, Kind, row};
use crate::scaled;

/// Lanes that share what is in flight on one connection, and rows of each; Codex holds 100.
const LANES: usize = 8;
const ROWS: usize = 90;
/// Rows of one lane; ours holds 1,000.
const ROWS_OF_ONE: usize = 900;
/// Clients that add one by one.
const PRODUCERS: usize = 64;
const ROWS_OF_PRODUCER: usize = 40;

pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut disk = Disk::in_folder(folder.path())?;
    let mut contenders = Contender::all(&Kind::TWO).await?;
    let (mut shared, mut one, mut many) = ([vec![], vec![]], vec![], vec![]);
    let mut syncs = Vec::new();
    let columns = columns(&contenders);
    for _ in 0..scaled(5, 1) {
        syncs.push(bare(&mut disk)?);
        for (contender, at) in contenders.iter_mut().zip(&columns) {
            let threads = busy(contender, LANES).await?;
            let began = now();
            contender.fill(&threads, scaled(ROWS, 10)).await?;
            let adds = float(LANES * scaled(ROWS, 10));
            shared[*at].push(adds / began.elapsed().as_secs_f64());
            if contender.kind != Kind::Codex {
                one.push(on_one_lane(contender).await?);
                many.push(producers(contender).await?);
            }
        }
    }
    table::head();
    let none = f64::NAN;
    let shared = shared.map(median);
    table::row(
        &format!("adds/s, {IN_FLIGHT} in flight, {LANES} lanes, one client"),
        shared,
    );
    let one = median(one);
    table::row(
        &format!("adds/s, {IN_FLIGHT} in flight, one lane, one client"),
        [none, one],
    );
    let many = median(many);
    table::row(
        &format!("adds/s, {PRODUCERS} clients one by one, a lane each"),
        [none, many],
    );
    turnlane_benchkit::println(&format!(
        "\nCodex is slower by {:.2}. One writer with fdatasync after each 4 KiB makes {:.0}/s.",
        shared[1] / shared[0],
        median(syncs)
    ));
    Ok(())
}

/// Which column each is.
pub(crate) fn columns(contenders: &[Contender]) -> Vec<usize> {
    let column = |contender: &Contender| usize::from(contender.kind != Kind::Codex);
    contenders.iter().map(column).collect()
}

async fn busy(contender: &mut Contender, lanes: usize) -> anyhow::Result<Vec<String>> {
    let mut threads = Vec::new();
    for _ in 0..lanes {
        threads.push(contender.busy_thread().await?);
    }
    Ok(threads)
}

async fn on_one_lane(contender: &mut Contender) -> anyhow::Result<f64> {
    let threads = [contender.thread().await?];
    contender.about("thread/queue/pause", &threads[0]).await?;
    let began = now();
    let rows = scaled(ROWS_OF_ONE, 20);
    contender.fill(&threads, rows).await?;
    Ok(float(rows) / began.elapsed().as_secs_f64())
}

async fn producers(contender: &mut Contender) -> anyhow::Result<f64> {
    let rows = scaled(ROWS_OF_PRODUCER, 2);
    let mut clients = Vec::new();
    for _ in 0..PRODUCERS {
        let thread = contender.thread().await?;
        contender.about("thread/queue/pause", &thread).await?;
        clients.push((contender.another().await?, thread));
    }
    let began = now();
    let mut producing = tokio::task::JoinSet::new();
    for (mut wire, thread) in clients {
        producing.spawn(async move {
            for number in 0..rows {
                wire.confirm("thread/queue/add", &row(&thread, number))
                    .await?;
            }
            anyhow::Ok(wire)
        });
    }
    while let Some(ended) = producing.join_next().await {
        ended??;
    }
    Ok(float(PRODUCERS * rows) / began.elapsed().as_secs_f64())
}

fn bare(disk: &mut Disk) -> anyhow::Result<f64> {
    let (count, began) = (scaled(500, 10), now());
    for _ in 0..count {
        disk.once()?;
    }
    Ok(float(count) / began.elapsed().as_secs_f64())
}
