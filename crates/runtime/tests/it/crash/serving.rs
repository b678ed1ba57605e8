//! The parent's end of a child: starts it, tells it what to do, hears its answers, kills it.
//!
//! The invariant here: an answer that was printed is heard, also when the child died right after;
//! whatever is asked of a child that has died comes back as "no answer", never as a failed test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;
use turnlane_runtime::{SystemClock, this_worker};
use turnlane_store::sqlite::SqliteStore;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::child;
use super::log::{Line, Log};

/// A folder with a database and a log, and a reader of both that is no child.
pub(crate) struct Place {
    folder: TempDir,
    /// A worker of its own that claims nothing.
    pub(crate) store: Arc<SqliteStore>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = this_worker("test", &SystemClock);
        let path = folder.path().join("turnlane.db");
        let options = turnlane_store::sqlite::Options::new(path, worker);
        let store = Arc::new(SqliteStore::open(options).unwrap());
        Self { folder, store }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("turnlane.db")
    }

    fn log_path(&self) -> PathBuf {
        self.database().with_extension("log")
    }

    pub(crate) fn log(&self) -> Vec<Line> {
        Log::read(&self.log_path())
    }

    /// What a child of this place is started with.
    pub(crate) fn child(&self, script: &str) -> ProcessSpec {
        ProcessSpec::new(std::env::current_exe().unwrap())
            .args(["crash::child::the_child_serves"])
            .args(["--exact", "--nocapture"])
            .env(child::DATABASE, self.database())
            .env(child::SCRIPT, script)
    }

    pub(crate) fn start(&self, spec: ProcessSpec) -> Serving {
        Serving::start(spec, &self.log_path())
    }
}

/// What a child answered: the words after the number, or the error.
pub(crate) type Answer = Result<String, String>;

/// A line of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Ready,
    Answer(u64, Answer),
    /// It has died, or stopped in order.
    Gone,
}

/// A running child.
pub(crate) struct Serving {
    process: TestProcess,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    heard: HashMap<u64, Answer>,
    log: Log,
    gone: bool,
}

impl Serving {
    fn start(spec: ProcessSpec, log: &Path) -> Self {
        let mut process = TestProcess::start(spec).unwrap();
        let stdin = process.take_stdin();
        let stdout = process.take_stdout().unwrap();
        Self {
            process,
            stdin,
            lines: BufReader::new(stdout).lines(),
            next: 0,
            heard: HashMap::new(),
            log: Log::open(log),
            gone: false,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid().cast_unsigned()
    }

    /// Whether the child is known to have ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// The next line that means something; cancel-safe.
    pub(crate) async fn hear(&mut self) -> Heard {
        loop {
            let Ok(Some(line)) = self.lines.next_line().await else {
                self.gone = true;
                return Heard::Gone;
            };
            let mut words = line.splitn(3, ' ');
            let (word, number) = (words.next(), words.next());
            let rest = words.next().unwrap_or_default().to_owned();
            match (word, number.and_then(|number| number.parse().ok())) {
                (Some("ready"), _) => return Heard::Ready,
                (Some("ok"), Some(number)) => return Heard::Answer(number, Ok(rest)),
                (Some("no"), Some(number)) => return Heard::Answer(number, Err(rest)),
                _ => {}
            }
        }
    }

    /// What is heard until then.
    pub(crate) async fn hear_until(&mut self, until: Instant) -> Option<Heard> {
        tokio::time::timeout_at(until, self.hear()).await.ok()
    }

    /// Waits until the child serves; false when it died before.
    pub(crate) async fn ready(&mut self) -> bool {
        match within("a child that serves", DEADLINE, self.hear()).await {
            Ok(Heard::Ready) => true,
            Ok(Heard::Gone) => false,
            other => panic!("{other:?}: {}", self.process.stderr_tail()),
        }
    }

    /// Tells the child something; the number that its answer will have.
    pub(crate) async fn send(&mut self, command: &str) -> u64 {
        self.next += 1;
        let line = format!("{} {command}\n", self.next);
        if let Some(stdin) = &mut self.stdin {
            // Fails when it has died, which is heard.
            let _ = stdin.write_all(line.as_bytes()).await;
        }
        self.next
    }

    /// Waits for one answer; none when the child died before.
    pub(crate) async fn answer(&mut self, number: u64) -> Option<Answer> {
        let what = format!("answer {number} of a child");
        let waiting = async {
            loop {
                if let Some(answer) = self.heard.remove(&number) {
                    return Some(answer);
                }
                match self.hear().await {
                    Heard::Ready => {}
                    Heard::Answer(number, answer) => {
                        self.heard.insert(number, answer);
                    }
                    Heard::Gone => return None,
                }
            }
        };
        within(&what, DEADLINE, waiting).await.unwrap()
    }

    /// Tells and waits; none when the child died before it answered.
    pub(crate) async fn ask(&mut self, command: &str) -> Option<Answer> {
        let number = self.send(command).await;
        self.answer(number).await
    }

    /// Tells, waits, and expects it to be done.
    pub(crate) async fn done(&mut self, command: &str) -> String {
        match self.ask(command).await {
            Some(Ok(words)) => words,
            other => panic!("{command}: {other:?}; {}", self.process.stderr_tail()),
        }
    }

    /// Kills the child; what it had printed is still heard.
    pub(crate) async fn kill(&mut self) -> Vec<Heard> {
        self.log.given_up(self.process.pid());
        self.process.kill9().await.unwrap();
        self.rest().await
    }

    /// Waits until the child has died by itself.
    pub(crate) async fn dies(&mut self) -> Vec<Heard> {
        let status = self.process.wait(DEADLINE).await.unwrap();
        assert_eq!(status.code(), None, "{}", self.process.stderr_tail());
        self.log.given_up(self.process.pid());
        self.rest().await
    }

    async fn rest(&mut self) -> Vec<Heard> {
        let mut rest = Vec::new();
        while !self.gone {
            rest.push(self.hear().await);
        }
        rest
    }

    /// The lanes of this child are about to be taken away although it lives.
    pub(crate) fn give_up(&self) {
        self.log.given_up(self.process.pid());
    }

    /// Stops the child with `SIGSTOP`.
    pub(crate) fn freeze(&mut self) {
        self.process.stop().unwrap();
    }

    /// Lets it go on.
    pub(crate) fn thaw(&mut self) {
        self.process.cont().unwrap();
    }

    /// Ends the child in order, and expects it to.
    pub(crate) async fn stop(mut self) {
        drop(self.stdin.take());
        let status = self.process.wait(Duration::from_secs(30)).await.unwrap();
        assert!(status.success(), "{}", self.process.stderr_tail());
    }
}
