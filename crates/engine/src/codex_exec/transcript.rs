//! The events of one `codex exec --json` process, read in order, without I/O.
//!
//! The invariants: every item that began has ended, once, when [`Transcript::close_items`] returns;
//! nothing in the stream stops the reader; and what is kept is bounded, whatever the stream says.
//!
//! How the process ended, and what that means for the turn, is decided in `outcome`.

mod repeats;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_protocol::usage::TokenCounts;

use self::repeats::Repeats;
use super::items::{self, MappedItem};
use super::lines::{LINE_BYTES_MAX, RawLine};
use super::outcome::EndCause;
use super::texts;
use super::wire::{self, EventLine, ItemFields};
use crate::codex_program::is_uuid;
use crate::event::Event;

/// Items that may be open at once; what begins beyond that is told when it ends.
const OPEN_ITEMS_MAX: usize = 1024;
/// Ids of ended items that are remembered, so that none ends twice.
const ENDED_ITEMS_MAX: usize = 65_536;
/// A longer id is replaced.
const ID_BYTES_MAX: usize = 64;
/// Warnings about skipped lines; those beyond are only counted.
const SKIP_WARNINGS_MAX: u64 = 3;
/// Unknown types that are logged by name.
const UNKNOWN_TYPES_MAX: usize = 64;
/// Bytes of an unknown type's name that are logged.
const TYPE_BYTES_MAX: usize = 80;

/// What a line asks of the engine.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// To tell something.
    Emit(Event),
    /// To save the id of the new thread that Codex opened.
    ThreadStarted(String),
    /// To note that Codex has taken the turn.
    TurnStarted,
}

/// The last word of Codex about its turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TerminalLine {
    Completed {
        /// The thread's total, if the line has all five counts.
        usage: Option<TokenCounts>,
    },
    Failed {
        message: String,
        /// Structured words, which servers other than Codex 0.166 write.
        kind: Option<ErrorKind>,
        retry_at: Option<i64>,
    },
}

/// A process's stream so far.
#[derive(Debug)]
pub(super) struct Transcript {
    turn_id: String,
    cwd: String,
    /// The thread that Codex was asked to resume.
    resumed_thread: Option<String>,
    /// Set when Codex works in a thread that is not ours; nothing is read from then on.
    pub(super) thread_fault: Option<EndCause>,
    pub(super) has_thread_started: bool,
    pub(super) has_turn_started: bool,
    pub(super) terminal: Option<TerminalLine>,
    /// The text of the last `error` event that announced no retry.
    pub(super) last_error: Option<String>,
    pub(super) last_message: Option<String>,
    /// Events that were read, whatever their type.
    pub(super) events: u64,
    /// Events that show progress: all but announcements of a retry.
    pub(super) progress: u64,
    /// Items that began and have not ended, by Codex's ids.
    open: Vec<(Box<str>, ThreadItem)>,
    ended: HashSet<Box<str>>,
    repeats: Repeats,
    unknown_types: BTreeSet<String>,
    skipped: u64,
}

impl Transcript {
    /// An empty transcript of a turn with this id, in this directory.
    pub(super) fn new(turn_id: String, cwd: String, resumed_thread: Option<String>) -> Self {
        Self {
            turn_id,
            cwd,
            resumed_thread,
            thread_fault: None,
            has_thread_started: false,
            has_turn_started: false,
            terminal: None,
            last_error: None,
            last_message: None,
            events: 0,
            progress: 0,
            open: Vec::new(),
            ended: HashSet::new(),
            repeats: Repeats::default(),
            unknown_types: BTreeSet::new(),
            skipped: 0,
        }
    }

    /// Reads the next line; what it asks for is added to `steps`.
    pub(super) fn read_line(&mut self, line: RawLine<'_>, now_ms: i64, steps: &mut Vec<Step>) {
        if self.thread_fault.is_some() {
            return;
        }
        let line = match line {
            RawLine::Whole(line) if line.trim_ascii().is_empty() => return,
            RawLine::Whole(line) => wire::read(line).ok_or("it is not a JSON object"),
            RawLine::TooLong => Err("it is longer than 16 MiB"),
        };
        const { assert!(LINE_BYTES_MAX == 16 * 1024 * 1024) };
        match line {
            Ok(event) => self.read_event(event, now_ms, steps),
            Err(reason) => self.skip(reason, steps),
        }
    }

