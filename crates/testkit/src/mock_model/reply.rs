//! One answer of the mock: what it says and how it travels.
//!
//! A [`Reply`] is a value a test builds and hands over; nothing happens until a request takes it.
//! The invariant here: without modifiers a reply is a well-formed answer of the API. Modifiers
//! combine freely, whatever the reply's content; for content that is not made of events (JSON,
//! raw chunks) each chunk counts as one event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{
    api_error::ApiError,
    events::{self, Context, End},
    gate::Gate,
    item::Item,
    usage::Usage,
    wire::{At, Chunks, Cut, Delivery, Insertion, LineEnd, Step},
};

type Edit = dyn Fn(Vec<Value>) -> Vec<Value> + Send + Sync;

/// One scripted answer. Cloning it is cheap enough to answer many requests alike.
#[derive(Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    content: Content,
    usage: Option<Usage>,
    edit: Option<Arc<Edit>>,
    delivery: Delivery,
}

#[derive(Clone, Debug)]
enum Content {
    Events { items: Vec<Item>, end: End },
    Chunks(Vec<Bytes>),
    HangUp,
}

/// A reply made ready for one request.
pub(super) struct Answer {
    pub(super) before_head: Vec<Step>,
    /// `None`: the connection is closed instead.
    pub(super) head: Option<Head>,
    pub(super) body: Vec<Step>,
}

pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

