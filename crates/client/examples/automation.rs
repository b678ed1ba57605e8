//! Recurring turns on one thread: three runs, ten times a second, and a stop.
//!
//! Run it with `cargo run -p turnlane --example automation`. It needs neither a server nor a key: the
//! server is in this process and plays a script in place of a model. An automation lives as long as
//! its process and its handles; what must outlive them is a schedule of the server.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use turnlane::automation::{self, AutomationSpec};
use turnlane::{Client, Endpoint};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const SCRIPT: &str = r#"
version: 1
fallback: {say: "Nothing new."}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    example(&mut std::io::stdout()).await
}

pub(crate) async fn example(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let client = Client::connect(Endpoint::io(server.connect())).await?;
    let thread = client.threads().start(".").await?;

    let spec = AutomationSpec {
        max_runs: Some(3),
        ..AutomationSpec::new("Anything new?", Duration::from_millis(100))
    };
    let watched = automation::spawn(thread.clone(), spec);
    let end = watched.wait().await;
    writeln!(out, "{:?} after {} runs", end.state, end.runs_completed)?;
    for run in watched.runs() {
        writeln!(out, "run {}: {:?}", run.number, run.outcome)?;
    }

    // Without a bound it goes on until it is stopped, here by dropping its last handle.
    let endless = AutomationSpec::new("And now?", Duration::from_hours(1));
    let endless = automation::spawn(thread, endless);
    let mut status = endless.watch();
    status.wait_for(|status| status.runs_completed == 1).await?;
    drop(endless);
    let end = status.wait_for(|status| status.state.is_terminal()).await?;
    writeln!(out, "{:?} after {} run", end.state, end.runs_completed)?;
    drop(end);

    client.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}

/// A server in this process whose agent plays the script.
async fn server() -> Result<Embedded, Box<dyn Error>> {
    let script = Script::parse("automation.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| 0));
    Ok(Embedded::start(EmbeddedConfig::new(Arc::new(engine))).await?)
}
