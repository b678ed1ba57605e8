//! Which item an event means.
//!
//! The invariant here: by `output_index`; missing: by the provider's item id; missing: the item
//! opened last. Always an item of the kind the event speaks of, because some servers count wrong.
//!
//! What the event does to the item is not known here.

use turnlane_protocol::ids::ItemId;

use super::assemble::{Assembler, ITEMS_MAX};
use super::slot::{Kind, Slot};
use super::step::{Step, StreamError};
use super::wire::{self, EventWire, ItemWire};

/// What an event says about which item it means.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
}

impl<F: FnMut() -> ItemId> Assembler<F> {
    /// The slot an event is about, opened if need be; none if it is done already.
    pub(super) fn reach(
        &mut self,
        kind: Kind,
        event: &EventWire<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Option<usize>, StreamError> {
        let address = Address::of_event(event);
        if let Some(at) = self.find(&kind, &address) {
            return Ok((!self.slots[at].done).then_some(at));
        }
        let at = self.open(kind, address.index)?;
        self.slots[at].provider_id = address.id;
        self.announce(at, steps);
        Ok(Some(at))
    }

    /// By index; missing: by item id; missing: the item opened last. Never another kind of item.
    pub(super) fn find(&self, kind: &Kind, address: &Address) -> Option<usize> {
        let last = |wanted: &dyn Fn(&Slot) -> bool| {
            let of_kind = |slot: &Slot| slot.kind == *kind && wanted(slot);
            self.slots.iter().rposition(of_kind)
        };
        match address {
            Address {
                index: Some(index),
                id,
            } => last(&|slot| slot.index == Some(*index))
                .or_else(|| {
                    last(&|slot| slot.index.is_none() && id.is_some() && slot.provider_id == *id)
                })
                .or_else(|| {
                    last(&|slot| {
                        let other = differ(slot.provider_id.as_ref(), id.as_ref());
                        slot.index.is_none() && slot.place == *index && !other
                    })
                }),
            Address {
                index: None,
                id: Some(id),
            } => last(&|slot| slot.provider_id.as_ref() == Some(id))
                .or_else(|| last(&|slot| !slot.done && slot.provider_id.is_none())),
            Address {
                index: None,
                id: None,
            } => last(&|slot| !slot.done),
        }
    }

    /// Makes room for another item.
    pub(super) fn open(&mut self, kind: Kind, index: Option<u64>) -> Result<usize, StreamError> {
        if self.slots.len() == ITEMS_MAX {
            return Err(StreamError::TooManyItems {
                items_max: ITEMS_MAX,
            });
        }
        let behind = self
            .slots
            .iter()
            .map(|slot| slot.place.saturating_add(1))
            .max();
        let place = index.or(behind).unwrap_or(0);
        self.slots.push(Slot::new(kind, index, place));
        Ok(self.slots.len() - 1)
    }

    /// Shows that a message or reasoning began; the others are shown when they are done, or never.
    pub(super) fn announce(&mut self, at: usize, steps: &mut Vec<Step>) {
        if let Some(body) = self.slots[at].body() {
            self.opened(at, body, steps);
        }
    }
}

impl Address {
    pub(super) fn of_event(event: &EventWire<'_>) -> Self {
        Self {
            index: wire::index(event.output_index),
            id: wire::word(event.item_id),
        }
    }

    pub(super) fn of_item(event: &EventWire<'_>, item: &ItemWire<'_>) -> Self {
        let address = Self::of_event(event);
        Self {
            id: wire::word(item.id).or(address.id),
            ..address
        }
    }
}

/// Whether both are known and are not the same.
pub(super) fn differ(known: Option<&String>, said: Option<&String>) -> bool {
    known.zip(said).is_some_and(|(known, said)| known != said)
}
