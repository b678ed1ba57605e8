//! The end of an item: what is shown of it and what the history may replay.
//!
//! The invariant here: an item ends once; it is opened before it is completed; nothing blank is
//! opened only to be completed.
//!
//! Calls end silently; they wait in their slots for the terminal event.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{ItemBody, WebSearch};

use super::assemble::Assembler;
use super::slot::{Kind, Slot};
use super::step::{Call, CallKind, CompletedItem, Step};
use super::wire::{self, ItemWire};

impl<F: FnMut() -> ItemId> Assembler<F> {
    /// Ends the item of a slot, with its authoritative form if there is one.
    pub(super) fn complete(
        &mut self,
        at: usize,
        item: Option<&ItemWire<'_>>,
        steps: &mut Vec<Step>,
    ) {
        let slot = &mut self.slots[at];
        if slot.done {
            return;
        }
        slot.done = true;
        if let Some(item) = item {
            slot.settle(item);
        }
        let raw = item.and_then(|item| item.raw).map(ToOwned::to_owned);
        match slot.kind.clone() {
            Kind::Message => {
                // A message whose authority is silent is built from what arrived.
                let whole = item.is_some_and(|item| !wire::texts(item.content).is_empty());
                let raw = raw.filter(|_| whole).or_else(|| built_message(slot));
                let raw = raw.filter(|_| !slot.is_blank());
                self.show(at, raw, steps);
            }
            Kind::Reasoning => {
                let encrypted = item.and_then(|item| wire::word(item.encrypted_content));
                self.show(at, raw.filter(|_| encrypted.is_some()), steps);
            }
            Kind::Call(_) => slot.raw = raw,
            Kind::WebSearch => {
                slot.raw.clone_from(&raw);
                if let Some(item) = item {
                    self.web_search(at, item, raw, steps);
                }
            }
            Kind::Other(word) => self.never_offered(&word, steps),
        }
    }

    /// Ends a message or reasoning, opening it before if it was not.
    fn show(&mut self, at: usize, raw: Option<Box<RawValue>>, steps: &mut Vec<Step>) {
        let slot = &self.slots[at];
        let place = slot.place;
        if slot.item_id.is_none() && slot.is_blank() {
            steps.extend(raw.map(|raw| Step::Kept { place, raw }));
            return;
        }
        let Some(body) = slot.body() else { return };
        let item_id = self.opened(at, body.clone(), steps);
        steps.push(Step::Completed(CompletedItem {
            item_id,
            body,
            place,
            raw,
        }));
    }

    /// The item's id; announces the item with this body if it was not.
    pub(super) fn opened(&mut self, at: usize, body: ItemBody, steps: &mut Vec<Step>) -> ItemId {
        if let Some(item_id) = &self.slots[at].item_id {
            return item_id.clone();
        }
        let item_id = (self.new_id)();
        self.slots[at].item_id = Some(item_id.clone());
        steps.push(Step::Opened {
            item_id: item_id.clone(),
            body,
        });
        item_id
    }

    fn web_search(
        &mut self,
        at: usize,
        item: &ItemWire<'_>,
        raw: Option<Box<RawValue>>,
        steps: &mut Vec<Step>,
    ) {
        let action: Option<Value> = item
            .action
            .and_then(|action| serde_json::from_str(action.get()).ok());
        let asked = action.as_ref().and_then(|action| {
            let first = action.get("queries").and_then(|queries| queries.get(0));
            action.get("query").or(first)?.as_str().map(str::to_owned)
        });
        let body = ItemBody::WebSearch(WebSearch {
            query: asked.or_else(|| wire::word(item.query)).unwrap_or_default(),
            action,
            ..WebSearch::default()
        });
        let item_id = self.opened(at, body.clone(), steps);
        steps.push(Step::Completed(CompletedItem {
            item_id,
            body,
            place: self.slots[at].place,
            raw,
        }));
    }

    /// Says once per response that the provider ran something it was not asked to.
    fn never_offered(&mut self, word: &str, steps: &mut Vec<Step>) {
        self.skipped.items += 1;
        if word.ends_with("_call") && !self.warned {
            self.warned = true;
            let text = format!("the provider ran {word}, which was not offered; it is left out");
            steps.push(Step::Warning(text));
        }
    }

    /// Gives out the calls, in the order of the output.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        for slot in &mut self.slots {
            let Kind::Call(kind) = slot.kind else {
                continue;
            };
            let call_id = slot.call_id.take().or_else(|| slot.provider_id.clone());
            let call_id = call_id.unwrap_or_else(|| format!("call_{}", (self.new_id)()));
            let mut arguments = std::mem::take(&mut slot.arguments);
            if kind == CallKind::Function && arguments.trim().is_empty() {
                "{}".clone_into(&mut arguments);
            }
            let name = slot.name.take().unwrap_or_default();
            let raw = slot.raw.take();
            let raw = raw.or_else(|| built_call(kind, &call_id, &name, &arguments));
            // Building a JSON object of texts does not fail.
            let Some(raw) = raw else { continue };
            calls.push(Call {
                call_id,
                name,
                arguments,
                kind,
                place: slot.place,
                raw,
            });
        }
        calls.sort_by_key(|call| call.place);
        calls
    }
}

fn built_message(slot: &Slot) -> Option<Box<RawValue>> {
    let mut message = json!({
        "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": slot.text(), "annotations": []}],
    });
    if let Some(phase) = &slot.phase {
        message["phase"] = json!(phase);
    }
    to_raw_value(&message).ok()
}

fn built_call(kind: CallKind, call_id: &str, name: &str, arguments: &str) -> Option<Box<RawValue>> {
    let call = match kind {
        CallKind::Function => json!({
            "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments,
        }),
        CallKind::Custom => json!({
            "type": "custom_tool_call", "call_id": call_id, "name": name, "input": arguments,
        }),
    };
    to_raw_value(&call).ok()
}
