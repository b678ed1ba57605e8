//! What deltas and the ends of texts add to an item.
//!
//! The invariant here: a delta that says nothing opens nothing; the end of a text replaces what its
//! deltas added up to, unless it is empty.
//!
//! The end of the item itself is in `complete`.

use turnlane_protocol::ids::ItemId;

use super::assemble::Assembler;
use super::slot::Kind;
use super::step::{Step, StreamError};
use super::wire::{self, EventWire, Part, Raw};

impl<F: FnMut() -> ItemId> Assembler<F> {
    pub(super) fn text_delta(
        &mut self,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some((at, delta)) = self.grow(Kind::Message, event, steps)? else {
            return Ok(());
        };
        let content_index = wire::index(event.content_index).unwrap_or(0);
        let slot = &mut self.slots[at];
        slot.content
            .entry(content_index)
            .or_default()
            .push_str(&delta);
        steps.extend(
            slot.item_id
                .clone()
                .map(|item_id| Step::TextDelta { item_id, delta }),
        );
        Ok(())
    }

    pub(super) fn summary_delta(
        &mut self,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some((at, delta)) = self.grow(Kind::Reasoning, event, steps)? else {
            return Ok(());
        };
        let index = wire::index(event.summary_index).unwrap_or(0);
        let slot = &mut self.slots[at];
        slot.summary.entry(index).or_default().push_str(&delta);
        let shown = slot.item_id.clone();
        steps.extend(shown.map(|item_id| Step::ReasoningSummaryDelta {
            item_id,
            summary_index: signed(index),
            delta,
        }));
        Ok(())
    }

    pub(super) fn thought_delta(
        &mut self,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some((at, delta)) = self.grow(Kind::Reasoning, event, steps)? else {
            return Ok(());
        };
        let index = wire::index(event.content_index).unwrap_or(0);
        let slot = &mut self.slots[at];
        slot.content.entry(index).or_default().push_str(&delta);
        let shown = slot.item_id.clone();
        steps.extend(shown.map(|item_id| Step::ReasoningTextDelta {
            item_id,
            content_index: signed(index),
            delta,
        }));
        Ok(())
    }

    pub(super) fn summary_part_added(
        &mut self,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some(at) = self.reach(Kind::Reasoning, event, steps)? else {
            return Ok(());
        };
        let summary_index = signed(wire::index(event.summary_index).unwrap_or(0));
        let shown = self.slots[at].item_id.clone().filter(|_| summary_index > 0);
        steps.extend(shown.map(|item_id| Step::ReasoningSummaryPartAdded {
            item_id,
            summary_index,
        }));
        Ok(())
    }

    /// Replaces one text of a message or of thoughts; opens the item in any case.
    pub(super) fn text_done(
        &mut self,
        kind: Kind,
        event: &EventWire<'_>,
        said: Raw<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some(at) = self.reach(kind, event, steps)? else {
            return Ok(());
        };
        let content_index = wire::index(event.content_index).unwrap_or(0);
        if let Some(text) = wire::text(said).filter(|text| !text.is_empty()) {
            self.slots[at].content.insert(content_index, text);
        }
        Ok(())
    }

    pub(super) fn summary_done(
        &mut self,
        event: &EventWire<'_>,
        said: Raw<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some(at) = self.reach(Kind::Reasoning, event, steps)? else {
            return Ok(());
        };
        let index = wire::index(event.summary_index).unwrap_or(0);
        if let Some(text) = wire::text(said).filter(|text| !text.is_empty()) {
            self.slots[at].summary.insert(index, text);
        }
        Ok(())
    }

    pub(super) fn arguments_delta(
        &mut self,
        kind: Kind,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        if let Some((at, delta)) = self.grow(kind, event, steps)? {
            let slot = &mut self.slots[at];
            if !slot.arguments_done {
                slot.arguments.push_str(&delta);
            }
        }
        Ok(())
    }

    pub(super) fn arguments_done(
        &mut self,
        kind: Kind,
        event: &EventWire<'_>,
        said: Raw<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let Some(at) = self.reach(kind, event, steps)? else {
            return Ok(());
        };
        let slot = &mut self.slots[at];
        slot.name = slot.name.take().or_else(|| wire::word(event.name));
        if let Some(said) = wire::arguments(said).filter(|said| !said.trim().is_empty()) {
            slot.arguments = said;
            slot.arguments_done = true;
        }
        Ok(())
    }

    /// A part of a message or of thoughts.
    ///
    /// What a part begins with comes again as deltas, so only its end `says` something.
    pub(super) fn part(
        &mut self,
        event: &EventWire<'_>,
        says: Raw<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let part = event.part.and_then(Part::read);
        let owner = if part.is_some_and(|part| part.is_reasoning()) {
            Kind::Reasoning
        } else {
            Kind::Message
        };
        self.text_done(owner, event, says, steps)
    }

    /// The slot a delta adds to, and what it adds; none if that is nothing or too late.
    fn grow(
        &mut self,
        kind: Kind,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Option<(usize, String)>, StreamError> {
        let Some(delta) = wire::text(event.delta).filter(|delta| !delta.is_empty()) else {
            self.skipped.events += 1;
            return Ok(None);
        };
        let at = self.reach(kind, event, steps)?;
        Ok(at.map(|at| (at, delta)))
    }
}

/// An index as the protocol writes it.
fn signed(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
