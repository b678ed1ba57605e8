//! The echo server as a process, and connections to it over every transport.

use tempfile::TempDir;
use turnlane_rpc::{Duplex, connect};
use turnlane_testkit::{ProcessSpec, TestClient, TestProcess, wait};

/// How a test reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stdio,
    /// Websocket over a unix socket.
    Unix,
    /// JSON lines over a unix socket.
    UnixLines,
    WebSocket,
}

impl Over {
    pub(crate) const ALL: [Over; 4] = [Self::Stdio, Self::Unix, Self::UnixLines, Self::WebSocket];
}

pub(crate) struct EchoServer {
    pub(crate) process: TestProcess,
    pub(crate) over: Over,
    url: String,
    // Holds the socket file.
    _folder: TempDir,
}

impl EchoServer {
    pub(crate) async fn start(over: Over) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/echo.sock").display().to_string();
        let arguments = match over {
            Over::Stdio => vec!["stdio"],
            Over::Unix | Over::UnixLines => vec!["unix", &path],
            Over::WebSocket => vec!["ws"],
        };
        let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_rpc_echo")).args(arguments);
        let process = TestProcess::start(spec.env("RUST_BACKTRACE", "1")).unwrap();
        let url = match over {
            Over::Stdio => String::new(),
            _ => announced(&process).await,
        };
        Self {
            process,
            over,
            url,
            _folder: folder,
        }
    }

    /// A new connection; over stdio there is only one.
    pub(crate) async fn connect(&mut self) -> Duplex {
        let options = connect::Options::default();
        let path = || std::path::Path::new(self.url.trim_start_matches("unix://"));
        match self.over {
            Over::Stdio => {
                let stdout = self
                    .process
                    .take_stdout()
                    .expect("stdio has one connection");
                let stdin = self.process.take_stdin().expect("stdio has one connection");
                Duplex::lines(stdout, stdin)
            }
            Over::Unix => connect::connect_unix(path(), &options).await.unwrap(),
            Over::UnixLines => connect::connect_unix_lines(path(), &options).await.unwrap(),
            Over::WebSocket => connect::connect_ws(&self.url, &options).await.unwrap(),
        }
    }

    pub(crate) async fn client(&mut self) -> TestClient {
        TestClient::new(self.connect().await)
    }

    /// `127.0.0.1:PORT` of a websocket server.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("ws://")
    }
}

/// Where a listening server says it listens.
async fn announced(process: &TestProcess) -> String {
    const BANNER: &str = "listening on ";
    let is_banner = |line: &str| line.starts_with(BANNER);
    let line = process
        .wait_for_stderr_line(is_banner, wait::DEADLINE)
        .await;
    line.unwrap()[BANNER.len()..].to_owned()
}
