//! From the bytes of an answer to steps.
//!
//! The invariant here: the steps are the same however the bytes were cut into chunks, and what was
//! complete before an error is given out before it.
//!
//! Status codes and headers other than the content type are the caller's.

use turnlane_protocol::ids::ItemId;

use super::assemble::Assembler;
use super::step::{Step, StreamError};
use crate::native::sse::{Decoder, Exceeded, Limits, SseEvent};

/// In what form a successful answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// As server-sent events.
    Events,
    /// As one response object.
    Json,
}

impl Body {
    /// The form a `Content-Type` announces; none for anything else, a page of HTML for example.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("text/event-stream") {
            Some(Self::Events)
        } else if media.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else {
            None
        }
    }
}

/// Reads one answer; see the [module](super).
#[derive(Debug)]
pub struct ResponseStream<F> {
    framing: Framing,
    assembler: Assembler<F>,
    /// Reused between chunks.
    events: Vec<SseEvent>,
}

#[derive(Debug)]
enum Framing {
    Events(Decoder),
    Json { body: Vec<u8>, bytes_max: usize },
    Ended,
}

impl<F: FnMut() -> ItemId> ResponseStream<F> {
    /// A reader with the usual limits; `new_id` names items, and calls that have no name.
    pub fn new(body: Body, new_id: F) -> Self {
        Self::with_limits(body, Limits::default(), new_id)
    }

    /// A reader with other limits.
    pub fn with_limits(body: Body, limits: Limits, new_id: F) -> Self {
        let framing = match body {
            Body::Events => Framing::Events(Decoder::with_limits(limits)),
            Body::Json => Framing::Json {
                body: Vec::new(),
                bytes_max: limits.response_bytes_max,
            },
        };
        Self {
            framing,
            assembler: Assembler::new(new_id),
            events: Vec::new(),
        }
    }

    /// Takes the next bytes and appends what they do.
    ///
    /// After [`Assembler::is_over`] nothing more comes; the rest need not be read.
    pub fn push(&mut self, bytes: &[u8], steps: &mut Vec<Step>) -> Result<(), StreamError> {
        match &mut self.framing {
            Framing::Events(decoder) => {
                let decoded = decoder.push(bytes, &mut self.events);
                for event in self.events.drain(..) {
                    self.assembler.event(&event, steps)?;
                }
                // What follows the terminal event is ignored, be it too long.
                match decoded {
                    Err(exceeded) if !self.assembler.is_over() => Err(exceeded.into()),
                    Err(_) | Ok(()) => Ok(()),
                }
            }
            Framing::Json { body, bytes_max } => {
                let bytes_max = *bytes_max;
                if body.len() + bytes.len() > bytes_max {
                    return Err(Exceeded::Response { bytes_max }.into());
                }
                body.extend_from_slice(bytes);
                Ok(())
            }
            Framing::Ended => Ok(()),
        }
    }

    /// Takes the end of the answer; an error if the response is not over then.
    ///
    /// Called twice it only says the same again.
    pub fn finish(&mut self, steps: &mut Vec<Step>) -> Result<(), StreamError> {
        match std::mem::replace(&mut self.framing, Framing::Ended) {
            Framing::Events(decoder) => {
                if let Some(event) = decoder.finish() {
                    self.assembler.event(&event, steps)?;
                }
            }
            Framing::Json { body, .. } => {
                self.assembler
                    .whole(&String::from_utf8_lossy(&body), steps)?;
            }
            Framing::Ended => {}
        }
        self.assembler.finish()
    }

    /// Ends open items with what arrived; see [`Assembler::abandon`].
    pub fn abandon(&mut self, steps: &mut Vec<Step>) {
        self.assembler.abandon(steps);
    }

    /// What is known of the response.
    pub fn assembler(&self) -> &Assembler<F> {
        &self.assembler
    }
}
