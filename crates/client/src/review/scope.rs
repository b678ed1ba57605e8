//! Who decides: the reviewer of the turn, else of its thread, else of the client.
//!
//! The invariant here: a reviewer is never asked about another thread or turn than its own. A turn
//! whose id is not known yet makes questions of unknown turns of its thread wait until it is, so that
//! a question which overtakes the answer to `turn/start` still finds its reviewer.
//!
//! A thread's reviewer is held weakly: it decides as long as somebody holds the thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::Reviewer;
use crate::ids::{ThreadId, TurnId};

/// The reviewers of a client.
#[derive(Debug)]
pub(super) struct Scopes {
    client: Option<Arc<dyn Reviewer>>,
    state: Mutex<State>,
    /// A turn got its id, or is over.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The latest last.
    threads: HashMap<ThreadId, Vec<Weak<dyn Reviewer>>>,
    turns: HashMap<ThreadId, Vec<TurnEntry>>,
    next_key: u64,
}

#[derive(Debug)]
struct TurnEntry {
    key: u64,
    /// None until the server named it.
    turn: Option<TurnId>,
    reviewer: Arc<dyn Reviewer>,
}

enum Found {
    Nobody,
    Reviewer(Arc<dyn Reviewer>),
    /// A turn without id may be the one.
    NotYet,
}

impl Scopes {
    pub(super) fn new(client: Option<Arc<dyn Reviewer>>) -> Self {
        Self {
            client,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_thread(&self, thread: &ThreadId, reviewer: &Arc<dyn Reviewer>) {
        let mut state = self.state();
        // Whoever adds pays for those that are gone, so the table is as large as what is held.
        state.threads.retain(|_, reviewers| {
            reviewers.retain(|reviewer| reviewer.strong_count() > 0);
            !reviewers.is_empty()
        });
        let reviewers = state.threads.entry(thread.clone()).or_default();
        let reviewer = Arc::downgrade(reviewer);
        if !reviewers.iter().any(|known| known.ptr_eq(&reviewer)) {
            reviewers.push(reviewer);
        }
    }

    fn add_turn(&self, thread: &ThreadId, reviewer: Arc<dyn Reviewer>) -> u64 {
        let mut state = self.state();
        state.next_key += 1;
        let key = state.next_key;
        let entries = state.turns.entry(thread.clone()).or_default();
        entries.push(TurnEntry {
            key,
            turn: None,
            reviewer,
        });
        key
    }

    fn bind(&self, thread: &ThreadId, key: u64, turn: &TurnId) {
        let mut state = self.state();
        let entries = state.turns.get_mut(thread).map(Vec::as_mut_slice);
        let mut entries = entries.unwrap_or_default().iter_mut();
        if let Some(entry) = entries.find(|entry| entry.key == key) {
            entry.turn = Some(turn.clone());
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn remove_turn(&self, thread: &ThreadId, key: u64) {
        let mut state = self.state();
        if let Some(entries) = state.turns.get_mut(thread) {
            entries.retain(|entry| entry.key != key);
            if entries.is_empty() {
                state.turns.remove(thread);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn look(&self, thread: Option<&ThreadId>, turn: Option<&TurnId>) -> Found {
        let state = self.state();
        if let (Some(thread), Some(turn)) = (thread, turn) {
            let entries = state.turns.get(thread).map(Vec::as_slice);
            let entries = entries.unwrap_or_default();
            let own = entries
                .iter()
                .rev()
                .find(|entry| entry.turn.as_ref() == Some(turn));
            if let Some(own) = own {
                return Found::Reviewer(Arc::clone(&own.reviewer));
            }
            if entries.iter().any(|entry| entry.turn.is_none()) {
                return Found::NotYet;
            }
        }
        let of_thread = thread.and_then(|thread| state.threads.get(thread));
        let of_thread = of_thread.and_then(|held| held.iter().rev().find_map(Weak::upgrade));
        match of_thread.or_else(|| self.client.clone()) {
            Some(reviewer) => Found::Reviewer(reviewer),
            None => Found::Nobody,
        }
    }

    /// The reviewer in scope; waits while it cannot be known.
    pub(super) async fn find(
        &self,
        thread: Option<&ThreadId>,
        turn: Option<&TurnId>,
    ) -> Option<Arc<dyn Reviewer>> {
        loop {
            let changed = self.changed.notified();
            match self.look(thread, turn) {
                Found::Nobody => return None,
                Found::Reviewer(reviewer) => return Some(reviewer),
                Found::NotYet => changed.await,
            }
        }
    }
}

/// A turn's reviewer decides until this is dropped.
#[derive(Debug)]
#[must_use = "the reviewer decides until this is dropped"]
pub(crate) struct TurnScope {
    scopes: Arc<Scopes>,
    thread: ThreadId,
    key: u64,
}

impl TurnScope {
    pub(super) fn new(
        scopes: &Arc<Scopes>,
        thread: &ThreadId,
        reviewer: Arc<dyn Reviewer>,
    ) -> Self {
        Self {
            key: scopes.add_turn(thread, reviewer),
            scopes: Arc::clone(scopes),
            thread: thread.clone(),
        }
    }

    /// Now the server has named the turn. Called again: the turn is another one.
    pub(crate) fn bind(&self, turn: &TurnId) {
        self.scopes.bind(&self.thread, self.key, turn);
    }
}

impl Drop for TurnScope {
    fn drop(&mut self) {
        self.scopes.remove_turn(&self.thread, self.key);
    }
}
