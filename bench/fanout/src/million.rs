//! A job of a million rows: import, first item, reads, pause, export, cancel.
//!
//! Each step whose memory counts has a daemon of its own, since the peak of a process never falls.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_benchkit::{Figures, Wire, float, goal, now, println};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::DEADLINE;

use crate::daemon::{Daemon, create, disk_mb, import};
use crate::model::WorkerModel;
use crate::run::{home, lines};
use crate::scaled;

/// The items that run at once until the pause.
const AT_ONCE: usize = 8;

/// Whether rows have ids of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    Computed,
    Column,
}

/// What an import took.
struct Imported {
    seconds: f64,
    cpu_seconds: f64,
    /// From the request that makes the job to the first request of a worker.
    first_item_seconds: f64,
    peak_mb: f64,
    disk_mb: f64,
    job: String,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let rows = scaled(1_000_000, 2_000);
    let model = WorkerModel::start(Duration::ZERO).await?;
    let with_ids = home(&model)?;
    let ids = imported(&with_ids, &model, rows, Ids::Column).await?;
    drop(with_ids);
    let home = home(&model)?;
    let plain = imported(&home, &model, rows, Ids::Computed).await?;

    println(&format!(
        "| {rows} rows | import s | import CPU s | first item after s | peak RSS MB | MB on disk |"
    ));
    println("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (what, import) in [("without an id column", &plain), ("with one", &ids)] {
        println(&format!(
            "| {what} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} |",
            import.seconds,
            import.cpu_seconds,
            import.first_item_seconds,
            import.peak_mb,
            import.disk_mb
        ));
    }
    println("");

    let mut daemon = Daemon::start(&home, &[]).await?;
    let (reads, read_cpu_ms) = reads(&mut daemon, &plain.job).await?;
    daemon.end().await?;
    let export = exported(&home, &plain.job, rows).await?;
    let mut daemon = Daemon::start(&home, &[]).await?;
    let params = json!({"jobId": plain.job});
    let began = now();
    let cancelled = daemon.wire.call("fanout/cancel", &params).await?;
    let cancel = began.elapsed();
    let state = &cancelled["job"]["state"];
    anyhow::ensure!(state == "cancelled", "{cancelled}");
    daemon.end().await?;

    goal::head();
    goal::at_most("peak RSS MB of the import", plain.peak_mb, 100.0);
    goal::at_most("the same with ids", ids.peak_mb, 100.0);
    goal::at_most("MB on disk", plain.disk_mb, 100.0);
    goal::at_most("MB on disk with ids", ids.disk_mb, 200.0);
    goal::at_most("s to the first item", plain.first_item_seconds, 15.0);
    goal::at_most("s to the first item with ids", ids.first_item_seconds, 15.0);
    goal::at_most("`fanout/read`, p99 ms", reads.percentile(99), 5.0);
    goal::at_most("`fanout/cancel` ms", cancel.as_secs_f64() * 1e3, 100.0);
    goal::at_most("s of the export", export.seconds, 15.0);
    goal::at_most("peak RSS MB of the export", export.peak_mb, 100.0);
    println("");
    println(&format!(
        "CPU: {read_cpu_ms:.3} ms per `fanout/read`, {:.2} s for the export.",
        export.cpu_seconds
    ));
    Ok(())
}

/// Writes rows of 49 bytes and a line end.
pub(crate) fn write_rows(path: &Path, rows: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "path,note")?;
    for row in 0..rows {
        writeln!(file, "src/module-{row:07}/lib.rs,review this file well")?;
    }
    Ok(file.flush()?)
}

/// Imports, starts, and pauses after the first items.
async fn imported(
    home: &TempHome,
    model: &WorkerModel,
    rows: usize,
    ids: Ids,
) -> anyhow::Result<Imported> {
    let input = home.workspace().join("in.csv");
    write_rows(&input, rows)?;
    model.forget();
    let mut daemon = Daemon::start(home, &[]).await?;
    let id_column = (ids == Ids::Column).then_some("path");
    let params = json!({"instruction": "Describe {path}", "idColumn": id_column,
        "limits": {"concurrency": AT_ONCE},
        "settings": {"cwd": home.workspace()}});
    let began = now();
    let job = create(&mut daemon.wire, &params).await?;
    let answer = daemon
        .wire
        .call("fanout/import", &import(&job, &input))
        .await?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = daemon.cpu_seconds()?;
    let total = &answer["job"]["counts"]["total"];
    anyhow::ensure!(total == rows, "{answer}");
    let params = json!({"jobId": job});
    daemon.wire.confirm("fanout/start", &params).await?;
    let asked = turnlane_testkit::wait::within("the first item", DEADLINE, model.asked_by(1));
    let first = asked.await??.first.unwrap_or_else(now);
    let first_item_seconds = (first - began).as_secs_f64();
    daemon.wire.confirm("fanout/pause", &params).await?;
    drained(&mut daemon.wire, &params).await?;
    let peak_mb = daemon.peak_mb()?;
    // An orderly end copies the log into the database.
    daemon.end().await?;
    Ok(Imported {
        seconds,
        cpu_seconds,
        first_item_seconds,
        peak_mb,
        disk_mb: disk_mb(home)?,
        job,
    })
}

/// Waits until nothing of a paused job runs.
async fn drained(wire: &mut Wire, params: &Value) -> anyhow::Result<()> {
    turnlane_testkit::wait::eventually("the end of the running items", DEADLINE, async || {
        let read = wire.call("fanout/read", params).await;
        read.is_ok_and(|read| read["job"]["counts"]["running"] == 0)
    })
    .await?;
    Ok(())
}

/// The times of reads, and the milliseconds that the daemon computed for each.
async fn reads(daemon: &mut Daemon, job: &str) -> anyhow::Result<(Figures, f64)> {
    let params = json!({"jobId": job});
    let count = scaled(2_000, 20);
    let mut times = Figures::default();
    let cpu_before = daemon.cpu_seconds()?;
    for _ in 0..count {
        let began = now();
        daemon.wire.confirm("fanout/read", &params).await?;
        times.add_time(began.elapsed());
    }
    let cpu = daemon.cpu_seconds()? - cpu_before;
    Ok((times, cpu * 1e3 / float(count)))
}

/// What an export took.
struct Exported {
    seconds: f64,
    cpu_seconds: f64,
    peak_mb: f64,
}

/// Exports to a CSV file.
async fn exported(home: &TempHome, job: &str, rows: usize) -> anyhow::Result<Exported> {
    let mut daemon = Daemon::start(home, &[]).await?;
    let path = home.workspace().join("out.csv");
    let params = json!({"jobId": job, "format": "csv", "path": path});
    let cpu_before = daemon.cpu_seconds()?;
    let began = now();
    daemon.wire.confirm("fanout/export", &params).await?;
    let exported = Exported {
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: daemon.cpu_seconds()? - cpu_before,
        peak_mb: daemon.peak_mb()?,
    };
    daemon.end().await?;
    let written = lines(&path)?;
    anyhow::ensure!(written == rows + 1, "{written} lines for {rows} rows");
    Ok(exported)
}
