//! The commands for people, as a person meets them: what is typed and what is read.
//!
//! The invariant here: a story is one text of commands and their answers, in which every id, path and
//! duration is replaced by a name, so that it reads the same in every run.

mod doctor;
mod elsewhere;
mod examples;
mod help;
mod json;
mod other_users;
mod restarts;
mod terminal;
mod tools;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

/// What the scripted engine plays for the daemons of these tests.
const SCRIPT: &str = r#"
version: 1
turns:
  - match: "clean"
    steps:
      - approve:
          cmd: "rm -r build"
          reason: "removes a directory"
          accepted: [{say: "It is gone."}]
          declined: [{say: "I left it."}]
  - match: "hang"
    steps: [{say: "working on it"}, {await: {gate: never}}]
  - match: "write"
    steps:
      - approve:
          input: "*** Begin Patch\n*** Add File: notes.txt\n+one\n+two\n*** End Patch\n"
          accepted: [{say: "Written."}]
          declined: [{say: "Not written."}]
  - match: "refuse"
    steps: [{say: "I try"}, {error: {info: badRequest, message: "the provider refused it"}}]
  - match: "limit"
    steps: [{error: {info: usageLimitExceeded, message: "no more today"}}]
  - match: "test"
    steps:
      - exec: {cmd: "make test", output: "1 failed\n", exit: 2}
      - say: "One failed."
"#;

/// A home, and whoever types there.
pub(crate) struct Person {
    pub(crate) home: TempHome,
    told: String,
}

impl Person {
    pub(crate) fn new() -> Self {
        let home = TempHome::new().unwrap();
        std::fs::write(home.path().join("script.yaml"), SCRIPT).unwrap();
        Self {
            home,
            told: String::new(),
        }
    }

    pub(crate) fn script(&self) -> PathBuf {
        self.home.path().join("script.yaml")
    }

