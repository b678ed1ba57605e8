//! Who listens to a lane, what they are told, and how a late one catches up.
//!
//! The invariant here: every notice of the thread has the next number, and a subscriber gets every
//! notice from its cut on, in order, none twice. While what lies before the cut is read, its notices
//! are held; telling itself never waits.
//!
//! Theory of operation: [`Subscribers::cut`] registers a subscriber as held at the present number.
//! The lane then reads outside of its task what is stored, comes back with [`Subscribers::go_live`],
//! and from then on the subscriber is told directly.

use std::collections::HashMap;
use std::sync::Arc;

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::usage::ThreadTokenUsage;
use turnlane_store::queue::QueuePage;
use turnlane_store::thread::ThreadRow;
use turnlane_store::turn::{ItemRow, TurnRow};

use super::ring::{Missed, Remembered, Ring};
use crate::approvals::Asking;
use crate::notice::{Answers, Notice, NoticeBody, Subscriber, SubscriberId};

/// How many notices are held for a subscriber that is not live yet; then it is refused.
const HELD_MAX: usize = 16_384;

/// What a subscriber has seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The load it belongs to.
    pub epoch: String,
    /// The last number.
    pub seq: u64,
}

/// What a new subscriber is told first.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Changes whenever the thread is loaded anew.
    pub epoch: String,
    /// The number of the cut: the first live notice has the next one.
    pub seq: u64,
    /// Whether the missed notices follow, or this picture stands for them.
    pub replay: Replay,
    /// The thread.
    pub thread: ThreadRow,
    /// The queue.
    pub queue: QueuePage,
    /// The turn that runs.
    pub running: Option<RunningSnapshot>,
    /// What the thread has used.
    pub usage: Option<ThreadTokenUsage>,
    /// What waits for somebody.
    pub approvals: Vec<Asking>,
}

/// Whether missed notices are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Exactly the missed ones follow.
    Events,
    /// They are gone, or nobody asked: the picture stands for them.
    Snapshot,
}

/// A turn in the middle.
#[derive(Clone, Debug)]
pub struct RunningSnapshot {
    /// The turn.
    pub turn: TurnRow,
    /// Items that have ended, as they are stored.
    pub ended: Vec<ItemRow>,
    /// Items that have not, with their text so far.
    pub open: Vec<ThreadItem>,
}

struct Listener {
    subscriber: Arc<dyn Subscriber>,
    /// Held notices; none when it is live.
    held: Option<Vec<Arc<Notice>>>,
}

/// The listeners of one lane and the numbers of its notices.
pub(crate) struct Subscribers {
    thread: ThreadId,
    epoch: String,
    seq: u64,
    listeners: HashMap<SubscriberId, Listener>,
    ring: Ring,
}

impl Subscribers {
    pub(crate) fn new(thread: ThreadId, epoch: String, remembered: Arc<Remembered>) -> Self {
        Self {
            thread,
            epoch,
            seq: 0,
            listeners: HashMap::new(),
            ring: Ring::new(remembered),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.listeners.len()
    }

    /// Whether one of them can decide something.
    pub(crate) fn can_answer(&self) -> bool {
        let mut all = self.listeners.values();
        all.any(|listener| listener.subscriber.answers() == Answers::Yes)
    }

    /// Numbers from 1 again, under another epoch. Those who are live stay; those who still wait for
    /// their picture would get one of the past, and are gone.
    pub(crate) fn begin_anew(&mut self, epoch: String) {
        self.listeners.retain(|_, listener| listener.held.is_none());
        self.epoch = epoch;
        self.seq = 0;
        self.forget();
    }

    pub(crate) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Numbers a notice and tells it.
    pub(crate) fn tell(&mut self, at_ms: i64, body: NoticeBody) -> Arc<Notice> {
        self.seq += 1;
        let notice = Arc::new(Notice {
            thread: self.thread,
            seq: self.seq,
            at_ms,
            body,
        });
        let mut overrun = Vec::new();
        for (id, listener) in &mut self.listeners {
            match &mut listener.held {
                None => listener.subscriber.tell(&notice),
                Some(held) if held.len() < HELD_MAX => held.push(Arc::clone(&notice)),
                Some(_) => overrun.push(*id),
            }
        }
        for id in overrun {
            self.listeners.remove(&id);
        }
        self.ring.push(&notice);
        notice
    }

    /// Whether anything that was told is remembered.
    pub(crate) fn remembers(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Forgets what was told; a lane that has been idle for a while keeps nothing.
    pub(crate) fn forget(&mut self) {
        self.ring.forget(self.seq);
    }

    /// Registers a subscriber as held, from the present number on; that number.
    pub(crate) fn cut(&mut self, id: SubscriberId, subscriber: Arc<dyn Subscriber>) -> u64 {
        let listener = Listener {
            subscriber,
            held: Some(Vec::new()),
        };
        self.listeners.insert(id, listener);
        self.seq
    }

    /// What was told after `since`, if all of it is still here.
    pub(crate) fn missed(&self, since: &Since) -> Option<Missed> {
        if since.epoch != self.epoch || since.seq > self.seq {
            return None;
        }
        self.ring.after(since.seq)
    }

    /// Whether a subscriber is still there: one that was held too long is not.
    pub(crate) fn has(&self, id: SubscriberId) -> bool {
        self.listeners.contains_key(&id)
    }

    /// Tells a held subscriber what it missed and what was held, and makes it live.
    pub(crate) fn go_live(&mut self, id: SubscriberId, missed: &[Arc<Notice>]) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let held = listener.held.take().unwrap_or_default();
        for notice in missed.iter().chain(&held) {
            listener.subscriber.tell(notice);
        }
    }

    /// Removes a subscriber; false when it was not there.
    pub(crate) fn remove(&mut self, id: SubscriberId) -> bool {
        self.listeners.remove(&id).is_some()
    }
}