    /// Ends the items that Codex left open.
    pub(super) fn close_items(&mut self, now_ms: i64, steps: &mut Vec<Step>) {
        for (_, mut item) in std::mem::take(&mut self.open) {
            items::fail(&mut item.body);
            item.completed_at_ms = Some(now_ms);
            steps.push(Step::Emit(Event::ItemCompleted(Box::new(item))));
        }
        if self.skipped > SKIP_WARNINGS_MAX {
            let more = self.skipped - SKIP_WARNINGS_MAX;
            let text = format!("{more} more lines of Codex's output were skipped");
            steps.push(Step::Emit(Event::Warning(text)));
        }
    }

    fn read_event(&mut self, mut event: EventLine<'_>, now_ms: i64, steps: &mut Vec<Step>) {
        self.events += 1;
        self.progress += 1;
        let kind = event.kind.take().unwrap_or_default();
        match kind.as_ref() {
            "thread.started" if !self.has_thread_started => {
                self.has_thread_started = true;
                let id = event.thread_id.map(Cow::into_owned);
                self.open_thread(id.unwrap_or_default(), steps);
            }
            "turn.started" if !self.has_turn_started => {
                self.has_turn_started = true;
                steps.push(Step::TurnStarted);
            }
            // Told once; Codex sends no second one.
            "thread.started" | "turn.started" => {}
            "item.started" | "item.updated" | "item.completed" => {
                let is_completed = kind == "item.completed";
                match event.item {
                    Some(item) => self.read_item(item, is_completed, now_ms, steps),
                    None => self.note_unknown(&kind),
                }
            }
            "turn.completed" => {
                let usage = event.usage.as_ref().and_then(counts);
                self.end(TerminalLine::Completed { usage });
            }
            "turn.failed" => {
                let error = event.error.unwrap_or_default();
                let failed = self.failed(&error, event.message);
                self.end(failed);
            }
            "error" => self.read_error(event, steps),
            _ => self.note_unknown(&kind),
        }
    }

    fn open_thread(&mut self, id: String, steps: &mut Vec<Step>) {
        match &self.resumed_thread {
            Some(resumed) if resumed.eq_ignore_ascii_case(&id) => {}
            Some(_) => self.thread_fault = Some(EndCause::ResumeMismatch),
            None if is_uuid(&id) => steps.push(Step::ThreadStarted(id)),
            None => self.thread_fault = Some(EndCause::BadThreadId),
        }
    }

    /// The first terminal line decides.
    fn end(&mut self, terminal: TerminalLine) {
        self.terminal.get_or_insert(terminal);
    }

    fn failed(&self, error: &Value, message: Option<Cow<'_, str>>) -> TerminalLine {
        let text = error["message"].as_str().map(str::to_owned);
        let text = text
            .or(message.map(Cow::into_owned))
            .or_else(|| self.last_error.clone());
        let kind = serde_json::from_value::<ErrorKind>(error["kind"].clone()).ok();
        TerminalLine::Failed {
            message: text.unwrap_or_else(|| "Codex gave no reason".to_owned()),
            kind: kind.filter(|kind| !matches!(kind, ErrorKind::Unlisted(_))),
            retry_at: error["retry_at"].as_i64(),
        }
    }

    fn read_error(&mut self, event: EventLine<'_>, steps: &mut Vec<Step>) {
        let older = |error: &Value| Some(error["message"].as_str()?.to_owned());
        let message = event.message.map(Cow::into_owned);
        let message = message.or_else(|| older(event.error.as_ref()?));
        let message = message.unwrap_or_default();
        if !texts::is_retry(&message) {
            self.last_error = Some(message);
            return;
        }
        // Without a network Codex repeats it without end, so it does not count as progress.
        self.progress -= 1;
        self.repeats.retry();
        let (kind, info) = texts::kind_of(&message);
        let error = TurnError::new(message, info, kind);
        steps.push(Step::Emit(Event::Retry(Box::new(error))));
    }

