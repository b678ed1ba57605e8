//! Events for the orchestrator: a name, its fields, and which clients get it.
//!
//! The invariant here: an event of dialect v1 carries only names of the v1 table; events of v2 reach only
//! clients that said `Hello`.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::cut;
use crate::state::TurnEnd;

/// Which clients get an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All.
    Everyone,
    /// Those that opened dialect v2.
    V2,
    /// Those of them that asked for items.
    Items,
}

/// What becomes of an event for a client that does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It is kept.
    Lossless,
    /// It repeats what a later one says and may be left out.
    Repeating,
}

/// The place of an event in the stream of one shim process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) seq: u64,
    pub(crate) unix_ms: i64,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) fields: Map<String, Value>,
    pub(crate) reach: Reach,
    pub(crate) weight: Weight,
    /// The turn whose terminal receipt this is.
    pub(crate) ends_turn: Option<String>,
    /// The thread of that turn, where it is not the present one of the lane.
    pub(crate) former_thread: Option<String>,
    /// Where the whole response can be read, should it be cut.
    pub(crate) whole: Option<String>,
}

impl Event {
    /// An event of dialect v1.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: Map::new(),
            reach: Reach::Everyone,
            weight: Weight::Lossless,
            ends_turn: None,
            former_thread: None,
            whole: None,
        }
    }

    /// An event of dialect v2.
    pub(crate) fn v2(name: &'static str) -> Self {
        Self {
            reach: Reach::V2,
            ..Self::new(name)
        }
    }

    /// The same with one more field.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The same with one more field, if there is a value.
    #[must_use]
    pub(crate) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The same as the terminal receipt of a turn.
    #[must_use]
    pub(crate) fn ending(mut self, end: &TurnEnd) -> Self {
        self.ends_turn = Some(end.turn.clone());
        self.former_thread.clone_from(&end.former_thread);
        self
    }

    /// The same, left out for a client that does not read.
    #[must_use]
    pub(crate) fn repeating(mut self) -> Self {
        self.weight = Weight::Repeating;
        self
    }

    /// The text of a field; for tests and logs.
    #[cfg(test)]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The JSON of the event in at most `bytes_max` bytes.
    pub(crate) fn encode(&self, stamp: Option<Stamp>, bytes_max: usize) -> Bytes {
        let mut fields = self.fields.clone();
        fields.insert("event".to_owned(), self.name.into());
        if let Some(stamp) = stamp {
            fields.insert("seq".to_owned(), stamp.seq.into());
            fields.insert("ts".to_owned(), stamp.unix_ms.into());
        }
        cut::encode(fields, self.whole.as_deref(), bytes_max)
    }
}
