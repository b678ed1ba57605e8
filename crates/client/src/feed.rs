//! Who gets which event, and what happens to those who do not read.
//!
//! The invariant here: delivering never waits and never runs a caller's code. Every receiver has its
//! own buffer of two classes: progress is bounded and its oldest is left out, with one marker at the
//! place of the gap; everything else is never left out, and a receiver that lets too much of it lie
//! is ended. A receiver that is dropped gets nothing more and costs nothing more.
//!
//! What is progress is decided by [`Event::weight`]; what a turn makes of its events by its task.

mod announced;
mod buffer;
mod mailbox;
mod router;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pub(crate) use self::announced::Announced;
pub(crate) use self::buffer::{Class, Weight};
pub(crate) use self::mailbox::{End, Mail, Mailbox};
pub(crate) use self::router::Router;
use crate::error::TransportError;
use crate::event::{Event, EventBody};
use crate::ids::{ThreadId, TurnId};

/// Which events a receiver wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Only those of this thread.
    pub thread: Option<ThreadId>,
    /// Only methods that begin like this.
    pub method_prefix: Option<String>,
}

impl Filter {
    /// Everything the server tells this client.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only events of this thread.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<ThreadId>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Only methods that begin like this: `item/`, `approval/changed`.
    #[must_use]
    pub fn method_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.method_prefix = Some(prefix.into());
        self
    }
}

/// What a turn's task gets, in order.
#[derive(Clone, Debug)]
pub(crate) enum Fed {
    /// An event of the thread: of the turn once it is bound, of all its turns before. A
    /// [`EventBody::Lagged`] stands where progress was left out.
    Event(Arc<Event>),
    /// The connection is gone; another is tried.
    Lost,
    /// There is another connection; what was open must be looked up.
    Reconnected { generation: u64 },
    /// There will be no other connection.
    Closed(TransportError),
    /// Too much lay unread; nothing follows.
    TooSlow,
}

/// The events of one turn, or of a thread until the turn is known.
#[derive(Debug)]
pub(crate) struct TurnFeed {
    router: Arc<Router>,
    mailbox: Arc<Mailbox<Fed>>,
    key: u64,
    thread: ThreadId,
    /// None until it is bound.
    turn: Option<TurnId>,
}

impl TurnFeed {
    /// From now on only events of this turn; what was kept of others is dropped. Events of the thread
    /// itself stay.
    pub(crate) fn bind(&mut self, turn: &TurnId) {
        self.router
            .bind(&self.thread, self.turn.as_ref(), turn, self.key);
        self.turn = Some(turn.clone());
    }

    /// What comes next; an end is told again and again. Loses nothing when cancelled.
    pub(crate) async fn next(&mut self) -> Fed {
        match self.mailbox.next().await {
            Mail::Item(fed) => fed,
            Mail::Gap { missed } => {
                let lagged = EventBody::Lagged { missed };
                let event = Event::told_here(Some(self.thread.clone()), lagged);
                Fed::Event(Arc::new(event))
            }
            Mail::End(End::Closed) => Fed::Closed(self.router.why_closed()),
            Mail::End(End::TooSlow) => Fed::TooSlow,
        }
    }
}

impl Drop for TurnFeed {
    fn drop(&mut self) {
        self.router
            .remove_feed(&self.thread, self.turn.as_ref(), self.key);
    }
}

/// Events of the server: a stream that ends with the client.
///
/// Whoever reads too slowly misses the oldest events of progress: an [`EventBody::Lagged`] stands in
/// their place. Everything else is kept up to [`Limits::lossless_buffer`](crate::Limits); beyond, an
/// [`EventBody::TooSlow`] is the last event. After a lost connection an [`EventBody::Reconnected`]
/// says that something may be missing. These three pass every filter and have no method.
///
/// Dropping it ends it; nothing happens on the server.
#[derive(Debug)]
pub struct EventStream {
    router: Arc<Router>,
    mailbox: Arc<Mailbox<Arc<Event>>>,
    key: u64,
    thread: Option<ThreadId>,
    /// The last event was told.
    ended: bool,
}

impl EventStream {
    /// The next event; none when the client is closed. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let body = match ready!(self.mailbox.poll_next(cx)) {
            Mail::Item(event) => return Poll::Ready(Some(Arc::unwrap_or_clone(event))),
            Mail::Gap { missed } => EventBody::Lagged { missed },
            Mail::End(End::Closed) => {
                self.ended = true;
                return Poll::Ready(None);
            }
            Mail::End(End::TooSlow) => {
                self.ended = true;
                EventBody::TooSlow
            }
        };
        Poll::Ready(Some(Event::told_here(self.thread.clone(), body)))
    }
}

impl futures_core::Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(cx)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.router.remove_stream(self.thread.as_ref(), self.key);
    }
}
