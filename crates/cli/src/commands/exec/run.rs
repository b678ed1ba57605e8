//! One run: from what a server tells to what a run says of it.
//!
//! The invariant here: a run is about one thread and one turn, and only the typed end of exactly
//! that turn ends it. After the turn has begun it says exactly one last word; whatever began is said
//! to have ended before that, and nothing is said twice. Pure: no clock, no connection, no output.

mod ending;

use std::collections::HashMap;
use std::path::PathBuf;

use turnlane::{ErrorInfo, Event, EventBody, Item, PlanStep, TurnStatus, Usage};
use turnlane_protocol::exec_events::{self as lines, ItemBody, TodoItem};
use turnlane_protocol::notification::{PlanStepStatus, method};

pub(super) use self::ending::{End, Ending, INTERRUPTED};
use super::items::{Phase, shown};

/// Something a run says: the event of its line, and the item it is about.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) event: lines::Event,
    pub(super) item: Option<Box<Item>>,
}

impl Told {
    fn of(event: lines::Event) -> Self {
        Self { event, item: None }
    }
}

/// Something a server told, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) method: String,
    pub(super) thread: Option<String>,
    pub(super) turn: Option<String>,
    pub(super) body: EventBody,
}

impl From<Event> for Heard {
    fn from(event: Event) -> Self {
        Self {
            thread: event.thread.as_ref().map(ToString::to_string),
            turn: event.turn.as_ref().map(ToString::to_string),
            method: event.method,
            body: event.body,
        }
    }
}

/// What is known of an item of the turn.
#[derive(Debug)]
struct Seen {
    /// `item_N`.
    id: String,
    /// What was said of it when it began, while it runs.
    open: Option<ItemBody>,
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    thread: String,
    turn: Option<String>,
    cwd: PathBuf,
    /// How many items were named.
    named: usize,
    begun: bool,
    seen: HashMap<String, Seen>,
    todo: Option<(String, Vec<TodoItem>)>,
    /// The last error that nobody tries again after, as it was said.
    failing: Option<String>,
    last_message: Option<String>,
    usage: Option<Usage>,
    /// Whether something may have been missed.
    gap: bool,
    gone: bool,
    ended: Option<Ending>,
    /// The last warning.
    warned: Option<String>,
}

impl Run {
    pub(super) fn new(thread: &str, cwd: PathBuf) -> Self {
        Self {
            thread: thread.to_owned(),
            turn: None,
            cwd,
            named: 0,
            begun: false,
            seen: HashMap::new(),
            todo: None,
            failing: None,
            last_message: None,
            usage: None,
            gap: false,
            gone: false,
            ended: None,
            warned: None,
        }
    }

    /// The first word.
    pub(super) fn thread_started(&self) -> Told {
        Told::of(lines::Event::ThreadStarted {
            thread_id: self.thread.clone(),
        })
    }

    /// The turn was accepted, or waits: from now on it is the turn of this run.
    pub(super) fn accepted(&mut self, turn: &str) {
        self.turn = Some(turn.to_owned());
    }

    /// Something was or may have been missed.
    pub(super) fn missed(&mut self) {
        self.gap = true;
    }

    /// Whether the items of the turn have to be read before the last word.
    pub(super) fn has_gap(&self) -> bool {
        self.gap
    }

    /// Whether the turn has begun, as far as was told.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether an error was told that nobody tries again after: the end must come soon.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Whether the thread was archived or deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// The typed end of the turn, once it was told.
    pub(super) fn ended(&self) -> Option<&Ending> {
        self.ended.as_ref()
    }

    /// The end of the turn as it is stored, where it was not told.
    pub(super) fn end_as_read(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
    }

    /// What the agent said last.
    pub(super) fn last_message(&self) -> Option<&str> {
        self.last_message.as_deref()
    }

    /// What turn and thread have used, as far as was told.
    pub(super) fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// A warning of ours or of the server.
    pub(super) fn warning(&mut self, message: &str) -> Told {
        self.warned = Some(message.to_owned());
        let body = ItemBody::Error {
            message: message.to_owned(),
        };
        let item = self.line_item(body);
        Told::of(lines::Event::ItemCompleted { item })
    }

    /// The last warning that was told.
    pub(super) fn last_warning(&self) -> Option<&str> {
        self.warned.as_deref()
    }

    /// The last error, which ended the turn where it failed.
    pub(super) fn last_error(&self) -> Option<&str> {
        self.failing.as_deref()
    }

    /// What is said of something that the server told.
    pub(super) fn take(&mut self, heard: Heard) -> Vec<Told> {
        let ours = heard.thread.as_ref() == Some(&self.thread);
        if !ours {
            // Warnings of the whole server have no thread; gaps may concern anybody.
            return match heard.body {
                EventBody::Warning(text) if heard.thread.is_none() => vec![self.warning(&text)],
                EventBody::Lagged { .. } | EventBody::Reconnected { .. } => {
                    self.gap = true;
                    Vec::new()
                }
                _ => Vec::new(),
            };
        }
        match heard.body {
            EventBody::Warning(text) => vec![self.warning(&text)],
            EventBody::Lagged { .. } | EventBody::Reconnected { .. } => {
                self.gap = true;
                Vec::new()
            }
            EventBody::ThreadGone => {
                let gone = [method::THREAD_ARCHIVED, method::THREAD_DELETED];
                self.gone |= gone.contains(&heard.method.as_str());
                Vec::new()
            }
            EventBody::TurnStarted(view) if self.is_primary(view.id.as_str()) => {
                self.begin().into_iter().collect()
            }
            EventBody::TurnCompleted(view) if self.is_primary(view.id.as_str()) => {
                // A turn that still runs has not ended, whoever says so.
                if view.status != TurnStatus::InProgress {
                    self.ended = Some(Ending::from(*view));
                }
                Vec::new()
            }
            body => {
                let turn = heard.turn.as_deref();
                if turn.is_some_and(|turn| self.is_primary(turn)) {
                    self.take_of_turn(body)
                } else {
                    Vec::new()
                }
            }
        }
    }