impl Reply {
    fn new(content: Content, content_type: &str) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            content,
            usage: Some(Usage::SAMPLE),
            edit: None,
            delivery: Delivery::default(),
        }
    }

    fn ending(end: End) -> Self {
        let items = Vec::new();
        Self::new(
            Content::Events { items, end },
            "text/event-stream; charset=utf-8",
        )
    }

    /// An answer of these items, completed. No items: completed at once.
    pub fn of(items: impl IntoIterator<Item = Item>) -> Self {
        items
            .into_iter()
            .fold(Self::ending(End::Completed), Self::and)
    }

    /// A message in one delta.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of([Item::text(text)])
    }

    /// A message in these deltas.
    pub fn streamed<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self::of([Item::streamed(deltas)])
    }

    /// Reasoning with a summary; usually followed by [`Reply::and`].
    pub fn reasoning(summary: impl Into<String>) -> Self {
        Self::of([Item::reasoning(summary)])
    }

    /// A function call; see [`Item::function_call`].
    pub fn function_call(name: impl Into<String>, arguments: impl fmt::Display) -> Self {
        Self::of([Item::function_call(name, arguments)])
    }

    /// A call of a freeform tool; see [`Item::custom_tool_call`].
    pub fn custom_tool_call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::of([Item::custom_tool_call(name, input)])
    }

    /// A message of this many MiB; see [`Item::huge_text`].
    pub fn huge_text(mib: usize) -> Self {
        Self::of([Item::huge_text(mib << 20)])
    }

    /// `response.failed` with this error, behind the items that [`Reply::and`] adds.
    pub fn failed(error: ApiError) -> Self {
        Self::ending(End::Failed(error))
    }

    /// An `error` event, behind the items that [`Reply::and`] adds.
    pub fn error_event(error: ApiError) -> Self {
        Self::ending(End::ErrorEvent(error))
    }

    /// This error as an HTTP answer.
    pub fn http_error(error: ApiError) -> Self {
        let reply = Self::json(error.status, &error.body());
        let headers = error.headers.into_iter();
        headers.fold(reply, |reply, (name, value)| reply.header(&name, &value))
    }

    /// Any JSON with any status.
    pub fn json(status: u16, body: &Value) -> Self {
        let chunks = Content::Chunks(vec![Bytes::from(body.to_string())]);
        Self::new(chunks, "application/json").status(status)
    }

    /// A redirect to `location`, which no client should follow.
    pub fn redirect(location: &str) -> Self {
        let reply = Self::new(Content::Chunks(Vec::new()), "text/plain");
        reply.status(307).header("location", location)
    }

    /// These chunks as an event stream, whatever they are. No chunks: an empty stream.
    pub fn raw_stream<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>) -> Self {
        let chunks = chunks.into_iter().map(Into::into).collect();
        Self::new(Content::Chunks(chunks), "text/event-stream; charset=utf-8")
    }

    /// No answer: the connection is closed without a status line.
    pub fn hang_up() -> Self {
        Self::new(Content::HangUp, "text/plain")
    }

    /// The same answer with one more item, behind the others. An answer that is not made of items
    /// stays as it is.
    #[must_use]
    pub fn and(mut self, item: Item) -> Self {
        if let Content::Events { items, .. } = &mut self.content {
            items.push(item);
        }
        self
    }

    /// The same answer with these token counts.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The same answer with `usage: null`.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// The same answer, ended by `response.incomplete` (`max_output_tokens`, `content_filter`).
    #[must_use]
    pub fn incomplete(self, reason: &str) -> Self {
        let reason = reason.to_owned();
        self.ended_by(End::Incomplete { reason })
    }

    /// The same answer without a terminal event: the stream just ends, in good order.
    #[must_use]
    pub fn without_end(self) -> Self {
        self.ended_by(End::Missing)
    }

    fn ended_by(mut self, new: End) -> Self {
        if let Content::Events { end, .. } = &mut self.content {
            *end = new;
        }
        self
    }

    /// The same answer after `edit` has changed, removed or reordered its events.
    ///
    /// This is how a test gives the mock a provider's peculiarities. Sequence numbers are those
    /// of the original.
    #[must_use]
    pub fn edited(
        mut self,
        edit: impl Fn(Vec<Value>) -> Vec<Value> + Send + Sync + 'static,
    ) -> Self {
        self.edit = Some(Arc::new(edit));
        self
    }

    /// The same answer under this status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same answer with this header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same answer with this pause before every event, on tokio's clock.
    #[must_use]
    pub fn slow(mut self, event_delay: Duration) -> Self {
        self.delivery.event_delay = event_delay;
        self
    }

    /// The same answer with one pause.
    #[must_use]
    pub fn pause(mut self, at: At, duration: Duration) -> Self {
        let pause = Insertion::Pause(duration);
        self.delivery.insertions.push((at, pause));
        self
    }

    /// The same answer, stopped at `at` until the gate is released.
    pub fn gated(self, at: At) -> (Self, Gate) {
        let gate = Gate::new();
        (self.gated_by(at, &gate), gate)
    }

    /// The same answer, stopped at `at` by a gate that may stand in other answers too.
    #[must_use]
    pub fn gated_by(mut self, at: At, gate: &Gate) -> Self {
        let gate = Insertion::Gate(gate.clone());
        self.delivery.insertions.push((at, gate));
        self
    }

    /// The same answer with these bytes between its events: a [`Noise`](super::Noise) or any
    /// others. [`At::Request`] has no place for bytes and leaves them out.
    #[must_use]
    pub fn insert(mut self, at: At, bytes: impl Into<Bytes>) -> Self {
        let bytes = Insertion::Bytes(bytes.into());
        self.delivery.insertions.push((at, bytes));
        self
    }

    /// The same answer with the connection closed at this point of the body, without its end.
    /// Everything before the point has reached the socket.
    #[must_use]
    pub fn cut(mut self, cut: Cut) -> Self {
        self.delivery.cut = Some(cut);
        self
    }

    /// The same answer with these line ends.
    #[must_use]
    pub fn line_end(mut self, line_end: LineEnd) -> Self {
        self.delivery.line_end = line_end;
        self
    }

    /// The same answer in other HTTP chunks.
    #[must_use]
    pub fn chunks(mut self, chunks: Chunks) -> Self {
        self.delivery.chunks = chunks;
        self
    }

    /// The same answer without `event:` lines: the type is in the data only.
    #[must_use]
    pub fn without_event_names(mut self) -> Self {
        self.delivery.unnamed = true;
        self
    }

    pub(super) fn answer(&self, context: &Context) -> Answer {
        let chunks = match &self.content {
            Content::Events { items, end } => {
                let mut events = events::render(items, end, self.usage, context);
                if let Some(edit) = &self.edit {
                    events = edit(events);
                }
                events
                    .iter()
                    .map(|event| self.delivery.write(event))
                    .collect()
            }
            Content::Chunks(chunks) => chunks.clone(),
            Content::HangUp => Vec::new(),
        };
        let head = match &self.content {
            Content::HangUp => None,
            Content::Events { .. } | Content::Chunks(_) => Some(Head {
                status: self.status,
                headers: self.headers.clone(),
            }),
        };
        Answer {
            before_head: self.delivery.before_head(),
            head,
            body: self.delivery.body(&chunks),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