    fn read_item(
        &mut self,
        mut item: ItemFields<'_>,
        is_completed: bool,
        now_ms: i64,
        steps: &mut Vec<Step>,
    ) {
        let id = item.id.take().filter(|id| id.len() <= ID_BYTES_MAX);
        // An item without a usable id is told under one of ours.
        let id = id.unwrap_or_else(|| format!("line_{}", self.events).into());
        match items::map(item, &self.cwd) {
            MappedItem::Unknown(kind) => self.note_unknown(&kind),
            MappedItem::Warning(text) if is_completed => {
                steps.push(Step::Emit(Event::Warning(text)));
            }
            MappedItem::Plan(plan) => {
                self.repeats.tool();
                let explanation = None;
                steps.push(Step::Emit(Event::Plan { explanation, plan }));
            }
            MappedItem::Message(text) if is_completed => {
                if self.repeats.is_repeat(repeats::MESSAGE, &text) {
                    return;
                }
                self.last_message = Some(text.clone());
                self.complete(&id, items::message_body(text), now_ms, steps);
            }
            MappedItem::Reasoning(text) if is_completed => {
                if text.trim().is_empty() || self.repeats.is_repeat(repeats::REASONING, &text) {
                    return;
                }
                self.complete(&id, items::reasoning_body(text), now_ms, steps);
            }
            MappedItem::Tool(body) => {
                self.repeats.tool();
                if is_completed {
                    self.complete(&id, *body, now_ms, steps);
                } else {
                    self.start(&id, *body, now_ms, steps);
                }
            }
            // Codex tells words and warnings only when they are complete.
            MappedItem::Message(_) | MappedItem::Reasoning(_) | MappedItem::Warning(_) => {}
        }
    }

    fn start(&mut self, id: &str, body: ItemBody, now_ms: i64, steps: &mut Vec<Step>) {
        if let Some(index) = self.open_index(id) {
            // An update: nothing is told before the end, which then has the newest body.
            self.open[index].1.body = body;
            return;
        }
        if self.open.len() >= OPEN_ITEMS_MAX || self.ended.contains(id) {
            return;
        }
        let item = ThreadItem::started(self.stored_id(id), now_ms, body);
        self.open.push((id.into(), item.clone()));
        steps.push(Step::Emit(Event::ItemStarted(Box::new(item))));
    }

    fn complete(&mut self, id: &str, body: ItemBody, now_ms: i64, steps: &mut Vec<Step>) {
        let mut item = if let Some(index) = self.open_index(id) {
            let (_, mut item) = self.open.remove(index);
            item.body = body;
            item
        } else if self.ended.contains(id) {
            return;
        } else {
            let item = ThreadItem::started(self.stored_id(id), now_ms, body);
            steps.push(Step::Emit(Event::ItemStarted(Box::new(item.clone()))));
            item
        };
        item.completed_at_ms = Some(now_ms);
        if self.ended.len() < ENDED_ITEMS_MAX {
            self.ended.insert(id.into());
        }
        steps.push(Step::Emit(Event::ItemCompleted(Box::new(item))));
    }

    fn open_index(&self, id: &str) -> Option<usize> {
        self.open.iter().position(|(open, _)| **open == *id)
    }

    /// Codex numbers items anew in every process, so its ids are made unique by the turn's.
    fn stored_id(&self, id: &str) -> ItemId {
        [&self.turn_id, "/", id].concat().into()
    }

    fn note_unknown(&mut self, kind: &str) {
        let name: String = kind.chars().take(TYPE_BYTES_MAX).collect();
        let is_full = self.unknown_types.len() >= UNKNOWN_TYPES_MAX;
        if !is_full && self.unknown_types.insert(name.clone()) {
            tracing::info!(
                r#type = name,
                "an unknown type in Codex's output is ignored"
            );
        }
    }

    fn skip(&mut self, reason: &str, steps: &mut Vec<Step>) {
        self.skipped += 1;
        if self.skipped <= SKIP_WARNINGS_MAX {
            let text = format!("a line of Codex's output was skipped: {reason}");
            steps.push(Step::Emit(Event::Warning(text)));
        }
    }
}

/// The five counts of a `usage` object; none if one of the first four is missing.
fn counts(usage: &Value) -> Option<TokenCounts> {
    let count = |name: &str| usage[name].as_i64();
    Some(TokenCounts {
        input_tokens: count("input_tokens")?,
        cached_input_tokens: count("cached_input_tokens")?,
        // Earlier versions do not tell it.
        cache_write_input_tokens: count("cache_write_input_tokens").unwrap_or_default(),
        output_tokens: count("output_tokens")?,
        reasoning_output_tokens: count("reasoning_output_tokens").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
