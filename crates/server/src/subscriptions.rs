//! Who follows which thread, and how a connection joins in.
//!
//! The invariant here: a follower is told everything from its cut on, in order, none twice, and
//! nothing of it before the answer to the request that made it a follower. The runtime owns a
//! subscription; when it lets go, the connection forgets it.
//!
//! Theory of operation: a subscription begins held. What the lane tells meanwhile waits (at most
//! [`HELD_MAX`]) until the request is answered and the picture was sent; then it is told directly,
//! in the lane's own task, which never waits for it.

mod snapshot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use turnlane_protocol::approval::{COMMAND_METHOD, FILE_CHANGE_METHOD};
use turnlane_protocol::ids::{ApprovalId, QueuedTurnId, ThreadId, TurnId};
use turnlane_runtime::{
    Answers, Error, Notice, NoticeBody, Replay, Since, Snapshot, StartAnswer, Subscriber,
    SubscriberId,
};

use crate::broker;
use crate::connection::Connection;
use crate::encode::{Feed, Told};

/// How many notices wait for a follower that is not live yet; then it is refused.
const HELD_MAX: usize = 16_384;

/// The feeds of threads that are followed.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<FeedMap>);

#[derive(Default)]
struct FeedMap {
    feeds: HashMap<ThreadId, Weak<Feed>>,
    /// At this many the ones that nobody follows any more are swept out.
    sweep_at: usize,
}

impl Feeds {
    fn of(&self, thread: ThreadId) -> Arc<Feed> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = map.feeds.get(&thread).and_then(Weak::upgrade) {
            return feed;
        }
        if map.feeds.len() >= map.sweep_at {
            map.feeds.retain(|_, feed| feed.strong_count() > 0);
            map.sweep_at = (2 * map.feeds.len()).max(64);
        }
        let feed = Arc::new(Feed::new(thread));
        map.feeds.insert(thread, Arc::downgrade(&feed));
        feed
    }
}

/// The threads that a connection follows.
#[derive(Default)]
pub(crate) struct Followed(Mutex<HashMap<ThreadId, (SubscriberIdOf, Weak<Subscription>)>>);

/// The runtime's name of a subscription; none while it joins.
type SubscriberIdOf = Option<SubscriberId>;

impl Followed {
    fn map(&self) -> MutexGuard<'_, HashMap<ThreadId, (SubscriberIdOf, Weak<Subscription>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        let map = self.map();
        map.get(&thread)
            .is_some_and(|(_, subscription)| subscription.strong_count() > 0)
    }

    /// Takes a thread out; the runtime's name of the subscription if there was one.
    pub(crate) fn take(&self, thread: ThreadId) -> Option<SubscriberIdOf> {
        let (id, subscription) = self.map().remove(&thread)?;
        (subscription.strong_count() > 0).then_some(id)
    }

    /// Takes all out.
    pub(crate) fn take_all(&self) -> Vec<(ThreadId, SubscriberIdOf)> {
        let all = std::mem::take(&mut *self.map());
        all.into_iter()
            .map(|(thread, (id, _))| (thread, id))
            .collect()
    }

    fn forget(&self, thread: ThreadId, gone: *const Subscription) {
        let mut map = self.map();
        if let Some((_, subscription)) = map.get(&thread)
            && std::ptr::eq(subscription.as_ptr(), gone)
        {
            map.remove(&thread);
        }
    }
}

/// One connection's following of one thread.
pub(crate) struct Subscription {
    cx: Weak<Connection>,
    thread: ThreadId,
    feed: Arc<Feed>,
    state: Mutex<State>,
}

enum State {
    Held {
        notices: Vec<Arc<Notice>>,
        overrun: bool,
    },
    Live,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(cx) = self.cx.upgrade() {
            cx.followed().forget(self.thread, self);
        }
    }
}

impl Subscriber for Subscription {
    fn tell(&self, notice: &Arc<Notice>) {
        let mut state = self.state();
        match &mut *state {
            State::Live => self.deliver(notice),
            State::Held { notices, .. } if notices.len() < HELD_MAX => {
                notices.push(Arc::clone(notice));
            }
            State::Held { overrun, .. } => *overrun = true,
        }
    }

