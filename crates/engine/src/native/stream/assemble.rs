//! The table of events, and the beginning and end of items.
//!
//! The invariant here: an event finds a slot of its own kind or opens one; it never writes into
//! another kind of item, and never into one that is done.
//!
//! Slots are found in `locate`, filled in `grow` and ended in `complete`; responses end in
//! `terminal`.

use std::fmt;

use turnlane_protocol::ids::ItemId;

use super::locate::{Address, differ};
use super::slot::{Kind, Said, Slot};
use super::step::{CallKind, Step, StreamError};
use super::wire::{self, EventWire, ItemWire, ResponseWire};
use crate::native::sse::SseEvent;

/// The most output items of one response, so that finding one stays cheap.
pub const ITEMS_MAX: usize = 1_024;

/// What was left out of a response, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Events that mean nothing here, or lack what they are about.
    pub events: u64,
    /// Events whose data is not a JSON object.
    pub not_json: u64,
    /// Events after the terminal one.
    pub late: u64,
    /// Output items of a type that is neither shown nor run.
    pub items: u64,
}

/// Makes steps out of the events of one response; see the [module](super).
pub struct Assembler<F> {
    pub(super) new_id: F,
    /// In the order of opening.
    pub(super) slots: Vec<Slot>,
    pub(super) response_id: Option<String>,
    pub(super) over: bool,
    pub(super) warned: bool,
    pub(super) skipped: Skipped,
}

impl<F: FnMut() -> ItemId> Assembler<F> {
    /// An assembler for one response; `new_id` names its items, and calls that have no name.
    pub fn new(new_id: F) -> Self {
        Self {
            new_id,
            slots: Vec::new(),
            response_id: None,
            over: false,
            warned: false,
            skipped: Skipped::default(),
        }
    }

    /// The provider's id of the response, once it was said.
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// What was left out so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Whether the terminal event has come; further events are ignored.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Takes one event and appends what it does.
    pub fn event(&mut self, event: &SseEvent, steps: &mut Vec<Step>) -> Result<(), StreamError> {
        if self.over {
            self.skipped.late += 1;
            return Ok(());
        }
        let Some(read) = wire::object::<EventWire<'_>>(&event.data) else {
            self.skipped.not_json += 1;
            return Ok(());
        };
        let kind = wire::word(read.r#type).or_else(|| event.name.clone());
        // Some servers write a bare text; without a type it cannot be anything else.
        let names_error = |error: &serde_json::value::RawValue| {
            error.get().starts_with('{') || (kind.is_none() && error.get().starts_with('"'))
        };
        if read.error.is_some_and(names_error) {
            self.failed(&read, &event.data, steps);
            return Ok(());
        }
        self.known(
            kind.as_deref().unwrap_or_default(),
            &read,
            &event.data,
            steps,
        )
    }

    /// The table of events.
    fn known(
        &mut self,
        kind: &str,
        event: &EventWire<'_>,
        data: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let (function, custom) = (Kind::Call(CallKind::Function), Kind::Call(CallKind::Custom));
        match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.remember_id(&ResponseWire::read(event.response));
                Ok(())
            }
            "response.output_item.added" => self.added(event, steps),
            "response.output_item.done" => self.done(event, steps),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text_delta(event, steps)
            }
            "response.output_text.done" => self.text_done(Kind::Message, event, event.text, steps),
            "response.refusal.done" => {
                self.text_done(Kind::Message, event, event.refusal.or(event.text), steps)
            }
            "response.content_part.added" => self.part(event, None, steps),
            "response.content_part.done" => self.part(event, event.part, steps),
            "response.reasoning_summary_part.added" => self.summary_part_added(event, steps),
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                self.summary_delta(event, steps)
            }
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => {
                self.summary_done(event, event.text, steps)
            }
            "response.reasoning_summary_part.done" => self.summary_done(event, event.part, steps),
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.thought_delta(event, steps)
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                self.text_done(Kind::Reasoning, event, event.text, steps)
            }
            "response.function_call_arguments.delta" => {
                self.arguments_delta(function, event, steps)
            }
            "response.custom_tool_call_input.delta" => self.arguments_delta(custom, event, steps),
            "response.function_call_arguments.done" => {
                self.arguments_done(function, event, event.arguments, steps)
            }
            "response.custom_tool_call_input.done" => {
                self.arguments_done(custom, event, event.input, steps)
            }
            "response.completed" | "response.done" => self.completed(event, data, steps),
            "response.incomplete" => self.incomplete(&ResponseWire::read(event.response), steps),
            "response.failed" | "response.cancelled" | "error" => {
                self.failed(event, data, steps);
                Ok(())
            }
            _ => {
                self.skipped.events += 1;
                Ok(())
            }
        }
    }

    pub(super) fn remember_id(&mut self, response: &ResponseWire<'_>) {
        self.response_id = wire::word(response.id).or_else(|| self.response_id.take());
    }

    fn added(&mut self, event: &EventWire<'_>, steps: &mut Vec<Step>) -> Result<(), StreamError> {
        let Some(item) = event.item.and_then(ItemWire::read) else {
            self.skipped.events += 1;
            return Ok(());
        };
        let kind = Kind::of(&item);
        let address = Address::of_item(event, &item);
        // An item announced before is announced again only under the same name; else it is another.
        let again = |slot: &Slot| {
            let named = address.index.is_some() || address.id.is_some();
            !slot.announced || (named && slot.provider_id == address.id)
        };
        let found = self.find(&kind, &address);
        let found = found.filter(|&at| again(&self.slots[at]));
        let at = match found {
            Some(at) => at,
            None => self.open(kind, address.index)?,
        };
        let slot = &mut self.slots[at];
        slot.announced = true;
        if !slot.done {
            slot.learn(&item);
            self.announce(at, steps);
        }
        Ok(())
    }

    fn done(&mut self, event: &EventWire<'_>, steps: &mut Vec<Step>) -> Result<(), StreamError> {
        let Some(item) = event.item.and_then(ItemWire::read) else {
            self.skipped.events += 1;
            return Ok(());
        };
        let kind = Kind::of(&item);
        let address = Address::of_item(event, &item);
        let found = self.find(&kind, &address).or_else(|| {
            // Without a name only its words tell whether an item is done again.
            let nameless = address.index.is_none() && address.id.is_none();
            let last = self.slots.iter().rposition(|slot| slot.kind == kind)?;
            (nameless && self.slots[last].says_the_same(&Said::of(&item))).then_some(last)
        });
        let found = found.filter(|&at| {
            let slot = &self.slots[at];
            let other = differ(slot.provider_id.as_ref(), address.id.as_ref());
            !(slot.done && other) || slot.says_the_same(&Said::of(&item))
        });
        let at = match found {
            Some(at) => at,
            None => self.open(kind, address.index)?,
        };
        self.complete(at, Some(&item), steps);
        Ok(())
    }
}

impl<F> fmt::Debug for Assembler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembler")
            .field("slots", &self.slots)
            .field("over", &self.over)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}
