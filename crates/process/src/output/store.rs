//! The store of one process: its number line, its delivered position, what is kept.
//!
//! Two promises: what was not delivered is never evicted, and what is kept never costs more than the
//! cap or what is undelivered, whichever is more, plus the head. 1/8 of the cap is for the first
//! bytes (half of it for each stream of a process with pipes), the rest for the last ones. When that
//! is full, the oldest delivered chunk goes of the stream that holds more, so that a loud standard
//! output cannot push out the standard error.
//!
//! A chunk that does not fit into the rest of a head is put in as two, each with a number: parts of
//! one number could not be kept apart.

use bytes::Bytes;

use super::stream::{CHUNK_CHARGE, Chunk, Stream};
use crate::event::{Event, Page, StreamName};
use crate::snapshot::StreamSnapshot;
use crate::spec::{Delivery, Io};
use crate::status::ExitStatus;

#[derive(Debug)]
pub(crate) struct Store {
    /// Standard output and standard error, or the terminal alone.
    streams: Vec<Stream>,
    tail_max: usize,
    tail_charge: usize,
    next_seq: u64,
    delivered: u64,
    undelivered_bytes: usize,
    undelivered_chunks: usize,
    /// The newest output.
    last_output: u64,
    /// The newest number that is no longer there.
    last_evicted: u64,
    /// Everything counts as delivered at once.
    retains: bool,
    /// Output is not even numbered. Only a terminal is read for that; pipes are not made.
    discards: bool,
    exited: Option<(u64, ExitStatus)>,
    closed: Option<(u64, bool)>,
}

/// What is kept of one stream, to be joined by whoever wants it outside of a lock.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    head: Vec<Bytes>,
    tail: Vec<Bytes>,
    total: u64,
    omitted: u64,
}

impl Picture {
    pub(crate) fn join(self) -> StreamSnapshot {
        StreamSnapshot {
            head: joined(self.head),
            tail: joined(self.tail),
            total_bytes: self.total,
            omitted_bytes: self.omitted,
        }
    }
}

fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() < 2 {
        return parts.pop().unwrap_or_default();
    }
    let mut whole = Vec::with_capacity(parts.iter().map(Bytes::len).sum());
    for part in &parts {
        whole.extend_from_slice(part);
    }
    whole.into()
}

impl Store {
    pub(crate) fn new(io: Io, delivery: Delivery, cap: usize) -> Self {
        let head_max = cap / 8;
        let streams = match io {
            Io::Pipe { .. } => vec![
                Stream::new(StreamName::Stdout, head_max / 2),
                Stream::new(StreamName::Stderr, head_max / 2),
            ],
            Io::Pty(_) => vec![Stream::new(StreamName::Pty, head_max)],
        };
        Self {
            streams,
            tail_max: cap - head_max,
            tail_charge: 0,
            next_seq: 1,
            delivered: 0,
            undelivered_bytes: 0,
            undelivered_chunks: 0,
            last_output: 0,
            last_evicted: 0,
            retains: delivery == Delivery::Retain,
            discards: delivery == Delivery::Discard,
            exited: None,
            closed: None,
        }
    }

