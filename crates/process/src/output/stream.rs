//! One stream of a process: its first chunks, which stay, and its last ones, of which the oldest go.
//!
//! Between head and tail lies what was evicted: a chunk is in the head, in the tail or gone, so that
//! head, gone and tail together are always the whole stream in order. Which stream gives up a chunk
//! is decided by the store.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::event::StreamName;

/// What a chunk costs besides its bytes: its entry here and the heads of its allocations. Without it
/// a child that writes single bytes could make a megabyte of output cost a hundred.
pub(super) const CHUNK_CHARGE: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) seq: u64,
    pub(super) bytes: Bytes,
}

impl Chunk {
    fn charge(&self) -> usize {
        self.bytes.len() + CHUNK_CHARGE
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: StreamName,
    head: Vec<Chunk>,
    /// What the head may still take; zero for good once something went to the tail.
    head_room: usize,
    head_charge: usize,
    /// How many chunks of the head were delivered.
    head_taken: usize,
    tail: VecDeque<Chunk>,
    tail_charge: usize,
    /// How many chunks of the tail were delivered: the first ones.
    tail_taken: usize,
    pub(super) total: u64,
    pub(super) omitted: u64,
}

/// What a delivery changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    pub(super) bytes: usize,
    pub(super) chunks: usize,
}

impl Stream {
    pub(super) fn new(name: StreamName, head_room: usize) -> Self {
        Self {
            name,
            head: Vec::new(),
            head_room,
            head_charge: 0,
            head_taken: 0,
            tail: VecDeque::new(),
            tail_charge: 0,
            tail_taken: 0,
            total: 0,
            omitted: 0,
        }
    }

    /// How many bytes of the next chunk belong to the head.
    pub(super) fn head_takes(&self, len: usize) -> usize {
        self.head_room.saturating_sub(CHUNK_CHARGE).min(len)
    }

    pub(super) fn push_head(&mut self, chunk: Chunk) {
        self.total += chunk.bytes.len() as u64;
        self.head_room -= chunk.charge();
        self.head_charge += chunk.charge();
        self.head.push(chunk);
    }

    pub(super) fn push_tail(&mut self, chunk: Chunk) {
        self.head_room = 0;
        self.total += chunk.bytes.len() as u64;
        self.tail_charge += chunk.charge();
        self.tail.push_back(chunk);
    }

    /// Marks everything up to `through` as delivered.
    pub(super) fn deliver(&mut self, through: u64) -> Delivered {
        let mut delivered = Delivered::default();
        let mut count = |chunk: &Chunk| {
            delivered.bytes += chunk.bytes.len();
            delivered.chunks += 1;
        };
        while let Some(chunk) = self.head.get(self.head_taken)
            && chunk.seq <= through
        {
            count(chunk);
            self.head_taken += 1;
        }
        while let Some(chunk) = self.tail.get(self.tail_taken)
            && chunk.seq <= through
        {
            count(chunk);
            self.tail_taken += 1;
        }
        delivered
    }

    /// Marks what is kept after `after` as not delivered; what that changed.
    pub(super) fn recall(&mut self, after: u64) -> Delivered {
        let mut recalled = Delivered::default();
        let mut count = |chunk: &Chunk| {
            recalled.bytes += chunk.bytes.len();
            recalled.chunks += 1;
        };
        while let Some(last) = self.tail_taken.checked_sub(1)
            && let Some(chunk) = self.tail.get(last)
            && chunk.seq > after
        {
            count(chunk);
            self.tail_taken = last;
        }
        while let Some(last) = self.head_taken.checked_sub(1)
            && let Some(chunk) = self.head.get(last)
            && chunk.seq > after
        {
            count(chunk);
            self.head_taken = last;
        }
        recalled
    }

    /// What the tail holds, if its oldest chunk may go.
    pub(super) fn can_give(&self) -> Option<usize> {
        (self.tail_taken > 0).then_some(self.tail_charge)
    }

    /// Drops the oldest delivered chunk of the tail and says its number and charge.
    pub(super) fn evict(&mut self) -> Option<(u64, usize)> {
        self.can_give()?;
        let chunk = self.tail.pop_front()?;
        self.tail_taken -= 1;
        self.tail_charge -= chunk.charge();
        self.omitted += chunk.bytes.len() as u64;
        Some((chunk.seq, chunk.charge()))
    }

    /// Drops everything that was delivered, the head included, and says the last number.
    pub(super) fn release(&mut self) -> Option<u64> {
        let mut last = None;
        for chunk in self.head.drain(..self.head_taken) {
            self.head_charge -= chunk.charge();
            self.omitted += chunk.bytes.len() as u64;
            last = Some(chunk.seq);
        }
        self.head_taken = 0;
        self.head.shrink_to_fit();
        while let Some((seq, _)) = self.evict() {
            last = Some(seq);
        }
        self.tail.shrink_to_fit();
        last
    }

    pub(super) fn charge(&self) -> usize {
        self.head_charge + self.tail_charge
    }

    pub(super) fn tail_charge(&self) -> usize {
        self.tail_charge
    }

    /// What is kept after `seq`, oldest first.
    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Chunk> {
        let head = self.head.partition_point(|chunk| chunk.seq <= seq);
        let tail = self.tail.partition_point(|chunk| chunk.seq <= seq);
        let head = self.head.get(head..).unwrap_or_default();
        head.iter().chain(self.tail.range(tail..))
    }

    pub(super) fn head(&self) -> Vec<Bytes> {
        self.head.iter().map(|chunk| chunk.bytes.clone()).collect()
    }

    pub(super) fn tail(&self) -> Vec<Bytes> {
        self.tail.iter().map(|chunk| chunk.bytes.clone()).collect()
    }
}
