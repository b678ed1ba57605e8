//! The clients of a shim, and the one stream of events that all of them get.
//!
//! The invariant here: events are numbered without gaps within one shim process, and every client gets
//! those of its dialect in that order. Answers to one client are no part of the stream: they carry the
//! number of the last event before them.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::channel::Connection;
use crate::options::Clock;
use crate::wire::{Cursor, Event, Reach, Stamp, Weight};

/// Events that a client that comes back can be told.
const KEPT_MAX: usize = 10_000;
/// The same in bytes of JSON. Half of what an outbox holds: a client that comes back gets all of them at
/// once and must not be disconnected for it.
const KEPT_BYTES_MAX: usize = 4 * 1_048_576;

/// A client.
#[derive(Debug)]
struct Client {
    connection: Connection,
    dialect: Dialect,
}

/// What a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1,
    V2 { items: bool },
}

/// The clients and the stream.
pub(crate) struct Hub {
    clients: BTreeMap<u64, Client>,
    clock: Clock,
    epoch: String,
    seq: u64,
    kept: VecDeque<(Stamp, Event, usize)>,
    kept_bytes: usize,
}

/// A frame of a client that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) client: u64,
    pub(crate) number: u64,
}

/// How a client that opened dialect v2 gets what it missed.
#[derive(Debug)]
pub(crate) enum Welcomed {
    /// By `Welcome`, which has the last receipts.
    Snapshot(Option<Written>),
    /// By the events after its cursor: their numbers and frames.
    Replay(Vec<(u64, Written)>),
}

impl Hub {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clients: BTreeMap::new(),
            clock,
            epoch: uuid::Uuid::now_v7().to_string(),
            seq: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, connection: Connection) {
        let client = Client {
            connection,
            dialect: Dialect::V1,
        };
        self.clients.insert(client.connection.id, client);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(client) = self.clients.remove(&id) {
            client.connection.outbox.close();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(crate) fn dialect(&self, id: u64) -> Dialect {
        self.clients
            .get(&id)
            .map_or(Dialect::V1, |client| client.dialect)
    }

    /// Tells all clients; the number of the event, and the frames that carry it.
    pub(crate) fn tell(&mut self, event: &Event) -> (u64, Vec<Written>) {
        // Items go only to clients that asked for them, so they have no number of their own: the others
        // would see gaps.
        let is_numbered = event.reach != Reach::Items;
        self.seq += u64::from(is_numbered);
        let stamp = Stamp {
            seq: self.seq,
            unix_ms: (self.clock)(),
        };
        let clients = self.clients.values();
        let frames = clients.filter_map(|client| client.put(event, stamp));
        let frames = frames.collect();
        if is_numbered {
            self.keep(stamp, event);
        }
        (self.seq, frames)
    }

    fn keep(&mut self, stamp: Stamp, event: &Event) {
        let bytes: usize = event.fields.values().map(size).sum();
        self.kept_bytes += bytes;
        self.kept.push_back((stamp, event.clone(), bytes));
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let Some((_, _, bytes)) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
        }
    }

    /// Answers one client; the frame of the answer.
    pub(crate) fn answer(&self, id: u64, event: &Event) -> Option<Written> {
        let stamp = Stamp {
            seq: self.seq,
            unix_ms: (self.clock)(),
        };
        self.clients.get(&id)?.put(event, stamp)
    }

    /// Opens dialect v2 for a client: `Welcome`, and the events after its cursor or `Resync`.
    pub(crate) fn welcome(
        &mut self,
        id: u64,
        items: bool,
        since: Option<&Cursor>,
        welcome: Event,
    ) -> Welcomed {
        if let Some(client) = self.clients.get_mut(&id) {
            client.dialect = Dialect::V2 { items };
        }
        let welcome = welcome
            .with("version", 2)
            .with("epoch", self.epoch.as_str());
        let snapshot = Welcomed::Snapshot(self.answer(id, &welcome));
        let Some(since) = since else {
            return snapshot;
        };
        let first = self
            .kept
            .front()
            .map_or(self.seq + 1, |(stamp, ..)| stamp.seq);
        let is_known = since.epoch == self.epoch && since.seq + 1 >= first && since.seq <= self.seq;
        if !is_known {
            let resync = Event::v2("Resync")
                .with("epoch", self.epoch.as_str())
                .with("seq", self.seq);
            self.answer(id, &resync);
            return snapshot;
        }
        let client = self.clients.get(&id);
        let missed = self.kept.iter().filter(|(stamp, ..)| stamp.seq > since.seq);
        let put = |(stamp, event, _): &(Stamp, Event, usize)| {
            Some((stamp.seq, client?.put(event, *stamp)?))
        };
        Welcomed::Replay(missed.filter_map(put).collect())
    }

    /// How many frames of a client were written.
    pub(crate) fn written(&self, client: u64) -> Option<u64> {
        let client = self.clients.get(&client)?;
        Some(client.connection.outbox.written_count())
    }

    /// The connections, for the last flush.
    pub(crate) fn into_connections(self) -> Vec<Connection> {
        let clients = self.clients.into_values();
        clients.map(|client| client.connection).collect()
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.clients.values().map(|client| &client.connection)
    }
}

impl Client {
    fn put(&self, event: &Event, stamp: Stamp) -> Option<Written> {
        let (reaches, stamp) = match (self.dialect, event.reach) {
            (Dialect::V1, Reach::Everyone) => (true, None),
            (Dialect::V1, Reach::V2 | Reach::Items)
            | (Dialect::V2 { items: false }, Reach::Items) => (false, None),
            (Dialect::V2 { .. }, _) => (true, Some(stamp)),
        };
        if !reaches {
            return None;
        }
        let Connection {
            outbox,
            frame_bytes_max,
            ..
        } = &self.connection;
        let weight = match event.weight {
            // A number that is missing would be taken for a loss.
            Weight::Repeating if stamp.is_some() => Weight::Lossless,
            weight => weight,
        };
        let number = outbox.put(event.encode(stamp, *frame_bytes_max), weight)?;
        Some(Written {
            client: self.connection.id,
            number,
        })
    }
}

/// About how long a value is as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 16,
        Value::Object(_) | Value::Array(_) => value.to_string().len() + 16,
        _ => 24,
    }
}
