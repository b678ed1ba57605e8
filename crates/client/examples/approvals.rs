//! Who decides what an agent may do: a reviewer, asked for each command.
//!
//! Run it with `cargo run -p turnlane --example approvals`. It needs neither a server nor a key: the
//! server is in this process and plays a script in place of a model.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use turnlane::{Approval, ApprovalRequest, Client, Decision, Endpoint};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const SCRIPT: &str = r#"
version: 1
turns:
  - match: "test"
    steps:
      - approve:
          cmd: "cargo test"
          accepted: [{say: "The tests ran."}]
          declined: [{say: "I did not run the tests."}]
  - match: "hurry"
    steps:
      - approve:
          cmd: "cargo test; rm -r build"
          accepted: [{say: "The tests ran, and the build directory is gone."}]
          declined: [{say: "I did neither."}]
  - match: "clean"
    steps:
      - approve:
          cmd: "rm -r build"
          accepted: [{say: "The build directory is gone."}]
          declined: [{say: "I left the build directory as it is."}]
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    example(&mut std::io::stdout()).await
}

/// Tests may run; nothing else may.
fn review(asked: &ApprovalRequest) -> Decision {
    // Words are compared, not text: `cargo test; rm -r src` begins like a test and is none.
    if asked.runs(&["cargo", "test"]) {
        return Decision::Accept;
    }
    Decision::Decline {
        reason: Some("only tests are run here".to_owned()),
    }
}

pub(crate) async fn example(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let client = Client::builder()
        .endpoint(Endpoint::io(server.connect()))
        .reviewer(review)
        .connect()
        .await?;
    // Without this word nobody is asked, and what needs an approval does not happen.
    let thread = client
        .threads()
        .start(".")
        .approval(Approval::OnRequest)
        .await?;
    for wish in ["Please test", "Please hurry", "Please clean up"] {
        let answer = thread.turn(wish).await?;
        writeln!(out, "{wish}: {}", answer.text.unwrap_or_default())?;
    }
    client.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}

/// A server in this process whose agent plays the script.
async fn server() -> Result<Embedded, Box<dyn Error>> {
    let script = Script::parse("approvals.yaml", SCRIPT, AbortSteps::Refused)?;
    let engine = Scripted::new(script, Arc::new(|| 0));
    Ok(Embedded::start(EmbeddedConfig::new(Arc::new(engine))).await?)
}
