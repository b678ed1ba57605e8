//! A shim as a member of an orchestrator: JSON lines on its standard streams, in dialect 2.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use turnlane_benchkit::{InstantModel, Whose, use_model, variables};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

/// A running shim and its channel.
pub(crate) struct Member {
    pub(crate) process: TestProcess,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A home for shims whose agent has this model.
pub(crate) fn home(model: &InstantModel) -> anyhow::Result<TempHome> {
    let home = TempHome::new()?;
    use_model(&home, &model.base_url())?;
    Ok(home)
}

/// The arguments of an engine; none where Codex is needed and not there.
pub(crate) fn engine(name: &str) -> anyhow::Result<Option<Vec<String>>> {
    let mut arguments = vec!["--agent-type".to_owned(), name.to_owned()];
    if name == "codex" {
        let Some(codex) = Whose::Codex.program()? else {
            return Ok(None);
        };
        let codex = Value::from(codex.to_string_lossy());
        arguments.extend(["-c".to_owned(), format!("engine.codex.program={codex}")]);
    }
    Ok(Some(arguments))
}

impl Member {
    /// Starts a shim in this home and waits until it is ready.
    pub(crate) async fn start(
        home: &TempHome,
        id: &str,
        arguments: &[String],
    ) -> anyhow::Result<Self> {
        let mut member = Self::spawn(home, id, arguments)?;
        member.ready().await?;
        Ok(member)
    }

    /// Starts a shim in this home.
    pub(crate) fn spawn(home: &TempHome, id: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let program = Whose::Ours.program()?.context("our program")?;
        let spec = ProcessSpec::new(program)
            .args(["shim", "--id", id, "--stdio", "--max-queue", "100000"])
            .args(arguments.iter().map(String::as_str))
            .envs(variables(home))
            .current_dir(home.workspace());
        let mut process = TestProcess::start(spec)?;
        let input = process.take_stdin().context("its input")?;
        let output = process.take_stdout().context("its output")?;
        Ok(Self {
            process,
            input,
            lines: BufReader::new(output).lines(),
        })
    }

    /// Waits until the shim is ready, and agrees on dialect 2.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        let ready = self.event("Ready").await?;
        ensure!(ready["engine_ok"] == true, "{ready}");
        self.send(&json!({"cmd": "Hello", "version": 2})).await?;
        self.event("Welcome").await?;
        Ok(())
    }

    pub(crate) async fn send(&mut self, command: &Value) -> anyhow::Result<()> {
        let line = format!("{command}\n");
        Ok(self.input.write_all(line.as_bytes()).await?)
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Value> {
        let line = within("an event", DEADLINE, self.lines.next_line()).await??;
        let line = line.with_context(|| format!("it ended: {}", self.process.stderr_tail()))?;
        let event: Value = serde_json::from_str(&line)?;
        let name = event["event"].as_str().unwrap_or_default();
        ensure!(name != "DeliveryFailed" && name != "Error", "{event}");
        Ok(event)
    }

    /// The next event of this name.
    pub(crate) async fn event(&mut self, name: &str) -> anyhow::Result<Value> {
        loop {
            let event = self.next().await?;
            if event["event"] == name {
                return Ok(event);
            }
        }
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn call(&mut self, command: &str) -> anyhow::Result<Value> {
        self.send(&json!({"cmd": command, "req": command})).await?;
        loop {
            let event = self.event("Ok").await?;
            if event["req"] == command {
                return Ok(event);
            }
        }
    }

    /// Runs one message to its `Completion`.
    pub(crate) async fn turn(&mut self, number: usize) -> anyhow::Result<()> {
        self.send(&message(number)).await?;
        let completion = self.event("Completion").await?;
        ensure!(completion["message_id"] == id(number), "{completion}");
        Ok(())
    }
}

/// The id of a message.
pub(crate) fn id(number: usize) -> String {
    format!("m{number}")
}

/// A message whose acceptance is answered.
pub(crate) fn message(number: usize) -> Value {
    json!({"cmd": "SendMessage", "from": "bench", "body": "hello", "message_id": id(number),
        "req": number})
}
