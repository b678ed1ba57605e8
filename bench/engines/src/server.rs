//! An app-server, ours with one engine or Codex's own, and a client that runs turns on it.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use turnlane_benchkit::tree::{self, CpuSeconds};
use turnlane_benchkit::{InstantModel, Program, Whose, Wire, use_model};
use turnlane_testkit::TempHome;

/// A running server with a thread.
pub(crate) struct Server {
    program: Program,
    wire: Wire,
    home: TempHome,
    engine: Option<String>,
    thread: String,
}

impl Server {
    /// Starts ours and makes a thread of this engine; `None` where Codex is not there.
    pub(crate) async fn ours(engine: &str, model: &InstantModel) -> anyhow::Result<Option<Self>> {
        let codex = Whose::Codex.program()?;
        let codex = codex.map(|codex| format!("engine.codex.program={}", codex.display()));
        let mut arguments = vec!["app-server"];
        if engine.starts_with("codex") {
            let Some(codex) = &codex else {
                return Ok(None);
            };
            arguments.extend(["-c", codex]);
        }
        let engine = Some(engine.to_owned());
        Self::start(Whose::Ours, &arguments, engine, model).await
    }

    /// Starts Codex's own and makes a thread; `None` where Codex is not there.
    pub(crate) async fn codex(model: &InstantModel) -> anyhow::Result<Option<Self>> {
        Self::start(Whose::Codex, &["app-server"], None, model).await
    }

    async fn start(
        whose: Whose,
        arguments: &[&str],
        engine: Option<String>,
        model: &InstantModel,
    ) -> anyhow::Result<Option<Self>> {
        let home = TempHome::new()?;
        use_model(&home, &model.base_url())?;
        let Some(mut program) = Program::start(whose, &home, arguments)? else {
            return Ok(None);
        };
        let wire = Wire::greet(program.stdio()?).await?;
        let mut server = Self {
            program,
            wire,
            home,
            engine,
            thread: String::new(),
        };
        server.thread = server.start_thread().await?;
        Ok(Some(server))
    }

    /// Makes a thread with the settings that all contenders have; returns its id.
    pub(crate) async fn start_thread(&mut self) -> anyhow::Result<String> {
        let mut params = json!({
            "cwd": self.home.workspace(), "sandbox": "read-only", "approvalPolicy": "never",
        });
        if let Some(engine) = &self.engine {
            params["engine"] = engine.as_str().into();
        }
        let started = self.wire.call("thread/start", &params).await?;
        let status = &started["engineStatus"];
        ensure!(self.engine.is_none() || status["ok"] == true, "{status}");
        let thread = started["thread"]["id"].as_str().context("a thread's id")?;
        Ok(thread.to_owned())
    }

    /// Runs one turn to its end, which must be a good one.
    pub(crate) async fn turn(&mut self) -> anyhow::Result<()> {
        let thread = self.thread.clone();
        self.start_turn(&thread).await?;
        self.end_turn().await
    }

    /// Asks for a turn and does not wait for it.
    pub(crate) async fn start_turn(&mut self, thread: &str) -> anyhow::Result<()> {
        let input = json!([{"type": "text", "text": "hello", "text_elements": []}]);
        let params = json!({"threadId": thread, "input": input});
        self.wire.request("turn/start", &params).await?;
        Ok(())
    }

    /// Waits until a turn has ended, which must be a good end.
    pub(crate) async fn end_turn(&mut self) -> anyhow::Result<()> {
        let end: Value = self.wire.until("turn/completed").await?.value()?;
        let status = &end["params"]["turn"]["status"];
        ensure!(status == "completed", "{end}");
        Ok(())
    }

    /// Seconds that the server and everything it started have computed.
    pub(crate) fn cpu(&self) -> anyhow::Result<CpuSeconds> {
        tree::cpu_seconds(self.program.process.pid())
    }

    /// Megabytes of memory that the processes of the server's own program hold for themselves.
    pub(crate) fn own_memory_mb(&self) -> anyhow::Result<f64> {
        tree::own_memory_mb(self.program.process.pid())
    }
}