    fn is_primary(&self, turn: &str) -> bool {
        self.turn.as_deref() == Some(turn)
    }

    fn take_of_turn(&mut self, body: EventBody) -> Vec<Told> {
        match body {
            EventBody::ItemStarted(item) => self.item_started(item),
            EventBody::ItemCompleted(item) => self.item_completed(item),
            EventBody::Plan(plan) => self.planned(&plan.steps),
            EventBody::Error(error) => self.failed_call(&error),
            EventBody::Usage(usage) => {
                self.usage = Some(usage);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Says that the turn has begun, unless that was said.
    fn begin(&mut self) -> Option<Told> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        Some(Told::of(lines::Event::TurnStarted))
    }

    fn line_item(&mut self, body: ItemBody) -> lines::Item {
        let id = format!("item_{}", self.named);
        self.named += 1;
        lines::Item { id, body }
    }

    fn item_started(&mut self, item: Box<Item>) -> Vec<Told> {
        let key = item.id.to_string();
        let body = match shown(&item, Phase::Started, &self.cwd) {
            Some(body) if !self.seen.contains_key(&key) => body,
            _ => return Vec::new(),
        };
        let line = self.line_item(body.clone());
        let seen = Seen {
            id: line.id.clone(),
            open: Some(body),
        };
        self.seen.insert(key, seen);
        let mut told: Vec<_> = self.begin().into_iter().collect();
        told.push(Told {
            event: lines::Event::ItemStarted { item: line },
            item: Some(item),
        });
        told
    }

    fn item_completed(&mut self, item: Box<Item>) -> Vec<Told> {
        let key = item.id.to_string();
        let known = self.seen.get(&key);
        let began = known.is_some();
        if known.is_some_and(|seen| seen.open.is_none()) {
            return Vec::new();
        }
        let Some(body) = shown(&item, Phase::Completed, &self.cwd) else {
            return Vec::new();
        };
        let mut told: Vec<_> = self.begin().into_iter().collect();
        if !began && has_start(&body) {
            // Its beginning was missed; readers count on it.
            told.extend(self.item_started(item.clone()));
        }
        if let ItemBody::AgentMessage { text } = &body {
            self.last_message = Some(text.clone());
        }
        let line = if let Some(seen) = self.seen.get_mut(&key) {
            seen.open = None;
            let id = seen.id.clone();
            lines::Item { id, body }
        } else {
            let line = self.line_item(body);
            let id = line.id.clone();
            self.seen.insert(key, Seen { id, open: None });
            line
        };
        told.push(Told {
            event: lines::Event::ItemCompleted { item: line },
            item: Some(item),
        });
        told
    }

    fn planned(&mut self, steps: &[PlanStep]) -> Vec<Told> {
        let items: Vec<TodoItem> = steps
            .iter()
            .map(|step| TodoItem {
                text: step.step.clone(),
                completed: step.status == PlanStepStatus::Completed,
            })
            .collect();
        let mut told: Vec<_> = self.begin().into_iter().collect();
        let body = ItemBody::TodoList {
            items: items.clone(),
        };
        let event = if let Some((id, known)) = &mut self.todo {
            *known = items;
            let id = id.clone();
            let item = lines::Item { id, body };
            lines::Event::ItemUpdated { item }
        } else {
            let item = self.line_item(body);
            self.todo = Some((item.id.clone(), items));
            lines::Event::ItemStarted { item }
        };
        told.push(Told::of(event));
        told
    }

    fn failed_call(&mut self, error: &ErrorInfo) -> Vec<Told> {
        let mut told: Vec<_> = self.begin().into_iter().collect();
        if !error.will_retry {
            if self.failing.as_deref() == Some(error.message.as_str()) {
                return told;
            }
            self.failing = Some(error.message.clone());
        }
        told.push(Told::of(lines::Event::Error {
            message: error.message.clone(),
            kind: error.kind.clone(),
            will_retry: error.will_retry,
        }));
        told
    }

    /// What was missed of the turn's items, as they are stored.
    pub(super) fn read_back(&mut self, items: Vec<Item>) -> Vec<Told> {
        let mut told = Vec::new();
        for item in items {
            if let turnlane::ItemBody::AgentMessage(message) = &item.body
                && item.completed_at_ms.is_some()
            {
                // In the order of the history, which is the one that counts.
                self.last_message = Some(message.text.clone());
            }
            let item = Box::new(item);
            told.extend(match item.completed_at_ms {
                Some(_) => self.item_completed(item),
                None => self.item_started(item),
            });
        }
        self.gap = false;
        told
    }
}

/// Whether lines show the beginning of such an item.
fn has_start(body: &ItemBody) -> bool {
    !matches!(
        body,
        ItemBody::AgentMessage { .. } | ItemBody::Reasoning { .. } | ItemBody::Error { .. }
    )
}

#[cfg(test)]
mod tests;
