//! From events to the steps that a connection performs: bytes, pauses, gates, a cut.
//!
//! Owned here: how events are written as server-sent events, in which pieces they leave, and where
//! something stands between them. The invariant: a byte offset always counts bytes of the body
//! as a client sees it after removing HTTP's own chunk framing, and every [`Step::Data`] is one
//! HTTP chunk. Pure; the steps are performed by `body.rs`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::gate::Gate;

/// A place in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before the status line: the client has sent its request and hears nothing.
    Request,
    /// Behind this many events, or at the end if there are fewer.
    AfterEvents(usize),
    /// Before the last event, which is the terminal one unless the answer has none.
    LastEvent,
    /// Behind the last event, before the body's end.
    End,
}

/// Where the connection is closed without the body's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Behind this many events.
    AfterEvents(usize),
    /// Behind this many bytes of the body; a longer offset cuts at the end.
    AtByte(usize),
}

/// How the lines of an event end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`, as the API has it.
    #[default]
    Lf,
    /// `\r\n`.
    CrLf,
    /// `\r`.
    Cr,
}

/// How the body is divided into HTTP chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunks {
    /// Each event is a chunk.
    #[default]
    PerEvent,
    /// Each event is divided into chunks of this many bytes, at least 1.
    OfBytes(usize),
    /// Events that nothing separates leave as one chunk.
    Joined,
}

/// Events that a client must survive; inserted with [`Reply::insert`](super::Reply::insert).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// A comment line, as proxies send to keep a connection alive.
    Comment,
    /// An event whose data is not JSON.
    BadJson,
    /// An event of a type nobody knows.
    UnknownType,
    /// A text delta without `delta`, item or index.
    MissingFields,
    /// An event whose data is not UTF-8.
    BadUtf8,
    /// `data: [DONE]`, as older APIs end their streams.
    DoneMarker,
    /// A byte order mark.
    ByteOrderMark,
}

impl From<Noise> for Bytes {
    fn from(noise: Noise) -> Self {
        Bytes::from_static(match noise {
            Noise::Comment => b": keep-alive\n\n",
            Noise::BadJson => b"event: response.output_text.delta\ndata: {\"type\":\n\n",
            Noise::UnknownType => {
                b"event: response.mock.unknown\ndata: {\"type\":\"response.mock.unknown\"}\n\n"
            }
            Noise::MissingFields => {
                b"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}\n\n"
            }
            Noise::BadUtf8 => b"data: {\"type\":\"response.mock.\xff\xfe\"}\n\n",
            Noise::DoneMarker => b"data: [DONE]\n\n",
            Noise::ByteOrderMark => b"\xef\xbb\xbf",
        })
    }
}

/// Something that stands between events.
#[derive(Clone, Debug)]
pub(super) enum Insertion {
    Bytes(Bytes),
    Pause(Duration),
    Gate(Gate),
}

/// What the connection does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Data(Bytes),
    Pause(Duration),
    Gate(Gate),
    Cut,
}

impl From<Insertion> for Step {
    fn from(insertion: Insertion) -> Self {
        match insertion {
            Insertion::Bytes(bytes) => Step::Data(bytes),
            Insertion::Pause(duration) => Step::Pause(duration),
            Insertion::Gate(gate) => Step::Gate(gate),
        }
    }
}

/// Everything about an answer's way to the client that is not its content.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    pub(super) line_end: LineEnd,
    pub(super) chunks: Chunks,
    pub(super) unnamed: bool,
    pub(super) event_delay: Duration,
    pub(super) insertions: Vec<(At, Insertion)>,
    pub(super) cut: Option<Cut>,
}

impl Delivery {
    /// One event as the API writes it: its type as the event's name, its JSON on one data line.
    pub(super) fn write(&self, event: &Value) -> Bytes {
        let end = match self.line_end {
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
            LineEnd::Cr => "\r",
        };
        let name = match event["type"].as_str() {
            Some(kind) if !self.unnamed => format!("event: {kind}{end}"),
            _ => String::new(),
        };
        Bytes::from(format!("{name}data: {event}{end}{end}"))
    }

    /// What happens before the status line.
    pub(super) fn before_head(&self) -> Vec<Step> {
        let at_request = |(at, insertion): &(At, Insertion)| match (at, insertion) {
            // Bytes cannot stand before the head.
            (At::Request, Insertion::Pause(_) | Insertion::Gate(_)) => {
                Some(Step::from(insertion.clone()))
            }
            _ => None,
        };
        self.insertions.iter().filter_map(at_request).collect()
    }

    /// What happens behind the headers, for a body of these events.
    pub(super) fn body(&self, events: &[Bytes]) -> Vec<Step> {
        let length = match self.cut {
            Some(Cut::AfterEvents(count)) => count.min(events.len()),
            _ => events.len(),
        };
        let mut steps = Vec::new();
        for index in 0..=length {
            steps.extend(self.standing_at(index, events.len()));
            if index < length {
                if !self.event_delay.is_zero() {
                    steps.push(Step::Pause(self.event_delay));
                }
                steps.push(Step::Data(events[index].clone()));
            }
        }
        match self.cut {
            Some(Cut::AfterEvents(_)) => steps.push(Step::Cut),
            Some(Cut::AtByte(offset)) => cut_at_byte(&mut steps, offset),
            None => {}
        }
        self.divide(steps)
    }

    /// The insertions that stand before the event at `index` of `count`.
    fn standing_at(&self, index: usize, count: usize) -> impl Iterator<Item = Step> {
        let here = move |at: At| match at {
            At::Request => false,
            At::AfterEvents(events) => events.min(count) == index,
            At::LastEvent => count.saturating_sub(1) == index,
            At::End => count == index,
        };
        let standing = self.insertions.iter().filter(move |(at, _)| here(*at));
        standing.map(|(_, insertion)| Step::from(insertion.clone()))
    }

    fn divide(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut divided: Vec<Step> = Vec::with_capacity(steps.len());
        for step in steps {
            match (step, self.chunks) {
                // An empty chunk would be the end of the body.
                (Step::Data(bytes), _) if bytes.is_empty() => {}
                (Step::Data(mut bytes), Chunks::OfBytes(size)) => {
                    while !bytes.is_empty() {
                        let piece = bytes.split_to(size.max(1).min(bytes.len()));
                        divided.push(Step::Data(piece));
                    }
                }
                (Step::Data(bytes), Chunks::Joined) => match divided.last_mut() {
                    Some(Step::Data(before)) => {
                        let mut joined = BytesMut::from(std::mem::take(before));
                        joined.extend_from_slice(&bytes);
                        *before = joined.freeze();
                    }
                    _ => divided.push(Step::Data(bytes)),
                },
                (step, _) => divided.push(step),
            }
        }
        divided
    }
}

/// Ends `steps` behind `offset` bytes of data.
fn cut_at_byte(steps: &mut Vec<Step>, offset: usize) {
    let mut left = offset;
    let cut = steps.iter_mut().position(|step| match step {
        Step::Data(bytes) if bytes.len() >= left => {
            bytes.truncate(left);
            true
        }
        Step::Data(bytes) => {
            left -= bytes.len();
            false
        }
        Step::Pause(_) | Step::Gate(_) | Step::Cut => false,
    });
    if let Some(index) = cut {
        steps.truncate(index + 1);
    }
    steps.push(Step::Cut);
}

#[cfg(test)]
mod tests;
