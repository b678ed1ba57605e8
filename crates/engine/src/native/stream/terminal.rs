//! The end of a response, and of one that has none.
//!
//! The invariant here: at the end every item is accounted for, in the order of the output: done
//! before, done by the response's own `output`, or done with what arrived. Calls leave only with a
//! response that completed.
//!
//! Whether a failed response is tried again is decided by the turn loop.

use serde_json::value::{RawValue, to_raw_value};
use turnlane_protocol::ids::ItemId;

use super::assemble::Assembler;
use super::slot::{Kind, Said};
use super::step::{Step, StreamError, Terminal};
use super::wire::{self, EventWire, ItemWire, ResponseWire};

impl<F: FnMut() -> ItemId> Assembler<F> {
    /// Takes a response that came whole, and appends everything it does.
    pub fn whole(&mut self, json: &str, steps: &mut Vec<Step>) -> Result<(), StreamError> {
        let Some(response) = wire::object::<ResponseWire<'_>>(json) else {
            return Err(StreamError::NotAResponse);
        };
        let status = wire::word(response.status);
        match status.as_deref() {
            _ if response.error.is_some() => {
                self.fail(
                    &response,
                    response.error.map(ToOwned::to_owned),
                    json,
                    steps,
                );
                Ok(())
            }
            Some("failed" | "cancelled") => {
                self.fail(&response, None, json, steps);
                Ok(())
            }
            Some("incomplete") => self.incomplete(&response, steps),
            // Nobody will say how these went on.
            Some("in_progress" | "queued") => Err(StreamError::Cut),
            None if response.output.is_none() => Err(StreamError::NotAResponse),
            Some(_) | None => self.complete_all(&response, steps),
        }
    }

    /// Takes the end of the stream; an error if the terminal event has not come.
    pub fn finish(&self) -> Result<(), StreamError> {
        if self.over {
            Ok(())
        } else {
            Err(StreamError::Cut)
        }
    }

    /// Ends every item that is still open with what arrived; called twice it does nothing more.
    ///
    /// For a response that failed, was cut or was interrupted.
    pub fn abandon(&mut self, steps: &mut Vec<Step>) {
        self.over = true;
        for slot in &mut self.slots {
            if std::mem::replace(&mut slot.done, true) {
                continue;
            }
            if let (Some(item_id), Some(body)) = (slot.item_id.clone(), slot.body()) {
                steps.push(Step::LeftOpen { item_id, body });
            }
        }
    }

    /// `response.completed`, unless the response says otherwise of itself.
    pub(super) fn completed(
        &mut self,
        event: &EventWire<'_>,
        data: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let response = ResponseWire::read(event.response);
        match wire::word(response.status).as_deref() {
            Some("failed" | "cancelled") => {
                self.failed(event, data, steps);
                Ok(())
            }
            Some("incomplete") => self.incomplete(&response, steps),
            Some(_) | None => self.complete_all(&response, steps),
        }
    }

    fn complete_all(
        &mut self,
        response: &ResponseWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        self.settle(response, steps)?;
        steps.extend(self.calls().into_iter().map(Step::Call));
        let end_turn = response.end_turn;
        let end_turn = end_turn.and_then(|raw| serde_json::from_str(raw.get()).ok());
        self.end(response, Terminal::Completed { end_turn }, steps);
        Ok(())
    }

    /// `response.incomplete`: the text counts, the calls do not.
    pub(super) fn incomplete(
        &mut self,
        response: &ResponseWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        self.settle(response, steps)?;
        let reason = response.incomplete_reason();
        let terminal = Terminal::Incomplete {
            reason: reason.unwrap_or_else(|| "unknown".to_owned()),
            calls_dropped: self.calls().len(),
        };
        self.end(response, terminal, steps);
        Ok(())
    }

    /// The error of the response, else of the event, else the event itself.
    pub(super) fn failed(&mut self, event: &EventWire<'_>, data: &str, steps: &mut Vec<Step>) {
        let response = ResponseWire::read(event.response);
        let error = response.error.or(event.error).map(ToOwned::to_owned);
        self.fail(&response, error, data, steps);
    }

    /// Fails with this error; without one, with everything that was said.
    fn fail(
        &mut self,
        response: &ResponseWire<'_>,
        error: Option<Box<RawValue>>,
        said: &str,
        steps: &mut Vec<Step>,
    ) {
        let itself = || RawValue::from_string(said.to_owned()).ok();
        let error = error.or_else(itself).or_else(|| to_raw_value(said).ok());
        let error = error.unwrap_or_default();
        self.end(response, Terminal::Failed { error }, steps);
    }

    fn end(&mut self, response: &ResponseWire<'_>, terminal: Terminal, steps: &mut Vec<Step>) {
        self.over = true;
        self.remember_id(response);
        steps.extend(wire::usage(response.usage).map(Step::Usage));
        steps.push(Step::Terminal(terminal));
    }

    /// Ends every item that is not done, in the order of the output.
    fn settle(
        &mut self,
        response: &ResponseWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), StreamError> {
        let streamed = self.slots.len();
        let mut finals: Vec<Option<ItemWire<'_>>> = vec![None; streamed];
        for (position, raw) in (0..).zip(response.items()) {
            let Some(item) = ItemWire::read(raw) else {
                self.skipped.items += 1;
                continue;
            };
            if let Some(at) = self.slot_of(position, &item, &finals) {
                finals[at] = Some(item);
            } else {
                self.open(Kind::of(&item), Some(position))?;
                finals.push(Some(item));
            }
        }
        let mut order: Vec<usize> = (0..finals.len()).collect();
        // The sort is stable: items at one place stay in the order of opening.
        order.sort_by_key(|&at| self.slots[at].place);
        for at in order {
            self.complete(at, finals[at].as_ref(), steps);
        }
        Ok(())
    }

    /// The slot that an item of the final output was streamed into.
    ///
    /// By the provider's id, else by its words, else by its position: some providers leave items
    /// out of the output or give them new ids there, and a call must not be run twice for that.
    fn slot_of(
        &self,
        position: u64,
        item: &ItemWire<'_>,
        finals: &[Option<ItemWire<'_>>],
    ) -> Option<usize> {
        let kind = Kind::of(item);
        let (id, said) = (wire::word(item.id), Said::of(item));
        let free = |at: usize| self.slots[at].kind == kind && finals[at].is_none();
        let same = |at: usize| self.slots[at].done && self.slots[at].says_the_same(&said);
        let slots = || (0..finals.len()).filter(|&at| free(at));
        slots()
            .find(|&at| id.is_some() && self.slots[at].provider_id == id)
            .or_else(|| slots().find(|&at| same(at)))
            .or_else(|| slots().find(|&at| self.slots[at].place == position))
    }
}
