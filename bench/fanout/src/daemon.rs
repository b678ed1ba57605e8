//! `turnlane serve` with a client, for the sections that ask it for jobs.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turnlane_benchkit::{Program, Whose, Wire, tree};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::DEADLINE;

use crate::run::megabytes;

/// A running daemon with one client that has said hello.
pub(crate) struct Daemon {
    pub(crate) program: Program,
    pub(crate) wire: Wire,
}

impl Daemon {
    /// Starts it in a home, with further arguments.
    pub(crate) async fn start(home: &TempHome, arguments: &[&str]) -> anyhow::Result<Self> {
        let arguments = [&["serve"], arguments].concat();
        let program = Program::start(Whose::Ours, home, &arguments)?.context("our program")?;
        program.ready().await?;
        let wire = Self::client(home).await?;
        Ok(Self { program, wire })
    }

    /// Connects another client.
    pub(crate) async fn client(home: &TempHome) -> anyhow::Result<Wire> {
        Wire::greet(Program::unix(home).await?).await
    }

    /// The largest resident set so far, in megabytes.
    pub(crate) fn peak_mb(&self) -> anyhow::Result<f64> {
        Ok(megabytes(self.program.process.rss_peak_bytes()?))
    }

    /// Seconds that its living threads have computed.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        tree::thread_seconds(self.program.process.pid())
    }

    /// Ends it in order.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        drop(self.wire);
        self.program.end().await
    }

    /// Reads `/metrics`; its bytes.
    pub(crate) async fn metrics(&self, home: &TempHome) -> anyhow::Result<usize> {
        let listening = |line: &str| line.starts_with("listening on ws://");
        let process = &self.program.process;
        let line = process.wait_for_stderr_line(listening, DEADLINE).await?;
        let address = line.rsplit("ws://").next().context("an address")?;
        let address = address.trim_end_matches('/');
        let token = std::fs::read_to_string(home.turnlane().join("token"))?;
        let token = token.trim();
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(answer.len())
    }
}

/// The bytes of all files of the daemon's home in megabytes, its spare file for a full disk included.
pub(crate) fn disk_mb(home: &TempHome) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(home.turnlane())? {
        // The log may go while it is looked at.
        let Ok(metadata) = entry?.metadata() else {
            continue;
        };
        if metadata.is_file() {
            bytes += metadata.len();
        }
    }
    Ok(megabytes(bytes))
}

/// Makes a job; its id.
pub(crate) async fn create(wire: &mut Wire, params: &Value) -> anyhow::Result<String> {
    let created = wire.call("fanout/create", params).await?;
    let id = created["job"]["id"].as_str().context("a job's id")?;
    Ok(id.to_owned())
}

/// The parameters that import a file.
pub(crate) fn import(job: &str, path: &Path) -> Value {
    json!({"jobId": job, "source": {"type": "path", "path": path}})
}
