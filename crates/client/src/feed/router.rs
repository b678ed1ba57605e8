//! The table of receivers.
//!
//! The invariant here: an event costs as much as there are receivers it concerns. Those of other
//! threads are not looked at, nor those of other turns of its thread. A receiver is in the table from
//! its making to its drop, and nothing else holds it.
//!
//! Readers are woken after the table is released, since a waker may run anything, a drop of another
//! receiver too.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::buffer::{Bounds, Class, Keep, Weight};
use super::mailbox::Mailbox;
use super::{EventStream, Fed, Filter, TurnFeed};
use crate::error::TransportError;
use crate::event::{Event, EventBody};
use crate::ids::{ThreadId, TurnId};
use crate::limits::Limits;

/// What a message about the connection counts for.
const SIGNAL: Weight = Weight {
    class: Class::Lossless,
    bytes: 0,
};

/// Where events go; one per client.
#[derive(Debug)]
pub(crate) struct Router {
    table: Mutex<Table>,
    bounds: Bounds,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Table {
    /// Set once.
    closed: Option<TransportError>,
    next_key: u64,
    /// Receivers that want events of no thread in particular.
    anywhere: BTreeMap<u64, Subscriber>,
    threads: HashMap<ThreadId, Receivers>,
}

/// Those who want events of one thread, in the order they came.
#[derive(Debug, Default)]
struct Receivers {
    streams: BTreeMap<u64, Subscriber>,
    /// Feeds of turns whose id is not known yet.
    expecting: BTreeMap<u64, Feed>,
    turns: HashMap<TurnId, BTreeMap<u64, Feed>>,
}

#[derive(Debug)]
struct Subscriber {
    mailbox: Arc<Mailbox<Arc<Event>>>,
    method_prefix: Option<String>,
}

#[derive(Debug)]
struct Feed {
    mailbox: Arc<Mailbox<Fed>>,
    /// An event of its turn was seen, so that what a server leaves out of the thread concerns it.
    begun: bool,
}

impl Receivers {
    fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.expecting.is_empty() && self.turns.is_empty()
    }

    fn feeds(&mut self) -> impl Iterator<Item = &mut Feed> {
        let bound = self.turns.values_mut().flat_map(BTreeMap::values_mut);
        self.expecting.values_mut().chain(bound)
    }
}

impl Subscriber {
    fn offer(&self, event: &Arc<Event>) -> Option<Waker> {
        // A gap is told whatever the filter: what is missing may have been wanted.
        if let EventBody::Lagged { missed } = event.body {
            return self.mailbox.put_gap(missed);
        }
        let prefix = self.method_prefix.as_deref().unwrap_or_default();
        if !event.method.starts_with(prefix) {
            return None;
        }
        self.mailbox.put(Arc::clone(event), event.weight())
    }
}

