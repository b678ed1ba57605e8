//! `turnlane exec` as scripts meet it, with a mock model behind it.

mod against_codex;
mod busy;
mod daemon;
mod files;
pub(crate) mod kills;
mod lines;
mod others;
mod people;
mod refused;
mod rights;
mod signals;
mod threads;
mod visible;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turnlane_testkit::mock_model::{Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

/// A home with a model, and a folder that is a git work tree.
struct World {
    mock: MockModel,
    home: TempHome,
}

/// What a run left behind.
#[derive(Debug)]
struct Ran {
    /// The exit code, or minus the signal.
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// The lines as JSON; every one is checked for what holds of all lines.
    fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(checked_line).collect()
    }

    fn types(&self) -> Vec<String> {
        let word = |line: Value| line["type"].as_str().unwrap().to_owned();
        self.lines().into_iter().map(word).collect()
    }

    fn thread(&self) -> String {
        let first = &self.lines()[0];
        assert_eq!(first["type"], "thread.started");
        first["thread_id"].as_str().unwrap().to_owned()
    }

    fn last(&self) -> Value {
        self.lines().pop().unwrap()
    }

    fn last_of_stderr(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }

    /// Completed, with this one message and nothing else.
    fn is_answered(&self, text: &str) {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(
            self.types(),
            [
                "thread.started",
                "turn.started",
                "item.completed",
                "turn.completed"
            ]
        );
        assert_eq!(self.lines()[2]["item"]["text"], text);
    }

    /// Refused: nothing on standard output, and this as the last word.
    fn is_refused(&self, reason: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (1, ""), "{self:?}");
        assert_eq!(self.last_of_stderr(), reason);
    }
}

const TYPES: [&str; 8] = [
    "thread.started",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "item.started",
    "item.updated",
    "item.completed",
    "error",
];

fn checked_line(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap();
    let word = value["type"].as_str().unwrap();
    assert!(TYPES.contains(&word), "{line}");
    if word == "turn.started" {
        assert_eq!(line, r#"{"type":"turn.started"}"#);
    }
    if let Some(usage) = value["usage"].as_object() {
        assert_eq!(usage.len(), 5, "{line}");
        assert!(usage.values().all(Value::is_i64), "{line}");
    }
    // A key that stands twice would be lost by parsing and writing.
    let keys = |text: &str| text.matches("\":").count();
    assert_eq!(keys(line), keys(&value.to_string()), "{line}");
    value
}

impl World {
    async fn new(reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let mock = MockModel::start().await.unwrap();
        mock.choose_with(move |request| Some(reply(request)));
        let home = TempHome::new().unwrap();
        home.use_model(&mock.base_url()).unwrap();
        std::fs::create_dir(home.workspace().join(".git")).unwrap();
        Self { mock, home }
    }

    /// The folder that runs work in.
    fn work(&self) -> PathBuf {
        self.home.workspace().canonicalize().unwrap()
    }

    fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        crate::turnlane(&["exec"])
            .args(arguments.iter().copied())
            .envs(self.home.env())
            .current_dir(self.home.workspace())
    }

    /// A run to its end, without input.
    async fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.spec(arguments), b"").await
    }

    async fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        ran(self.spec(arguments), stdin).await
    }

    /// A run that goes on.
    fn begin(&self, arguments: &[&str]) -> Running {
        Running::new(self.spec(arguments))
    }

    /// The threads of the store.
    async fn threads(&self) -> Vec<Value> {
        let mut client = self.client().await;
        let list = client.ok("thread/list", json!({"limit": 100})).await;
        list["data"].as_array().unwrap().clone()
    }

    /// The turns of a thread, oldest first, with their items.
    async fn turns(&self, thread: &str) -> Vec<Value> {
        let mut client = self.client().await;
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = client.ok("thread/read", params).await;
        read["thread"]["turns"].as_array().unwrap().clone()
    }

    /// A client of an app-server in this home.
    async fn client(&self) -> Client {
        let spec = crate::turnlane(&["app-server"])
            .envs(self.home.env())
            .current_dir(self.home.workspace());
        let mut process = TestProcess::start(spec).unwrap();
        let (stdin, stdout) = (
            process.take_stdin().unwrap(),
            process.take_stdout().unwrap(),
        );
        let duplex = turnlane_rpc::Duplex::lines(stdout, stdin);
        let mut client = Client {
            client: turnlane_testkit::TestClient::new(duplex),
            _process: process,
        };
        let capabilities = json!({"experimentalApi": true});
        let hello = json!({"clientInfo": {"name": "t", "version": "0"},
                           "capabilities": capabilities});
        client.ok("initialize", hello).await;
        client
    }
}

