//! What the client keeps of a process whose server has no snapshots.
//!
//! The rules are those of the process service: of a mebibyte 1/8 is for the first bytes (half of it
//! for each stream of a process with pipes) and 7/8 for the last ones, and when those are full the
//! oldest goes of the stream that holds more. The service's own store numbers what it is given; here
//! the numbers are the peer's, which is why this is another one.

use std::collections::VecDeque;

use bytes::Bytes;
use turnlane_process::{Io, StreamName, StreamSnapshot};

/// What is kept of one process.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Kept {
    streams: Vec<Stream>,
    tail_bytes: usize,
    tail_bytes_max: usize,
}

#[derive(Debug)]
struct Stream {
    name: StreamName,
    head: Vec<(u64, Bytes)>,
    head_room: usize,
    tail: VecDeque<(u64, Bytes)>,
    tail_bytes: usize,
    total: u64,
    omitted: u64,
}

impl Kept {
    pub(super) fn new(io: Io) -> Self {
        Self::with_cap(io, KEPT_BYTES_MAX)
    }

    fn with_cap(io: Io, cap: usize) -> Self {
        let head = cap / 8;
        let streams = match io {
            Io::Pipe { .. } => vec![
                Stream::new(StreamName::Stdout, head / 2),
                Stream::new(StreamName::Stderr, head / 2),
            ],
            Io::Pty(_) => vec![Stream::new(StreamName::Pty, head)],
        };
        Self {
            streams,
            tail_bytes: 0,
            tail_bytes_max: cap - head,
        }
    }

    pub(super) fn push(&mut self, seq: u64, name: StreamName, bytes: &Bytes) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == name) else {
            return;
        };
        self.tail_bytes += stream.push(seq, bytes.clone());
        while self.tail_bytes > self.tail_bytes_max {
            let loudest = self
                .streams
                .iter_mut()
                .max_by_key(|stream| stream.tail_bytes);
            match loudest.and_then(Stream::evict) {
                Some(bytes) => self.tail_bytes -= bytes,
                None => return,
            }
        }
    }

    pub(super) fn stream(&self, name: StreamName) -> StreamSnapshot {
        let stream = self.streams.iter().find(|stream| stream.name == name);
        stream.map(Stream::snapshot).unwrap_or_default()
    }

    /// What is whole and after `after`, oldest first, at least one chunk and then none that would
    /// exceed `bytes_max`.
    pub(super) fn read(&self, after: u64, bytes_max: usize) -> Vec<(u64, StreamName, Bytes)> {
        let mut chunks: Vec<_> = self.streams.iter().flat_map(|s| s.after(after)).collect();
        chunks.sort_by_key(|(seq, ..)| *seq);
        let mut left = bytes_max;
        let mut count = 0;
        for (_, _, bytes) in &chunks {
            if count > 0 && bytes.len() > left {
                break;
            }
            left = left.saturating_sub(bytes.len());
            count += 1;
        }
        chunks.truncate(count);
        chunks
    }
}

impl Stream {
    fn new(name: StreamName, head_room: usize) -> Self {
        Self {
            name,
            head: Vec::new(),
            head_room,
            tail: VecDeque::new(),
            tail_bytes: 0,
            total: 0,
            omitted: 0,
        }
    }

    /// Returns what the tail grew by.
    fn push(&mut self, seq: u64, mut bytes: Bytes) -> usize {
        self.total += bytes.len() as u64;
        let first = bytes.split_to(self.head_room.min(bytes.len()));
        if !first.is_empty() {
            self.head_room -= first.len();
            self.head.push((seq, first));
        }
        let grown = bytes.len();
        if grown > 0 {
            self.tail.push_back((seq, bytes));
            self.tail_bytes += grown;
        }
        grown
    }

    fn evict(&mut self) -> Option<usize> {
        let (_, bytes) = self.tail.pop_front()?;
        self.tail_bytes -= bytes.len();
        self.omitted += bytes.len() as u64;
        Some(bytes.len())
    }

    fn snapshot(&self) -> StreamSnapshot {
        let joined = |parts: &mut dyn Iterator<Item = &(u64, Bytes)>| {
            parts.fold(Vec::new(), |mut whole, (_, part)| {
                whole.extend_from_slice(part);
                whole
            })
        };
        StreamSnapshot {
            head: joined(&mut self.head.iter()).into(),
            tail: joined(&mut self.tail.iter()).into(),
            total_bytes: self.total,
            omitted_bytes: self.omitted,
        }
    }

    /// A chunk on the border of head and tail is there as two parts, or not at all.
    fn after(&self, after: u64) -> Vec<(u64, StreamName, Bytes)> {
        let mut chunks: Vec<(u64, StreamName, Bytes)> = Vec::new();
        let border = self.head.last().map(|(seq, _)| *seq);
        let border_is_whole = self.omitted == 0;
        for (seq, bytes) in self.head.iter().chain(&self.tail) {
            if *seq <= after {
                continue;
            }
            match chunks.last_mut() {
                Some((last, _, head)) if last == seq => {
                    *head = [&head[..], &bytes[..]].concat().into();
                }
                _ => chunks.push((*seq, self.name, bytes.clone())),
            }
        }
        if !border_is_whole && self.head_room == 0 {
            chunks.retain(|(seq, ..)| Some(*seq) != border);
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPES: Io = Io::Pipe {
        stdin: turnlane_process::Stdin::Closed,
    };

    #[test]
    fn the_first_and_the_last_bytes_stay_and_the_rest_is_counted() {
        let mut kept = Kept::with_cap(PIPES, 160);
        kept.push(1, StreamName::Stderr, &Bytes::from_static(b"careful"));
        for seq in 2..102 {
            kept.push(seq, StreamName::Stdout, &Bytes::from(format!("{seq:04}")));
        }
        let out = kept.stream(StreamName::Stdout);
        assert_eq!(out.head, "0002000300");
        assert!(out.tail.ends_with(b"01000101"), "{:?}", out.tail);
        let left = out.head.len() + out.tail.len();
        assert_eq!(left as u64 + out.omitted_bytes, out.total_bytes);
        assert_eq!(kept.stream(StreamName::Stderr).text(), "careful");
    }

    #[test]
    fn a_page_holds_whole_chunks_only() {
        let mut kept = Kept::with_cap(PIPES, 160);
        for seq in 1..4 {
            kept.push(seq, StreamName::Stdout, &Bytes::from(format!("{seq:04}")));
        }
        let seqs = |kept: &Kept, after, max| {
            let chunks = kept.read(after, max);
            assert!(
                chunks
                    .iter()
                    .all(|(seq, _, bytes)| *bytes == format!("{seq:04}"))
            );
            chunks.into_iter().map(|(seq, ..)| seq).collect::<Vec<_>>()
        };
        // The third lies on the border of head and tail.
        assert_eq!(seqs(&kept, 0, 1000), [1, 2, 3]);
        assert_eq!(seqs(&kept, 0, 8), [1, 2]);
        assert_eq!(seqs(&kept, 2, 1), [3]);
        for seq in 4..100 {
            kept.push(seq, StreamName::Stdout, &Bytes::from(format!("{seq:04}")));
        }
        let after = seqs(&kept, 0, 1000);
        assert_eq!(after[..2], [1, 2]);
        assert!(!after.contains(&3), "half of it is gone");
    }
}