impl Router {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            table: Mutex::default(),
            bounds: Bounds::from(limits),
            dropped: Arc::default(),
        }
    }

    /// How many events of progress were left out since the client was made.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// A queue with the client's bounds whose losses are counted with all others.
    pub(crate) fn mailbox<T>(&self) -> Arc<Mailbox<T>> {
        Arc::new(Mailbox::new(self.bounds, Arc::clone(&self.dropped)))
    }

    /// Whether somebody wants events of this very thread.
    pub(crate) fn has_receivers(&self, thread: &ThreadId) -> bool {
        let table = self.table();
        let receivers = table.threads.get(thread);
        receivers.is_some_and(|receivers| !receivers.is_empty())
    }

    /// Hands an event to whoever wants it.
    pub(crate) fn deliver(&self, event: Event) {
        let event = Arc::new(event);
        let mut wakers = Vec::new();
        let mut table = self.table();
        let anywhere = table.anywhere.values();
        wakers.extend(anywhere.filter_map(|stream| stream.offer(&event)));
        if let Some(thread) = &event.thread
            && let Some(receivers) = table.threads.get_mut(thread)
        {
            let streams = receivers.streams.values();
            wakers.extend(streams.filter_map(|stream| stream.offer(&event)));
            feed(receivers, &event, &mut wakers);
        }
        drop(table);
        wake(wakers);
    }

    /// Tells every feed that the connection is gone.
    pub(crate) fn lost(&self) {
        let mut table = self.table();
        let wakers = signal(&mut table, &Fed::Lost);
        drop(table);
        wake(wakers);
    }

    /// Tells every receiver that there is another connection.
    pub(crate) fn reconnected(&self, generation: u64) {
        let mut table = self.table();
        let mut wakers = signal(&mut table, &Fed::Reconnected { generation });
        let event = Event::told_here(None, EventBody::Reconnected { generation });
        let event = Arc::new(event);
        for stream in streams(&table) {
            wakers.extend(stream.mailbox.put(Arc::clone(&event), SIGNAL));
        }
        drop(table);
        wake(wakers);
    }

    /// Ends every receiver after what it has, and every later one at once. The first reason stays.
    pub(crate) fn close(&self, why: &TransportError) {
        let mut table = self.table();
        table.closed.get_or_insert_with(|| why.clone());
        let mut wakers = Vec::new();
        for stream in streams(&table) {
            wakers.extend(stream.mailbox.put_end());
        }
        for receivers in table.threads.values_mut() {
            wakers.extend(receivers.feeds().filter_map(|feed| feed.mailbox.put_end()));
        }
        drop(table);
        wake(wakers);
    }

    /// Why nothing is delivered any more.
    pub(super) fn why_closed(&self) -> TransportError {
        let unknown = || TransportError::Closed {
            reason: "the client was closed".to_owned(),
        };
        self.table().closed.clone().unwrap_or_else(unknown)
    }

    /// Events for a caller.
    pub(crate) fn events(self: &Arc<Self>, filter: Filter) -> EventStream {
        let mailbox = self.mailbox();
        let subscriber = Subscriber {
            mailbox: Arc::clone(&mailbox),
            method_prefix: filter.method_prefix,
        };
        let mut table = self.table();
        let key = table.key();
        if table.closed.is_some() {
            mailbox.close();
        } else if let Some(thread) = &filter.thread {
            let receivers = table.threads.entry(thread.clone()).or_default();
            receivers.streams.insert(key, subscriber);
        } else {
            table.anywhere.insert(key, subscriber);
        }
        drop(table);
        EventStream {
            router: Arc::clone(self),
            mailbox,
            key,
            thread: filter.thread,
            ended: false,
        }
    }

    /// The events of a thread, for a turn whose id is not known yet.
    pub(crate) fn expect(self: &Arc<Self>, thread: &ThreadId) -> TurnFeed {
        self.feed(thread, None)
    }

    /// The events of a turn.
    pub(crate) fn follow(self: &Arc<Self>, thread: &ThreadId, turn: &TurnId) -> TurnFeed {
        self.feed(thread, Some(turn))
    }

    fn feed(self: &Arc<Self>, thread: &ThreadId, turn: Option<&TurnId>) -> TurnFeed {
        let mailbox = self.mailbox();
        let feed = Feed {
            mailbox: Arc::clone(&mailbox),
            begun: false,
        };
        let mut table = self.table();
        let key = table.key();
        if table.closed.is_some() {
            mailbox.close();
        } else {
            let receivers = table.threads.entry(thread.clone()).or_default();
            let feeds = match turn {
                Some(turn) => receivers.turns.entry(turn.clone()).or_default(),
                None => &mut receivers.expecting,
            };
            feeds.insert(key, feed);
        }
        drop(table);
        TurnFeed {
            router: Arc::clone(self),
            mailbox,
            key,
            thread: thread.clone(),
            turn: turn.cloned(),
        }
    }

    /// Moves a feed to the turn it is of. Nothing is delivered in between.
    pub(super) fn bind(&self, thread: &ThreadId, old: Option<&TurnId>, turn: &TurnId, key: u64) {
        let mut table = self.table();
        let Some(mut feed) = table.take_feed(thread, old, key) else {
            return;
        };
        feed.begun = feed.mailbox.retain(|fed| match fed {
            Fed::Event(event) => match &event.turn {
                Some(of) if of == turn => Keep::Wanted,
                Some(_) => Keep::No,
                None => Keep::Beside,
            },
            Fed::Lost | Fed::Reconnected { .. } | Fed::Closed(_) | Fed::TooSlow => Keep::Beside,
        });
        let receivers = table.threads.entry(thread.clone()).or_default();
        let feeds = receivers.turns.entry(turn.clone()).or_default();
        feeds.insert(key, feed);
    }

    pub(super) fn remove_feed(&self, thread: &ThreadId, turn: Option<&TurnId>, key: u64) {
        let mut table = self.table();
        let feed = table.take_feed(thread, turn, key);
        drop(table);
        // What it held is freed outside the lock.
        drop(feed);
    }

    pub(super) fn remove_stream(&self, thread: Option<&ThreadId>, key: u64) {
        let mut table = self.table();
        let stream = match thread {
            None => table.anywhere.remove(&key),
            Some(thread) => {
                let receivers = table.threads.get_mut(thread);
                let stream = receivers.and_then(|receivers| receivers.streams.remove(&key));
                table.tidy(thread);
                stream
            }
        };
        drop(table);
        drop(stream);
    }

    /// Whether there is no receiver.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let table = self.table();
        table.anywhere.is_empty() && table.threads.is_empty()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing in here panics between two writes.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn take_feed(&mut self, thread: &ThreadId, turn: Option<&TurnId>, key: u64) -> Option<Feed> {
        let receivers = self.threads.get_mut(thread)?;
        let feed = match turn {
            None => receivers.expecting.remove(&key),
            Some(turn) => {
                let feeds = receivers.turns.get_mut(turn)?;
                let feed = feeds.remove(&key);
                if feeds.is_empty() {
                    receivers.turns.remove(turn);
                }
                feed
            }
        };
        self.tidy(thread);
        feed
    }

    /// Forgets a thread that nobody wants to hear of.
    fn tidy(&mut self, thread: &ThreadId) {
        if self.threads.get(thread).is_some_and(Receivers::is_empty) {
            self.threads.remove(thread);
        }
    }
}

