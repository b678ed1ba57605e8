//! Which items of a turn were announced to a stream.
//!
//! The invariant here: the first delta of an item whose beginning was not seen is preceded by a
//! marker, once. It says that there was text before it, which the item's end will carry.

use std::collections::HashSet;

use crate::event::EventBody;

/// How many open items are remembered. Beyond it all are forgotten, and items that are still open
/// get a marker that they would not need.
const OPEN_ITEMS_MAX: usize = 4_096;

/// The open items of one turn that its stream knows of.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    open: HashSet<String>,
}

impl Announced {
    /// Takes note of an event of the turn; true when a gap of unknown length must be told before it.
    pub(crate) fn gap_before(&mut self, body: &EventBody) -> bool {
        match body {
            EventBody::ItemStarted(item) => {
                self.open(item.id.as_str());
                false
            }
            EventBody::ItemCompleted(item) => {
                self.open.remove(item.id.as_str());
                false
            }
            EventBody::Delta(delta) => self.open(&delta.item),
            _ => false,
        }
    }

    /// Remembers an item; whether it is new.
    fn open(&mut self, item: &str) -> bool {
        if self.open.contains(item) {
            return false;
        }
        if self.open.len() >= OPEN_ITEMS_MAX {
            self.open.clear();
        }
        self.open.insert(item.to_owned())
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.open.len()
    }
}
