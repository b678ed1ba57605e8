//! What a turn has produced so far, and the outcome it adds up to.
//!
//! The invariant here: an item counts once, in the order of its end, and a later word about it
//! replaces an earlier one. The truth about the end is the status of the turn; text is only what the
//! agent said. Whatever may have been missed is known, so that it can be read from the history.

use std::collections::HashMap;

use serde_json::Value;

use crate::event::{Event, EventBody, Item, ItemBody};
use crate::hooks::HookReport;
use crate::ids::ThreadId;
use crate::outcome::{ErrorInfo, TurnOutcome, TurnView, Usage};

/// What a turn has produced so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    items: Vec<Item>,
    places: HashMap<String, usize>,
    usage: Option<Usage>,
    error: Option<ErrorInfo>,
    /// Whether something of the turn may have been missed.
    has_gaps: bool,
}

impl Gathered {
    /// Takes note of an event of the turn.
    pub(crate) fn take(&mut self, event: &Event) {
        match &event.body {
            EventBody::ItemCompleted(item) => self.add((**item).clone()),
            EventBody::Usage(usage) => self.usage = Some(usage.clone()),
            EventBody::Error(error) if !error.will_retry => self.error = Some((**error).clone()),
            EventBody::Lagged { .. } | EventBody::Reconnected { .. } => self.missed(),
            _ => {}
        }
    }

    /// Something of the turn may have been missed.
    pub(crate) fn missed(&mut self) {
        self.has_gaps = true;
    }

    /// Whether this item has ended already.
    pub(crate) fn has(&self, item: &Item) -> bool {
        self.places.contains_key(item.id.as_str())
    }

    fn add(&mut self, item: Item) {
        if let Some(place) = self.places.get(item.id.as_str()) {
            self.items[*place] = item;
            return;
        }
        let place = self.items.len();
        self.places.insert(item.id.as_str().to_owned(), place);
        self.items.push(item);
    }

    /// Whether the history must be asked for what was missed.
    pub(crate) fn lacks_some_of(&self, turn: &TurnView) -> bool {
        self.has_gaps || turn.items.iter().any(|item| !self.has(item))
    }

    /// The history of the turn, as it is now: in its own order, then what it does not have.
    pub(crate) fn complete(&mut self, history: Vec<Item>) {
        let seen = std::mem::take(&mut self.items);
        self.places.clear();
        for item in history {
            self.add(item);
        }
        for item in seen {
            if !self.has(&item) {
                self.add(item);
            }
        }
    }

    /// Whose message began the turn, if that message was seen.
    pub(crate) fn first_author(&self) -> Option<Author> {
        self.items.iter().find_map(author)
    }

    /// What became of the turn.
    pub(crate) fn outcome(
        mut self,
        thread: &ThreadId,
        turn: TurnView,
        hooks: HookReport,
    ) -> TurnOutcome {
        for item in turn.items {
            if !self.has(&item) {
                self.add(item);
            }
        }
        TurnOutcome {
            thread: thread.clone(),
            turn: turn.id,
            status: turn.status,
            text: final_text(&self.items),
            items: self.items,
            usage: usage_of(turn.usage, self.usage),
            error: turn.error.or(self.error),
            duration: turn.duration,
            hooks,
        }
    }
}

/// The counts of the end, and what only the way there has told.
fn usage_of(end: Option<Usage>, way: Option<Usage>) -> Option<Usage> {
    match (end, way) {
        (Some(end), Some(way)) => Some(Usage {
            context_window: end.context_window.or(way.context_window),
            ..end
        }),
        (end, way) => end.or(way),
    }
}

/// The last message that says it is the answer, else the last message.
fn final_text(items: &[Item]) -> Option<String> {
    let messages = || {
        items.iter().rev().filter_map(|item| match &item.body {
            ItemBody::AgentMessage(message) => Some(message),
            _ => None,
        })
    };
    let answer = messages().find(|message| {
        let word = message
            .phase
            .as_ref()
            .and_then(|phase| serde_json::to_value(phase).ok());
        word.as_ref().and_then(Value::as_str) == Some("final_answer")
    });
    let said = answer.or_else(|| messages().next())?;
    Some(said.text.clone())
}

/// Whose message it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// Of the client that gave it this id.
    Named(String),
    /// The server does not say.
    Unnamed,
}

impl Author {
    fn new(client_id: Option<&str>) -> Self {
        client_id.map_or(Self::Unnamed, |id| Self::Named(id.to_owned()))
    }

    /// Whether it may be of the client with this id.
    pub(crate) fn may_be(&self, client_id: &str) -> bool {
        match self {
            Self::Named(named) => named == client_id,
            Self::Unnamed => true,
        }
    }
}

/// Whose message an item is, if it is one of a person or program.
pub(crate) fn author(item: &Item) -> Option<Author> {
    match &item.body {
        ItemBody::UserMessage(message) => Some(Author::new(message.client_id.as_deref())),
        // A shape we do not know, by a server we do not know.
        ItemBody::Other(members) if item.type_word() == "userMessage" => {
            Some(Author::new(members.get("clientId").and_then(Value::as_str)))
        }
        _ => None,
    }
}