    fn answers(&self) -> Answers {
        let asks = [COMMAND_METHOD, FILE_CHANGE_METHOD];
        match self.cx.upgrade() {
            Some(cx) if asks.iter().any(|method| cx.wants(method)) => Answers::Yes,
            _ => Answers::No,
        }
    }
}

impl Subscription {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, notice: &Arc<Notice>) {
        let Some(cx) = self.cx.upgrade() else {
            return;
        };
        let told = self.feed.told(notice, &cx.shared().broker);
        match &*told {
            Told::Said { method, messages } => {
                if cx.wants(method) {
                    for message in messages {
                        cx.peer().notify(message);
                    }
                }
            }
            Told::Asked(question) => broker::ask(&cx, question),
            Told::Nothing => {}
        }
    }
}

/// A connection that has joined and is told nothing yet.
pub(crate) struct Joined {
    subscription: Arc<Subscription>,
    pub(crate) snapshot: Box<Snapshot>,
}

/// What became of a wish to follow.
pub(crate) enum Join {
    /// It follows already.
    Already,
    /// It has joined.
    New(Joined),
}

/// Makes a connection a follower, unless it is one.
pub(crate) async fn join(
    cx: &Arc<Connection>,
    thread: ThreadId,
    since: Option<Since>,
) -> Result<Join, Error> {
    if cx.followed().has(thread) {
        return Ok(Join::Already);
    }
    let subscription = new_subscription(cx, thread);
    let runtime = &cx.shared().options.runtime;
    let subscriber: Arc<dyn Subscriber> = Arc::clone(&subscription) as _;
    let joined = runtime.subscribe(thread, subscriber, since).await?;
    Ok(Join::New(now_known(cx, subscription, joined).await))
}

/// Makes a connection that does not follow a thread a follower, and starts a row of its queue: the
/// head where none is named. What became of each.
pub(crate) async fn join_and_start_row(
    cx: &Arc<Connection>,
    thread: ThreadId,
    row: Option<QueuedTurnId>,
) -> (Result<Joined, Error>, Result<StartAnswer, Error>) {
    let subscription = new_subscription(cx, thread);
    let runtime = &cx.shared().options.runtime;
    let subscriber: Arc<dyn Subscriber> = Arc::clone(&subscription) as _;
    let (joined, started) = runtime
        .subscribe_and_start_row(thread, subscriber, row)
        .await;
    let joined = match joined {
        Ok(joined) => Ok(now_known(cx, subscription, joined).await),
        Err(error) => Err(error),
    };
    (joined, started)
}

/// A follower that is told nothing yet.
fn new_subscription(cx: &Arc<Connection>, thread: ThreadId) -> Arc<Subscription> {
    let subscription = Arc::new(Subscription {
        cx: Arc::downgrade(cx),
        thread,
        feed: cx.shared().feeds.of(thread),
        state: Mutex::new(State::Held {
            notices: Vec::new(),
            overrun: false,
        }),
    });
    let entry = (None, Arc::downgrade(&subscription));
    cx.followed().map().insert(thread, entry);
    subscription
}

/// Remembers by which id a follower leaves.
async fn now_known(
    cx: &Connection,
    subscription: Arc<Subscription>,
    (id, snapshot): (SubscriberId, Box<Snapshot>),
) -> Joined {
    let thread = subscription.thread;
    let known = {
        let mut map = cx.followed().map();
        match map.get_mut(&thread) {
            Some((known, weak)) if std::ptr::eq(weak.as_ptr(), Arc::as_ptr(&subscription)) => {
                *known = Some(id);
                true
            }
            _ => false,
        }
    };
    if !known {
        // The connection has ended or left meanwhile; nobody else would take this one out.
        cx.shared().options.runtime.unsubscribe(thread, id).await;
    }
    Joined {
        subscription,
        snapshot,
    }
}

