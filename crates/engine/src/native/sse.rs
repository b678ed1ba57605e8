//! Server-sent events: bytes in, events out.
//!
//! Owned here: lines, fields and the limits of a streamed answer. The invariant: the events are the
//! same however the bytes were cut into chunks, and what was complete before a limit was exceeded
//! is still given out.
//!
//! What an event means is not known here, except that `[DONE]` means nothing. Neither is time: the
//! idle timer belongs to whoever reads the socket, and counts bytes, comments included.

use std::mem;

/// The most bytes of one event: its data so far with the line being read.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// The most bytes of one answer, everything counted.
pub const RESPONSE_BYTES_MAX: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What an answer may weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`EVENT_BYTES_MAX`].
    pub event_bytes_max: usize,
    /// See [`RESPONSE_BYTES_MAX`].
    pub response_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes_max: EVENT_BYTES_MAX,
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

/// One event as it was framed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` line, if there was one that is not empty.
    pub name: Option<String>,
    /// The `data:` lines, joined by line feeds; bytes that are not UTF-8 are replaced.
    pub data: String,
}

/// A limit was exceeded; nothing more can be read from this answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// One event is larger than [`Limits::event_bytes_max`].
    #[error("an event is larger than {bytes_max} bytes")]
    Event {
        /// The limit.
        bytes_max: usize,
    },
    /// The answer is larger than [`Limits::response_bytes_max`].
    #[error("the response is larger than {bytes_max} bytes")]
    Response {
        /// The limit.
        bytes_max: usize,
    },
}

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    /// Bytes of the answer so far.
    taken: usize,
    /// The beginning of a line whose end has not come; empty between lines.
    line: Vec<u8>,
    /// A CR ended the last line, so an LF right behind it belongs to it.
    after_cr: bool,
    /// A byte order mark is only one at the very beginning.
    past_first_line: bool,
    name: Option<String>,
    /// The data lines so far, each with a line feed behind it.
    data: Vec<u8>,
    exceeded: Option<Exceeded>,
}

impl Decoder {
    /// A decoder with other limits than the usual ones.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Takes the next bytes and appends the events they complete.
    ///
    /// On an error the events before it have been appended; every later call fails alike.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), Exceeded> {
        if let Some(exceeded) = self.exceeded {
            return Err(exceeded);
        }
        let room = self.limits.response_bytes_max - self.taken;
        let within = bytes.get(..room).unwrap_or(bytes);
        self.taken += within.len();
        let mut read = self.lines(within, events);
        if read.is_ok() && within.len() < bytes.len() {
            let bytes_max = self.limits.response_bytes_max;
            read = Err(Exceeded::Response { bytes_max });
        }
        self.exceeded = read.err();
        read
    }

    /// Takes the end of the answer; returns the last event if no blank line ended it.
    ///
    /// Whether that event is whole nobody can tell from here: it is used if it parses.
    pub fn finish(mut self) -> Option<SseEvent> {
        if self.exceeded.is_some() {
            return None;
        }
        let mut events = Vec::new();
        let line = mem::take(&mut self.line);
        self.line_ended(&line, &mut events);
        self.event_ended(&mut events);
        events.pop()
    }

    fn lines(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), Exceeded> {
        while let Some(&first) = bytes.first() {
            if mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) else {
                self.check(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check(end)?;
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.line_ended(&bytes[..end], events);
            } else {
                let mut line = mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.line_ended(&line, events);
                line.clear();
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Fails if the event with `more` bytes of its current line is too large.
    fn check(&self, more: usize) -> Result<(), Exceeded> {
        let bytes_max = self.limits.event_bytes_max;
        if self.data.len() + self.line.len() + more > bytes_max {
            return Err(Exceeded::Event { bytes_max });
        }
        Ok(())
    }

    fn line_ended(&mut self, line: &[u8], events: &mut Vec<SseEvent>) {
        let at_beginning = !mem::replace(&mut self.past_first_line, true);
        let marked = line.strip_prefix(BYTE_ORDER_MARK);
        let line = marked.filter(|_| at_beginning).unwrap_or(line);
        if line.is_empty() {
            self.event_ended(events);
            return;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments (an empty field), `id`, `retry` and whatever else.
            _ => {}
        }
    }

    fn event_ended(&mut self, events: &mut Vec<SseEvent>) {
        let name = self.name.take().filter(|name| !name.is_empty());
        let mut data = mem::take(&mut self.data);
        // Without a data line there is no event.
        if data.pop().is_none() {
            return;
        }
        let data = match String::from_utf8(data) {
            Ok(data) => data,
            Err(broken) => String::from_utf8_lossy(broken.as_bytes()).into_owned(),
        };
        if data.trim() != "[DONE]" {
            events.push(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests;
