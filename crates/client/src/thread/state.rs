//! What the client knows about threads that have a handle.
//!
//! The invariant here: all handles of one thread share one [`Known`], whichever call they came from,
//! so that its turns wait in one line and its end is seen by all. What was seen of a thread's end
//! stays: a thread that is opened again after its end gets a new one, and old handles stay closed.
//! The reader writes here and never waits; nothing here keeps the client alive.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::error::CallError;
use crate::event::{Event, EventBody};
use crate::hooks::{HookSet, Registration};
use crate::ids::{ThreadId, TurnId};
use crate::policy::EffectivePolicy;
use crate::profile::Profile;
use crate::turn::Line;

/// A thread's next turns are run with something else than before.
const SETTINGS_UPDATED: &str = "thread/settings/updated";

/// What one handle of a thread stands for: what its maker chose, and what all handles share.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) id: ThreadId,
    /// What its turns are run with where they are silent: the thread's choices over the client's.
    pub(crate) profile: Profile,
    pub(crate) hooks: HookSet,
    /// Where turns of this client wait for their place, in the order they were asked for.
    pub(crate) line: Arc<Line>,
    pub(super) known: Arc<Known>,
    /// Its hooks that the server asks; they are taken back when the last clone of this handle goes.
    _registration: Option<Registration>,
}

impl ThreadState {
    pub(super) fn new(
        known: Arc<Known>,
        profile: Profile,
        hooks: HookSet,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            id: known.id.clone(),
            profile,
            hooks,
            line: Arc::clone(&known.line),
            known,
            _registration: registration,
        }
    }
}

impl Deref for ThreadState {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
}

/// Whether a thread runs a turn, as far as the server told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing was told yet.
    #[default]
    Unknown,
    /// No turn runs.
    Idle,
    /// A turn runs; which one is known when its start was seen.
    Active(Option<TurnId>),
}

impl Activity {
    /// What the word of a thread's status says; none for words of later servers.
    pub(super) fn from_status(word: &str) -> Option<Self> {
        match word {
            "active" => Some(Self::Active(None)),
            "idle" | "systemError" | "notLoaded" => Some(Self::Idle),
            _ => None,
        }
    }
}

/// Where the events of a thread stand; Turnlane counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of the last event seen.
    pub(crate) seq: Option<u64>,
    /// What the number belongs to; none when it is not known or has changed since.
    pub(crate) epoch: Option<String>,
}

/// What is known about a thread, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: ThreadId,
    line: Arc<Line>,
    activity: watch::Sender<Activity>,
    closed: watch::Sender<bool>,
    mutable: Mutex<Mutable>,
}

#[derive(Debug, Default)]
struct Mutable {
    effective: EffectivePolicy,
    /// What is asked for when the thread is resumed on another connection.
    asked: Map<String, Value>,
    position: Position,
    /// How many words about its activity were seen; tells whether an answer is older than a word.
    words: u64,
    attention: Attention,
    /// The connection on which it was opened last, counted from 1: its events come there.
    opened_on: u64,
    archive: Option<watch::Receiver<Archived>>,
}

/// The result of archiving; none while it is under way.
pub(super) type Archived = Option<Arc<Result<(), CallError>>>;

/// Whether somebody here must hear of a thread even when none of its turns is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Nobody.
    #[default]
    None,
    /// Its hooks or its reviewer.
    Needed,
}

/// What the answer of an opening call says.
#[derive(Clone, Debug, Default)]
pub(super) struct Opened {
    pub(super) effective: EffectivePolicy,
    pub(super) asked: Map<String, Value>,
    pub(super) activity: Option<Activity>,
    pub(super) position: Option<Position>,
    pub(super) attention: Attention,
    /// The connection that was there when it was asked for; a later one may have been answered on.
    pub(super) generation: u64,
}

impl Known {
    fn new(id: ThreadId) -> Self {
        Self {
            id,
            line: Arc::default(),
            activity: watch::Sender::default(),
            closed: watch::Sender::new(false),
            mutable: Mutex::default(),
        }
    }

    fn mutable(&self) -> MutexGuard<'_, Mutable> {
        self.mutable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn effective(&self) -> EffectivePolicy {
        self.mutable().effective.clone()
    }

