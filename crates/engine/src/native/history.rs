//! The history as the model sees it: how entries are made and how they are joined again.
//!
//! The invariant here: an entry is recorded in the form in which it is sent. Joining never parses
//! what this provider said; only entries of another provider, or a model that takes no reasoning or
//! no pictures, cost a look inside. What is repaired is repaired at every joining and never stored.
//!
//! Which entries a thread has is the store's business: it starts at the last compaction and leaves
//! out muted turns, cut turns and turns beyond a fork before an engine sees anything.

mod compaction;
mod image;
mod input;
mod join;
mod output;

use serde_json::{Value, json};
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ItemBody;

pub(super) use compaction::tokens_of;
pub use compaction::{
    AUTO_LIMIT_PERCENT, COMPACT_PROMPT, KEPT_TOKENS_MAX, Load, SUMMARY_HEAD, WINDOW_DEFAULT,
    compacted, token_limit,
};
pub use image::{IMAGE_BYTES_MAX, IMAGES_MAX, Image, ImageRefused, read_image};
pub use input::InputRefused;
pub use join::{Joined, NO_RESULT, PICTURE_OMITTED, Pictures, Reasoning, View};
pub use output::{Answer, Produced, message_id};

use crate::entry::{Entry, EntryKind};
use crate::request::{TurnRequest, UnrecordedMessage};

/// Makes the entries of one turn; holds what is the same in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The turn that records.
    pub turn_id: TurnId,
    /// Who serves the model.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl Author {
    /// The author of the entries of this turn.
    pub fn of(request: &TurnRequest) -> Self {
        Self {
            turn_id: request.turn_id,
            provider: request.settings.provider.clone(),
            model: request.settings.model.clone(),
        }
    }

    /// What a person or program said, as the entry of its userMessage item.
    ///
    /// Files of pictures are read here, once: what is sent later is what was there now.
    pub fn user(&self, item_id: &ItemId, input: &[UserInput]) -> Result<Entry, InputRefused> {
        let content = input::content(input)?;
        let entry = self.entry(EntryKind::User, vec![], vec![message(content)]);
        Ok(Entry {
            item_id: Some(item_id.clone()),
            ..entry
        })
    }

    /// The entry of a message that an earlier turn could not record; none when it is no message.
    pub fn late(&self, message: &UnrecordedMessage) -> Option<Result<Entry, InputRefused>> {
        let ItemBody::UserMessage(said) = &message.item.body else {
            return None;
        };
        let theirs = Self {
            turn_id: message.turn_id,
            ..self.clone()
        };
        Some(theirs.user(&message.item.id, &said.content))
    }

    /// What the model answered in one response; none when nothing of it can be sent again.
    pub fn output(&self, produced: &[Produced]) -> Option<Entry> {
        let items: Vec<Value> = produced.iter().filter_map(output::item).collect();
        let calls = produced.iter().filter_map(output::call_id).collect();
        (!items.is_empty()).then(|| self.entry(EntryKind::Output, calls, items))
    }

    /// What calls brought, in the order given; that should be the order of the calls.
    pub fn answers(&self, answers: &[Answer]) -> Option<Entry> {
        let items: Vec<Value> = answers.iter().map(output::answer).collect();
        let calls = answers
            .iter()
            .map(|answer| answer.call_id.clone())
            .collect();
        (!items.is_empty()).then(|| self.entry(EntryKind::ToolOutput, calls, items))
    }

    /// Something else the model is told, in the user's role.
    pub fn note(&self, text: &str) -> Entry {
        self.entry(EntryKind::Note, vec![], vec![message(vec![words(text)])])
    }

    /// Pictures that tools of one round looked at; recorded behind all answers of the round.
    pub fn pictures(&self, pictures: &[Image]) -> Option<Entry> {
        let content: Vec<Value> = pictures.iter().map(Image::part).collect();
        (!content.is_empty()).then(|| self.entry(EntryKind::Note, vec![], vec![message(content)]))
    }

    fn entry(&self, kind: EntryKind, call_ids: Vec<String>, items: Vec<Value>) -> Entry {
        Entry {
            turn_id: self.turn_id,
            provider: self.provider.clone(),
            model: self.model.clone(),
            kind,
            item_id: None,
            call_ids,
            items: Value::Array(items).to_string(),
        }
    }
}

fn message(content: Vec<Value>) -> Value {
    let mut message = json!({"type": "message", "role": "user"});
    // Moved in: a picture is large.
    message["content"] = Value::Array(content);
    message
}

fn words(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

#[cfg(test)]
mod tests;
