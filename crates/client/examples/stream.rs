//! A turn as it happens: words as they come, commands as they run, and an interrupt.
//!
//! Run it with `cargo run -p turnlane --example stream`. It needs neither a server nor a key: the
//! server is in this process and plays a script in place of a model.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use turnlane::{Client, Endpoint, ItemBody, TurnEvent};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const SCRIPT: &str = r#"
version: 1
turns:
  - match: "tests"
    steps:
      - exec: {cmd: "make test", output: "2 passed\n"}
      - say: {text: "All tests pass.", chunk: 4, phase: final_answer}
  - match: "wait"
    steps:
      - say: "I am waiting."
      - await: {gate: "never"}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    example(&mut std::io::stdout()).await
}

pub(crate) async fn example(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let client = Client::connect(Endpoint::io(server.connect())).await?;
    let thread = client.threads().start(".").await?;

    let mut turn = thread.turn("Run the tests").stream().await?;
    while let Some(event) = turn.next().await {
        match event? {
            TurnEvent::Delta(delta) => write!(out, "{}", delta.text())?,
            TurnEvent::ItemCompleted(item) => match &item.body {
                ItemBody::CommandExecution(run) => writeln!(out, "$ {}", run.command)?,
                ItemBody::AgentMessage(_) => writeln!(out)?,
                _ => {}
            },
            TurnEvent::Ended(status) => writeln!(out, "ended: {status:?}")?,
            // Plans, diffs, usage, approvals, and words of later servers.
            _ => {}
        }
    }

    // A stream owns its turn: dropping it would interrupt the turn too.
    let mut turn = thread.turn("Just wait").stream().await?;
    while let Some(event) = turn.next().await {
        match event? {
            TurnEvent::ItemCompleted(item) if matches!(item.body, ItemBody::AgentMessage(_)) => {
                if let Some(running) = turn.turn() {
                    running.interrupt().await?;
                }
            }
            TurnEvent::Ended(status) => writeln!(out, "ended: {status:?}")?,
            _ => {}
        }
    }
    client.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}

/// A server in this process whose agent plays the script.
async fn server() -> Result<Embedded, Box<dyn Error>> {
    let script = Script::parse("stream.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| 0));
    Ok(Embedded::start(EmbeddedConfig::new(Arc::new(engine))).await?)
}