/// Hands an event of a thread to the feeds it concerns.
fn feed(receivers: &mut Receivers, event: &Arc<Event>, wakers: &mut Vec<Waker>) {
    if let Some(turn) = &event.turn {
        let bound = receivers.turns.get_mut(turn).into_iter().flatten();
        let expecting = receivers.expecting.iter_mut();
        for (_, feed) in expecting.chain(bound) {
            feed.begun = true;
            let fed = Fed::Event(Arc::clone(event));
            wakers.extend(feed.mailbox.put(fed, event.weight()));
        }
        return;
    }
    match event.body {
        // The server does not say which turn's deltas it left out.
        EventBody::Lagged { missed } => {
            let begun = receivers.feeds().filter(|feed| feed.begun);
            wakers.extend(begun.filter_map(|feed| feed.mailbox.put_gap(missed)));
        }
        EventBody::Status(_)
        | EventBody::ThreadGone
        | EventBody::Queue(_)
        | EventBody::Warning(_) => {
            for feed in receivers.feeds() {
                let fed = Fed::Event(Arc::clone(event));
                wakers.extend(feed.mailbox.put(fed, event.weight()));
            }
        }
        _ => {}
    }
}

/// Tells every feed something about the connection.
fn signal(table: &mut Table, fed: &Fed) -> Vec<Waker> {
    let receivers = table.threads.values_mut();
    let feeds = receivers.flat_map(Receivers::feeds);
    feeds
        .filter_map(|feed| feed.mailbox.put(fed.clone(), SIGNAL))
        .collect()
}

fn streams(table: &Table) -> impl Iterator<Item = &Subscriber> {
    let of_threads = table.threads.values().flat_map(|of| of.streams.values());
    table.anywhere.values().chain(of_threads)
}

fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
