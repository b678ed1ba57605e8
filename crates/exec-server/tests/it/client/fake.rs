//! A server that says what a test tells it to.
//!
//! It speaks lines over any stream and knows no process. A test reads what the client asked and
//! writes the answer it likes, so every order and every failure can be had at will.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
    Lines, ReadHalf, WriteHalf, duplex, split,
};
use turnlane_exec_server::client::{ClientError, ClientOptions, ExecClient};
use turnlane_testkit::wait::{DEADLINE, within};

/// What the two ends may have between them.
const PIPE_BYTES: usize = 64 * 1024;

pub(super) struct Fake<S> {
    lines: Lines<BufReader<ReadHalf<S>>>,
    writer: WriteHalf<S>,
}

/// One request of the client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
}

/// Which server is played.
#[derive(Clone, Copy)]
pub(super) enum Plays {
    Ours,
    Codex,
    V0,
}

impl<S: AsyncRead + AsyncWrite> Fake<S> {
    pub(super) fn new(stream: S) -> Self {
        let (reader, writer) = split(stream);
        let lines = BufReader::new(reader).lines();
        Self { lines, writer }
    }

    /// The next message of the client; `None` when it closed its side.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = within("a message of the client", DEADLINE, self.lines.next_line());
        let line = line.await.unwrap().unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next message, which must be a call of `method`.
    pub(super) async fn asked(&mut self, method: &str) -> Asked {
        let message = self.next().await.unwrap();
        assert_eq!(message["method"], method, "{message}");
        Asked {
            id: message["id"].clone(),
            method: method.to_owned(),
            params: message["params"].clone(),
        }
    }

    pub(super) async fn say(&mut self, message: Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    pub(super) async fn answer(&mut self, asked: &Asked, result: Value) {
        self.say(json!({"id": asked.id, "result": result})).await;
    }

    pub(super) async fn refuse(&mut self, asked: &Asked, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.say(json!({"id": asked.id, "error": error})).await;
    }

    /// Answers the next call of `method`.
    pub(super) async fn serve(&mut self, method: &str, result: Value) -> Asked {
        let asked = self.asked(method).await;
        self.answer(&asked, result).await;
        asked
    }

    /// Answers the handshake; what `initialize` said.
    pub(super) async fn handshake(&mut self, plays: Plays) -> Value {
        let result = match plays {
            Plays::V0 => json!({"protocolVersion": "exec-server.v0"}),
            Plays::Codex => json!({"sessionId": "s-1", "environmentInfo": {
                "shell": {"name": "bash", "path": "/bin/bash"}, "capabilities": {}}}),
            Plays::Ours => ours("s-1"),
        };
        let asked = self.serve("initialize", result).await;
        assert_eq!(self.next().await.unwrap()["method"], "initialized");
        asked.params
    }

    /// Answers the next start; the name of the process.
    pub(super) async fn started(&mut self) -> String {
        let asked = self.asked("process/start").await;
        let id = asked.params["processId"].as_str().unwrap().to_owned();
        let result = json!({"processId": id, "sandboxType": "none"});
        self.answer(&asked, result).await;
        id
    }

    pub(super) async fn output(&mut self, process: &str, seq: u64, bytes: &[u8]) {
        let params = json!({"processId": process, "seq": seq, "stream": "stdout",
            "chunk": STANDARD.encode(bytes)});
        self.say(json!({"method": "process/output", "params": params}))
            .await;
    }

    pub(super) async fn exited(&mut self, process: &str, seq: u64, code: i32) {
        let params = json!({"processId": process, "seq": seq, "exitCode": code,
            "sandboxDenied": false, "signal": null, "reason": "exited"});
        self.say(json!({"method": "process/exited", "params": params}))
            .await;
    }

    pub(super) async fn closed(&mut self, process: &str, seq: u64) {
        let params = json!({"processId": process, "seq": seq});
        self.say(json!({"method": "process/closed", "params": params}))
            .await;
    }
}

/// What our server answers to `initialize`.
pub(super) fn ours(session: &str) -> Value {
    json!({"sessionId": session, "protocolVersion": "process.v1", "environmentInfo": {
        "shell": {"name": "bash", "path": "/bin/bash"}, "capabilities": {},
        "turnlane": {"version": "0", "containment": "cgroup", "landlockAbi": null,
            "mountSandbox": false, "networkSandbox": false,
            "extensions": ["closeStdin", "resize", "wait", "snapshot", "list", "end", "signals",
                "sessionEnd"]}}})
}

/// A client of a fake server, after the handshake.
pub(super) async fn connected(plays: Plays) -> (ExecClient, Fake<DuplexStream>) {
    let options = options(plays);
    let (mut fake, connecting) = connecting(options);
    let (client, _) = tokio::join!(connecting, fake.handshake(plays));
    (client.unwrap(), fake)
}

/// A fake server and a client that is about to say `initialize`.
pub(super) fn connecting(
    options: ClientOptions,
) -> (
    Fake<DuplexStream>,
    impl Future<Output = Result<ExecClient, ClientError>>,
) {
    let (near, far) = duplex(PIPE_BYTES);
    let (reader, writer) = split(near);
    let connecting = ExecClient::connect_stdio(reader, writer, options);
    (Fake::new(far), connecting)
}

pub(super) fn options(plays: Plays) -> ClientOptions {
    let mut options = ClientOptions::new("a test");
    if let Plays::V0 = plays {
        options.dialect = turnlane_exec_server::client::Dialect::V0;
    }
    options
}
