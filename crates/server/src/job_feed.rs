//! The notifications about fan-out jobs: who wants them, and when they are sent.
//!
//! The invariants here: `fanout/updated` is sent at most once a second per job, and only the newest one
//! waits for a slow reader; `fanout/ended` is never dropped; `fanout/item/updated` is dropped for a reader
//! that has [`ITEMS_WAITING_MAX`] messages unread, and the number is told. Nothing here waits for a client.
//!
//! # Theory of operation
//!
//! One task per server ([`watch`]) takes the events of the runtime's jobs and items, both bounded by the
//! runtime, and reads a job again before it tells of it. Jobs that another process runs cause no events
//! here, so the task also looks at subscribed jobs once a second. It ends with the server.

mod subscriptions;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::fanout::{Job, JobCounts, JobState};
use turnlane_protocol::notification::{
    FanoutEnded, FanoutItemUpdated, FanoutUpdated, ServerNotification, method,
};
use turnlane_rpc::{Outgoing, Scope};
use turnlane_runtime::fanout::jobs::{ItemEvent, JobEvent, Watch, Watched};

use crate::connection::Connection;
use crate::handlers::fanout::{item_view, job_view};
use crate::server::Shared;

pub(crate) use subscriptions::{Interest, JobSubscriptions};

/// Unread messages of a client from which on changes of items are dropped.
const ITEMS_WAITING_MAX: usize = 256;
/// Unread bytes of a client from which on changes of items are dropped.
const ITEMS_WAITING_BYTES_MAX: usize = 1024 * 1024;
/// The shortest time between two `fanout/updated` of one job.
const UPDATE_EVERY: Duration = Duration::from_secs(1);
/// The time between two looks at what is due.
const TICK: Duration = Duration::from_millis(250);
/// Ticks between two looks at jobs that another process may run.
const TICKS_PER_LOOK: u32 = 4;

/// What connections and the task share.
#[derive(Default)]
pub(crate) struct JobFeed {
    /// Wakes the task when there is another watch of items.
    wake: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// True while items are watched.
    items_live: bool,
    /// A watch of items that the task has not taken yet.
    items: Option<Watch<ItemEvent>>,
    /// Jobs whose runner is in this process and has not told their end.
    running_here: HashSet<String>,
    /// Jobs as they were last told, those that are subscribed.
    seen: HashMap<String, ToldJob>,
}

/// What was last told of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToldJob {
    version: i64,
    counts: JobCounts,
    state: JobState,
    settled: bool,
}

impl ToldJob {
    fn of(job: &Job) -> Self {
        Self {
            version: job.status.version,
            counts: job.status.counts,
            state: job.status.state,
            settled: job.status.is_settled(),
        }
    }
}

impl JobFeed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes a connection to one job, or to all. Events from now on are told.
pub(crate) fn subscribe(cx: &Connection, job: Option<&str>, interest: Interest) {
    cx.job_subscriptions().add(job, interest);
    if interest == Interest::Items {
        let shared = cx.shared();
        let mut state = shared.job_feed.state();
        if !state.items_live {
            state.items_live = true;
            state.items = Some(shared.options.runtime.jobs().watch_items());
            shared.job_feed.wake.notify_one();
        }
    }
}

/// Tells a connection that has just subscribed the end of a job that has ended.
pub(crate) async fn show(cx: &Connection, id: &str) {
    let shared = cx.shared();
    let Some(job) = read(shared, id).await else {
        return;
    };
    let seen = ToldJob::of(&job);
    let is_running_here = {
        let mut state = shared.job_feed.state();
        state.seen.insert(id.to_owned(), seen);
        state.running_here.contains(id)
    };
    // A job that this process runs may still write its export; its end is told behind that.
    if seen.settled && !is_running_here && cx.wants(method::FANOUT_ENDED) {
        let ended = ServerNotification::FanoutEnded(FanoutEnded { job: Box::new(job) });
        if let Some(frame) = encoded(shared, &ended) {
            cx.peer().notify(&Outgoing::kept(frame, Some(id.into())));
        }
    }
}

async fn read(shared: &Shared, id: &str) -> Option<Job> {
    let job = shared.options.runtime.jobs().read(id).await;
    match job {
        Ok(job) => Some(job_view(&job, shared.options.clock.now_ms())),
        Err(error) => {
            tracing::debug!(%error, job = id, "a job cannot be told of");
            None
        }
    }
}

fn encoded(shared: &Shared, notification: &ServerNotification) -> Option<Vec<u8>> {
    let stamp = Stamp {
        emitted_at_ms: shared.options.clock.now_ms(),
        seq: None,
    };
    let frame = notification.encode(Some(stamp));
    frame
        .inspect_err(|error| tracing::error!(%error, "a notification cannot be written"))
        .ok()
}

