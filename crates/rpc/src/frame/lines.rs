//! One JSON text per `\n` line; blank lines mean nothing.

use bytes::{Buf as _, BytesMut};

use super::{Inbound, Skipped, take};

/// Splits a byte stream into lines.
#[derive(Debug)]
pub(crate) struct LinesDecoder {
    pub(super) frame_bytes_max: usize,
    /// How far the buffer was searched without finding an end, so that a long line is searched
    /// once and not once per read.
    searched: usize,
    skipping: Option<Skipped>,
}

impl LinesDecoder {
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            searched: 0,
            skipping: None,
        }
    }

    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &buffer[self.searched..]) else {
                self.searched = buffer.len();
                self.skip_if_too_long(buffer);
                return None;
            };
            let line_bytes = self.searched + end;
            self.searched = 0;
            let found = self.line(buffer, line_bytes);
            buffer.advance(1); // The line's end.
            if found.is_some() {
                return found;
            }
        }
    }

    /// At the end of the stream: what stands there without a line end is a line too.
    pub(super) fn finish(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        self.searched = 0;
        let rest = buffer.len();
        self.line(buffer, rest)
    }

    fn line(&mut self, buffer: &mut BytesMut, line_bytes: usize) -> Option<Inbound> {
        if self.skipping.is_some() || line_bytes > self.frame_bytes_max {
            let mut skipped = self.skipping.take().unwrap_or_default();
            skipped.discard(buffer, line_bytes);
            return Some(skipped.report(self.frame_bytes_max));
        }
        if buffer[..line_bytes].trim_ascii().is_empty() {
            buffer.advance(line_bytes);
            return None;
        }
        Some(Inbound::Message(take(buffer, line_bytes)))
    }

    fn skip_if_too_long(&mut self, buffer: &mut BytesMut) {
        if self.skipping.is_some() || buffer.len() > self.frame_bytes_max {
            let count = buffer.len();
            self.skipping.get_or_insert_default().discard(buffer, count);
            self.searched = 0;
        }
    }
}
