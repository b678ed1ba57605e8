//! From a key to its echo on a terminal.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::sample::{Sample, head, row, shown};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire};
use crate::{bare, now, runtime};

const ROUNDS: usize = 5;
const KEYS: usize = 200;

pub(crate) fn run() -> anyhow::Result<()> {
    let mut limit = Sample::default();
    let mut samples = [Sample::default(), Sample::default()];
    runtime()?.block_on(async {
        let mut servers = Vec::new();
        for whose in Whose::ALL {
            servers.push(Server::start(whose).await?);
        }
        for round in 0..ROUNDS {
            on_a_bare_terminal(&mut limit)?;
            for (server, sample) in servers.iter().zip(&mut samples) {
                if let Some(server) = server {
                    over_the_wire(server, round, sample).await?;
                }
            }
        }
        anyhow::Ok(())
    })?;
    head(&[
        "key → echo on a terminal",
        "p50 ms",
        "p99 ms",
        "p50 ÷ limit",
    ]);
    let line = |name: &str, sample: &Sample| {
        row(&[
            name.to_owned(),
            shown(sample.percentile(50)),
            shown(sample.percentile(99)),
            shown(sample.percentile(50) / limit.percentile(50)),
        ]);
    };
    line("a bare terminal", &limit);
    for (whose, sample) in Whose::ALL.iter().zip(&samples) {
        line(whose.name(), sample);
    }
    Ok(())
}

/// `cat` in raw mode answers itself: the kernel's echo would be no measure of a program.
const CAT: [&str; 3] = ["/bin/sh", "-c", "stty raw -echo; echo ready; exec cat"];

fn on_a_bare_terminal(sample: &mut Sample) -> anyhow::Result<()> {
    let (master, mut child) = bare::on_terminal(&CAT)?;
    let mut buffer = [0; 64];
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"ready\n") {
        let count = rustix::io::read(&master, &mut buffer)?;
        greeting.extend_from_slice(&buffer[..count]);
    }
    for _ in 0..KEYS {
        let begun = now();
        rustix::io::write(&master, b"x")?;
        rustix::io::read(&master, &mut buffer)?;
        sample.time(begun.elapsed());
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

async fn over_the_wire(server: &Server, round: usize, sample: &mut Sample) -> anyhow::Result<()> {
    let mut wire = Wire::connect(&server.url).await?;
    let number = round + 1;
    let process = Process {
        argv: &CAT,
        tty: true,
        ..Process::default()
    };
    wire.start(number, &process);
    wire.flush().await?;
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"ready\n") {
        let output = wire
            .until(|message| message["method"] == "process/output")
            .await?;
        let chunk = output["params"]["chunk"].as_str().unwrap_or_default();
        greeting.extend(STANDARD.decode(chunk)?);
    }
    for key in 0..KEYS {
        let begun = now();
        let params =
            json!({"processId": number.to_string(), "chunk": "eA==", "writeId": key.to_string()});
        wire.push(&json!({"id": 1000 + key, "method": "process/write", "params": params}));
        wire.flush().await?;
        wire.until(|message| message["method"] == "process/output")
            .await?;
        sample.time(begun.elapsed());
    }
    let params = json!({"processId": number.to_string()});
    wire.push(&json!({"id": 1, "method": "process/terminate", "params": params}));
    wire.flush().await?;
    tokio::time::timeout(Duration::from_secs(20), wire.exited(number)).await?
}
