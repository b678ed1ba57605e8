//! `turnlane serve` as real processes: the daemon of a home, its clients, and its deaths.

mod bindings;
mod bound;
mod continued;
mod deciding;
mod descriptors;
mod draining;
mod life;
mod locked;
mod many;
pub(crate) mod pages;
mod people;
mod restarts;
mod settings;
mod stopping;

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_rpc::connect::{self, connect_unix, connect_ws};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TempHome, TestClient, TestProcess};

use crate::app_server::{greet, ok};
use crate::exec::kills::is_full;

/// A daemon that is ready.
pub(crate) struct Daemon {
    pub(crate) process: TestProcess,
    /// Its websocket.
    pub(crate) url: String,
    pub(crate) socket: PathBuf,
    pub(crate) token: String,
}

/// The binary as the daemon of a home.
pub(crate) fn spec(home: &TempHome, arguments: &[&str]) -> ProcessSpec {
    crate::turnlane(&["serve"])
        .args(arguments.iter().copied())
        .envs(home.env())
        .current_dir(home.workspace())
}

impl Daemon {
    pub(crate) async fn start(home: &TempHome, arguments: &[&str]) -> Self {
        let process = TestProcess::start(spec(home, arguments)).unwrap();
        Self::of(home, process).await
    }

    /// A process that is about to be ready.
    pub(crate) async fn of(home: &TempHome, process: TestProcess) -> Self {
        let ready = |line: &str| line.starts_with("ready");
        process.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
        let websocket = |line: &str| line.starts_with("listening on ws://");
        let line = process.wait_for_stderr_line(websocket, DEADLINE);
        let url = line.await.unwrap().rsplit(' ').next().unwrap().to_owned();
        let token = std::fs::read_to_string(home.turnlane().join("token")).unwrap();
        Self {
            process,
            url,
            socket: home.turnlane().join("run/app-server.sock"),
            token: token.trim().to_owned(),
        }
    }

    pub(crate) async fn unix(&self) -> TestClient {
        let options = connect::Options::default();
        let duplex = connect_unix(&self.socket, &options).await.unwrap();
        let mut client = TestClient::new(duplex);
        greet(&mut client).await;
        client
    }

    pub(crate) async fn websocket(&self) -> TestClient {
        let options = connect::Options {
            token: Some(self.token.clone().into()),
            ..connect::Options::default()
        };
        let duplex = connect_ws(&self.url, &options).await.unwrap();
        let mut client = TestClient::new(duplex);
        greet(&mut client).await;
        client
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.pid()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The numbers of `/metrics`, by name and labels.
    async fn metrics(&self) -> Vec<(String, String)> {
        let bearer = format!("Authorization: Bearer {}\r\n", self.token);
        let (code, text) = get(&self.url, "/metrics", &bearer).await;
        assert_eq!(code, 200, "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let number = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.to_owned())
        };
        lines.map(number).collect()
    }

    /// One that counts.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let all = self.metrics().await;
        let found = all.iter().find(|(known, _)| known == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {all:?}"));
        found.1.parse().unwrap()
    }
}

/// A plain request; status and body of the answer.
pub(crate) async fn get(url: &str, path: &str, headers: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = url.strip_prefix("ws://").unwrap().trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// A row with these members besides; its id.
pub(crate) async fn add(client: &mut TestClient, thread: &str, text: &str, more: Value) -> String {
    let input = json!([{"type": "text", "text": text}]);
    let turn = json!({"threadId": thread, "input": input});
    // A key is shorter than the longest of these texts, which differ at their beginning.
    let key = text.get(..64).unwrap_or(text);
    let mut params = json!({"threadId": thread, "turnStartParams": turn, "idempotencyKey": key});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let added = ok(client, "thread/queue/add", params).await;
    added["queuedTurn"]["id"].as_str().unwrap().to_owned()
}

/// What the history of a thread says: of each turn its first text and its status.
pub(crate) async fn turns(client: &mut TestClient, thread: &str) -> Vec<(String, String)> {
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(client, "thread/read", params).await;
    let shown = |turn: &Value| {
        // A turn that continues another has no message of its own.
        let text = turn["items"][0]["content"][0]["text"]
            .as_str()
            .unwrap_or_default();
        let status = turn["status"].as_str().unwrap();
        (text.to_owned(), status.to_owned())
    };
    let turns = read["thread"]["turns"].as_array().unwrap();
    turns.iter().map(shown).collect()
}

/// Waits until nothing waits or runs in a lane.
pub(crate) async fn drained(client: &mut TestClient, thread: &str) {
    eventually("an empty queue", DEADLINE, async || {
        let state = ok(client, "thread/queue/list", json!({"threadId": thread})).await;
        state["depth"] == 0 && state["running"].is_null()
    })
    .await
    .unwrap();
}
