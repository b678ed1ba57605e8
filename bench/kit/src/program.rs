//! A contender as a running program: how it is started, what it holds, what it has computed.
//!
//! The invariant here: a program has a home of its own and nothing of the host, and is gone with its
//! value. What is said to it is the business of its clients.

use std::time::Duration;

use anyhow::{Context as _, bail};
use turnlane_rpc::Duplex;
use turnlane_rpc::connect::{self, connect_unix, connect_ws};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, ProcessSpec, TempHome, TestProcess};

use crate::Whose;

/// The variable with the model's key in the configuration of Codex. A Codex that an engine of ours started
/// does not get variables whose names begin with `TURNLANE_`.
const CODEX_KEY_VARIABLE: &str = "MOCK_MODEL_KEY";

/// Makes the model the provider in a home, for our program and for Codex.
pub fn use_model(home: &TempHome, base_url: &str) -> anyhow::Result<()> {
    home.use_model(base_url)?;
    let config = home.codex().join("config.toml");
    let text = std::fs::read_to_string(&config)?;
    let text = text.replace(MOCK_KEY_VARIABLE, CODEX_KEY_VARIABLE);
    Ok(std::fs::write(&config, text)?)
}

/// The whole environment of a program in a home.
pub fn variables(home: &TempHome) -> Vec<(String, String)> {
    let mut variables = home.env();
    variables.push((CODEX_KEY_VARIABLE.to_owned(), MOCK_KEY.to_owned()));
    variables
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    /// The process itself.
    pub process: TestProcess,
}

impl Program {
    /// Starts it in this home with these arguments; `None` when it is Codex and not there.
    pub fn start(whose: Whose, home: &TempHome, args: &[&str]) -> anyhow::Result<Option<Self>> {
        let Some(program) = whose.program()? else {
            return Ok(None);
        };
        let spec = ProcessSpec::new(program)
            .args(args.iter().copied())
            .envs(variables(home))
            .current_dir(home.workspace());
        let process = TestProcess::start(spec)?;
        Ok(Some(Self { process }))
    }

    /// Its standard input and output; once.
    pub fn stdio(&mut self) -> anyhow::Result<Duplex> {
        let stdin = self.process.take_stdin().context("no standard input")?;
        let stdout = self.process.take_stdout().context("no standard output")?;
        Ok(Duplex::lines(stdout, stdin))
    }

    /// Waits until it says that it is ready, as our daemon does.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let ready = |line: &str| line.starts_with("ready");
        self.process.wait_for_stderr_line(ready, DEADLINE).await?;
        Ok(())
    }

    /// A connection to our daemon's unix socket.
    pub async fn unix(home: &TempHome) -> anyhow::Result<Duplex> {
        let socket = home.turnlane().join("run/app-server.sock");
        Ok(connect_unix(&socket, &connect::Options::default()).await?)
    }

    /// A connection to our daemon's websocket, with its token.
    pub async fn websocket(&self, home: &TempHome) -> anyhow::Result<Duplex> {
        let told = |line: &str| line.starts_with("listening on ws://");
        let line = self.process.wait_for_stderr_line(told, DEADLINE).await?;
        let Some(url) = line.rsplit(' ').next() else {
            bail!("no address in {line}");
        };
        let token = std::fs::read_to_string(home.turnlane().join("token"))?;
        let options = connect::Options {
            token: Some(token.trim().to_owned().into()),
            ..connect::Options::default()
        };
        Ok(connect_ws(url, &options).await?)
    }

    /// Seconds it has computed so far, without its children.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        let after_name = stat.rsplit_once(") ").context("a stat line")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks =
            |at: usize| -> anyhow::Result<u64> { Ok(fields.get(at).context("a field")?.parse()?) };
        // Fields 14 and 15, counted from the state, which is field 3; ticks of 10 ms.
        Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)).as_secs_f64())
    }

    /// Megabytes it holds.
    pub fn resident_mb(&self) -> anyhow::Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        Ok(self.process.rss_bytes()? as f64 / 1e6)
    }

    /// Megabytes of it that are not files, so that no other process shares them and the system cannot
    /// take them back.
    pub fn private_mb(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib: f64 = kib.context("no RssAnon")?.parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    /// Asks it to end, and waits.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.process.terminate()?;
        self.process.wait(DEADLINE).await?;
        Ok(())
    }
}
