//! The servers that are measured: ours and Codex's, as programs of their own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use turnlane_testkit::{ProcessSpec, TestProcess};

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    Codex,
}

impl Whose {
    pub(crate) const ALL: [Self; 2] = [Self::Codex, Self::Ours];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Codex => "Codex 0.166",
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: TestProcess,
    pub(crate) url: String,
    _home: TempDir,
}

impl Server {
    /// Starts it on a port of its own; `None` when Codex is not there.
    pub(crate) async fn start(whose: Whose) -> anyhow::Result<Option<Self>> {
        let home = tempfile::tempdir()?;
        let spec = match whose {
            Whose::Ours => ProcessSpec::new(turnlane()?)
                .args(["exec-server", "--listen", "ws://127.0.0.1:0"])
                .args(["--ws-auth", "none"])
                .args(["-c", "exec_server.max_processes_per_connection=16384"]),
            Whose::Codex => {
                let Some(codex) = std::env::var_os("TURNLANE_TEST_CODEX") else {
                    return Ok(None);
                };
                ProcessSpec::new(codex).args(["exec-server", "--listen", "ws://127.0.0.1:0"])
            }
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let spec = spec
            .env("TURNLANE_HOME", home.path())
            .env("CODEX_HOME", home.path())
            .env("HOME", home.path())
            .env("PATH", path);
        let mut process = TestProcess::start(spec)?;
        let stdout = process.take_stdout().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await??;
        let Some(url) = line else {
            bail!("{} did not start: {}", whose.name(), process.stderr_tail());
        };
        Ok(Some(Self {
            process,
            url: url.trim().to_owned(),
            _home: home,
        }))
    }

    /// Seconds the server itself has computed so far, without its children.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        let after_name = stat.rsplit_once(") ").context("a stat line")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks =
            |at: usize| -> anyhow::Result<u64> { Ok(fields.get(at).context("a field")?.parse()?) };
        // Fields 14 and 15, counted from the state, which is field 3; ticks of 10 ms.
        Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)).as_secs_f64())
    }
}

/// Our program, beside this one.
fn turnlane() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("turnlane");
    if !path.exists() {
        bail!(
            "{} is missing; build it with `cargo build --release -p turnlane-cli`",
            path.display()
        );
    }
    Ok(path)
}
