//! What one member behind `turnlane shim` costs: acceptance, the first event, and an idle process.
//!
//! The shim is started with `--stdio` and the engine `scripted`, so that neither a model nor a network is
//! measured. Needs `target/release/turnlane` (built with `cargo build --release -p turnlane-cli`). Named
//! sections (`accept`, `first`, `idle`) run alone.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use turnlane_benchkit::{Whose, is_quick, println};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

const SCRIPT: &str = "version: 1\nturns:\n  - match: \"\"\n    steps: [{say: {text: \"done\"}}]\n";

fn main() -> anyhow::Result<()> {
    let sections = ["accept", "first", "idle"];
    turnlane_benchkit::main(&sections, async |name| match name {
        "accept" => accept().await,
        "first" => first().await,
        _ => idle().await,
    })
}

/// A shim and its channel.
struct Member {
    process: TestProcess,
    input: tokio::process::ChildStdin,
    lines: Lines<BufReader<tokio::process::ChildStdout>>,
    _home: TempHome,
}

impl Member {
    async fn start() -> anyhow::Result<Self> {
        let home = TempHome::new()?;
        let script = home.path().join("script.yaml");
        std::fs::write(&script, SCRIPT)?;
        let program = Whose::Ours.program()?.context("our program")?;
        let spec = ProcessSpec::new(program)
            .args([
                "shim",
                "--id",
                "bench",
                "--stdio",
                "--agent-type",
                "scripted",
            ])
            .args(["--max-queue", "100000", "--script"])
            .args([script.as_os_str()])
            .envs(home.env())
            .current_dir(home.workspace());
        let mut process = TestProcess::start(spec)?;
        let input = process.take_stdin().context("its input")?;
        let output = process.take_stdout().context("its output")?;
        let mut member = Self {
            process,
            input,
            lines: BufReader::new(output).lines(),
            _home: home,
        };
        member.event("Ready").await?;
        Ok(member)
    }

    async fn send(&mut self, command: &Value) -> anyhow::Result<()> {
        let line = format!("{command}\n");
        Ok(self.input.write_all(line.as_bytes()).await?)
    }

    async fn event(&mut self, name: &str) -> anyhow::Result<Value> {
        loop {
            let line = self.lines.next_line().await?.context("the shim ended")?;
            let event: Value = serde_json::from_str(&line)?;
            if event["event"] == name {
                return Ok(event);
            }
        }
    }
}

fn message(number: usize) -> Value {
    json!({"cmd": "SendMessage", "from": "bench", "body": "hello",
           "message_id": format!("m{number}"), "req": number})
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println(&format!("| {what} | {:.2} | {:.2} |", at(50), at(99)));
}

async fn accept() -> anyhow::Result<()> {
    let rounds = if is_quick() { 20 } else { 1_000 };
    let mut member = Member::start().await?;
    member.send(&json!({"cmd": "Hello", "version": 2})).await?;
    member.event("Welcome").await?;
    member.send(&json!({"cmd": "Pause"})).await?;
    let mut times = Vec::new();
    for number in 0..rounds {
        let began = now();
        member.send(&message(number)).await?;
        member.event("Ok").await?;
        times.push(began.elapsed());
    }
    println("| | p50 ms | p99 ms |\n| --- | --- | --- |");
    show("SendMessage to accepted, on disk", times);
    Ok(())
}

async fn first() -> anyhow::Result<()> {
    let rounds = if is_quick() { 20 } else { 500 };
    let mut member = Member::start().await?;
    let (mut delivered, mut completed) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let began = now();
        member.send(&message(number)).await?;
        member.event("MessageDelivered").await?;
        delivered.push(began.elapsed());
        member.event("Completion").await?;
        completed.push(began.elapsed());
    }
    println("| | p50 ms | p99 ms |\n| --- | --- | --- |");
    show("SendMessage to MessageDelivered, idle lane", delivered);
    show("SendMessage to Completion", completed);
    Ok(())
}

async fn idle() -> anyhow::Result<()> {
    let mut member = Member::start().await?;
    member.send(&json!({"cmd": "Ping"})).await?;
    member.event("Pong").await?;
    let bytes = member.process.rss_bytes()?;
    println("| | MiB |\n| --- | --- |");
    println(&format!(
        "| memory of an idle shim with its server | {} |",
        bytes / 1_048_576
    ));
    Ok(())
}
