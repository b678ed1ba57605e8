//! What the tests of the wire have in common: servers, and a client that sees everything in order.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;
use turnlane_exec_server::server::{Options, Peer, Server};
use turnlane_process::ProcessService;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::connect::{self, connect_ws};
use turnlane_rpc::listen::Listener;
use turnlane_rpc::{Duplex, FrameReader, FrameWriter, Frames, Inbound, WriteError};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TestProcess};

/// A server in this process, on a port of its own.
pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) url: String,
    shutdown: CancellationToken,
}

impl Host {
    pub(crate) fn start() -> Self {
        Self::start_with(Options::default())
    }

    pub(crate) fn start_with(options: Options) -> Self {
        let listener =
            Listener::bind_tcp(([127, 0, 0, 1], 0).into(), WsAuth::None, options.listen());
        let listener = listener.unwrap();
        let url = listener.bound().to_string();
        let server = Server::new(service(), options);
        let shutdown = CancellationToken::new();
        tokio::spawn({
            let (server, shutdown) = (server.clone(), shutdown.clone());
            async move { server.run_listener(listener, shutdown).await }
        });
        Self {
            server,
            url,
            shutdown,
        }
    }

    /// A client on a websocket.
    pub(crate) async fn ws(&self) -> Wire {
        Wire::ws(&self.url).await
    }

    /// A client that believes it is on standard input and output.
    pub(crate) fn stdio(&self) -> Wire {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (reads, writes) = tokio::io::split(far);
        let server = self.server.clone();
        tokio::spawn(async move {
            server
                .serve(Duplex::lines(reads, writes), Peer::Stdio)
                .await;
        });
        let (reads, writes) = tokio::io::split(near);
        Wire::new(Duplex::lines(reads, writes))
    }

    /// A client on a websocket whose handshake for `process.v1` is done.
    pub(crate) async fn v1(&self) -> Wire {
        let mut wire = self.ws().await;
        wire.greet_v1().await;
        wire
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(crate) fn service() -> ProcessService {
    let keeper = vec![env!("CARGO_BIN_EXE_exec_host").into(), "__keeper".into()];
    ProcessService::start(turnlane_process::Options {
        keeper: Some(keeper),
        ..turnlane_process::Options::default()
    })
    .unwrap()
}

/// What a client got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Got {
    /// As it was written.
    Text(String),
    Closed(Option<u16>),
}

/// A client that sends what it is told and sees everything in order.
pub(crate) struct Wire {
    reader: FrameReader,
    writer: FrameWriter,
    _counted: turnlane_rpc::Counted,
    /// Notifications that were read while an answer was waited for.
    events: VecDeque<Value>,
    next_id: i64,
}

impl Wire {
    pub(crate) fn new(duplex: Duplex) -> Self {
        let Frames {
            reader,
            writer,
            counted,
            ..
        } = duplex.into_frames();
        Self {
            reader,
            writer,
            _counted: counted,
            events: VecDeque::new(),
            next_id: 1000,
        }
    }

    pub(crate) async fn ws(url: &str) -> Self {
        Self::new(connect_ws(url, &connect::Options::default()).await.unwrap())
    }

    /// Queues a message; [`Wire::flush`] sends it.
    pub(crate) fn push(&mut self, text: impl Into<Bytes>) {
        self.writer.push(text.into());
    }

    pub(crate) async fn flush(&mut self) {
        self.writer.flush(DEADLINE).await.unwrap();
    }

    /// Sends what is queued, if the other side still takes it.
    pub(crate) async fn try_flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush(DEADLINE).await
    }

    pub(crate) async fn send(&mut self, text: impl Into<Bytes>) {
        self.push(text);
        self.flush().await;
    }

    /// The next frame, as it was written.
    pub(crate) async fn got(&mut self) -> Got {
        loop {
            let found = within("a frame", DEADLINE, self.reader.next())
                .await
                .unwrap();
            match found {
                Ok(Some(Inbound::Message(frame))) => {
                    return Got::Text(String::from_utf8(frame.to_vec()).unwrap());
                }
                Ok(Some(Inbound::Ping(payload))) => {
                    self.writer.push_pong(&payload);
                    self.flush().await;
                }
                Ok(Some(Inbound::Close(code))) => return Got::Closed(Some(code)),
                Ok(Some(Inbound::Alive | Inbound::TooLarge(_))) => {}
                Ok(None) | Err(_) => return Got::Closed(None),
            }
        }
    }

    /// The next message, which must come.
    pub(crate) async fn next(&mut self) -> Value {
        match self.got().await {
            Got::Text(text) => serde_json::from_str(&text).unwrap(),
            Got::Closed(code) => panic!("the connection ended with {code:?}"),
        }
    }

    /// The next answer as it was written; notifications before it are kept.
    pub(crate) async fn answer_text(&mut self) -> String {
        loop {
            match self.got().await {
                Got::Closed(code) => panic!("the connection ended with {code:?}"),
                Got::Text(text) if text.starts_with("{\"method\"") => {
                    self.events.push_back(serde_json::from_str(&text).unwrap());
                }
                Got::Text(text) => return text,
            }
        }
    }

