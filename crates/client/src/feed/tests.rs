//! Tests of queues and of who gets what.
//!
//! Nothing here waits: readers are polled by hand, so that a reader that sleeps is one that is not
//! polled.

mod announced;
mod buffer;
mod routing;
mod slow;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};

use super::{EventStream, Fed, Router, TurnFeed};
use crate::event::{Event, EventBody};
use crate::limits::Limits;

/// An event as the wire tells it.
fn event(method: &str, params: &Value) -> Event {
    Event::decode(method.to_owned(), params.to_string().as_bytes(), None)
}

/// More text of a message of turn `turn` of thread `thread`.
fn delta(thread: &str, turn: &str, text: &str) -> Event {
    let params = json!({"threadId": thread, "turnId": turn, "itemId": "i", "delta": text});
    event("item/agentMessage/delta", &params)
}

fn turn_started(thread: &str, turn: &str) -> Event {
    let turn = json!({"id": turn, "status": "inProgress", "items": []});
    event("turn/started", &json!({"threadId": thread, "turn": turn}))
}

fn status(thread: &str, word: &str) -> Event {
    let params = json!({"threadId": thread, "status": {"type": word}});
    event("thread/status/changed", &params)
}

fn router(limits: &Limits) -> Arc<Router> {
    Arc::new(Router::new(limits))
}

/// What a stream has now; the second says whether it has ended.
fn read(stream: &mut EventStream) -> (Vec<Event>, bool) {
    let mut events = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match stream.poll_event(&mut cx) {
            Poll::Ready(Some(event)) => events.push(event),
            Poll::Ready(None) => return (events, true),
            Poll::Pending => return (events, false),
        }
    }
}

/// What a feed has next, if it has anything.
fn next(feed: &mut TurnFeed) -> Option<Fed> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::pin!(feed.next()).poll(&mut cx) {
        Poll::Ready(fed) => Some(fed),
        Poll::Pending => None,
    }
}

/// What a feed has now, in words.
fn fed(feed: &mut TurnFeed) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(fed) = next(feed) {
        let ended = matches!(fed, Fed::Closed(_) | Fed::TooSlow);
        told.push(match fed {
            Fed::Event(event) => words(&event),
            Fed::Lost => "lost".to_owned(),
            Fed::Reconnected { generation } => format!("reconnected {generation}"),
            Fed::Closed(why) => why.to_string(),
            Fed::TooSlow => "too slow".to_owned(),
        });
        if ended {
            break;
        }
    }
    told
}

/// An event in words.
fn words(event: &Event) -> String {
    match &event.body {
        EventBody::Delta(delta) => delta.text.clone(),
        EventBody::Lagged { missed } => format!("lagged {missed}"),
        EventBody::Status(word) => word.clone(),
        EventBody::Reconnected { generation } => format!("reconnected {generation}"),
        EventBody::TooSlow => "too slow".to_owned(),
        _ => event.method.clone(),
    }
}
