//! One question, one answer, and what else a turn's outcome tells.
//!
//! Run it with `cargo run -p turnlane --example ask`. It needs neither a server nor a key: the server
//! is in this process and plays a script in place of a model. With a real one, connect to
//! `Endpoint::turnlane()` or `Endpoint::codex()` instead; the rest stays as it is.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use turnlane::{Client, Endpoint};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const SCRIPT: &str = r#"
version: 1
turns:
  - match: "bullets"
    steps:
      - exec: {cmd: "ls", output: "Cargo.toml src\n"}
      - usage: {input: 420, cached: 0, output: 18, reasoning: 0}
      - say: {text: "A small program in Rust.", phase: final_answer}
fallback: {say: "You said: {input}"}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    example(&mut std::io::stdout()).await
}

pub(crate) async fn example(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let client = Client::connect(Endpoint::io(server.connect())).await?;

    // A thread for one question. Commands may read and nothing else unless somebody says otherwise.
    let answer = client.run(".", "Summarise this in bullets").await?;
    writeln!(out, "{}", answer.text.as_deref().unwrap_or("(no words)"))?;
    writeln!(out, "items: {}", answer.items.len())?;
    if let Some(usage) = answer.usage.and_then(|usage| usage.turn) {
        writeln!(out, "tokens: {}", usage.input_tokens + usage.output_tokens)?;
    }

    // A thread for a conversation.
    let thread = client.threads().start(".").await?;
    for question in ["And the slowest test?", "Thank you"] {
        let answer = thread.turn(question).await?;
        writeln!(out, "{}", answer.text.unwrap_or_default())?;
    }
    client.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}

/// A server in this process whose agent plays the script.
async fn server() -> Result<Embedded, Box<dyn Error>> {
    let script = Script::parse("ask.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| 0));
    Ok(Embedded::start(EmbeddedConfig::new(Arc::new(engine))).await?)
}