    pub(crate) fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        crate::turnlane(arguments)
            .envs(self.home.env())
            .current_dir(self.home.workspace())
    }

    /// A daemon of this home that plays the script.
    pub(crate) async fn daemon(&self) -> TestProcess {
        let script = self.script();
        let script = script.to_str().unwrap();
        let spec = self.spec(&["app-server", "--listen", "unix://", "--script", script]);
        let process = TestProcess::start(spec).unwrap();
        let listening = |line: &str| line.starts_with("listening on unix://");
        process
            .wait_for_stderr_line(listening, DEADLINE)
            .await
            .unwrap();
        process
    }

    /// Types a command, into the story.
    pub(crate) async fn types(&mut self, arguments: &[&str]) {
        self.types_with(&[], arguments).await;
    }

    /// Types a command with these variables, into the story.
    async fn types_with(&mut self, variables: &[(&str, &str)], arguments: &[&str]) {
        let spec = self.spec(arguments).envs(variables.iter().copied());
        let shown = crate::shown(spec).await;
        let set = variables.iter().map(|(name, _)| format!("{name}=… "));
        let typed = set.collect::<String>() + &arguments.join(" ");
        writeln!(self.told, "$ turnlane {typed}\n{shown}").unwrap();
    }

    /// A command whose output is JSON: every line of it.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = crate::run(self.spec(arguments).args(["--json"])).await;
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            output.stderr_tail
        );
        assert_eq!(output.stderr_tail, "", "{arguments:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line: &str| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }

    /// Queues a turn on a new thread of this name; the thread's and the row's id.
    pub(crate) async fn queued(&self, name: &str, prompt: &str) -> (String, String) {
        let added = self
            .json(&["queue", "add", "--new", "--name", name, prompt])
            .await;
        let row = &added[0]["queuedTurn"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let thread = text(&row["turnStartParams"]["threadId"]);
        (thread, text(&row["id"]))
    }

    /// Queues a turn; its id.
    pub(crate) async fn adds(&self, thread: &str, prompt: &str) -> String {
        let added = self
            .json(&["queue", "add", "--thread", thread, prompt])
            .await;
        added[0]["queuedTurn"]["id"].as_str().unwrap().to_owned()
    }

    /// The queue of a thread.
    pub(crate) async fn queue(&self, thread: &str) -> Value {
        self.json(&["queue", "list", thread]).await.remove(0)
    }

    pub(crate) async fn until_running(&self, thread: &str) {
        let running = async || !self.queue(thread).await["running"].is_null();
        eventually("a running turn", DEADLINE, running)
            .await
            .unwrap();
    }

    pub(crate) async fn until_idle(&self, thread: &str) {
        let idle = async || {
            let queue = self.queue(thread).await;
            queue["running"].is_null() && queue["depth"] == 0
        };
        eventually("an idle thread", DEADLINE, idle).await.unwrap();
    }

    /// The first open approval.
    pub(crate) async fn asked(&self) -> Value {
        let mut open = Vec::new();
        eventually("an approval", DEADLINE, async || {
            open = self.json(&["approvals", "list"]).await;
            !open.is_empty()
        })
        .await
        .unwrap();
        open.remove(0)
    }

    /// Everything typed and read since the last time.
    pub(crate) fn story(&mut self) -> String {
        let told = std::mem::take(&mut self.told);
        let home = self.home.path().canonicalize().unwrap();
        let told = told.replace(home.to_str().unwrap(), "<home>");
        let told = told.replace(self.home.path().to_str().unwrap(), "<home>");
        without_dates(&without_durations(&with_named_ids(&told)))
    }
}

/// A command that goes on, and what it wrote so far.
pub(crate) struct Following {
    pub(crate) process: TestProcess,
    stdout: tokio::process::ChildStdout,
    pub(crate) seen: String,
}

impl Following {
    pub(crate) fn new(spec: ProcessSpec) -> Self {
        let mut process = TestProcess::start(spec).unwrap();
        let stdout = process.take_stdout().unwrap();
        Self {
            process,
            stdout,
            seen: String::new(),
        }
    }

    /// Reads until this stands there.
    pub(crate) async fn until(&mut self, text: &str) {
        let mut chunk = [0; 1024];
        while !self.seen.contains(text) {
            let read = within(text, DEADLINE, self.stdout.read(&mut chunk)).await;
            let count = read.unwrap().unwrap();
            assert_ne!(count, 0, "no {text}: {}", self.seen);
            // What these tests make agents say is ASCII.
            self.seen
                .push_str(std::str::from_utf8(&chunk[..count]).unwrap());
        }
    }

    pub(crate) async fn until_followed(&self) {
        let following = |line: &str| line == "following; Ctrl-C leaves and stops nothing";
        let told = self.process.wait_for_stderr_line(following, DEADLINE);
        told.await.unwrap();
    }

    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_raw(self.process.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Its exit code, everything it wrote, and its last words on standard error.
    pub(crate) async fn end(mut self) -> (Option<i32>, String, String) {
        let reading = self.stdout.read_to_string(&mut self.seen);
        within("the end", DEADLINE, reading).await.unwrap().unwrap();
        let status = self.process.wait(DEADLINE).await.unwrap();
        // The last words of a process may still be on their way.
        let quiet = self.process.wait_for_stderr_line(|_| false, DEADLINE);
        let _ = within("stderr", Duration::from_millis(500), quiet).await;
        (status.code(), self.seen, self.process.stderr_tail())
    }
}

/// Ids as `<id 1>`, in the order they come, and short ids by the same names; in a table they take
/// their room all the same.
fn with_named_ids(text: &str) -> String {
    let is_id = |text: &str| {
        let dashes = [8, 13, 18, 23];
        text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| {
                if dashes.contains(&at) {
                    byte == b'-'
                } else {
                    byte.is_ascii_hexdigit()
                }
            })
    };
    let mut known: Vec<String> = Vec::new();
    let mut named = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let head = rest.get(..36).filter(|head| is_id(head));
        let is_apart = !named.ends_with(|before: char| before.is_ascii_alphanumeric());
        let short = rest.get(..8).filter(|head| {
            let behind = rest[8..].chars().next();
            let ends = behind.is_none_or(|char| !char.is_ascii_alphanumeric() && char != '-');
            is_apart && ends && head.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let Some(id) = head.or(short) else {
            named.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        // A short id is the end of a whole one, whichever comes first.
        let is_same = |one: &String| one.ends_with(id) || id.ends_with(one.as_str());
        let at = known.iter().position(is_same).unwrap_or_else(|| {
            known.push(id.to_owned());
            known.len() - 1
        });
        write!(named, "<id {}>", at + 1).unwrap();
        rest = &rest[id.len()..];
    }
    named
}

/// `2026-01-31 07:30 UTC` as `<date>`.
fn without_dates(text: &str) -> String {
    const FORM: &str = "0000-00-00 00:00 UTC";
    let is_date = |text: &str| {
        let same = |(of_form, of_text): (u8, u8)| match of_form {
            b'0' => of_text.is_ascii_digit(),
            other => of_text == other,
        };
        FORM.bytes().zip(text.bytes()).all(same)
    };
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.get(..FORM.len()).is_some_and(is_date) {
            shown.push_str("<date>");
            rest = &rest[FORM.len()..];
        } else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shown
}

/// `in 7ms` and `in 1.2s` as `in <time>`.
fn without_durations(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']);
    let shown = |word: &str| {
        let bare = word.trim_end();
        let number = bare.strip_suffix("ms").or_else(|| bare.strip_suffix('s'));
        let is_time = number.is_some_and(|number| {
            !number.is_empty()
                && number
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.')
        });
        if is_time {
            word.replace(bare, "<time>")
        } else {
            word.to_owned()
        }
    };
    words.map(shown).collect()
}
