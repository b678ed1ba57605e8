//! Ten thousand terminates, all sent before the first answer is read.

use serde_json::json;

use crate::sample::{float, head, row, shown};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire};
use crate::{now, runtime};

/// As many processes as descriptors allow; each is asked to end this often.
const PROCESSES: usize = 2500;
const TIMES: usize = 4;

pub(crate) fn run() -> anyhow::Result<()> {
    head(&[
        "pipelined terminates",
        "asked",
        "answered",
        "children left",
        "ms each",
    ]);
    // Codex's server hung in every try of the contract with a tenth of this; it is not tried here.
    runtime()?.block_on(async {
        let Some(server) = Server::start(Whose::Ours).await? else {
            return Ok(());
        };
        let mut wire = Wire::connect(&server.url).await?;
        let sleep = Process {
            argv: &["/bin/sleep", "1000"],
            ..Process::default()
        };
        let mut pids = Vec::new();
        for number in 1..=PROCESSES {
            wire.start(number, &sleep);
            wire.flush().await?;
            let answer = wire.until(|message| message["id"] == number).await?;
            pids.push(answer["result"]["pid"].as_i64().unwrap_or_default());
        }
        let asked = PROCESSES * TIMES;
        let begun = now();
        for at in 0..asked {
            let params = json!({"processId": (at % PROCESSES + 1).to_string()});
            wire.push(
                &json!({"id": 100_000 + at, "method": "process/terminate", "params": params}),
            );
        }
        wire.flush().await?;
        let (mut answered, mut exited) = (0, 0);
        while answered < asked || exited < PROCESSES {
            let message = wire.until(|_| true).await?;
            if message.get("id").is_some() {
                answered += 1;
            } else if message["method"] == "process/exited" {
                exited += 1;
            }
        }
        let each = begun.elapsed().as_secs_f64() * 1e3 / float(asked);
        let alive = |pid: &&i64| std::path::Path::new(&format!("/proc/{pid}")).exists();
        let left = pids.iter().filter(alive).count();
        row(&[
            format!("ours ({PROCESSES} processes)"),
            asked.to_string(),
            answered.to_string(),
            left.to_string(),
            shown(each),
        ]);
        Ok(())
    })
}
