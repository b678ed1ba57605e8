//! Resident memory: fresh, with idle processes, with a reader that stalls, with a stuck input.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::runtime;
use crate::sample::{float, head, row, shown};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire};

const IDLE: usize = 1000;
const STUCK_WRITES: usize = 40;

pub(crate) fn run() -> anyhow::Result<()> {
    head(&[
        "server's resident memory",
        "fresh MB",
        "KB per idle pipe process",
        "stalled reader, 100 MB producer: + MB",
        "unread stdin: MB accepted",
        "unread stdin: + MB",
    ]);
    for whose in Whose::ALL {
        let figures = runtime()?.block_on(async {
            let mut figures = vec![fresh(whose).await?];
            figures.push(idle(whose).await?);
            figures.push(stalled(whose).await?);
            figures.extend(stuck(whose).await?);
            anyhow::Ok(figures)
        })?;
        let mut cells = vec![whose.name().to_owned()];
        cells.extend(figures.into_iter().map(shown));
        row(&cells);
    }
    Ok(())
}

fn resident(server: &Server) -> anyhow::Result<f64> {
    Ok(float(usize::try_from(server.process.rss_bytes()?)?))
}

async fn fresh(whose: Whose) -> anyhow::Result<f64> {
    let Some(server) = Server::start(whose).await? else {
        return Ok(f64::NAN);
    };
    let _wire = Wire::connect(&server.url).await?;
    Ok(resident(&server)? / 1e6)
}

async fn idle(whose: Whose) -> anyhow::Result<f64> {
    let Some(server) = Server::start(whose).await? else {
        return Ok(f64::NAN);
    };
    let mut wire = Wire::connect(&server.url).await?;
    let sleep = Process {
        argv: &["/bin/sleep", "1000"],
        ..Process::default()
    };
    start_all(&mut wire, &sleep, 1..=1).await?;
    let before = resident(&server)?;
    start_all(&mut wire, &sleep, 2..=IDLE + 1).await?;
    let each = (resident(&server)? - before) / float(IDLE) / 1e3;
    end_all(&mut wire, 1..=IDLE + 1).await?;
    Ok(each)
}

async fn start_all(
    wire: &mut Wire,
    process: &Process<'_>,
    numbers: std::ops::RangeInclusive<usize>,
) -> anyhow::Result<()> {
    for number in numbers {
        wire.start(number, process);
        wire.flush().await?;
        wire.until(|message| message["id"] == number).await?;
    }
    Ok(())
}

/// One by one: Codex's server was seen to hang when many were asked for at once.
async fn end_all(wire: &mut Wire, numbers: std::ops::RangeInclusive<usize>) -> anyhow::Result<()> {
    for number in numbers {
        let params = json!({"processId": number.to_string()});
        let id = 1_000_000 + number;
        wire.push(&json!({"id": id, "method": "process/terminate", "params": params}));
        wire.flush().await?;
        wire.until(|message| message["id"] == id).await?;
    }
    Ok(())
}

/// A client that does not read while a process writes 100 MB.
async fn stalled(whose: Whose) -> anyhow::Result<f64> {
    let Some(server) = Server::start(whose).await? else {
        return Ok(f64::NAN);
    };
    let mut wire = Wire::connect(&server.url).await?;
    let before = resident(&server)?;
    let loud = Process {
        argv: &["/usr/bin/head", "-c", "100000000", "/dev/zero"],
        ..Process::default()
    };
    wire.start(1, &loud);
    wire.flush().await?;
    let grown = settled(&server).await? - before;
    anyhow::ensure!(wire.drain().await? == 100_000_000, "lost output");
    Ok(grown / 1e6)
}

/// The memory once it no longer changes.
async fn settled(server: &Server) -> anyhow::Result<f64> {
    let mut last = resident(server)?;
    let mut same = 0;
    while same < 10 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let current = resident(server)?;
        same = if (current - last).abs() < 1.0 {
            same + 1
        } else {
            0
        };
        last = current;
    }
    Ok(last)
}

/// Writes of 1 MiB to a process that reads nothing, until one is not answered any more.
async fn stuck(whose: Whose) -> anyhow::Result<[f64; 2]> {
    let Some(server) = Server::start(whose).await? else {
        return Ok([f64::NAN; 2]);
    };
    let mut wire = Wire::connect(&server.url).await?;
    let sleep = Process {
        argv: &["/bin/sleep", "1000"],
        stdin: true,
        ..Process::default()
    };
    start_all(&mut wire, &sleep, 1..=1).await?;
    let before = resident(&server)?;
    let chunk = STANDARD.encode(vec![0; 1 << 20]);
    let mut accepted = 0;
    for write in 0..STUCK_WRITES {
        let id = 10 + write;
        let params = json!({"processId": "1", "chunk": chunk, "writeId": write.to_string()});
        wire.push(&json!({"id": id, "method": "process/write", "params": params}));
        let patience = std::time::Duration::from_secs(1);
        let answer = async {
            wire.flush().await?;
            wire.until(|message| message["id"] == id).await
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => {
                answer?;
                accepted += 1;
            }
            Err(_) => break,
        }
    }
    let grown = resident(&server)? - before;
    Ok([float(accepted) * 1.048_576, grown / 1e6])
}
