//! The model behind the servers: what it answers, and how often it was asked each message.
//!
//! The invariant here: a message says by its first word how it is answered ([`Mood`]), and while
//! [`Model::hurry`] holds every message is answered at once with words, so that lanes come to rest
//! without anybody waiting for a slow answer or an endless command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::{At, Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::eventually;

use crate::ledger::Asked;
use crate::server::Kind;

/// A command that ends only by force; the number tells it from any other process.
const ENDLESS: &str = "sleep 86399";

/// How long a lane at rest may need until a command of a new turn runs.
const RUNS_LIMIT: Duration = Duration::from_secs(30);

/// How a message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Words at once.
    Words,
    /// Words that trickle.
    Slow,
    /// Silence for a while, then words.
    Silent,
    /// A command that ends at once, then words.
    Short,
    /// A command that never ends by itself.
    Endless,
}

impl Mood {
    /// What a contender is asked; most of it is answered at once. Commands are ours alone: whether
    /// others leave processes is not the question here.
    pub(crate) fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Codex => &[Self::Words, Self::Words, Self::Slow, Self::Silent],
            Kind::Stdio | Kind::Serve => &[
                Self::Words,
                Self::Words,
                Self::Words,
                Self::Slow,
                Self::Silent,
                Self::Short,
                Self::Endless,
                Self::Endless,
            ],
        }
    }

    /// The first word of its messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Short => "short",
            Self::Endless => "endless",
        }
    }
}

/// A mock model and its record.
pub(crate) struct Model {
    mock: MockModel,
    in_a_hurry: Arc<AtomicBool>,
    /// Where endless commands write their process ids.
    marks: PathBuf,
    asked: Asked,
}

impl Model {
    /// Starts it; endless commands leave their marks in this folder.
    pub(crate) async fn start(marks: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&marks)?;
        let mock = MockModel::start().await?;
        let in_a_hurry = Arc::new(AtomicBool::new(false));
        let (hurry, folder) = (Arc::clone(&in_a_hurry), marks.clone());
        mock.choose_with(move |request| {
            Some(if hurry.load(Ordering::SeqCst) {
                Reply::text("words")
            } else {
                reply(request, &folder)
            })
        });
        Ok(Self {
            mock,
            in_a_hurry,
            marks,
            asked: Asked::new(),
        })
    }

    /// Where it listens.
    pub(crate) fn base_url(&self) -> String {
        self.mock.base_url()
    }

    /// From now on everything is answered at once, or again as its first word says.
    pub(crate) fn hurry(&self, hurry: Hurry) {
        self.in_a_hurry.store(hurry == Hurry::Yes, Ordering::SeqCst);
    }

    /// How often it was asked each message so far.
    pub(crate) fn asked(&mut self) -> &Asked {
        for request in self.mock.take_requests() {
            if !is_tool_round(&request) {
                *self.asked.entry(request.last_user_text()).or_default() += 1;
            }
        }
        &self.asked
    }

    /// Returns when the endless command of this message runs.
    pub(crate) async fn command_runs(&self, text: &str) -> anyhow::Result<()> {
        let mark = mark(&self.marks, text);
        // It is there before its process id is in it.
        let written = async || std::fs::metadata(&mark).is_ok_and(|mark| mark.len() > 0);
        eventually("a command to run", RUNS_LIMIT, written).await?;
        Ok(())
    }

    /// The endless commands that were seen to start and still run.
    pub(crate) fn alive(&self) -> anyhow::Result<Vec<String>> {
        let mut alive = Vec::new();
        for mark in std::fs::read_dir(&self.marks)? {
            let pid = std::fs::read_to_string(mark?.path())?;
            let command = std::fs::read(format!("/proc/{}/cmdline", pid.trim()));
            // A process that has ended has no command line, and another one of its id has another.
            let words = command.unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            if words.trim() == ENDLESS {
                alive.push(pid.trim().to_owned());
            }
        }
        Ok(alive)
    }

    /// Forgets the endless commands of the past; how many there were.
    pub(crate) fn forget_marks(&self) -> anyhow::Result<usize> {
        let mut marks = 0;
        for mark in std::fs::read_dir(&self.marks)? {
            std::fs::remove_file(mark?.path())?;
            marks += 1;
        }
        Ok(marks)
    }
}

/// Whether lanes are to come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hurry {
    Yes,
    No,
}

/// Whether a request brings the output of a tool and no new message.
fn is_tool_round(request: &RecordedRequest) -> bool {
    let last = request.input().last();
    last.is_some_and(|item| item["type"] == "function_call_output")
}

/// Where the endless command of a message writes its process id.
fn mark(marks: &Path, text: &str) -> PathBuf {
    marks.join(text.replace(' ', "-"))
}

fn reply(request: &RecordedRequest, marks: &Path) -> Reply {
    if is_tool_round(request) {
        return Reply::text("done");
    }
    let text = request.last_user_text();
    let word = text.split(' ').next().unwrap_or_default();
    if word == Mood::Slow.word() {
        return Reply::streamed(["one ", "two ", "three ", "four ", "five"])
            .slow(Duration::from_millis(20));
    }
    if word == Mood::Silent.word() {
        return Reply::text("at last").pause(At::Request, Duration::from_millis(150));
    }
    let command = if word == Mood::Short.word() {
        "true".to_owned()
    } else if word == Mood::Endless.word() {
        let mark = mark(marks, &text);
        format!("echo $$ > '{}'; exec {ENDLESS}", mark.display())
    } else {
        return Reply::text("words");
    };
    let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
    let id = format!("call_{}", request.input().len());
    Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
}
