//! Text that streams to a person: the answer and the output of commands, as they come.
//!
//! The invariant here: nothing is shown twice. An item that was shown as it came adds only its end, and
//! one of which something was missed is shown again whole. Without a person at a terminal nothing
//! streams.

use std::collections::HashMap;

use turnlane::{Delta, DeltaKind, ItemBody as Body};
use turnlane_protocol::exec_events::{Event, ItemBody};

use super::human::Human;
use super::run::Told;
use crate::shown::text::visible;

/// Who reads a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Audience {
    /// A program, or a person who reads it later: `turnlane exec`.
    Script,
    /// A person who watches: `turnlane run`.
    Person,
}

/// The items that were shown as they came.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// How many bytes of each item were shown, while it runs.
    shown: HashMap<String, usize>,
    /// The item that the last line belongs to, when that line has not ended.
    open: Option<String>,
}

impl Stream {
    /// Shows more text of an item.
    pub(super) fn delta(&mut self, human: &Human, delta: &Delta) {
        let is_answer = match delta.kind {
            DeltaKind::Message => true,
            DeltaKind::CommandOutput => false,
            _ => return,
        };
        if delta.text.is_empty() {
            return;
        }
        let is_new = !self.shown.contains_key(&delta.item);
        if self.open.as_ref() != Some(&delta.item) {
            self.end_line(human);
            if is_answer && is_new {
                human.tell(&human.speaker());
            }
        }
        human.tell(&if is_answer {
            visible(&delta.text)
        } else {
            human.output_part(&delta.text)
        });
        *self.shown.entry(delta.item.clone()).or_default() += delta.text.len();
        self.open = (!delta.text.ends_with('\n')).then(|| delta.item.clone());
    }

    /// Shows what a run says, without what was shown already.
    pub(super) fn say(&mut self, human: &Human, told: &Told) {
        let ended = match (&told.event, &told.item) {
            (Event::ItemCompleted { item }, Some(whole)) => Some((item, whole)),
            _ => None,
        };
        let shown = ended.and_then(|(_, whole)| self.shown.remove(&whole.id.to_string()));
        let text = match (ended, shown) {
            (Some((item, whole)), Some(shown)) => match (&item.body, &whole.body) {
                // Equal in length: nothing was missed.
                (ItemBody::AgentMessage { text }, _) if text.len() == shown => String::new(),
                (ItemBody::CommandExecution(command), Body::CommandExecution(_)) => {
                    human.command_ended(command, told)
                }
                _ => human.told(told),
            },
            _ => human.told(told),
        };
        if !text.is_empty() || shown.is_some() {
            self.end_line(human);
        }
        human.tell(&text);
    }

    /// Ends a line that text left open.
    pub(super) fn end_line(&mut self, human: &Human) {
        if self.open.take().is_some() {
            human.tell("\n");
        }
    }
}
