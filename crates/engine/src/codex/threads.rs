//! The threads that a worker has open in Codex.
//!
//! The invariant here: a thread that was used holds a lease of its child until it is closed, so that
//! the child lives as long as its threads. What is kept of a thread is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use turnlane_protocol::ids::{ItemId, ThreadId};

use super::supervisor::{Handle, Lease};

/// Items of a thread whose names are remembered, for its background terminals.
const ITEMS_MAX: usize = 256;

/// The table of open threads.
#[derive(Default)]
pub(super) struct OpenThreads {
    table: Mutex<HashMap<ThreadId, OpenThread>>,
}

struct OpenThread {
    handle: Handle,
    lease: Lease,
    /// Codex's id, once it is known.
    codex_id: Option<String>,
    /// Codex's names of the latest items, and ours.
    items: VecDeque<(ItemId, ItemId)>,
}

/// Where a thread is in Codex.
pub(super) struct ThreadAddress {
    pub(super) handle: Handle,
    pub(super) codex_id: String,
}

impl OpenThreads {
    fn table(&self) -> MutexGuard<'_, HashMap<ThreadId, OpenThread>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, thread: ThreadId, handle: &Handle) {
        self.table().entry(thread).or_insert_with(|| OpenThread {
            handle: handle.clone(),
            lease: handle.lease(),
            codex_id: None,
            items: VecDeque::new(),
        });
    }

    /// Notes Codex's id of a thread.
    pub(super) fn name(&self, thread: ThreadId, codex_id: &str) {
        if let Some(open) = self.table().get_mut(&thread) {
            open.codex_id = Some(codex_id.to_owned());
        }
    }

    pub(super) fn note_item(&self, thread: ThreadId, of_codex: ItemId, ours: ItemId) {
        if let Some(open) = self.table().get_mut(&thread) {
            if open.items.len() == ITEMS_MAX {
                open.items.pop_front();
            }
            open.items.push_back((of_codex, ours));
        }
    }

    /// Our name of an item; Codex's own if it was forgotten.
    pub(super) fn item(&self, thread: ThreadId, of_codex: &ItemId) -> ItemId {
        let table = self.table();
        let items = table.get(&thread).map(|open| &open.items);
        // The latest of that name: providers repeat theirs.
        let mut latest = items.into_iter().flat_map(|items| items.iter().rev());
        let found = latest.find(|(name, _)| name == of_codex);
        found.map_or_else(|| of_codex.clone(), |(_, ours)| ours.clone())
    }

    pub(super) fn address(&self, thread: ThreadId) -> Option<ThreadAddress> {
        let table = self.table();
        let open = table.get(&thread)?;
        Some(ThreadAddress {
            handle: open.handle.clone(),
            codex_id: open.codex_id.clone()?,
        })
    }

    /// Forgets a thread; its lease ends with the returned value.
    pub(super) fn close(&self, thread: ThreadId) -> Option<Lease> {
        self.table().remove(&thread).map(|open| open.lease)
    }
}
