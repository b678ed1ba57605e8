//! Which turn gets which message of the child.
//!
//! The invariant here: delivering never waits. Each thread has one subscriber with a backlog of
//! [`BACKLOG_MAX`] messages. Above half of it the pieces of texts are left out, since a completed item
//! holds its whole text. A subscriber whose backlog is full is cut off and learns it; the other threads
//! of the child notice nothing.
//!
//! Messages about threads without a subscriber are left out, and questions about them are refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::notification::method;
use turnlane_rpc::{Notification, Request};

/// How many messages of one thread may wait for its turn.
const BACKLOG_MAX: usize = 16 * 1024;

/// A message about one thread.
#[derive(Debug)]
pub(super) enum ThreadMessage {
    /// Something happened.
    Notice(Notification),
    /// The child wants to know something.
    Question(Request),
    /// The provider said how much may still be used: all that is known of it.
    RateLimits(Map<String, Value>),
}

/// The table of subscribers.
#[derive(Debug, Default)]
pub(super) struct Routes {
    table: Mutex<Table>,
    /// Counts changes of `active`, for those that wait for the end of a turn.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    routes: HashMap<String, Route>,
    /// The turn that runs on each thread, by what the child told.
    active: HashMap<String, String>,
    rate_limits: Map<String, Value>,
    next_number: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Route {
    number: u64,
    messages: mpsc::Sender<ThreadMessage>,
}

/// The messages about one thread; dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    routes: Arc<Routes>,
    thread: String,
    number: u64,
    messages: mpsc::Receiver<ThreadMessage>,
}

impl Subscription {
    /// The next message; none when the child is gone or this subscriber was cut off.
    ///
    /// Dropped while it waits, nothing is lost.
    pub(super) async fn next(&mut self) -> Option<ThreadMessage> {
        self.messages.recv().await
    }

    /// The next message if one is there already.
    pub(super) fn try_next(&mut self) -> Option<ThreadMessage> {
        self.messages.try_recv().ok()
    }

    pub(super) fn thread(&self) -> &str {
        &self.thread
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut table = self.routes.table();
        let is_ours = |route: &Route| route.number == self.number;
        if table.routes.get(&self.thread).is_some_and(is_ours) {
            table.routes.remove(&self.thread);
        }
    }
}

/// The members by which a message names its thread; the second is of earlier protocols.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    thread_id: Option<String>,
    conversation_id: Option<String>,
    turn: Option<NamedTurn>,
}

#[derive(Deserialize)]
struct NamedTurn {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RateLimits {
    rate_limits: Map<String, Value>,
}

impl Routes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn subscribe(routes: &Arc<Self>, thread: &str) -> Subscription {
        let (sender, messages) = mpsc::channel(BACKLOG_MAX);
        let mut table = routes.table();
        table.next_number += 1;
        let number = table.next_number;
        let route = Route {
            number,
            messages: sender,
        };
        // Subscribed to a child that is gone, it ends at once.
        if !table.is_closed {
            table.routes.insert(thread.to_owned(), route);
        }
        Subscription {
            routes: Arc::clone(routes),
            thread: thread.to_owned(),
            number,
            messages,
        }
    }

    pub(super) fn active_turn(&self, thread: &str) -> Option<String> {
        self.table().active.get(thread).cloned()
    }

    pub(super) async fn idle(&self, thread: &str) {
        let mut changes = self.changes.subscribe();
        while self.active_turn(thread).is_some() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) async fn busy(&self, thread: &str) -> String {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(turn) = self.active_turn(thread) {
                return turn;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Puts a notification into the backlog of its thread.
    pub(super) fn deliver(&self, notification: Notification) {
        if notification.method == method::RATE_LIMITS_UPDATED {
            return self.deliver_limits(&notification);
        }
        // Notifications of every shape come here; one that names no thread concerns no turn.
        let Ok(subject) = serde_json::from_slice::<Subject>(notification.params.raw()) else {
            return;
        };
        let Some(thread) = subject.thread_id else {
            return;
        };
        let mut table = self.table();
        if let Some(turn) = subject.turn {
            match notification.method.as_str() {
                method::TURN_STARTED => {
                    table.active.insert(thread.clone(), turn.id);
                }
                method::TURN_COMPLETED if table.active.get(&thread) == Some(&turn.id) => {
                    table.active.remove(&thread);
                }
                _ => {}
            }
            self.changes.send_modify(|changes| *changes += 1);
        }
        let is_piece = is_piece(&notification.method);
        table.send(&thread, ThreadMessage::Notice(notification), is_piece);
    }

    /// Updates are sparse: a member that is absent or null keeps its last value.
    fn deliver_limits(&self, notification: &Notification) {
        let Ok(update) = serde_json::from_slice::<RateLimits>(notification.params.raw()) else {
            return;
        };
        let mut table = self.table();
        for (name, value) in update.rate_limits {
            if !value.is_null() || !table.rate_limits.contains_key(&name) {
                table.rate_limits.insert(name, value);
            }
        }
        let threads: Vec<String> = table.routes.keys().cloned().collect();
        for thread in threads {
            let limits = table.rate_limits.clone();
            table.send(&thread, ThreadMessage::RateLimits(limits), true);
        }
    }

    /// Gives a question to the turn of its thread; refuses it if there is none.
    pub(super) fn ask(&self, request: Request) {
        let subject = serde_json::from_slice::<Subject>(request.params.raw());
        let thread = subject
            .ok()
            .and_then(|subject| subject.thread_id.or(subject.conversation_id));
        let mut table = self.table();
        match thread {
            Some(thread) if table.routes.contains_key(&thread) => {
                table.send(&thread, ThreadMessage::Question(request), false);
            }
            _ => {
                drop(table);
                refuse(request);
            }
        }
    }

    /// The child is gone: ends all subscriptions, now and later.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.is_closed = true;
        table.routes.clear();
        table.active.clear();
        drop(table);
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl Table {
    fn send(&mut self, thread: &str, message: ThreadMessage, may_be_left_out: bool) {
        let Some(route) = self.routes.get(thread) else {
            return;
        };
        let is_crowded = route.messages.capacity() < BACKLOG_MAX / 2;
        if is_crowded && may_be_left_out {
            return;
        }
        if let Err(unsent) = route.messages.try_send(message) {
            tracing::warn!(thread, "a turn is cut off: too many messages wait for it");
            self.routes.remove(thread);
            if let ThreadMessage::Question(request) = unsent.into_inner() {
                refuse(request);
            }
        }
    }
}

fn refuse(request: Request) {
    let error = ErrorObject::bare(-32600, "no turn of this client runs on the thread");
    request.responder.error(&error);
}

/// Returns true for a piece of a text that its completed item holds whole.
fn is_piece(name: &str) -> bool {
    matches!(
        name,
        method::AGENT_MESSAGE_DELTA
            | method::PLAN_DELTA
            | method::REASONING_SUMMARY_TEXT_DELTA
            | method::REASONING_TEXT_DELTA
            | method::COMMAND_OUTPUT_DELTA
    )
}
