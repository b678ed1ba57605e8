//! The double of the orchestrator: a socket pair, length frames, and the order of events.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

/// How long a test waits for an event while the shim tells others.
const UNTIL_MAX: Duration = Duration::from_mins(6);

/// What the agent of these tests does; a turn that matches `busy` ends when the file `go` is there.
const SCRIPT: &str = r#"version: 1
turns:
  - match: "please fail"
    steps: [{error: {message: "no such thing", kind: bad_request}}]
  - match: "quota once"
    times: 1
    steps: [{error: {message: "Quota exceeded. Check your plan and billing details.", kind: quota}}]
  - match: "reset"
    times: 1
    steps: [{error: {message: "You have hit your usage limit.", kind: quota, retry_after_ms: 3600000}}]
  - match: "log in"
    times: 1
    steps: [{error: {message: "unauthorized", kind: auth}}]
  - match: "exhaust"
    steps: [{error: {message: "ran out of room", kind: context_exhausted}}]
  - match: "quote"
    steps:
      - say: {text: "context window exceeded, usage limit, log out and sign in", phase: final_answer}
      - reasoning: {text: "an afterthought"}
  - match: "busy"
    steps:
      - say: {text: "at work", phase: commentary}
      - exec: {cmd: "while [ ! -e go ]; do sleep 0.02; done", real: true}
      - say: {text: "busy no more", phase: final_answer}
  - match: "daemonize"
    steps:
      - exec: {cmd: "setsid sh -c 'while :; do sleep 0.05; done' & echo $! ; while :; do sleep 1; done", real: true}
  - match: "count"
    steps:
      - usage: {input: 1234, cached: 0, output: 56, reasoning: 0}
      - say: {text: "counted", phase: final_answer}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

/// A home and a script.
pub(super) struct Rig {
    pub(super) home: TempHome,
    script: PathBuf,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_script(SCRIPT)
    }

    pub(super) fn with_script(text: &str) -> Self {
        let home = TempHome::new().unwrap();
        let script = home.path().join("script.yaml");
        std::fs::write(&script, text).unwrap();
        // A fake Codex is taken to be logged in.
        std::fs::create_dir_all(home.codex()).unwrap();
        std::fs::write(home.codex().join("auth.json"), "{}").unwrap();
        Self { home, script }
    }

    pub(super) fn script(&self) -> &str {
        self.script.to_str().unwrap()
    }

    /// Lets busy turns end.
    pub(super) fn go(&self) {
        std::fs::write(self.home.workspace().join("go"), "").unwrap();
    }

    /// A member with the script as its agent.
    pub(super) fn member(&self, arguments: &[&str]) -> Member {
        let scripted = ["--agent-type", "scripted", "--script", self.script()];
        self.member_of(&[&scripted, arguments].concat())
    }

    /// A member of the daemon, which has the script.
    pub(super) fn member_of_daemon(&self, arguments: &[&str]) -> Member {
        let required = ["--agent-type", "scripted", "--daemon", "require"];
        self.member_of(&[&required, arguments].concat())
    }

    /// A member with any agent.
    pub(super) fn member_of(&self, arguments: &[&str]) -> Member {
        self.member_with(self.home.env(), arguments)
    }

    /// A member whose environment lacks a variable.
    pub(super) fn member_without(&self, variable: &str, arguments: &[&str]) -> Member {
        let mut variables = self.home.env();
        variables.retain(|(name, _)| name != variable);
        self.member_with(variables, arguments)
    }

    pub(super) fn member_with(
        &self,
        variables: Vec<(String, String)>,
        arguments: &[&str],
    ) -> Member {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let exec = "exec 3<&0 </dev/null; exec \"$0\" \"$@\"";
        let workspace = self.home.workspace();
        let spec = ProcessSpec::new("/bin/sh")
            .args(["-c", exec, env!("CARGO_BIN_EXE_turnlane"), "shim"])
            .args(["--id", "eng-1", "--cwd", workspace.to_str().unwrap()])
            .args(arguments.iter().copied())
            .envs(variables)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(&workspace)
            .stdin(theirs);
        ours.set_nonblocking(true).unwrap();
        Member {
            process: TestProcess::start(spec).unwrap(),
            channel: UnixStream::from_std(ours).unwrap(),
            buffer: Vec::new(),
        }
    }
}

/// A running shim and our end of its channel.
pub(super) struct Member {
    pub(super) process: TestProcess,
    pub(super) channel: UnixStream,
    buffer: Vec<u8>,
}

impl Member {
    pub(super) async fn send(&mut self, command: Value) {
        self.send_bytes(command.to_string().as_bytes()).await;
    }

    pub(super) async fn send_bytes(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        // A shim that has ended does not read; what it said before counts.
        let _ = self.channel.write_all(&[&length, frame].concat()).await;
    }

    pub(super) async fn message(&mut self, id: &str, body: &str) {
        let message =
            json!({"cmd": "SendMessage", "from": "manager", "body": body, "message_id": id});
        self.send(message).await;
    }

    /// The next event; none at the end of the channel.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let reading = async {
            loop {
                if let Some(event) = self.decode() {
                    return Some(event);
                }
                let mut piece = vec![0; 65_536];
                match self.channel.read(&mut piece).await {
                    Ok(0) | Err(_) => return None,
                    Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                }
            }
        };
        within("an event", DEADLINE, reading).await.unwrap()
    }

    fn decode(&mut self) -> Option<Value> {
        let header = self.buffer.first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*header)).unwrap();
        assert!(length <= 65_536, "a frame of {length} bytes");
        if self.buffer.len() < 4 + length {
            return None;
        }
        let event = serde_json::from_slice(&self.buffer[4..4 + length]).unwrap();
        self.buffer.drain(..4 + length);
        Some(event)
    }

    /// All events up to the first of this name, that one included.
    pub(super) async fn until(&mut self, name: &str) -> Vec<Value> {
        let mut events = Vec::new();
        // Other events may come for ever, so the whole wait has a bound as well.
        let since = Instant::now();
        loop {
            let next = self.next().await;
            let Some(event) = next.filter(|_| since.elapsed() < UNTIL_MAX) else {
                panic!("no {name} after {events:?}: {}", self.process.stderr_tail());
            };
            let is_it = event["event"] == name;
            events.push(event);
            if is_it {
                return events;
            }
        }
    }

    /// The first event of this name.
    pub(super) async fn event(&mut self, name: &str) -> Value {
        self.until(name).await.pop().unwrap()
    }

    /// Everything to the end of the channel.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Closes our end, as an orchestrator that died.
    pub(super) fn hang_up(&mut self) {
        let (unused, _) = UnixStream::pair().unwrap();
        drop(std::mem::replace(&mut self.channel, unused));
        self.buffer.clear();
    }

    pub(super) async fn exit(&mut self) -> ExitStatus {
        self.process.wait(DEADLINE).await.unwrap()
    }

    /// Ends the shim as batty does.
    pub(super) async fn shutdown(mut self) -> Vec<Value> {
        self.send(json!({"cmd": "Shutdown", "timeout_secs": 20, "reason": "requested"}))
            .await;
        let events = self.rest().await;
        assert_eq!(
            self.exit().await.code(),
            Some(0),
            "{}",
            self.process.stderr_tail()
        );
        events
    }
}

/// The names of events, without the numbers that come by the clock.
pub(super) fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .filter(|name| *name != "SessionStats")
        .collect()
}

/// The events of one name.
pub(super) fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["event"] == name)
        .collect()
}

/// The message that an event is about.
pub(super) fn id_of(event: &Value) -> Option<&str> {
    event["id"].as_str().or(event["message_id"].as_str())
}
