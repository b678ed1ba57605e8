//! From events of a thread to words or lines of JSON, as they come.
//!
//! The invariant here: text that streams is written as it comes and never twice; an item's end only
//! adds what was not shown. Events of turns that were read from the history are left out.
//!
//! What is read instead of told, before following began and after a loss, is shown in `stored`.

mod stored;

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use turnlane::{Delta, DeltaKind, Event, EventBody, Item, ItemBody, TurnView};
use turnlane_protocol::queue::QueueState;

use super::show;
use crate::shown::ids::short;
use crate::shown::item::{self, Output};
use crate::shown::text::{counted, one_line, visible};
use crate::shown::{Form, Ink, Screen, queue};

/// What is shown of a thread.
pub(super) struct Live {
    pub(super) screen: Screen,
    thread: String,
    /// What the person calls it.
    word: String,
    /// Turns and items that were read whole.
    told: HashSet<String>,
    /// The turn that runs, as far as we know.
    running: Option<String>,
    /// Whose text the last line belongs to, when it has not ended.
    open: Option<String>,
    /// How much of an item's text was shown, by item.
    shown: HashMap<String, usize>,
    /// The last words about the queue, so that they are not repeated.
    queue: String,
    gone: bool,
}

impl Live {
    pub(super) fn new(screen: Screen, thread: &str, word: String) -> Self {
        Self {
            screen,
            thread: thread.to_owned(),
            word,
            told: HashSet::new(),
            running: None,
            open: None,
            shown: HashMap::new(),
            queue: String::new(),
            gone: false,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The thread was archived or deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Says how to leave, once.
    pub(super) fn is_leavable(&self) {
        self.screen
            .hint("following; Ctrl-C leaves and stops nothing");
    }

    /// Whether an event only tells what was read before.
    fn is_told(&self, event: &Event) -> bool {
        let turn = event.turn.as_ref().map(turnlane::TurnId::as_str);
        if turn.is_some_and(|turn| self.told.contains(turn)) {
            return true;
        }
        match &event.body {
            EventBody::TurnStarted(turn) => self.running.as_deref() == Some(turn.id.as_str()),
            EventBody::ItemStarted(item) | EventBody::ItemCompleted(item) => {
                self.told.contains(item.id.to_string().as_str())
            }
            EventBody::Delta(delta) => self.told.contains(&delta.item),
            _ => false,
        }
    }

    /// Shows an approval that somebody has to decide.
    pub(super) fn asked(&mut self, approval: &Value) -> anyhow::Result<()> {
        if self.screen.form == Form::Json {
            let line = json!({"type": "approval.requested", "approval": approval});
            return self.screen.json(&line);
        }
        let text = |key: &str| approval.get(key).and_then(Value::as_str);
        let id = short(text("approvalId").unwrap_or_default());
        let about = about(approval);
        let why = text("reason").map(|why| format!(" ({})", one_line(why)));
        let title = self.screen.paint(Ink::Yellow, "approval asked:");
        let why = why.unwrap_or_default();
        self.line(&format!(
            "{title} {about}{why}\n  turnlane approvals accept {id}\n  \
             turnlane approvals decline {id}\n"
        ))
    }

    /// Shows one event.
    pub(super) fn take(&mut self, event: &Event) -> anyhow::Result<()> {
        if let EventBody::Unknown(raw) = &event.body
            && raw.method == "approval/changed"
        {
            let changed: Value = serde_json::from_str(raw.params.get()).unwrap_or_default();
            return self.approval(&changed);
        }
        let thread = event.thread.as_ref().map(turnlane::ThreadId::as_str);
        if thread.is_some_and(|thread| thread != self.thread) {
            return Ok(());
        }
        if self.is_told(event) {
            return Ok(());
        }
        let turn = event.turn.as_ref().map(turnlane::TurnId::as_str);
        match self.screen.form {
            Form::Json => self.tell_json(event, turn),
            Form::People => self.tell(event),
        }
    }

    fn approval(&mut self, changed: &Value) -> anyhow::Result<()> {
        let approval = &changed["approval"];
        if approval["threadId"] != self.thread.as_str() {
            return Ok(());
        }
        if changed["change"] == "requested" {
            return self.asked(approval);
        }
        if self.screen.form == Form::Json {
            return self.screen.json(&json!({
                "type": "approval.resolved", "approvalId": approval["approvalId"],
                "decision": changed["decision"], "by": changed["by"],
                "reason": changed["reason"],
            }));
        }
        let word = |key: &str| changed[key].as_str().unwrap_or("somebody").to_owned();
        let (decision, by) = (word("decision"), word("by"));
        let title = self.screen.paint(Ink::Yellow, "approval:");
        self.line(&format!("{title} {decision}, by {by}\n"))
    }

    fn tell(&mut self, event: &Event) -> anyhow::Result<()> {
        match &event.body {
            EventBody::TurnStarted(turn) => {
                self.running = Some(turn.id.as_str().to_owned());
                let id = short(turn.id.as_str());
                let title = self.screen.paint(Ink::Bold, &format!("turn {id}"));
                self.line(&format!("{title}\n"))
            }
            EventBody::TurnCompleted(turn) => {
                self.told.insert(turn.id.as_str().to_owned());
                self.ended(turn)
            }
            EventBody::ItemStarted(item) => self.item_begun(item),
            EventBody::ItemCompleted(item) => {
                self.told.insert(item.id.to_string());
                self.item_ended(item)
            }
            EventBody::Delta(delta) => self.delta(delta),
            EventBody::Queue(told) => self.queue_changed(told),
            EventBody::Error(error) => {
                let title = self.screen.paint(Ink::Red, "error:");
                self.line(&format!("{title} {}\n", visible(&error.message)))
            }
            EventBody::Warning(text) => {
                let title = self.screen.paint(Ink::Yellow, "warning:");
                self.line(&format!("{title} {}\n", visible(text)))
            }
            EventBody::Lagged { .. } | EventBody::TooSlow => {
                let text = self.screen.paint(Ink::Dim, "… something was left out here");
                self.line(&format!("{text}\n"))
            }
            EventBody::ThreadGone => {
                self.gone = true;
                self.line("the thread was archived or deleted\n")
            }
            _ => Ok(()),
        }
    }

    fn tell_json(&mut self, event: &Event, turn: Option<&str>) -> anyhow::Result<()> {
        let line = match &event.body {
            EventBody::TurnStarted(started) => {
                self.running = Some(started.id.as_str().to_owned());
                json!({"type": "turn.started", "turnId": turn})
            }
            EventBody::TurnCompleted(ended) => {
                self.running = None;
                self.told.insert(ended.id.as_str().to_owned());
                let error = ended.error.as_ref().map(|error| &error.message);
                json!({"type": "turn.ended", "turnId": turn, "status": status_word(ended),
                    "error": error})
            }
            EventBody::ItemStarted(item) => {
                json!({"type": "item.started", "turnId": turn, "item": item})
            }
            EventBody::ItemCompleted(item) => {
                self.told.insert(item.id.to_string());
                json!({"type": "item.completed", "turnId": turn, "item": item})
            }
            EventBody::Delta(delta) => {
                json!({"type": "item.delta", "turnId": turn, "itemId": delta.item,
                    "text": delta.text})
            }
            EventBody::Queue(queue) => {
                let mut line = json!({"type": "queue.changed"});
                for key in [
                    "depth", "paused", "waiting", "blocked", "running", "revision",
                ] {
                    line[key] = queue.get(key).cloned().unwrap_or_default();
                }
                line
            }
            EventBody::Error(error) => json!({"type": "warning", "message": error.message}),
            EventBody::Warning(text) => json!({"type": "warning", "message": text}),
            EventBody::Lagged { .. } | EventBody::TooSlow => json!({"type": "gap"}),
            EventBody::ThreadGone => {
                self.gone = true;
                json!({"type": "thread.gone"})
            }
            _ => return Ok(()),
        };
        self.screen.json(&line)
    }

    fn ended(&mut self, turn: &TurnView) -> anyhow::Result<()> {
        self.running = None;
        self.shown.clear();
        let error = turn.error.as_ref().map(|error| error.message.as_str());
        let millis = turn
            .duration
            .and_then(|took| i64::try_from(took.as_millis()).ok());
        let text = show::end(&self.screen, &turn.status, error, millis);
        self.line(&text)
    }

    fn item_begun(&mut self, item: &Item) -> anyhow::Result<()> {
        // One that was shown before, in part, was begun then.
        let before = self.shown.get(item.id.to_string().as_str()).copied();
        let text = item::begun(&self.screen, item);
        if !text.is_empty() && before.is_none() {
            self.line(&text)?;
        }
        // Whoever comes in the middle of an item is told what was said so far.
        let (kind, so_far) = match &item.body {
            ItemBody::AgentMessage(message) => (DeltaKind::Message, message.text.as_str()),
            ItemBody::CommandExecution(command) => {
                let wrote = command.aggregated_output.as_deref();
                (DeltaKind::CommandOutput, wrote.unwrap_or_default())
            }
            _ => return Ok(()),
        };
        let news = so_far.get(before.unwrap_or(0)..).unwrap_or_default();
        self.text(&item.id.to_string(), &kind, news)
    }

    fn delta(&mut self, delta: &Delta) -> anyhow::Result<()> {
        self.text(&delta.item, &delta.kind, &delta.text)
    }

    /// More text of an item, behind what is there.
    fn text(&mut self, item: &str, kind: &DeltaKind, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let (title, ink) = match kind {
            DeltaKind::Message => (self.screen.paint(Ink::Magenta, "agent\n"), Ink::Plain),
            DeltaKind::Plan => (self.screen.paint(Ink::Magenta, "plan\n"), Ink::Plain),
            _ => (String::new(), Ink::Dim),
        };
        let mut words = self.screen.paint(ink, &visible(text));
        if self.open.as_deref() != Some(item) {
            self.end_line();
            words.insert_str(0, &title);
        }
        self.screen.print(&words)?;
        *self.shown.entry(item.to_owned()).or_default() += text.len();
        self.open = (!text.ends_with('\n')).then(|| item.to_owned());
        Ok(())
    }

    fn item_ended(&mut self, item: &Item) -> anyhow::Result<()> {
        let shown = self.shown.remove(item.id.to_string().as_str());
        let text = match (&item.body, shown) {
            (ItemBody::CommandExecution(_), Some(_)) => {
                item::ended(&self.screen, item, Output::Shown)
            }
            (_, Some(_)) => {
                self.end_line();
                return Ok(());
            }
            (_, None) => item::ended(&self.screen, item, Output::Last),
        };
        self.line(&text)
    }

    fn queue_changed(&mut self, told: &Value) -> anyhow::Result<()> {
        let Ok(state) = serde_json::from_value::<QueueState>(told.clone()) else {
            return Ok(());
        };
        let depth = usize::try_from(state.summary.depth).unwrap_or(usize::MAX);
        // What runs is told by its turn.
        let held = QueueState {
            running: None,
            ..state
        };
        let held = queue::state(&self.screen, &self.word, &held);
        let text = format!("queue: {} waiting\n{held}", counted(depth, "turn"));
        // The first word about an empty queue is none.
        let is_news = text != self.queue && !(self.queue.is_empty() && depth == 0);
        self.queue.clone_from(&text);
        if !is_news {
            return Ok(());
        }
        let text = self.screen.paint(Ink::Dim, text.trim_end());
        self.line(&format!("{text}\n"))
    }

    /// Whole lines, on a line of their own.
    fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.end_line();
        self.screen.print(text)
    }

    /// Ends a line that streaming text left open.
    pub(super) fn end_line(&mut self) {
        if self.open.take().is_some() {
            // Whoever reads no more is noticed at the next line.
            let _ = self.screen.print("\n");
        }
    }
}

/// What an approval is about, in a line.
pub(in crate::commands) fn about(approval: &Value) -> String {
    let text = |key: &str| approval.get(key).and_then(Value::as_str);
    if let Some(command) = text("command") {
        let place = text("cwd").map(|cwd| format!(" in {cwd}"));
        return one_line(&format!("{command}{}", place.unwrap_or_default()));
    }
    let changes = approval.get("changes").and_then(Value::as_array);
    let paths = changes.into_iter().flatten();
    let paths: Vec<_> = paths.filter_map(|change| change["path"].as_str()).collect();
    if paths.is_empty() {
        one_line(text("kind").unwrap_or("something"))
    } else {
        one_line(&format!("change {}", paths.join(", ")))
    }
}

fn status_word(turn: &TurnView) -> &str {
    match &turn.status {
        turnlane::TurnStatus::Completed => "completed",
        turnlane::TurnStatus::Failed => "failed",
        turnlane::TurnStatus::Interrupted => "interrupted",
        turnlane::TurnStatus::InProgress => "inProgress",
        turnlane::TurnStatus::Unknown(word) => word,
        _ => "unknown",
    }
}
