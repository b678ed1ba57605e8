//! The history that a script leaves: the same shapes a model's turns leave.
//!
//! The invariant here: every call in it has its answer or was cut off, and a turn's number can be
//! told from it alone, so `at: 2` means the same before and after a restart.
//!
//! Nothing here is sent to a model.

use serde_json::{Value, json};
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ItemBody;

use crate::entry::{Entry, EntryKind};
use crate::request::{TurnRequest, UnrecordedMessage};
use crate::said::ToolCall;

/// How far a script has been played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptPosition {
    /// The rule; none: the fallback.
    pub(super) rule: Option<usize>,
    /// Which of its steps, from 0.
    pub(super) step: usize,
}

impl ScriptPosition {
    /// The first step of the fallback.
    pub(super) const FALLBACK: Self = Self {
        rule: None,
        step: 0,
    };
}

/// Makes the entries of one turn.
#[derive(Clone, Debug)]
pub(super) struct Scribe {
    turn_id: TurnId,
    provider: String,
    model: String,
}

impl Scribe {
    pub(super) fn new(request: &TurnRequest) -> Self {
        Self {
            turn_id: request.turn_id,
            provider: request.settings.provider.clone(),
            model: request.settings.model.clone(),
        }
    }

    pub(super) fn user(&self, item_id: &ItemId, text: &str) -> Entry {
        let entry = self.entry(EntryKind::User, &[], user_message(text));
        Entry {
            item_id: Some(item_id.clone()),
            ..entry
        }
    }

    /// The entry of a message that an earlier turn could not record; none when it is no message.
    pub(super) fn late(&self, message: &UnrecordedMessage) -> Option<Entry> {
        let ItemBody::UserMessage(said) = &message.item.body else {
            return None;
        };
        let entry = self.user(&message.item.id, &words(&said.content));
        Some(Entry {
            turn_id: message.turn_id,
            ..entry
        })
    }

    pub(super) fn note(&self, text: &str) -> Entry {
        self.entry(EntryKind::Note, &[], user_message(text))
    }

    /// The note of a turn that a graceful stop cut at this place of its script.
    pub(super) fn stopped(&self, text: &str, place: ScriptPosition) -> Entry {
        let mut item = user_message(text);
        item["cutAt"] = json!({"rule": place.rule, "step": place.step});
        self.entry(EntryKind::Note, &[], item)
    }

    pub(super) fn reasoning(&self, text: &str) -> Entry {
        let summary = json!([{"type": "summary_text", "text": text}]);
        let item = json!({"type": "reasoning", "summary": summary});
        self.entry(EntryKind::Output, &[], item)
    }

    pub(super) fn agent_message(&self, text: &str) -> Entry {
        let content = json!([{"type": "output_text", "text": text}]);
        let item = json!({"type": "message", "role": "assistant", "content": content});
        self.entry(EntryKind::Output, &[], item)
    }

    pub(super) fn call(&self, call: &ToolCall) -> Entry {
        let item = json!({
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.tool,
            "arguments": call.arguments.to_string(),
        });
        self.entry(EntryKind::Output, &[&call.call_id], item)
    }

    pub(super) fn answer(&self, call_id: &str, text: &str) -> Entry {
        let item = json!({"type": "function_call_output", "call_id": call_id, "output": text});
        self.entry(EntryKind::ToolOutput, &[call_id], item)
    }

    /// A history of one sentence that remembers how many turns it stands for.
    pub(super) fn compaction(&self, turns: u64) -> Entry {
        let mut item = user_message(&format!("Summary of {turns} turns."));
        item["turns"] = turns.into();
        self.entry(EntryKind::Compaction, &[], item)
    }

    fn entry(&self, kind: EntryKind, call_ids: &[&str], item: Value) -> Entry {
        Entry {
            turn_id: self.turn_id,
            provider: self.provider.clone(),
            model: self.model.clone(),
            kind,
            item_id: None,
            call_ids: call_ids.iter().map(|&id| id.to_owned()).collect(),
            items: Value::Array(vec![item]).to_string(),
        }
    }
}

fn user_message(text: &str) -> Value {
    let content = json!([{"type": "input_text", "text": text}]);
    json!({"type": "message", "role": "user", "content": content})
}

/// Where a graceful stop cut the last turn of a history, if that turn left a mark.
pub(super) fn cut_at(history: &[Entry]) -> Option<ScriptPosition> {
    let last = history.last().filter(|last| last.kind == EntryKind::Note)?;
    let items: Value = serde_json::from_str(&last.items).ok()?;
    let cut = items[0].get("cutAt")?;
    let number = |value: &Value| {
        value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
    };
    Some(ScriptPosition {
        rule: number(&cut["rule"]),
        step: number(&cut["step"])?,
    })
}

/// The last words of the user before a turn that continues another.
pub(super) fn last_said(request: &TurnRequest) -> String {
    let unrecorded = request.unrecorded.last().and_then(|message| {
        let ItemBody::UserMessage(said) = &message.item.body else {
            return None;
        };
        Some(words(&said.content))
    });
    let recorded = || {
        let mut entries = request.history.iter().rev();
        let entry = entries.find(|entry| entry.kind == EntryKind::User)?;
        let items: Value = serde_json::from_str(&entry.items).ok()?;
        Some(items[0]["content"][0]["text"].as_str()?.to_owned())
    };
    unrecorded.or_else(recorded).unwrap_or_default()
}

/// The first words of the user in the history; empty where there is none.
pub(super) fn first_said(request: &TurnRequest) -> String {
    let mut entries = request.history.iter();
    let entry = entries.find(|entry| entry.kind == EntryKind::User);
    let items = entry.and_then(|entry| serde_json::from_str::<Value>(&entry.items).ok());
    let text = items.and_then(|items| items[0]["content"][0]["text"].as_str().map(str::to_owned));
    text.unwrap_or_default()
}

/// How many turns a history holds, compactions not counted.
pub(super) fn turns_in(history: &[Entry]) -> u64 {
    let mut turns = 0;
    let mut last = None;
    for entry in history {
        if entry.kind == EntryKind::Compaction {
            turns = turns_before(entry);
        } else if last != Some(entry.turn_id) {
            turns += 1;
        }
        last = Some(entry.turn_id);
    }
    turns
}

/// How many turns a compaction of ours stands for; of another engine's it is not known.
fn turns_before(compaction: &Entry) -> u64 {
    let items = serde_json::from_str::<Value>(&compaction.items);
    items.map_or(0, |items| items[0]["turns"].as_u64().unwrap_or(0))
}

/// The words of an input; what has none is named.
pub(super) fn words(input: &[UserInput]) -> String {
    let part = |part: &UserInput| match part {
        UserInput::Text { text, .. } => text.clone(),
        UserInput::Image(_) | UserInput::LocalImage { .. } => "[image]".to_owned(),
        UserInput::Audio { .. } | UserInput::LocalAudio { .. } => "[audio]".to_owned(),
        UserInput::Skill { name, .. } | UserInput::Mention { name, .. } => name.clone(),
    };
    input.iter().map(part).collect::<Vec<_>>().join("\n")
}
