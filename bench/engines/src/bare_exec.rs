//! One `codex exec` process per turn, started as the engine `codex-exec` starts it: each turn after the
//! first resumes the thread, and the prompt comes from standard input.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turnlane_benchkit::tree::{self, CpuSeconds};
use turnlane_benchkit::{InstantModel, Program, Whose};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::DEADLINE;

/// A thread of Codex, between two processes.
pub(crate) struct BareExec {
    home: TempHome,
    thread: Option<String>,
}

impl BareExec {
    /// In a new home; `None` where Codex is not there.
    pub(crate) fn new(model: &InstantModel) -> anyhow::Result<Option<Self>> {
        if Whose::Codex.program()?.is_none() {
            return Ok(None);
        }
        let home = TempHome::new()?;
        home.use_model(&model.base_url())?;
        let thread = None;
        Ok(Some(Self { home, thread }))
    }

    /// Runs one turn to the exit of its process, which must be a good one.
    pub(crate) async fn turn(&mut self) -> anyhow::Result<()> {
        let mut arguments = vec!["exec", "--json", "-c", "approval_policy=\"never\""];
        arguments.extend(["-s", "read-only", "--skip-git-repo-check"]);
        if let Some(thread) = &self.thread {
            arguments.extend(["resume", thread]);
        }
        arguments.push("-");
        let program = Program::start(Whose::Codex, &self.home, &arguments)?;
        let mut process = program.context("Codex's program")?.process;
        let mut stdin = process.take_stdin().context("no standard input")?;
        stdin.write_all(b"hello").await?;
        drop(stdin);
        let mut stdout = process.take_stdout().context("no standard output")?;
        let mut text = String::new();
        stdout.read_to_string(&mut text).await?;
        let status = process.wait(DEADLINE).await?;
        let is_good = status.success() && text.contains("turn.completed");
        ensure!(is_good, "{text}{}", process.stderr_tail());
        if self.thread.is_none() {
            let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
            let id = first["thread_id"].as_str().context("a thread's id")?;
            self.thread = Some(id.to_owned());
        }
        Ok(())
    }

    /// Seconds that the processes computed which have ended. They are the only children that this
    /// program waits for while it measures.
    pub(crate) fn cpu() -> anyhow::Result<CpuSeconds> {
        let me = i32::try_from(std::process::id())?;
        let all = tree::children_seconds(me)?;
        Ok(CpuSeconds { own: all, all })
    }
}
