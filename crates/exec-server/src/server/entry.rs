//! One process of a session, from the moment its name is taken.
//!
//! The name is taken before the process exists, so that a second start with it fails and a terminate
//! can cancel the first. Everything about the process itself is the process service's; here is what
//! the wire adds: its name, its write ids, and how far its events were told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use turnlane_process::{Output, Process};

use super::dialect::Dialect;
use super::encode::Wording;
use super::ready::{Bell, Ready};
use super::writes::Input;

/// One process of a session.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Box<str>,
    /// Starts of a session are numbered; lists are in this order.
    pub(crate) number: u64,
    pub(crate) asked: Asked,
    pub(crate) wording: Wording,
    pub(crate) input: Input,
    /// Cancelled by a terminate that came while it was starting.
    pub(crate) start_cancelled: CancellationToken,
    process: OnceLock<Process>,
    bell: Arc<Bell>,
    feed: Mutex<Feed>,
    end_at_start: AtomicBool,
    exit_told: AtomicBool,
    closed: AtomicBool,
    looks_denied: OnceLock<bool>,
    slot: Mutex<Option<Slot>>,
}

/// What of the request is needed later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) argv0: String,
    /// A `file://` URI.
    pub(crate) cwd: String,
    pub(crate) tty: bool,
    pub(crate) metadata: Option<Value>,
}

/// How far the events of a process were told.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    output: Option<Output>,
    hold: Hold,
}

/// Whether events flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Live,
    /// After a resume, until the first read or for a while.
    Held,
    /// That read was answered and its answer is not yet written.
    Answering,
}

impl Feed {
    /// The events, unless they are held back.
    pub(crate) fn live(&mut self) -> Option<&mut Output> {
        self.output.as_mut().filter(|_| self.hold == Hold::Live)
    }
}

/// Where a process stands, for a request about it.
pub(crate) enum Standing<'a> {
    Starting,
    Started(&'a Process),
}

impl Entry {
    pub(crate) fn new(
        dialect: Dialect,
        id: &str,
        number: u64,
        asked: Asked,
        ready: &Arc<Ready>,
        slot: Slot,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak| Self {
            id: id.into(),
            number,
            asked,
            wording: Wording::new(dialect, id),
            input: Input::new(),
            start_cancelled: CancellationToken::new(),
            process: OnceLock::new(),
            bell: Arc::new(Bell::new(weak.clone(), Arc::clone(ready))),
            feed: Mutex::default(),
            end_at_start: AtomicBool::new(false),
            exit_told: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            looks_denied: OnceLock::new(),
            slot: Mutex::new(Some(slot)),
        })
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        match self.process.get() {
            Some(process) => Standing::Started(process),
            None => Standing::Starting,
        }
    }

    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.get()
    }

    /// The process exists. Its events are held until [`Entry::tell`].
    pub(crate) fn started(&self, process: Process, output: Output) {
        self.lock_feed().output = Some(output);
        let first = self.process.set(process).is_ok();
        debug_assert!(first, "an entry is started once");
        self.input.open();
    }

    /// The start was answered: events may follow.
    pub(crate) fn tell(&self) {
        let bell = Arc::clone(&self.bell);
        if let Some(output) = &mut self.lock_feed().output {
            output.set_doorbell(Arc::new(move || bell.ring()));
        }
        // What came before the doorbell was there.
        self.bell.ring();
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(crate) fn feed(&self) -> MutexGuard<'_, Feed> {
        self.lock_feed()
    }

    /// Holds events back, after a resume.
    pub(crate) fn hold(&self) {
        self.lock_feed().hold = Hold::Held;
    }

    /// Lets events flow again, unless the answer to a read will.
    pub(crate) fn release(&self) {
        let mut feed = self.lock_feed();
        if feed.hold == Hold::Held {
            feed.hold = Hold::Live;
            drop(feed);
            self.bell.ring();
        }
    }

    /// A read is answered: if events are held back, they now wait for [`Entry::was_read_to`].
    pub(crate) fn is_answering(&self) -> bool {
        let mut feed = self.lock_feed();
        let held = feed.hold == Hold::Held;
        if held {
            feed.hold = Hold::Answering;
        }
        held
    }

    /// The answer that told everything up to `seq` was written: events go on after it. Not before,
    /// since what was told no longer keeps the child waiting and is forgotten in the end.
    pub(crate) fn was_read_to(&self, seq: u64) {
        let mut feed = self.lock_feed();
        if feed.hold != Hold::Answering {
            return;
        }
        feed.hold = Hold::Live;
        if let Some(output) = &mut feed.output {
            // Back to what the client has: what was on its way to a lost connection is told again.
            output.rewind_to(seq);
            output.skip_to(seq);
        }
        drop(feed);
        self.bell.ring();
    }

    /// It shall start, be told of, and be ended at once.
    pub(crate) fn end_at_start(&self) {
        self.end_at_start.store(true, Ordering::SeqCst);
    }

    pub(crate) fn ends_at_start(&self) -> bool {
        self.end_at_start.load(Ordering::SeqCst)
    }

    pub(crate) fn exit_was_told(&self) {
        self.exit_told.store(true, Ordering::Release);
    }

    /// Whether the exit was put on its way to the client.
    pub(crate) fn is_exit_told(&self) -> bool {
        self.exit_told.load(Ordering::Acquire)
    }

    /// Everything was told; false if that was known before.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Whether the leader lives.
    pub(crate) fn is_running(&self) -> bool {
        // Cheaper than a line of the list: nothing is after the last number there can be.
        let look = |process: &Process| process.read(u64::MAX, Some(0)).exited.is_none();
        self.process().is_some_and(look)
    }

    /// Members that outlived the leader.
    pub(crate) fn survivors(&self) -> usize {
        self.process()
            .map_or(0, |process| process.listed().survivors)
    }

    /// Whether a sandbox may be why it failed. Only to be asked once it has exited.
    pub(crate) fn looks_denied(&self) -> bool {
        *self
            .looks_denied
            .get_or_init(|| self.process().is_some_and(Process::looks_denied))
    }

    /// No longer counts as a process.
    pub(crate) fn give_slot_back(&self) {
        let slot = self
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(slot);
    }

    fn lock_feed(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process in the counts of its session and of the server; dropped, it no longer counts.
#[derive(Debug)]
pub(crate) struct Slot(Vec<Arc<AtomicUsize>>);

impl Slot {
    /// A place in every count, or none if one of them is full.
    pub(crate) fn take(counts: &[(&Arc<AtomicUsize>, usize)]) -> Option<Self> {
        let mut slot = Self(Vec::with_capacity(counts.len()));
        for &(count, max) in counts {
            let room = |taken: usize| (taken < max).then_some(taken + 1);
            count
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, room)
                .ok()?;
            slot.0.push(Arc::clone(count));
        }
        Some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        for count in &self.0 {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_in_every_count_or_in_none() {
        let (session, server) = (Arc::default(), Arc::new(AtomicUsize::new(4)));
        let take = || Slot::take(&[(&session, 2), (&server, 5)]);
        let first = take();
        assert!(first.is_some());
        assert!(take().is_none(), "the server is full");
        assert_eq!(session.load(Ordering::Acquire), 1);
        drop(first);
        assert_eq!(session.load(Ordering::Acquire), 0);
        assert_eq!(server.load(Ordering::Acquire), 4);
    }
}