/// Begins to tell connections of jobs; ends with the server.
pub(crate) fn watch(shared: &Arc<Shared>) {
    let mut changes = shared.options.runtime.jobs().watch();
    let stopping = shared.stopping.clone();
    let wake = Arc::clone(&shared.job_feed.wake);
    // Held only while something is told: the task must not keep the server.
    let weak = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut task = Task::default();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut items: Option<Watch<ItemEvent>> = None;
        loop {
            let happened = tokio::select! {
                () = stopping.cancelled() => return,
                change = changes.recv() => match change {
                    Some(change) => Happened::Job(change),
                    None => return,
                },
                event = next_item(&mut items) => match event {
                    Some(event) => Happened::Item(event),
                    None => return,
                },
                () = wake.notified() => Happened::ItemsWanted,
                _ = tick.tick() => Happened::Tick,
            };
            let Some(shared) = weak.upgrade() else {
                return;
            };
            match happened {
                Happened::Job(change) => task.changed(&shared, change).await,
                Happened::Item(event) => item_changed(&shared, event),
                Happened::ItemsWanted => {
                    let fresh = shared.job_feed.state().items.take();
                    items = fresh.or(items);
                }
                Happened::Tick => {
                    task.tick(&shared).await;
                    if items.is_some() && stop_items(&shared) {
                        items = None;
                    }
                }
            }
        }
    });
}

/// What the task was woken by.
enum Happened {
    Job(Watched<JobEvent>),
    Item(Watched<ItemEvent>),
    ItemsWanted,
    Tick,
}

/// The next change of an item; never where items are not watched.
async fn next_item(items: &mut Option<Watch<ItemEvent>>) -> Option<Watched<ItemEvent>> {
    match items {
        Some(items) => items.recv().await,
        None => std::future::pending().await,
    }
}

/// Ends the watch of items when no connection wants them; true if it ended.
fn stop_items(shared: &Shared) -> bool {
    let mut state = shared.job_feed.state();
    if state.items.is_some() || shared.hub.any(|cx| cx.job_subscriptions().wants_items()) {
        return false;
    }
    state.items_live = false;
    true
}

/// What the task remembers.
#[derive(Default)]
struct Task {
    /// The time of the last `fanout/updated` of a job, for a second.
    told_at: HashMap<String, Instant>,
    /// Jobs that changed after that.
    due: HashSet<String>,
    ticks: u32,
}

impl Task {
    async fn changed(&mut self, shared: &Shared, change: Watched<JobEvent>) {
        match change {
            Watched::Event(JobEvent::Changed(row)) => {
                let is_running = !row.state.is_terminal();
                let id = row.made.id;
                if is_running && row.started_ms.is_some() {
                    shared.job_feed.state().running_here.insert(id.clone());
                }
                self.update(shared, id).await;
            }
            Watched::Event(JobEvent::Ended(row)) => {
                let id = row.made.id;
                shared.job_feed.state().running_here.remove(&id);
                self.due.remove(&id);
                end(shared, &id).await;
            }
            Watched::Event(JobEvent::Deleted { id }) => {
                let mut state = shared.job_feed.state();
                state.running_here.remove(&id);
                state.seen.remove(&id);
                drop(state);
                self.due.remove(&id);
                shared
                    .hub
                    .each(|cx| cx.job_subscriptions().remove(Some(&id)));
            }
            // Ends may be among the dropped ones: the looks at the store find them.
            Watched::Dropped(_) => shared.job_feed.state().running_here.clear(),
        }
    }

    /// Tells that a job has changed, or notes that it is due.
    async fn update(&mut self, shared: &Shared, id: String) {
        let told_at = self.told_at.get(&id);
        if told_at.is_some_and(|at| at.elapsed() < UPDATE_EVERY) {
            self.due.insert(id);
            return;
        }
        self.due.remove(&id);
        if !is_wanted(shared, &id) {
            return;
        }
        let Some(job) = read(shared, &id).await else {
            return;
        };
        self.tell_update(shared, id, job);
    }

    fn tell_update(&mut self, shared: &Shared, id: String, job: Job) {
        let seen = ToldJob::of(&job);
        shared.job_feed.state().seen.insert(id.clone(), seen);
        let job = Box::new(job.status);
        let updated = ServerNotification::FanoutUpdated(FanoutUpdated { job });
        if let Some(frame) = encoded(shared, &updated) {
            let scope: Scope = id.as_str().into();
            let message = Outgoing::newest(frame, scope, method::FANOUT_UPDATED);
            shared.hub.tell_all(method::FANOUT_UPDATED, &message, |cx| {
                cx.job_subscriptions().interest(&id).is_some()
            });
        }
        self.told_at.insert(id, Instant::now());
    }

