//! `thread/list` and `/metrics` with 200,000 ended item threads that are kept, beside none.
//!
//! The scripted engine runs the items, so that they are what a job leaves and not what a benchmark
//! writes into the database.

use std::time::Duration;

use serde_json::json;
use turnlane_benchkit::{Figures, float, goal, now, println};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::eventually;

use crate::daemon::{Daemon, create, disk_mb, import};
use crate::model::WorkerModel;
use crate::run::{home, write_names};
use crate::scaled;

/// Ordinary threads, which `thread/list` shows.
const ORDINARY: usize = 200;

/// The items that run at once.
const AT_ONCE: usize = 256;

/// Longer than the items take on a busy machine.
const LIMIT: Duration = Duration::from_mins(30);

const SCRIPT: &str = r#"version: 1
fallback:
  - call:
      tool: report_agent_job_result
      arguments: '{"job_id":"{line:Job ID: }","item_id":"{line:Item ID: }","result":{"ok":true}}'
"#;

/// What a request takes.
struct Cost {
    /// Milliseconds until the answer.
    times: Figures,
    /// Milliseconds that the daemon computed per request.
    cpu_ms: f64,
}

/// What the two requests take.
struct Costs {
    list: Cost,
    metrics: Cost,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let items = scaled(200_000, 300);
    let model = WorkerModel::start(Duration::ZERO).await?;
    let home = home(&model)?;
    let script = home.path().join("script.yaml");
    std::fs::write(&script, SCRIPT)?;
    let script = script.to_string_lossy().into_owned();
    let mut daemon = Daemon::start(&home, &["--script", &script]).await?;
    for _ in 0..scaled(ORDINARY, 3) {
        let params = json!({"cwd": home.workspace()});
        let started = daemon.wire.call("thread/start", &params).await?;
        let thread = &started["thread"]["id"];
        let input = json!([{"type": "text", "text": "hello", "text_elements": []}]);
        let params = json!({"threadId": thread, "input": input});
        daemon.wire.confirm("turn/start", &params).await?;
    }
    // A daemon that has just started has nothing loaded, before and after.
    let daemon = restarted(daemon, &home, &script).await?;
    let (daemon, before) = costs(daemon, &home).await?;
    let (daemon, seconds) = run_items(daemon, &home, items).await?;
    let daemon = restarted(daemon, &home, &script).await?;
    let (daemon, after) = costs(daemon, &home).await?;
    daemon.end().await?;

    println(&format!(
        "{items} items ran in {seconds:.0} s, {AT_ONCE} at once; the home has {:.0} MB.\n",
        disk_mb(&home)?
    ));
    println(&format!(
        "| request | no item thread, CPU ms | p50 ms | {items} kept, CPU ms | p50 ms |"
    ));
    println("| --- | ---: | ---: | ---: | ---: |");
    let compared = [
        ("`thread/list`", &before.list, &after.list),
        ("`/metrics`", &before.metrics, &after.metrics),
    ];
    for (what, before, after) in compared {
        let (before_p50, after_p50) = (before.times.percentile(50), after.times.percentile(50));
        println(&format!(
            "| {what} | {:.2} | {before_p50:.2} | {:.2} | {after_p50:.2} |",
            before.cpu_ms, after.cpu_ms
        ));
    }
    goal::head();
    for (what, before, after) in compared {
        let ratio = after.cpu_ms / before.cpu_ms;
        goal::at_most(
            &format!("{what}, CPU with the threads ÷ without"),
            ratio,
            2.0,
        );
    }
    Ok(())
}

async fn restarted(daemon: Daemon, home: &TempHome, script: &str) -> anyhow::Result<Daemon> {
    daemon.end().await?;
    Daemon::start(home, &["--script", script]).await
}

async fn run_items(
    mut daemon: Daemon,
    home: &TempHome,
    items: usize,
) -> anyhow::Result<(Daemon, f64)> {
    let input = home.workspace().join("in.csv");
    write_names(&input, items)?;
    let params = json!({"instruction": "Describe {name}", "keepThreads": "all",
        "limits": {"concurrency": AT_ONCE}, "settings": {"cwd": home.workspace()}});
    let job = create(&mut daemon.wire, &params).await?;
    daemon
        .wire
        .confirm("fanout/import", &import(&job, &input))
        .await?;
    let params = json!({"jobId": job});
    let began = now();
    daemon.wire.confirm("fanout/start", &params).await?;
    let wire = &mut daemon.wire;
    eventually("the end of the items", LIMIT, async || {
        // Asked rarely: the answers cost the daemon time as well.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let read = wire.call("fanout/read", &params).await;
        read.is_ok_and(|read| read["job"]["state"] == "succeeded")
    })
    .await?;
    Ok((daemon, began.elapsed().as_secs_f64()))
}

async fn costs(mut daemon: Daemon, home: &TempHome) -> anyhow::Result<(Daemon, Costs)> {
    let list = json!({"limit": 50});
    // The first requests read the pages from the disk.
    daemon.wire.confirm("thread/list", &list).await?;
    daemon.metrics(home).await?;
    let listed = cost(&mut daemon, async |daemon| {
        daemon.wire.confirm("thread/list", &list).await
    });
    let list = listed.await?;
    let read = cost(&mut daemon, async |daemon| {
        daemon.metrics(home).await.map(drop)
    });
    let metrics = read.await?;
    Ok((daemon, Costs { list, metrics }))
}

async fn cost(
    daemon: &mut Daemon,
    request: impl AsyncFn(&mut Daemon) -> anyhow::Result<()>,
) -> anyhow::Result<Cost> {
    let rounds = scaled(200, 10);
    let mut times = Figures::default();
    let cpu_before = daemon.cpu_seconds()?;
    for _ in 0..rounds {
        let began = now();
        request(daemon).await?;
        times.add_time(began.elapsed());
    }
    let cpu = daemon.cpu_seconds()? - cpu_before;
    Ok(Cost {
        times,
        cpu_ms: cpu * 1e3 / float(rounds),
    })
}