    /// Asks in the client's own words and returns the answer's.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.send(text.to_owned()).await;
        self.answer_text().await
    }

    /// Asks and returns the whole answer, whichever id it has.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.push_call(method, &params);
        self.flush().await;
        self.answer_to(id).await
    }

    /// Queues a request and returns its id.
    pub(crate) fn push_call(&mut self, method: &str, params: &Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.push(json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer with this id; no other may come before it.
    pub(crate) async fn answer_to(&mut self, id: i64) -> Value {
        let answer: Value = serde_json::from_str(&self.answer_text().await).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The result of a call that must succeed.
    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Code and text of a call that must fail.
    pub(crate) async fn err(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.call(method, params).await;
        let error = &answer["error"];
        let text = error["message"].as_str();
        (
            error["code"].as_i64().unwrap(),
            text.unwrap_or_else(|| panic!("{answer}")).to_owned(),
        )
    }

    /// The next notification.
    pub(crate) async fn event(&mut self) -> Value {
        if let Some(event) = self.events.pop_front() {
            return event;
        }
        let message = self.next().await;
        assert!(message.get("method").is_some(), "{message}");
        message
    }

    /// Initialises for `process.v1`; the session's id.
    pub(crate) async fn greet_v1(&mut self) -> String {
        self.greet(json!({"clientName": "test", "resumeSessionId": null}))
            .await
    }

    /// Initialises with these params; the session's id.
    pub(crate) async fn greet(&mut self, params: Value) -> String {
        let greeted = self.ok("initialize", params).await;
        self.send(r#"{"method":"initialized","params":{}}"#).await;
        greeted["sessionId"].as_str().unwrap_or_default().to_owned()
    }

    /// Starts `sh -c script` and returns the answer.
    pub(crate) async fn sh(&mut self, id: &str, script: &str, more: Value) -> Value {
        self.ok("process/start", start_params(id, script, more))
            .await
    }

    /// Everything a process tells until it closes: its output, joined, and its exit code. Numbers
    /// must be dense from `after` on; events of other processes are passed over.
    pub(crate) async fn until_closed(&mut self, id: &str, after: u64) -> (Vec<u8>, i64) {
        let (mut output, mut code, mut last) = (Vec::new(), None, after);
        loop {
            let event = self.event().await;
            let params = &event["params"];
            if params["processId"] != id {
                continue;
            }
            assert_eq!(params["seq"], last + 1, "{event}");
            last += 1;
            match event["method"].as_str().unwrap() {
                "process/output" => {
                    assert!(code.is_none(), "output of the leader after its exit");
                    output.extend(bytes_of(&params["chunk"]));
                }
                "process/exited" => code = params["exitCode"].as_i64(),
                "process/closed" => return (output, code.unwrap()),
                other => panic!("unexpected {other}"),
            }
        }
    }
}

/// Params that start `sh -c script`, with `more` members.
pub(crate) fn start_params(id: &str, script: &str, more: Value) -> Value {
    let mut params = json!({
        "processId": id,
        "argv": ["/bin/sh", "-c", script],
        "cwd": "file:///tmp",
        "env": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        "tty": false,
        "arg0": null,
    });
    if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
        params.extend(more);
    }
    params
}

pub(crate) fn bytes_of(chunk: &Value) -> Vec<u8> {
    STANDARD.decode(chunk.as_str().unwrap()).unwrap()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// How long what must be gone at once may be seen on a machine that is busy with other things: the
/// promise is a second, and the bench measures it.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Waits until none of these lives.
pub(crate) async fn all_gone(what: &str, limit: Duration, pids: &[i64]) {
    let gone = async || !pids.iter().any(|&pid| is_alive(pid));
    turnlane_testkit::wait::eventually(what, limit, gone)
        .await
        .unwrap();
}

/// A server in a process of its own, to be measured and killed.
pub(crate) struct HostProcess {
    pub(crate) process: TestProcess,
    pub(crate) url: String,
}

impl HostProcess {
    /// On a websocket, with these further arguments.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_exec_host"))
            .args(["ws"])
            .args(arguments.iter().copied())
            .env("PATH", path);
        let mut process = TestProcess::start(spec).unwrap();
        let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
        let line = within("the address", DEADLINE, lines.next_line()).await;
        let url = line.unwrap().unwrap().unwrap();
        Self { process, url }
    }

    /// A client whose handshake for `process.v1` is done.
    pub(crate) async fn v1(&self) -> Wire {
        let mut wire = Wire::ws(&self.url).await;
        wire.greet_v1().await;
        wire
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.process.rss_bytes().unwrap()
    }
}

/// Whether the long form of a test was asked for.
pub(crate) fn in_full() -> bool {
    std::env::var_os("TURNLANE_TEST_FULL").is_some_and(|value| value == "1")
}

/// The numbers in a text.
pub(crate) fn pids_in(said: &[u8]) -> Vec<i64> {
    let said = String::from_utf8_lossy(said);
    said.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}
