//! Lists in pages: one page after the other, and a stream over all of them.
//!
//! The invariant here: a list ends. A server that names the same place twice, or a next place behind an
//! empty page, is at its end; and a page too large for a frame is asked for again in smaller pieces.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use serde_json::{Map, Value};

use crate::call::CallOptions;
use crate::core::{Core, Owner};
use crate::error::{CallError, TransportError, map};
use crate::link::Repeat;
use crate::review::BoxFuture;

/// One page of anything, as it came.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) data: Vec<Value>,
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    pub(crate) fn from_json(mut answer: Value) -> Self {
        let data = match answer.get_mut("data").map(Value::take) {
            Some(Value::Array(data)) => data,
            _ => Vec::new(),
        };
        let next = answer.get("nextCursor").and_then(Value::as_str);
        Self {
            data,
            next_cursor: next.map(str::to_owned),
        }
    }
}

/// Where a list stands.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    method: &'static str,
    params: Map<String, Value>,
    limit: Option<u32>,
    next: Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    First,
    At(String),
    End,
}

impl Listing {
    /// The list of `method`, in pages of `limit` or of what the server likes.
    pub(crate) fn new(
        method: &'static str,
        params: Map<String, Value>,
        limit: Option<u32>,
    ) -> Self {
        let next = match params.get("cursor").and_then(Value::as_str) {
            Some(cursor) => Next::At(cursor.to_owned()),
            None => Next::First,
        };
        Self {
            method,
            params,
            limit,
            next,
        }
    }

    /// The next page; none at the end.
    pub(crate) async fn next(&mut self, core: &Core) -> Result<Option<Vec<Value>>, CallError> {
        let cursor = match &self.next {
            Next::End => return Ok(None),
            Next::First => None,
            Next::At(cursor) => Some(cursor.clone()),
        };
        if let Some(cursor) = &cursor {
            self.params
                .insert("cursor".to_owned(), Value::from(cursor.as_str()));
        }
        let page = self.fetch(core).await?;
        self.next = match page.next_cursor {
            Some(next) if !page.data.is_empty() && Some(&next) != cursor.as_ref() => Next::At(next),
            _ => Next::End,
        };
        Ok(Some(page.data))
    }

    async fn fetch(&mut self, core: &Core) -> Result<Page, CallError> {
        loop {
            if let Some(limit) = self.limit {
                self.params.insert("limit".to_owned(), Value::from(limit));
            }
            let options = CallOptions::default();
            let answer = core
                .call_as(self.method, &self.params, Repeat::Harmless, options)
                .await;
            match answer {
                Ok(answer) => return Ok(Page::from_json(answer)),
                Err(error) if map::is_no_turns_yet(&error) => return Ok(Page::default()),
                Err(error) => match (&error, self.limit) {
                    (CallError::Transport(TransportError::FrameTooLarge { .. }), Some(limit))
                        if limit > 1 =>
                    {
                        self.limit = Some(limit / 2);
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

type Fetched = (Listing, Result<Option<Vec<Value>>, CallError>);

/// Every entry of a list, page by page as it is read.
pub(crate) struct Entries<T> {
    owner: Arc<Owner>,
    state: State,
    ready: VecDeque<T>,
    read: fn(Value) -> Option<T>,
}

enum State {
    Idle(Listing),
    Fetching(BoxFuture<'static, Fetched>),
    Failed(Option<CallError>),
    Ended,
}

impl<T> Entries<T> {
    /// Nothing is asked before the stream is polled.
    pub(crate) fn new(owner: Arc<Owner>, listing: Listing, read: fn(Value) -> Option<T>) -> Self {
        Self {
            owner,
            state: State::Idle(listing),
            ready: VecDeque::new(),
            read,
        }
    }

    /// A list that cannot be read.
    pub(crate) fn failed(owner: Arc<Owner>, why: CallError, read: fn(Value) -> Option<T>) -> Self {
        Self {
            owner,
            state: State::Failed(Some(why)),
            ready: VecDeque::new(),
            read,
        }
    }
}

impl<T> std::fmt::Debug for Entries<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries")
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

impl<T: Unpin> futures_core::Stream for Entries<T> {
    type Item = Result<T, CallError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(entry) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(entry)));
            }
            match &mut this.state {
                State::Ended => return Poll::Ready(None),
                State::Failed(why) => {
                    let why = why.take();
                    this.state = State::Ended;
                    return Poll::Ready(why.map(Err));
                }
                State::Idle(listing) => {
                    let mut listing = listing.clone();
                    // The stream is a handle: the link stays open while it is read.
                    let owner = Arc::clone(&this.owner);
                    this.state = State::Fetching(Box::pin(async move {
                        let page = listing.next(&owner).await;
                        (listing, page)
                    }));
                }
                State::Fetching(fetching) => {
                    let (listing, page) = ready!(fetching.as_mut().poll(cx));
                    match page {
                        Ok(Some(data)) => {
                            this.ready.extend(data.into_iter().filter_map(this.read));
                            this.state = State::Idle(listing);
                        }
                        Ok(None) => this.state = State::Ended,
                        Err(why) => this.state = State::Failed(Some(why)),
                    }
                }
            }
        }
    }
}