    /// Whether it runs a turn: the latest word, and every later one.
    pub(crate) fn activity(&self) -> watch::Receiver<Activity> {
        self.activity.subscribe()
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when the thread is closed: at once if it is.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender lives as long as this borrow.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Refuses calls on a thread that is closed.
    pub(crate) fn check_open(&self) -> Result<(), CallError> {
        if self.is_closed() {
            return Err(CallError::ThreadClosed {
                thread: self.id.clone(),
            });
        }
        Ok(())
    }

    /// The thread was archived through this client.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// How many words about its activity were seen so far.
    pub(super) fn words(&self) -> u64 {
        self.mutable().words
    }

    /// Takes over what an answer says. Its status counts only if no word came since `words` were
    /// counted, for that one is newer.
    pub(super) fn opened(&self, opened: Opened, words: u64) {
        let mut mutable = self.mutable();
        mutable.effective = opened.effective;
        mutable.asked = opened.asked;
        mutable.opened_on = mutable.opened_on.max(opened.generation);
        if opened.attention == Attention::Needed {
            mutable.attention = Attention::Needed;
        }
        if let Some(position) = opened.position {
            mutable.position.seen_at(position);
        }
        let is_newest = mutable.words == words;
        drop(mutable);
        if let Some(activity) = opened.activity
            && is_newest
        {
            self.activity.send_replace(activity);
        }
    }

    pub(super) fn attention(&self) -> Attention {
        self.mutable().attention
    }

    /// The connection on which its events come, if any; an older one is gone.
    pub(super) fn opened_on(&self) -> u64 {
        self.mutable().opened_on
    }

    pub(super) fn asked(&self) -> Map<String, Value> {
        self.mutable().asked.clone()
    }

    pub(super) fn position(&self) -> Position {
        self.mutable().position.clone()
    }

    /// The connection was another one: what the thread does now is not known.
    pub(super) fn forget_activity(&self) {
        self.mutable().words += 1;
        self.activity.send_replace(Activity::Unknown);
    }

    /// The one archiving of this thread: `begin` is called for the first caller only.
    pub(super) fn archiving(
        &self,
        begin: impl FnOnce(watch::Sender<Archived>),
    ) -> watch::Receiver<Archived> {
        let mut mutable = self.mutable();
        if let Some(result) = &mutable.archive {
            return result.clone();
        }
        let (sender, receiver) = watch::channel(None);
        mutable.archive = Some(receiver.clone());
        drop(mutable);
        begin(sender);
        receiver
    }

    fn observe(&self, event: &Event) {
        if let Some(seq) = event.seq {
            self.mutable().position.seen(seq);
        }
        match &event.body {
            EventBody::Status(word) => {
                if let Some(told) = Activity::from_status(word) {
                    self.heard(|activity| match (activity, told) {
                        // The status does not say which turn; what is known of it stays.
                        (Activity::Active(Some(_)), Activity::Active(None)) => None,
                        (_, told) => Some(told),
                    });
                }
            }
            EventBody::TurnStarted(turn) => {
                self.heard(|_| Some(Activity::Active(Some(turn.id.clone()))));
            }
            EventBody::TurnCompleted(turn) => self.heard(|activity| match activity {
                Activity::Active(Some(active)) if *active != turn.id => None,
                _ => Some(Activity::Idle),
            }),
            EventBody::ThreadGone => self.close(),
            EventBody::Unknown(raw) if raw.method == SETTINGS_UPDATED => {
                if let Ok(told) = serde_json::from_str::<Value>(raw.params.get())
                    && let Some(settings) = told.get("threadSettings")
                {
                    self.mutable().effective.update(settings);
                }
            }
            _ => {}
        }
    }

    fn heard(&self, next: impl FnOnce(&Activity) -> Option<Activity>) {
        self.mutable().words += 1;
        self.activity
            .send_if_modified(|activity| match next(activity) {
                Some(other) if other != *activity => {
                    *activity = other;
                    true
                }
                _ => false,
            });
    }
}

impl EffectivePolicy {
    /// Takes over what a thread's settings say; what they leave out stays.
    fn update(&mut self, settings: &Value) {
        let text = |name: &str, place: &mut String| {
            if let Some(told) = settings.get(name).and_then(Value::as_str) {
                told.clone_into(place);
            }
        };
        text("cwd", &mut self.cwd);
        text("model", &mut self.model);
        text("modelProvider", &mut self.model_provider);
        let policies = [
            ("approvalPolicy", &mut self.approval),
            ("sandboxPolicy", &mut self.sandbox),
        ];
        for (name, place) in policies {
            if let Some(told) = settings.get(name).filter(|told| !told.is_null()) {
                place.clone_from(told);
            }
        }
    }
}

impl Position {
    fn seen(&mut self, seq: u64) {
        // A snapshot repeats the number of its cut; a smaller one means that numbers began again.
        if self.seq.is_some_and(|last| seq < last) {
            self.epoch = None;
        }
        self.seq = Some(seq);
    }

    /// An answer told number and epoch. Events that follow it may have been seen before it.
    fn seen_at(&mut self, told: Self) {
        let is_ahead = self.epoch == told.epoch || self.epoch.is_none();
        match (self.seq, told.seq) {
            (Some(seen), Some(seq)) if is_ahead && seen > seq => {}
            _ => self.seq = told.seq,
        }
        self.epoch = told.epoch;
    }
}

/// The threads that have a handle, by id.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    by_id: HashMap<ThreadId, Weak<Known>>,
    /// At this many entries those without a handle are removed.
    prune_at: usize,
}

/// Fewer entries than this are not worth a walk.
const PRUNE_MIN: usize = 64;

impl Registry {
    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known about a thread; a closed one is begun anew.
    pub(super) fn open(&self, id: &ThreadId) -> Arc<Known> {
        let mut threads = self.threads();
        if let Some(known) = threads.by_id.get(id).and_then(Weak::upgrade)
            && !known.is_closed()
        {
            return known;
        }
        if threads.by_id.len() >= threads.prune_at {
            threads.by_id.retain(|_, known| known.strong_count() > 0);
            threads.prune_at = (2 * threads.by_id.len()).max(PRUNE_MIN);
        }
        let known = Arc::new(Known::new(id.clone()));
        threads.by_id.insert(id.clone(), Arc::downgrade(&known));
        known
    }

    /// What is known about a thread that has a handle.
    pub(super) fn find(&self, id: &ThreadId) -> Option<Arc<Known>> {
        self.threads().by_id.get(id).and_then(Weak::upgrade)
    }

    /// Every thread that has a handle.
    pub(super) fn live(&self) -> Vec<Arc<Known>> {
        let threads = self.threads();
        threads.by_id.values().filter_map(Weak::upgrade).collect()
    }

    /// Takes note of what an event says about a thread: its status, its number, its end.
    pub(crate) fn observe(&self, event: &Event) {
        if let Some(known) = event.thread.as_ref().and_then(|id| self.find(id)) {
            known.observe(event);
        }
    }
}

#[cfg(test)]
mod tests;
