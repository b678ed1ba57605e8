//! Entries joined to the `input` of a request, and repaired on the way.
//!
//! The invariant here: what stands before [`Joined::settled`] never changes when entries are added,
//! unless one of them is a compaction, which replaces everything. Behind it stands what a later
//! entry may still change: answers that are missing and what waits behind them.
//!
//! Theory of operation: calls stay open until their answers come from the same turn. What the same
//! turn records in between waits behind the answers, since a call and its answer are not to be
//! separated. Any other turn closes them: who has not answered by then never will.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use turnlane_protocol::ids::TurnId;

use super::words;
use crate::entry::{Entry, EntryKind};

/// What the model is told about a call that nobody answered.
pub const NO_RESULT: &str = "no result recorded: the program stopped while this ran; it may have \
                             partly or fully run";
/// What a model that takes no pictures is told in place of one.
pub const PICTURE_OMITTED: &str = "[image omitted: this model takes no images]";

/// How every request ends.
const END: &[u8] = b"]}";
/// What stands before the base64 text of a picture; a text cannot contain it unescaped.
const PICTURE_URL: &str = "\"image_url\":\"data:";

/// What of a history is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Who gets it; reasoning of others is left out.
    pub provider: String,
    /// What is done with its own reasoning.
    pub reasoning: Reasoning,
    /// What is done with pictures.
    pub pictures: Pictures,
}

/// What is done with the provider's own reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasoning {
    /// It is sent back encrypted.
    Encrypted,
    /// It is left out.
    LeftOut,
}

/// What is done with pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pictures {
    /// They are sent.
    Sent,
    /// A text is sent in their place.
    LeftOut,
}

/// A growing request: a head, the joined entries, and the end. Always complete.
#[derive(Clone, Debug)]
pub struct Joined {
    bytes: Vec<u8>,
    first: usize,
    settled: usize,
    open: Vec<String>,
    open_turn: Option<TurnId>,
    held: Vec<u8>,
    view: View,
    picture_count: usize,
    picture_bytes: usize,
}

impl Joined {
    /// A request that starts with these bytes, up to and including the bracket of its `input`.
    pub(in crate::native) fn new(head: Vec<u8>, view: View) -> Self {
        let first = head.len();
        let mut joined = Self {
            bytes: head,
            first,
            settled: first,
            open: Vec::new(),
            open_turn: None,
            held: Vec::new(),
            view,
            picture_count: 0,
            picture_bytes: 0,
        };
        joined.finish();
        joined
    }

    /// Adds entries behind those that are there; a compaction replaces them.
    pub fn append(&mut self, entries: &[Entry]) {
        let last = entries
            .iter()
            .rposition(|entry| entry.kind == EntryKind::Compaction);
        let entries = entries.get(last.unwrap_or(0)..).unwrap_or_default();
        self.bytes.truncate(self.settled);
        // Commas, brackets, and room for the answers that are missing.
        let more: usize = entries.iter().map(|entry| entry.items.len()).sum();
        self.bytes.reserve(more + 1024);
        for entry in entries {
            self.push(entry);
        }
        self.finish();
    }

    /// Everything, as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes at the start stay what they are when entries are added.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// How many pictures are in it.
    pub fn picture_count(&self) -> usize {
        self.picture_count
    }

    /// How many bytes of it are pictures.
    pub fn picture_bytes(&self) -> usize {
        self.picture_bytes
    }

    /// Another head for the same entries.
    pub(in crate::native) fn replace_head(&mut self, head: Vec<u8>) {
        let settled = self.settled - self.first + head.len();
        let first = head.len();
        self.bytes.splice(..self.first, head);
        (self.first, self.settled) = (first, settled);
    }

    /// What is done with the provider's own reasoning.
    pub(in crate::native) fn reasoning(&self) -> Reasoning {
        self.view.reasoning
    }

    /// Takes all reasoning out, also out of what is added later; the second time it does nothing.
    pub(in crate::native) fn leave_reasoning_out(&mut self) {
        if self.view.reasoning == Reasoning::LeftOut {
            return;
        }
        self.view.reasoning = Reasoning::LeftOut;
        self.bytes.truncate(self.settled);
        let items = without_reasoning(&self.bytes[self.first..]);
        self.bytes.truncate(self.first);
        self.bytes.extend_from_slice(items.as_bytes());
        // Only messages are held back, so there is none among them.
        self.finish();
    }

    fn push(&mut self, entry: &Entry) {
        match entry.kind {
            EntryKind::ToolOutput => self.push_answers(entry),
            EntryKind::Output => self.push_output(entry),
            EntryKind::User | EntryKind::Note => self.push_message(entry),
            EntryKind::Compaction => {
                self.start_over();
                self.push_message(entry);
            }
        }
    }

    fn start_over(&mut self) {
        self.bytes.truncate(self.first);
        self.open.clear();
        self.held.clear();
        (self.picture_count, self.picture_bytes) = (0, 0);
    }