    async fn tick(&mut self, shared: &Shared) {
        self.told_at.retain(|_, at| at.elapsed() < UPDATE_EVERY);
        let due: Vec<String> = self.due.iter().cloned().collect();
        for id in due {
            self.update(shared, id).await;
        }
        shared.hub.each(|cx| tell_dropped(shared, cx));
        self.ticks += 1;
        if self.ticks >= TICKS_PER_LOOK {
            self.ticks = 0;
            self.look(shared).await;
        }
    }

    /// Looks at subscribed jobs that cause no events here.
    async fn look(&mut self, shared: &Shared) {
        for id in wanted_elsewhere(shared) {
            let Some(job) = read(shared, &id).await else {
                continue;
            };
            let now = ToldJob::of(&job);
            let before = shared.job_feed.state().seen.get(&id).copied();
            let was_settled =
                before.is_some_and(|before| before.settled && before.version == now.version);
            if now.settled && !was_settled {
                end(shared, &id).await;
            } else if before.is_some_and(|before| before != now) {
                self.tell_update(shared, id, job);
            } else {
                shared.job_feed.state().seen.insert(id, now);
            }
        }
    }
}

/// The subscribed jobs that have not ended and that no runner of this process runs.
fn wanted_elsewhere(shared: &Shared) -> HashSet<String> {
    let mut wanted = HashSet::new();
    shared
        .hub
        .each(|cx| cx.job_subscriptions().names(&mut wanted));
    let mut state = shared.job_feed.state();
    state.seen.retain(|id, _| wanted.contains(id));
    wanted.retain(|id| {
        let has_ended = state.seen.get(id).is_some_and(|it| it.state.is_terminal());
        !has_ended && !state.running_here.contains(id)
    });
    wanted
}

/// Returns true if a connection wants to know of a job.
fn is_wanted(shared: &Shared, id: &str) -> bool {
    shared
        .hub
        .any(|cx| cx.job_subscriptions().interest(id).is_some())
}

/// Tells that a job has ended, or is paused and nothing of it runs.
async fn end(shared: &Shared, id: &str) {
    if !is_wanted(shared, id) {
        return;
    }
    let Some(job) = read(shared, id).await else {
        return;
    };
    let seen = ToldJob::of(&job);
    shared.job_feed.state().seen.insert(id.to_owned(), seen);
    let ended = ServerNotification::FanoutEnded(FanoutEnded { job: Box::new(job) });
    if let Some(frame) = encoded(shared, &ended) {
        let message = Outgoing::kept(frame, Some(id.into()));
        shared.hub.tell_all(method::FANOUT_ENDED, &message, |cx| {
            cx.job_subscriptions().interest(id).is_some()
        });
    }
}

/// Tells connections that want items of a changed one.
fn item_changed(shared: &Shared, event: Watched<ItemEvent>) {
    let event = match event {
        Watched::Event(event) => event,
        Watched::Dropped(count) => {
            shared
                .hub
                .each(|cx| cx.job_subscriptions().dropped_everywhere(count));
            return;
        }
    };
    let id = &event.job_id;
    let updated = ServerNotification::FanoutItemUpdated(FanoutItemUpdated {
        job_id: id.clone(),
        item: Some(Box::new(item_view(
            &event.item,
            event.source_id.clone(),
            None,
        ))),
        dropped: None,
    });
    let Some(frame) = encoded(shared, &updated) else {
        return;
    };
    let message = Outgoing::kept(frame, Some(id.as_str().into()));
    shared.hub.each(|cx| {
        let is_wanted = cx.job_subscriptions().interest(id) == Some(Interest::Items);
        if !is_wanted || !cx.wants(method::FANOUT_ITEM_UPDATED) {
            return;
        }
        if has_room(cx) {
            tell_dropped(shared, cx);
            cx.peer().notify(&message);
        } else {
            cx.job_subscriptions().dropped(id, 1);
        }
    });
}

fn has_room(cx: &Connection) -> bool {
    let waiting = cx.peer().waiting();
    waiting.messages < ITEMS_WAITING_MAX && waiting.bytes < ITEMS_WAITING_BYTES_MAX
}

/// Tells a connection how many changes of items were dropped, once it reads again.
fn tell_dropped(shared: &Shared, cx: &Connection) {
    if !has_room(cx) {
        return;
    }
    for (job_id, dropped) in cx.job_subscriptions().take_dropped() {
        let scope: Scope = job_id.as_str().into();
        let told = ServerNotification::FanoutItemUpdated(FanoutItemUpdated {
            job_id,
            item: None,
            dropped: Some(dropped),
        });
        if let Some(frame) = encoded(shared, &told)
            && cx.wants(method::FANOUT_ITEM_UPDATED)
        {
            cx.peer().notify(&Outgoing::kept(frame, Some(scope)));
        }
    }
}
