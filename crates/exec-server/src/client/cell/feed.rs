//! What the one lossless reader of a process has not taken yet.
//!
//! The invariant here: the queue is an unbroken continuation of what was taken. When it is full, it
//! takes no more ([`Feed::behind`]) and only the sizes of what goes by are noted; the reader then
//! gets the rest from where it is kept, and when it has caught up the queue goes on.
//!
//! It waits from the start: what comes between a start and the question for its output, which a busy
//! program may put late, is not lost to the reader.

use std::collections::VecDeque;

use super::Told;
use crate::client::output::sizes::{Missing, Sizes};

/// What waits for a reader, also for one that has not come yet.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest event there is.
const EVENT_BYTES_MAX: usize = 64 * 1024 + EVENT_BYTES;
/// What an event costs besides its bytes.
const EVENT_BYTES: usize = 64;

/// One step of the stream.
#[derive(Debug)]
pub(in crate::client) enum Item {
    Told(Told),
    /// Known to be lost already.
    Missing(Missing),
}

#[derive(Debug, Default)]
pub(in crate::client) struct Feed {
    queue: VecDeque<(u64, Item)>,
    bytes: usize,
    pub(in crate::client) behind: Option<Sizes>,
    reader: Reader,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    #[default]
    Expected,
    There,
    Gone,
}

impl Feed {
    /// Adds the step that leads up to `seq`.
    pub(super) fn push(&mut self, seq: u64, item: Item) {
        if self.reader == Reader::Gone {
            return;
        }
        let cost = cost(&item);
        let fits = self.bytes + cost <= WAITING_BYTES_MAX || self.queue.is_empty();
        if self.behind.is_none() && fits {
            self.bytes += cost;
            self.queue.push_back((seq, item));
            return;
        }
        let sizes = self.behind.get_or_insert_default();
        match item {
            Item::Told(Told::Output { bytes, .. }) => sizes.push(Missing {
                events: 1,
                bytes: bytes.len() as u64,
            }),
            Item::Told(Told::Exited(_) | Told::Closed { .. }) => sizes.push_mark(),
            Item::Missing(missing) => sizes.push(missing),
        }
    }

    pub(in crate::client) fn pop(&mut self) -> Option<(u64, Item)> {
        let (seq, item) = self.queue.pop_front()?;
        self.bytes -= cost(&item);
        Some((seq, item))
    }

    /// Gives the stream to its one reader; false if it was given before.
    pub(in crate::client) fn take(&mut self) -> bool {
        let first = self.reader == Reader::Expected;
        if first {
            self.reader = Reader::There;
        }
        first
    }

    /// The reader is gone, nobody will follow.
    pub(in crate::client) fn abandon(&mut self) {
        *self = Self {
            reader: Reader::Gone,
            ..Self::default()
        };
    }

    /// Whether a reader is there and another event might be too much for it.
    pub(in crate::client) fn is_full(&self) -> bool {
        let has_room = self.bytes + EVENT_BYTES_MAX <= WAITING_BYTES_MAX;
        self.reader == Reader::There && (self.behind.is_some() || !has_room)
    }
}

fn cost(item: &Item) -> usize {
    let bytes = match item {
        Item::Told(told) => told.len(),
        Item::Missing(_) => 0,
    };
    bytes + EVENT_BYTES
}
