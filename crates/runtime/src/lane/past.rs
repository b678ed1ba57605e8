//! What the model is sent of earlier turns, kept from turn to turn while a lane drains.
//!
//! The invariants here: what is kept holds only turns that have ended under this task, one behind the
//! other, and counts only for the very next turn: whoever claims or takes the lane in between moves
//! the fence, and then everything is read anew. The store checks with every read that the kept part
//! still stands; so a thread of a thousand turns costs a drained turn a few rows and not all of them.
//!
//! What is kept is bounded by [`KEPT_BYTES_MAX`] and forgotten when nothing is to be run next; when
//! that is, the actor says. What an engine makes of it is the engine's business.

use std::sync::{Arc, Mutex, PoisonError};

use turnlane_engine::{Entry, EntryKind};
use turnlane_protocol::ids::ItemId;
use turnlane_store::turn::{AcceptedTurn, EntryRow, History, HistoryEnd, Later, Unrecorded};
use turnlane_store::{Fence, Store, StoreError, ThreadId, Work};

use crate::ids;

/// How many bytes of items a lane keeps at most; longer histories are read for every turn.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// The history of earlier turns as a turn gets it.
#[derive(Debug)]
pub(crate) struct Past {
    /// The entries, oldest first.
    pub entries: Arc<Vec<Entry>>,
    /// Messages of earlier turns that never became entries.
    pub unrecorded: Vec<Unrecorded>,
}

/// What one lane's task knows of its thread's history; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct KnownPast {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// The fence of the turn that was run last.
    fence: Option<Fence>,
    kept: Option<Kept>,
}

/// Entries of turns that have ended, without a message that is still to be recorded.
struct Kept {
    entries: Arc<Vec<Entry>>,
    bytes: usize,
    end: HistoryEnd,
}

/// A history that is being read.
pub(crate) struct Reading {
    known: KnownPast,
    store: Arc<dyn Store>,
    thread: ThreadId,
    work: Read,
}

enum Read {
    Whole(Work<History>),
    Behind(HistoryEnd, Work<Later>),
}

impl KnownPast {
    /// Submits the read for the next turn.
    pub(crate) fn read(&self, store: &Arc<dyn Store>, thread: ThreadId) -> Reading {
        let end = self.with(|known| known.kept.as_ref().map(|kept| kept.end));
        Reading {
            known: self.clone(),
            store: Arc::clone(store),
            thread,
            work: match end {
                Some(end) => Read::Behind(end, store.history_behind(thread, end)),
                None => Read::Whole(store.history(thread)),
            },
        }
    }

    /// Gives up what is kept; the next turn reads everything.
    pub(crate) fn forget(&self) {
        self.with(|known| known.kept = None);
    }

    /// Notes which turn is run now: what is kept, if it is what this turn needs, and whether the
    /// last turn was run right before it by this task.
    fn enter(&self, fence: Fence, end: Option<HistoryEnd>) -> (Option<Kept>, Since) {
        self.with(|known| {
            let before = known.fence.replace(fence);
            let kept = known.kept.take();
            if before.is_none_or(|before| before.0.checked_add(1) != Some(fence.0)) {
                return (None, Since::Unknown);
            }
            (kept.filter(|kept| Some(kept.end) == end), Since::OurLast)
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Known) -> T) -> T {
        f(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Who had the lane last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Nobody since the last turn of this task, so every turn that was read had ended.
    OurLast,
    Unknown,
}

impl Reading {
    /// The history for the turn that was accepted, and keeps it for the next one.
    pub(crate) async fn finish(self, turn: &Taken) -> Result<Past, StoreError> {
        let (history, end) = match self.work {
            Read::Whole(work) => (Later::Anew(work.await?), None),
            Read::Behind(end, work) => (work.await?, Some(end)),
        };
        let (kept, since) = self.known.enter(turn.fence, end);
        let (history, kept) = match (history, kept) {
            (Later::Behind(history), Some(kept)) => (history, Some(kept)),
            // The lane was somebody else's in between.
            (Later::Behind(_), None) => (self.store.history(self.thread).await?, None),
            (Later::Anew(history), _) => (history, None),
        };
        let last = history.entries.last().map(|row| (row.ord, row.turn));
        let last = last.or(kept.as_ref().map(|kept| (kept.end.ord, kept.end.turn)));
        let (mut entries, mut bytes) = match kept {
            Some(kept) => (kept.entries, kept.bytes),
            None => (Arc::default(), 0),
        };
        if !history.entries.is_empty() {
            // Nobody else holds it any more, unless an engine is late to let go: then it is copied.
            let all = Arc::make_mut(&mut entries);
            all.extend(history.entries.into_iter().map(|row| {
                bytes += row.items.as_str().len();
                entry(row)
            }));
        }
        let mut unrecorded = history.unrecorded;
        unrecorded.retain(|message| Some(&message.item.id) != turn.item.as_ref());
        if let Some((ord, last)) = last
            && since == Since::OurLast
            && unrecorded.is_empty()
            && bytes <= KEPT_BYTES_MAX
        {
            let kept = Kept {
                entries: Arc::clone(&entries),
                bytes,
                end: HistoryEnd {
                    ord,
                    turn: last,
                    next_turn_ord: turn.ord,
                },
            };
            self.known.with(|known| known.kept = Some(kept));
        }
        Ok(Past {
            entries,
            unrecorded,
        })
    }
}

/// What of an accepted turn its history depends on.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    fence: Fence,
    ord: i64,
    /// Its own first message, which is not part of the past.
    item: Option<String>,
}

impl Taken {
    pub(crate) fn of(accepted: &AcceptedTurn) -> Self {
        Self {
            fence: accepted.grip.fence,
            ord: accepted.turn.ord,
            item: accepted.item.as_ref().map(|item| item.id.clone()),
        }
    }
}

fn entry(row: EntryRow) -> Entry {
    let calls = row.call_ids.as_deref();
    Entry {
        turn_id: ids::wire_turn(row.turn),
        provider: row.provider.unwrap_or_default(),
        model: row.model.unwrap_or_default(),
        // A kind of a later version is told to the model as it is, and otherwise left alone.
        kind: EntryKind::from_word(&row.kind).unwrap_or(EntryKind::Note),
        item_id: row.item_id.map(ItemId::from),
        call_ids: calls
            .and_then(|calls| serde_json::from_str(calls).ok())
            .unwrap_or_default(),
        items: row.items.as_str().to_owned(),
    }
}
