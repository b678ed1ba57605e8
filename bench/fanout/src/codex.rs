//! The same work by `codex app-server`: one thread and one turn per row, 64 turns in flight.
//!
//! The client starts the next row when a turn ends, and unsubscribes from the ended thread, which is
//! how a client of Codex lets go of a thread.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_benchkit::{Program, Whose, Wire, now, tree};

use crate::model::WorkerModel;
use crate::run::{Taken, home, megabytes};

/// The requests whose answers the client needs.
enum Asked {
    Thread { row: usize },
    Other,
}

/// Works on `rows` rows; `None` when Codex is not there.
pub(crate) async fn run(
    model: &WorkerModel,
    rows: usize,
    in_flight: usize,
) -> anyhow::Result<Option<Taken>> {
    let home = home(model)?;
    let began = now();
    let Some(mut program) = Program::start(Whose::Codex, &home, &["app-server"])? else {
        return Ok(None);
    };
    let mut wire = Wire::greet(program.stdio()?).await?;
    let mut client = Client {
        asked: HashMap::new(),
        cwd: json!(home.workspace()),
        next_row: 0,
        rows,
    };
    for _ in 0..in_flight.min(rows) {
        client.start_row(&mut wire).await?;
    }
    let mut ended = 0;
    while ended < rows {
        let message = wire.next().await?;
        if let Some(id) = message.answers {
            if let Some(Asked::Thread { row }) = client.asked.remove(&id) {
                client.start_turn(&mut wire, row, &message.value()?).await?;
            }
        } else if message.method == "turn/completed" {
            let value = message.value()?;
            let status = &value["params"]["turn"]["status"];
            anyhow::ensure!(status == "completed", "{value}");
            ended += 1;
            client
                .let_go(&mut wire, &value["params"]["threadId"])
                .await?;
            client.start_row(&mut wire).await?;
        }
    }
    let wall = began.elapsed();
    let pid = program.process.pid();
    let processes = tree::descendants(pid)?.len() + 1;
    let taken = Taken {
        code: Some(0),
        wall,
        cpu_seconds: tree::cpu_seconds(pid)?.all,
        peak_mb: megabytes(program.process.rss_peak_bytes()?),
        processes,
        stderr: String::new(),
    };
    drop(wire);
    let _ = tokio::time::timeout(Duration::from_secs(30), program.end()).await;
    Ok(Some(taken))
}

struct Client {
    asked: HashMap<i64, Asked>,
    cwd: Value,
    next_row: usize,
    rows: usize,
}

impl Client {
    /// Starts the thread of the next row, if there is one.
    async fn start_row(&mut self, wire: &mut Wire) -> anyhow::Result<()> {
        if self.next_row == self.rows {
            return Ok(());
        }
        let params = json!({"cwd": self.cwd, "approvalPolicy": "never", "sandbox": "read-only"});
        let id = wire.request("thread/start", &params).await?;
        let row = self.next_row;
        self.asked.insert(id, Asked::Thread { row });
        self.next_row += 1;
        Ok(())
    }

    async fn start_turn(
        &mut self,
        wire: &mut Wire,
        row: usize,
        answer: &Value,
    ) -> anyhow::Result<()> {
        let thread = answer["result"]["thread"]["id"].as_str();
        let thread = thread.with_context(|| format!("no thread: {answer}"))?;
        let input = json!([{"type": "text", "text": prompt(row), "text_elements": []}]);
        let params = json!({"threadId": thread, "input": input});
        let id = wire.request("turn/start", &params).await?;
        self.asked.insert(id, Asked::Other);
        Ok(())
    }

    async fn let_go(&mut self, wire: &mut Wire, thread: &Value) -> anyhow::Result<()> {
        let params = json!({"threadId": thread});
        let id = wire.request("thread/unsubscribe", &params).await?;
        self.asked.insert(id, Asked::Other);
        Ok(())
    }
}

/// The worker prompt of a row, as the channel `message` has it.
fn prompt(row: usize) -> String {
    let number = row + 1;
    format!(
        "You are processing one item for a generic agent job.\nJob ID: codex\nItem ID: row-{number}\n\n\
         Instruction:\nDescribe n{row}\n\nRow:\n{{\n  \"name\": \"n{row}\"\n}}\n\nResult schema:\n{{}}\n\n\
         Answer with one JSON object."
    )
}