    fn push_output(&mut self, entry: &Entry) {
        // A response may have been recorded in several entries: its calls stay open together.
        if !self.is_of_open_turn(entry) || !self.held.is_empty() {
            self.close();
        }
        let foreign = entry.provider != self.view.provider;
        let without = foreign || self.view.reasoning == Reasoning::LeftOut;
        if without && entry.items.contains("reasoning") {
            for item in raw_items(&entry.items) {
                if member(item, "type").as_deref() != Some("reasoning") {
                    join(&mut self.bytes, self.first, item.get());
                }
            }
        } else {
            join(&mut self.bytes, self.first, inner(&entry.items));
        }
        if !entry.call_ids.is_empty() {
            self.open.extend_from_slice(&entry.call_ids);
            self.open_turn = Some(entry.turn_id);
        }
    }

    fn push_message(&mut self, entry: &Entry) {
        let omitted;
        let items = if !entry.items.contains(PICTURE_URL) {
            inner(&entry.items)
        } else if self.view.pictures == Pictures::Sent {
            self.count_pictures(&entry.items);
            inner(&entry.items)
        } else {
            omitted = without_pictures(&entry.items);
            inner(&omitted)
        };
        if !self.open.is_empty() && self.is_of_open_turn(entry) {
            join(&mut self.held, 0, items);
        } else {
            self.close();
            join(&mut self.bytes, self.first, items);
        }
    }

    fn push_answers(&mut self, entry: &Entry) {
        if !self.is_of_open_turn(entry) {
            self.close();
        }
        let mut expected: Vec<&str> = Vec::new();
        for id in &entry.call_ids {
            if self.take_open(id) {
                expected.push(id);
            }
        }
        if !expected.is_empty() && expected.len() == entry.call_ids.len() {
            join(&mut self.bytes, self.first, inner(&entry.items));
        } else if !expected.is_empty() {
            self.push_expected(entry, &mut expected);
        }
        if self.open.is_empty() {
            self.close();
        }
    }

    /// The answers of an entry that somebody waits for; the others have lost their calls.
    fn push_expected(&mut self, entry: &Entry, expected: &mut Vec<&str>) {
        for item in raw_items(&entry.items) {
            let id = member(item, "call_id");
            let found = expected.iter().position(|&one| Some(one) == id.as_deref());
            if let Some(found) = found {
                expected.swap_remove(found);
                join(&mut self.bytes, self.first, item.get());
            }
        }
    }

    fn take_open(&mut self, id: &str) -> bool {
        let found = self.open.iter().position(|open| open == id);
        if let Some(found) = found {
            self.open.remove(found);
        }
        found.is_some()
    }

    fn is_of_open_turn(&self, entry: &Entry) -> bool {
        self.open_turn == Some(entry.turn_id)
    }

    /// Says of every open call that nothing is known, then what waited behind it.
    fn close(&mut self) {
        self.write_waiting();
        self.open.clear();
        self.held.clear();
        self.open_turn = None;
    }

    fn write_waiting(&mut self) {
        for id in &self.open {
            let answer =
                json!({"type": "function_call_output", "call_id": id, "output": NO_RESULT});
            join(&mut self.bytes, self.first, &answer.to_string());
        }
        if let Ok(held) = str::from_utf8(&self.held) {
            join(&mut self.bytes, self.first, held);
        }
    }

    fn finish(&mut self) {
        self.settled = self.bytes.len();
        self.write_waiting();
        self.bytes.extend_from_slice(END);
    }

    fn count_pictures(&mut self, items: &str) {
        for behind in items.split(PICTURE_URL).skip(1) {
            self.picture_count += 1;
            self.picture_bytes += behind.find('"').unwrap_or(behind.len());
        }
    }
}

/// The items of an array without its brackets.
fn inner(items: &str) -> &str {
    let items = items.trim();
    let items = items
        .strip_prefix('[')
        .and_then(|items| items.strip_suffix(']'));
    items.unwrap_or_default().trim()
}

fn join(bytes: &mut Vec<u8>, first: usize, items: &str) {
    if items.is_empty() {
        return;
    }
    if bytes.len() > first {
        bytes.push(b',');
    }
    bytes.extend_from_slice(items.as_bytes());
}

fn raw_items(items: &str) -> Vec<&RawValue> {
    serde_json::from_str(items).unwrap_or_default()
}

fn member(item: &RawValue, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(item.get()).ok()?;
    value.get(name)?.as_str().map(str::to_owned)
}

/// Items that stand one after the other, those of reasoning left out.
fn without_reasoning(items: &[u8]) -> String {
    let items = format!("[{}]", String::from_utf8_lossy(items));
    let kept: Vec<&str> = raw_items(&items)
        .into_iter()
        .filter(|item| member(item, "type").as_deref() != Some("reasoning"))
        .map(RawValue::get)
        .collect();
    kept.join(",")
}

fn without_pictures(items: &str) -> String {
    let mut items: Value = serde_json::from_str(items).unwrap_or_default();
    for item in items.as_array_mut().into_iter().flatten() {
        let content = item.get_mut("content").and_then(Value::as_array_mut);
        for part in content.into_iter().flatten() {
            if part["type"] == "input_image" {
                *part = words(PICTURE_OMITTED);
            }
        }
    }
    items.to_string()
}

#[cfg(test)]
mod tests;