struct Client {
    client: turnlane_testkit::TestClient,
    _process: TestProcess,
}

impl Client {
    async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.client.call(method, params).await.unwrap();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }
}

async fn ran(spec: ProcessSpec, stdin: &[u8]) -> Ran {
    let mut running = Running::new(spec);
    let mut pipe = running.process.take_stdin().unwrap();
    // A run that does not read it closes it.
    let _ = pipe.write_all(stdin).await;
    drop(pipe);
    running.end().await
}

/// A run that goes on, line by line.
struct Running {
    process: TestProcess,
    stdout: Option<BufReader<tokio::process::ChildStdout>>,
    seen: String,
}

impl Running {
    fn new(spec: ProcessSpec) -> Self {
        let mut process = TestProcess::start(spec).unwrap();
        let stdout = process.take_stdout().map(BufReader::new);
        Self {
            process,
            stdout,
            seen: String::new(),
        }
    }

    fn without_input(mut self) -> Self {
        drop(self.process.take_stdin());
        self
    }

    /// The next line of this type.
    async fn line(&mut self, word: &str) -> Value {
        let stdout = self.stdout.as_mut().unwrap();
        loop {
            let mut line = String::new();
            let read = within("a line", DEADLINE, stdout.read_line(&mut line)).await;
            let tail = self.process.stderr_tail();
            assert_ne!(read.unwrap().unwrap(), 0, "no {word}: {}{tail}", self.seen);
            self.seen.push_str(&line);
            let value = checked_line(line.trim_end_matches('\n'));
            if value["type"] == word {
                return value;
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.process.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    async fn end(mut self) -> Ran {
        use std::os::unix::process::ExitStatusExt as _;
        use tokio::io::AsyncReadExt as _;
        let mut rest = String::new();
        if let Some(mut stdout) = self.stdout.take() {
            let read = within("the end", DEADLINE, stdout.read_to_string(&mut rest)).await;
            read.unwrap().unwrap();
        }
        let status = self.process.wait(DEADLINE).await.unwrap();
        let signal = status.signal().map(|signal| -signal);
        // The last words of a process may still be on their way.
        let quiet = within(
            "stderr",
            Duration::from_millis(500),
            self.process.wait_for_stderr_line(|_| false, DEADLINE),
        );
        let _ = quiet.await;
        Ran {
            code: status.code().or(signal).unwrap(),
            stdout: self.seen + &rest,
            stderr: self.process.stderr_tail(),
        }
    }
}

/// Whether the last thing the model was told is a tool's answer.
fn is_answered(request: &RecordedRequest) -> bool {
    let last = request.input().last();
    last.is_some_and(|item| item["type"] == "function_call_output")
}

/// A model that runs the last user text as a command if it begins with `$ `, else says `ok`.
fn shell_or_ok(request: &RecordedRequest) -> Reply {
    let text = request.last_user_text();
    match text.strip_prefix("$ ") {
        Some(command) if !is_answered(request) => {
            let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
            let id = format!("call_{}", request.input().len());
            Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
        }
        _ => Reply::text(format!("ok: {}", text.trim_end())),
    }
}

/// Ids that are all different.
fn distinct<'a>(ids: impl IntoIterator<Item = &'a str>) -> usize {
    ids.into_iter().collect::<HashSet<_>>().len()
}
