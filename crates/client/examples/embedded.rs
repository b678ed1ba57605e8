//! A durable server inside this process: a turn is queued, the server ends, another one runs it.
//!
//! Run it with `cargo run -p turnlane --example embedded`. It needs neither a server beside it nor a
//! key: a script is played in place of a model. The folder is all that the two servers share.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turnlane::{Client, Endpoint, ThreadId};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const SCRIPT: &str = r#"
version: 1
turns:
  - match: "long"
    steps:
      - await: {gate: "done"}
fallback: {say: "You said: {input}"}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    example(&mut std::io::stdout()).await
}

pub(crate) async fn example(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let thread = ask_and_leave(folder.path(), out).await?;

    // Another server on the same folder: the queue is still there, and the turn is run.
    let server = server(folder.path()).await?;
    let client = Client::connect(Endpoint::io(server.connect())).await?;
    let thread = client.threads().resume(&thread).await?;
    let answer = thread.turn("Are you there?").await?;
    writeln!(out, "{}", answer.text.unwrap_or_default())?;
    writeln!(out, "waiting: {}", thread.queue().await?.rows.len())?;

    client.shutdown(Duration::from_secs(1)).await?;
    server.stop(Duration::from_secs(1)).await?;
    Ok(())
}

/// Leaves a turn in the queue of a thread and ends the server before it was run.
async fn ask_and_leave(folder: &Path, out: &mut impl Write) -> Result<ThreadId, Box<dyn Error>> {
    let server = server(folder).await?;
    let client = Client::connect(Endpoint::io(server.connect())).await?;
    let thread = client.threads().start(".").await?;
    let _running = thread.turn("Something long").stream().await?;
    thread.turn("Something later").enqueue().await?;
    writeln!(out, "waiting: {}", thread.queue().await?.rows.len())?;
    server.stop(Duration::ZERO).await?;
    Ok(thread.id().clone())
}

/// A server in this process that keeps threads and queues in the folder.
async fn server(folder: &Path) -> Result<Embedded, Box<dyn Error>> {
    let script = Script::parse("embedded.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| 0));
    let config = EmbeddedConfig::new(Arc::new(engine)).folder(folder);
    Ok(Embedded::start(config).await?)
}
