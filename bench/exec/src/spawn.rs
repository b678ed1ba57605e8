//! From the request to the exit of `true`, over a websocket; and what it costs the server.

use serde_json::Value;

use crate::sample::{Sample, float, head, row, shown};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire, read_only, workspace_write};
use crate::{bare, cpu_time, now, runtime};

const ROUNDS: usize = 5;
const SPAWNS: usize = 300;
const TRUE: [&str; 1] = ["/bin/true"];

pub(crate) fn run() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    std::fs::create_dir(root.path().join(".git"))?;
    let plans = [
        ("plain", Value::Null),
        ("read-only: Landlock + seccomp", read_only()),
        (
            "workspace: with mounts",
            workspace_write(root.path(), &[".git"]),
        ),
    ];
    let mut limit = Sample::default();
    let mut ours: Vec<Sample> = plans.iter().map(|_| Sample::default()).collect();
    let mut codex = Sample::default();
    runtime()?.block_on(async {
        let (us, them) = (
            Server::start(Whose::Ours).await?,
            Server::start(Whose::Codex).await?,
        );
        let mut next = 1;
        for _ in 0..ROUNDS {
            let before = cpu_time();
            for _ in 0..SPAWNS {
                limit.time(bare::spawn_and_wait(&TRUE)?);
            }
            limit.value((cpu_time() - before) * 1e6 / float(SPAWNS));
            if let Some(them) = &them {
                round(them, &Value::Null, &mut next, &mut codex).await?;
            }
            if let Some(us) = &us {
                for ((_, sandbox), sample) in plans.iter().zip(&mut ours) {
                    round(us, sandbox, &mut next, sample).await?;
                }
            }
        }
        anyhow::Ok(())
    })?;
    head(&[
        "start → exited of `true`",
        "p50 ms",
        "p99 ms",
        "p50 ÷ limit",
        "p99 ÷ limit",
        "server CPU µs",
        "CPU ÷ limit",
    ]);
    line("`posix_spawn` + wait", &limit, &limit);
    line("Codex 0.166", &codex, &limit);
    for ((name, _), sample) in plans.iter().zip(&ours) {
        line(&format!("ours, {name}"), sample, &limit);
    }
    Ok(())
}

async fn round(
    server: &Server,
    sandbox: &Value,
    next: &mut usize,
    sample: &mut Sample,
) -> anyhow::Result<()> {
    let mut wire = Wire::connect(&server.url).await?;
    let before = server.cpu_time()?;
    for _ in 0..SPAWNS {
        let process = Process {
            argv: &TRUE,
            sandbox: sandbox.clone(),
            ..Process::default()
        };
        let begun = now();
        wire.start(*next, &process);
        wire.flush().await?;
        wire.exited(*next).await?;
        sample.time(begun.elapsed());
        *next += 1;
    }
    sample.value((server.cpu_time()? - before) * 1e6 / float(SPAWNS));
    Ok(())
}

fn line(name: &str, sample: &Sample, limit: &Sample) {
    row(&[
        name.to_owned(),
        shown(sample.percentile(50)),
        shown(sample.percentile(99)),
        shown(sample.percentile(50) / limit.percentile(50)),
        shown(sample.percentile(99) / limit.percentile(99)),
        shown(sample.median()),
        shown(sample.median() / limit.median()),
    ]);
}
