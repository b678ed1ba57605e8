//! Spawns per second with 32 in flight: over a websocket, and in one program.

use std::collections::HashSet;

use turnlane_process::{ContainmentKind, Options, ProcessService, Spec, Until};

use crate::sample::{Figures, float, head};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire};
use crate::{bare, cpu_time, now, runtime};

const ROUNDS: usize = 5;
const SPAWNS: usize = 1500;
const IN_FLIGHT: usize = 32;

/// One round: seconds of the clock and of the processor.
fn add(figures: &mut Figures, elapsed: f64, cpu: f64) {
    figures.rate.value(float(SPAWNS) / elapsed);
    figures.cpu.value(cpu * 1e6 / float(SPAWNS));
}

pub(crate) fn run() -> anyhow::Result<()> {
    let mut limit = Figures::default();
    let mut wires = [Figures::default(), Figures::default()];
    let kinds = [ContainmentKind::Cgroup, ContainmentKind::Reaper];
    let mut libraries = [Figures::default(), Figures::default()];
    runtime()?.block_on(async {
        let mut servers = Vec::new();
        for whose in Whose::ALL {
            servers.push(Server::start(whose).await?);
        }
        let services = kinds.map(|kind| {
            let options = Options {
                containment: Some(kind),
                ..Options::default()
            };
            ProcessService::start(options).ok()
        });
        for _ in 0..ROUNDS {
            let before = cpu_time();
            let elapsed = bare::spawn_many(&["/bin/true"], SPAWNS, IN_FLIGHT)?;
            add(&mut limit, elapsed.as_secs_f64(), cpu_time() - before);
            for (server, figures) in servers.iter().zip(&mut wires) {
                if let Some(server) = server {
                    over_the_wire(server, figures).await?;
                }
            }
            for (service, figures) in services.iter().zip(&mut libraries) {
                if let Some(service) = service {
                    in_the_library(service, figures).await?;
                }
            }
        }
        anyhow::Ok(())
    })?;
    head(&[
        "32 in flight",
        "spawns/s",
        "÷ limit",
        "CPU µs per spawn",
        "÷ limit",
    ]);
    limit.line("`posix_spawn` + wait", &limit);
    for (whose, figures) in Whose::ALL.iter().zip(&wires) {
        figures.line(
            &format!("{}, websocket (server's CPU)", whose.name()),
            &limit,
        );
    }
    for (kind, figures) in kinds.iter().zip(&libraries) {
        figures.line(&format!("library, `{}`", kind.name()), &limit);
    }
    Ok(())
}

async fn over_the_wire(server: &Server, figures: &mut Figures) -> anyhow::Result<()> {
    let mut wire = Wire::connect(&server.url).await?;
    let process = Process {
        argv: &["/bin/true"],
        ..Process::default()
    };
    let before = server.cpu_time()?;
    let begun = now();
    let mut running = HashSet::new();
    let mut next = 1;
    let mut done = 0;
    while done < SPAWNS {
        while running.len() < IN_FLIGHT && next <= SPAWNS {
            wire.start(next, &process);
            running.insert(next.to_string());
            next += 1;
        }
        wire.flush().await?;
        let exited = wire
            .until(|message| message["method"] == "process/exited")
            .await?;
        let id = exited["params"]["processId"].as_str().unwrap_or_default();
        if running.remove(id) {
            done += 1;
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    add(figures, elapsed, server.cpu_time()? - before);
    Ok(())
}

async fn in_the_library(service: &ProcessService, figures: &mut Figures) -> anyhow::Result<()> {
    let before = cpu_time();
    let begun = now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..SPAWNS {
        if tasks.len() == IN_FLIGHT
            && let Some(ended) = tasks.join_next().await
        {
            ended??;
        }
        let service = service.clone();
        tasks.spawn(async move {
            let process = service.spawn(Spec::new(["/bin/true"], "/")).await?;
            process.wait(Until::Exited, None).await;
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    add(figures, elapsed, cpu_time() - before);
    Ok(())
}
