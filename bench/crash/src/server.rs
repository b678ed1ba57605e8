//! A server under test: how it is started, spoken to and killed.
//!
//! The invariant here: a contender is only ever killed by `SIGKILL` to its one process, as the kernel or
//! a person would, and every wait for it has an end with a message. What is asked of it is the business
//! of `work.rs` and `rest.rs`.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_rpc::Duplex;
use turnlane_rpc::connect::{self, connect_unix};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{Error, ProcessSpec, TempHome, TestClient, TestProcess};

/// Whose server, and how it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `codex app-server` over standard input and output.
    Codex,
    /// `turnlane app-server` over standard input and output.
    Stdio,
    /// `turnlane serve` over its unix socket.
    Serve,
}

impl Kind {
    /// The heading of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "Codex 0.166",
            Self::Stdio => "ours, app-server",
            Self::Serve => "ours, serve",
        }
    }

    /// Whether it knows what only ours has: pause and retry, a visible state of the lane.
    pub(crate) fn is_ours(self) -> bool {
        match self {
            Self::Codex => false,
            Self::Stdio | Self::Serve => true,
        }
    }
}

/// A program that is killed, and how it is reached.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Which it is.
    pub kind: Kind,
    /// Where its program is.
    pub program: OsString,
}

impl Contender {
    fn spec(&self, home: &TempHome) -> ProcessSpec {
        let command = match self.kind {
            Kind::Codex | Kind::Stdio => "app-server",
            Kind::Serve => "serve",
        };
        ProcessSpec::new(&self.program)
            .args([command])
            .envs(home.env())
            .current_dir(home.workspace())
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(Value),
    Refused(Value),
    /// The connection ended before an answer came.
    Gone,
}

/// A running server with the one client that has said hello.
pub(crate) struct Server {
    process: TestProcess,
    pub(crate) client: TestClient,
}

impl Server {
    /// Starts it in this home.
    pub(crate) async fn start(contender: &Contender, home: &TempHome) -> anyhow::Result<Self> {
        let mut process = TestProcess::start(contender.spec(home))?;
        let duplex = if contender.kind == Kind::Serve {
            let ready = |line: &str| line.starts_with("ready");
            process.wait_for_stderr_line(ready, DEADLINE).await?;
            let socket = home.turnlane().join("run/app-server.sock");
            connect_unix(&socket, &connect::Options::default()).await?
        } else {
            let stdin = process.take_stdin().context("no standard input")?;
            let stdout = process.take_stdout().context("no standard output")?;
            Duplex::lines(stdout, stdin)
        };
        let mut server = Self {
            process,
            client: TestClient::new(duplex),
        };
        let params = json!({
            "clientInfo": {"name": "crash", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        server.must("initialize", params).await?;
        server.client.notify("initialized", json!({})).await?;
        Ok(server)
    }

    /// Starts it in this home and kills it soon afterwards.
    pub(crate) async fn killed_at_start(
        contender: &Contender,
        home: &TempHome,
        after: Duration,
    ) -> anyhow::Result<()> {
        let mut process = TestProcess::start(contender.spec(home))?;
        let killer = Killer(Pid::from_raw(process.pid()));
        killer.kill_after(after).await;
        process.wait(DEADLINE).await?;
        Ok(())
    }

    /// Sends a request; none if the server is gone.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Option<i64>> {
        match self.client.request(method, params).await {
            Ok(id) => Ok(Some(id)),
            Err(error @ Error::TimedOut { .. }) => Err(self.explained(error)),
            Err(Error::Over { .. } | Error::System { .. }) => Ok(None),
        }
    }

    /// The answer to a request that was sent.
    pub(crate) async fn answer(&mut self, id: i64) -> anyhow::Result<Answer> {
        match self.client.answer(id).await {
            Ok(mut answer) => Ok(match answer.get_mut("result") {
                Some(result) => Answer::Result(result.take()),
                None => Answer::Refused(answer["error"].take()),
            }),
            Err(error @ Error::TimedOut { .. }) => Err(self.explained(error)),
            Err(Error::Over { .. } | Error::System { .. }) => Ok(Answer::Gone),
        }
    }

    /// Sends a request and waits for what comes of it.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Answer> {
        match self.send(method, params).await? {
            Some(id) => self.answer(id).await,
            None => Ok(Answer::Gone),
        }
    }

    /// The result of a call to a server that nobody kills.
    pub(crate) async fn must(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        match self.call(method, params).await? {
            Answer::Result(result) => Ok(result),
            Answer::Refused(error) => bail!("{method} was refused: {error}"),
            Answer::Gone => bail!(
                "the server left at {method}: {}",
                self.process.stderr_tail()
            ),
        }
    }

    /// The turn that runs in a thread, as far as this client was told.
    pub(crate) fn running(&self, thread: &str) -> Option<String> {
        let of_thread = |message: &&Value| message["params"]["threadId"] == thread;
        let told = self.client.received().iter().filter(of_thread);
        let mut running = None;
        for message in told {
            match message["method"].as_str() {
                Some("turn/started") => running = message["params"]["turn"]["id"].as_str(),
                Some("turn/completed") => running = None,
                Some(_) | None => {}
            }
        }
        running.map(str::to_owned)
    }

    /// What kills it from another task. Its id stays its own until [`Server::gone`] has reaped it.
    pub(crate) fn killer(&self) -> Killer {
        Killer(Pid::from_raw(self.process.pid()))
    }

    /// Waits for the end of a server that was killed.
    pub(crate) async fn gone(mut self) -> anyhow::Result<()> {
        self.process.wait(DEADLINE).await?;
        Ok(())
    }

    fn explained(&self, error: Error) -> anyhow::Error {
        let said = self.process.stderr_tail();
        anyhow::Error::new(error).context(format!("the server said: {said}"))
    }
}

/// Ends one process by `SIGKILL`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Killer(Option<Pid>);

impl Killer {
    /// Kills it now; one that has ended by itself is left to [`Server::gone`].
    pub(crate) fn kill(self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Kills it after a while.
    pub(crate) async fn kill_after(self, delay: Duration) {
        tokio::time::sleep(delay).await;
        self.kill();
    }
}