/// Ends a connection's following of a thread; whether there was one.
pub(crate) async fn leave(cx: &Connection, thread: ThreadId) -> bool {
    let Some(id) = cx.followed().take(thread) else {
        return false;
    };
    // One that is still joining finds that it is gone.
    if let Some(id) = id {
        cx.shared().options.runtime.unsubscribe(thread, id).await;
    }
    true
}

/// A picture of a thread that is followed already.
pub(crate) async fn picture(cx: &Connection, thread: ThreadId) -> Result<Box<Snapshot>, Error> {
    /// Somebody who looks and does not stay.
    struct Passing;

    impl Subscriber for Passing {
        fn tell(&self, _notice: &Arc<Notice>) {}

        fn answers(&self) -> Answers {
            Answers::No
        }
    }

    let runtime = &cx.shared().options.runtime;
    let (id, snapshot) = runtime.subscribe(thread, Arc::new(Passing), None).await?;
    runtime.unsubscribe(thread, id).await;
    Ok(snapshot)
}

impl Joined {
    /// Whether so much happened meanwhile that this follower would never catch up.
    pub(crate) fn overrun(&self) -> bool {
        matches!(
            &*self.subscription.state(),
            State::Held { overrun: true, .. }
        )
    }

    /// Turns that have begun since the cut: they are told, and must not be shown before.
    pub(crate) fn begun_since(&self) -> Vec<TurnId> {
        use turnlane_protocol::notification::ServerNotification;
        let state = self.subscription.state();
        let State::Held { notices, .. } = &*state else {
            return Vec::new();
        };
        let begun = notices.iter().filter_map(|notice| match &notice.body {
            NoticeBody::Said(said) => match said.as_ref() {
                ServerNotification::TurnStarted(started) => Some(started.turn.id),
                _ => None,
            },
            _ => None,
        });
        begun.collect()
    }

    /// The request is answered: shows the picture, tells what waited, and goes live. Never waits.
    pub(crate) fn go_live(self, last_turn: Option<TurnId>) {
        self.go(Show::Picture { last_turn });
    }

    /// As [`Joined::go_live`] for a caller who knows the thread as it is: a picture only if a turn
    /// runs, whose items it cannot know.
    pub(crate) fn go_on(self) {
        let show = match &self.snapshot.running {
            Some(_) => Show::Picture { last_turn: None },
            None => Show::Nothing,
        };
        self.go(show);
    }

    fn go(self, show: Show) {
        let Self {
            subscription,
            snapshot,
        } = self;
        let Some(cx) = subscription.cx.upgrade() else {
            return;
        };
        // Held to the end, so that what the lane tells now comes after.
        let mut state = subscription.state();
        let State::Held { notices, .. } = std::mem::replace(&mut *state, State::Live) else {
            return;
        };
        let decided: Vec<_> = notices
            .iter()
            .filter_map(|notice| decided(notice))
            .collect();
        let pending = |approval| !decided.contains(&approval);
        if let (Show::Picture { last_turn }, Replay::Snapshot) = (show, snapshot.replay) {
            snapshot::show(&cx, &subscription.feed, &snapshot, last_turn, pending);
        }
        for notice in &notices {
            let skipped = match &notice.body {
                NoticeBody::ApprovalRequested(asking) => {
                    let id = asking.approval.approval_id;
                    let missed = notice.seq <= snapshot.seq;
                    let mut open = snapshot.approvals.iter();
                    let open = open.any(|open| open.approval.approval_id == id);
                    !pending(id) || (missed && !open)
                }
                // Whoever was not asked need not know that it is decided.
                NoticeBody::ApprovalResolved { .. } => true,
                _ => false,
            };
            if !skipped {
                subscription.deliver(notice);
            }
        }
    }
}

/// What a follower is shown before it is told anything.
#[derive(Clone, Copy)]
enum Show {
    Nothing,
    Picture { last_turn: Option<TurnId> },
}

fn decided(notice: &Notice) -> Option<ApprovalId> {
    match &notice.body {
        NoticeBody::ApprovalResolved { approval, .. } => Some(approval.approval_id),
        _ => None,
    }
}

pub(crate) use snapshot::show_to_follower;
