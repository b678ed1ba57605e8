//! The log of what engines and hooks were asked to do, shared by all processes of a test.
//!
//! The invariant here: a line is one write to a file opened for appending, so lines of several
//! processes stand in the order they were written, whole, and survive the death of their writer.
//! A `begin` stands before the first step of its turn, an `end` before the turn's end is recorded.
//!
//! What a process left open when it was given up is told by the parent, in the same log.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
};

/// Appends to the log.
#[derive(Clone)]
pub(crate) struct Log(Arc<File>);

/// A line of the log. Threads, turns and clients are as their ids are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// An engine begins a turn: this is the model call.
    Begin {
        pid: u32,
        thread: String,
        turn: String,
        client: String,
    },
    /// The engine is done with the turn, or was dropped.
    End {
        pid: u32,
        thread: String,
        turn: String,
    },
    /// A hook was asked about a claimed row.
    Hook { client: String },
    /// The parent is about to kill this process or to take its lanes away, or has found it dead.
    GivenUp { pid: u32 },
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(Arc::new(file.unwrap()))
    }

    fn line(&self, text: &str) {
        self.0
            .as_ref()
            .write_all(format!("{text}\n").as_bytes())
            .unwrap();
    }

    /// An engine takes the turn at this place: process, thread, turn.
    pub(crate) fn begin(&self, place: &str, client: &str) {
        self.line(&format!("begin {place} {}", plain(client)));
    }

    /// The engine is done with the turn at this place.
    pub(crate) fn end(&self, place: &str) {
        self.line(&format!("end {place}"));
    }

    pub(crate) fn hook(&self, client: &str) {
        self.line(&format!("hook {client}"));
    }

    pub(crate) fn given_up(&self, pid: i32) {
        self.line(&format!("given-up {pid}"));
    }

    pub(crate) fn read(path: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(parse).collect()
    }
}

fn parse(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse().unwrap();
    match words.as_slice() {
        ["begin", pid, thread, turn, client] => Line::Begin {
            pid: number(pid),
            thread: (*thread).to_owned(),
            turn: (*turn).to_owned(),
            client: (*client).to_owned(),
        },
        ["end", pid, thread, turn] => Line::End {
            pid: number(pid),
            thread: (*thread).to_owned(),
            turn: (*turn).to_owned(),
        },
        ["hook", client] => Line::Hook {
            client: (*client).to_owned(),
        },
        ["given-up", pid] => Line::GivenUp { pid: number(pid) },
        _ => panic!("not a line of the log: {line:?}"),
    }
}

/// Turns of one lane that ran at the same time, where the first one's process was not given up.
pub(crate) fn overlaps(lines: &[Line]) -> Vec<String> {
    let mut given_up = Vec::new();
    let mut open: HashMap<&str, (u32, &str)> = HashMap::new();
    let mut found = Vec::new();
    for line in lines {
        match line {
            Line::Begin {
                pid, thread, turn, ..
            } => {
                let before = open.insert(thread, (*pid, turn));
                if let Some((owner, other)) = before.filter(|(pid, _)| !given_up.contains(pid)) {
                    found.push(format!("{turn} in {pid} while {other} in {owner}"));
                }
            }
            Line::End { thread, turn, .. } => {
                if open
                    .get(thread.as_str())
                    .is_some_and(|(_, other)| other == turn)
                {
                    open.remove(thread.as_str());
                }
            }
            Line::GivenUp { pid } => given_up.push(*pid),
            Line::Hook { .. } => {}
        }
    }
    found
}

/// The engine's client id without the number of the attempt.
fn plain(client: &str) -> &str {
    client.split('#').next().unwrap_or(client)
}

/// An engine whose turns are logged.
pub(crate) struct Logged<E> {
    pub(crate) inner: E,
    pub(crate) log: Log,
}

/// Logs the end of a turn, however it comes.
struct Ending {
    log: Log,
    text: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.log.line(&self.text);
    }
}

impl<E: Engine> Engine for Logged<E> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn continues(&self) -> bool {
        self.inner.continues()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let place = format!(
            "{} {} {}",
            std::process::id(),
            request.thread_id,
            request.turn_id
        );
        self.log.begin(&place, &request.client_id);
        let ending = Ending {
            log: self.log.clone(),
            text: format!("end {place}"),
        };
        let turn = self.inner.run_turn(request, events, control);
        Box::pin(async move {
            let outcome = turn.await;
            drop(ending);
            outcome
        })
    }
}