    /// Output that was read.
    pub(crate) fn push(&mut self, name: StreamName, mut bytes: Bytes) {
        debug_assert!(self.closed.is_none(), "nothing follows the close");
        if self.discards {
            return;
        }
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == name) else {
            debug_assert!(false, "the process has no such stream");
            return;
        };
        let head = bytes.split_to(stream.head_takes(bytes.len()));
        for (bytes, is_head) in [(head, true), (bytes, false)] {
            if bytes.is_empty() {
                continue;
            }
            let seq = self.next_seq;
            self.next_seq += 1;
            self.last_output = seq;
            self.undelivered_bytes += bytes.len();
            self.undelivered_chunks += 1;
            if is_head {
                stream.push_head(Chunk { seq, bytes });
            } else {
                self.tail_charge += bytes.len() + CHUNK_CHARGE;
                stream.push_tail(Chunk { seq, bytes });
            }
        }
        self.settle();
    }

    /// The leader ended.
    pub(crate) fn push_exited(&mut self, status: ExitStatus) {
        debug_assert!(self.exited.is_none(), "a leader ends once");
        self.exited = Some((self.next_seq, status));
        self.next_seq += 1;
        self.settle();
    }

    /// Every stream ended.
    pub(crate) fn push_closed(&mut self, drain_timed_out: bool) {
        debug_assert!(self.exited.is_some() && self.closed.is_none());
        self.closed = Some((self.next_seq, drain_timed_out));
        self.next_seq += 1;
        self.settle();
    }

    /// The first event after `position` that is still there.
    pub(crate) fn next_after(&self, position: u64) -> Option<Event> {
        let mut first: Option<(StreamName, &Chunk)> = None;
        for stream in &self.streams {
            if let Some(chunk) = stream.after(position).next()
                && first.is_none_or(|(_, other)| chunk.seq < other.seq)
            {
                first = Some((stream.name, chunk));
            }
        }
        let exited = self.exited.filter(|(seq, _)| *seq > position);
        match (first, exited) {
            (Some((stream, chunk)), exited) if exited.is_none_or(|(seq, _)| chunk.seq < seq) => {
                Some(Event::Output {
                    seq: chunk.seq,
                    stream,
                    bytes: chunk.bytes.clone(),
                })
            }
            (_, Some((seq, status))) => Some(Event::Exited { seq, status }),
            (_, None) => {
                let (seq, drain_timed_out) = self.closed.filter(|(seq, _)| *seq > position)?;
                Some(Event::Closed {
                    seq,
                    drain_timed_out,
                })
            }
        }
    }

    /// Everything up to `through` was delivered; never moves back, as [`Store::recall`] does.
    pub(crate) fn deliver(&mut self, through: u64) {
        let through = through.min(self.last_seq());
        if through <= self.delivered {
            return;
        }
        self.delivered = through;
        for stream in &mut self.streams {
            let delivered = stream.deliver(through);
            self.undelivered_bytes -= delivered.bytes;
            self.undelivered_chunks -= delivered.chunks;
        }
        self.evict();
    }

    /// What was delivered after `after` was not, and is kept until it is again; what was evicted
    /// cannot come back. The number after which everything is there.
    pub(crate) fn recall(&mut self, after: u64) -> u64 {
        let after = after.max(self.last_evicted);
        if self.retains || after >= self.delivered {
            return self.delivered;
        }
        self.delivered = after;
        for stream in &mut self.streams {
            let recalled = stream.recall(after);
            self.undelivered_bytes += recalled.bytes;
            self.undelivered_chunks += recalled.chunks;
        }
        after
    }

    /// From now on everything counts as delivered at once.
    pub(crate) fn retain(&mut self) {
        self.retains = true;
        self.settle();
    }

    fn settle(&mut self) {
        if self.retains {
            self.deliver(u64::MAX);
        }
        self.evict();
    }

    fn evict(&mut self) {
        while self.tail_charge > self.tail_max {
            let holds_more = self
                .streams
                .iter_mut()
                .max_by_key(|stream| stream.can_give());
            let Some((seq, charge)) = holds_more.and_then(Stream::evict) else {
                return;
            };
            self.tail_charge -= charge;
            self.last_evicted = self.last_evicted.max(seq);
        }
    }

    /// Gives up everything that was delivered.
    pub(crate) fn release(&mut self) {
        for stream in &mut self.streams {
            let last = stream.release().unwrap_or(0);
            self.last_evicted = self.last_evicted.max(last);
        }
        self.tail_charge = self.streams.iter().map(Stream::tail_charge).sum();
    }

    /// See [`crate::Process::read`].
    pub(crate) fn read(&self, after: u64, bytes_max: Option<usize>) -> Page {
        let mut left = bytes_max.unwrap_or(usize::MAX);
        let mut chunks: Vec<(u64, StreamName, Bytes)> = Vec::new();
        let mut streams: Vec<_> = self
            .streams
            .iter()
            .map(|stream| (stream.name, stream.after(after).peekable()))
            .collect();
        loop {
            let next = streams
                .iter_mut()
                .filter_map(|(name, rest)| Some((rest.peek()?.seq, *name)))
                .min();
            let Some((_, next)) = next else { break };
            let chunk = streams
                .iter_mut()
                .find(|(name, _)| *name == next)
                .and_then(|(_, rest)| rest.next());
            let Some(chunk) = chunk else { break };
            if !chunks.is_empty() && chunk.bytes.len() > left {
                break;
            }
            left = left.saturating_sub(chunk.bytes.len());
            chunks.push((chunk.seq, next, chunk.bytes.clone()));
        }
        let next_seq = match (bytes_max, chunks.last()) {
            (Some(_), Some((seq, ..))) => seq + 1,
            (Some(_), None) | (None, _) => self.next_seq,
        };
        let firsts = self
            .streams
            .iter()
            .filter_map(|stream| stream.after(0).next());
        Page {
            chunks,
            next_seq,
            exited: self.exited,
            closed: self.closed.map(|(seq, _)| seq),
            truncated: self.last_evicted > after,
            omitted_bytes: self.streams.iter().map(|stream| stream.omitted).sum(),
            first_seq: firsts.map(|chunk| chunk.seq).min(),
        }
    }

    /// What is kept of one stream; nothing if the process has none of that name.
    pub(crate) fn picture(&self, name: StreamName) -> Picture {
        let stream = self.streams.iter().find(|stream| stream.name == name);
        stream.map_or_else(Picture::default, |stream| Picture {
            head: stream.head(),
            tail: stream.tail(),
            total: stream.total,
            omitted: stream.omitted,
        })
    }

    /// Whether there is output or an exit after `after`, or the close.
    pub(crate) fn has_after(&self, after: u64) -> bool {
        self.last_output > after
            || self.exited.is_some_and(|(seq, _)| seq > after)
            || self.closed.is_some()
    }

    /// The last number that was given.
    pub(crate) fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    pub(crate) fn undelivered_bytes(&self) -> usize {
        self.undelivered_bytes
    }

    /// How much of a window the undelivered output takes: its bytes, or its chunks if those cost
    /// more than they carry.
    pub(crate) fn undelivered(&self) -> usize {
        let chunks = self.undelivered_chunks * CHUNK_CHARGE;
        self.undelivered_bytes.max(chunks)
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.total).sum()
    }

    /// What everything that is kept costs.
    pub(crate) fn kept_charge(&self) -> usize {
        self.streams.iter().map(Stream::charge).sum()
    }

    pub(crate) fn retains(&self) -> bool {
        self.retains
    }

    pub(crate) fn exited(&self) -> Option<(u64, ExitStatus)> {
        self.exited
    }

    pub(crate) fn closed(&self) -> Option<(u64, bool)> {
        self.closed
    }
}

#[cfg(test)]
mod tests;
