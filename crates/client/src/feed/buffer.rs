//! A queue of two classes for one receiver.
//!
//! The invariant here: what is lossless comes out once, in order, or the queue says that it is too
//! long and takes nothing more. What is progress comes out in order too, but only the newest of it;
//! where something was left out stands exactly one gap with the number of what is missing, and two
//! gaps never follow each other.
//!
//! Theory of operation: lossless items cut the queue into runs. Since the oldest progress goes first,
//! what is missing of a run is always missing at its beginning, so one number per run is enough and
//! nothing is ever searched: pushing and popping are O(1), amortised. A popped gap holds back the
//! item after it, so that leaving out more cannot put a second gap behind the first.
//!
//! Waiting and waking are in `mailbox.rs`.

use std::collections::VecDeque;

use crate::limits::Limits;

/// Whether an item may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Yes, the oldest first: something later says it again.
    Progress,
    /// No.
    Lossless,
}

/// What an item counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) class: Class,
    pub(crate) bytes: usize,
}

/// How much a queue holds; each at least one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) progress: usize,
    pub(crate) progress_bytes: usize,
    pub(crate) lossless: usize,
    pub(crate) lossless_bytes: usize,
}

impl From<&Limits> for Bounds {
    fn from(limits: &Limits) -> Self {
        Self {
            progress: limits.progress_buffer,
            progress_bytes: limits.progress_bytes,
            lossless: limits.lossless_buffer,
            lossless_bytes: limits.lossless_bytes,
        }
    }
}

/// What comes out of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    /// What was pushed.
    Item(T),
    /// Progress was left out here.
    Gap {
        /// How many events.
        missed: u64,
    },
}

/// Too much that may not be left out was not read; the item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Whether an item survives [`Buffer::retain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Yes; gaps after the first such item are about what is kept.
    Wanted,
    /// Yes, but gaps around it may be about others.
    Beside,
    /// No.
    No,
}

/// A queue of two classes.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    bounds: Bounds,
    /// Never empty: the last run is the open one.
    runs: VecDeque<Run<T>>,
    /// The first run that may hold progress, counted from the front.
    oldest: usize,
    /// Comes before everything else: what followed the gap that was popped last.
    held: Option<T>,
    progress: Tally,
    lossless: Tally,
}

/// Progress between two lossless items.
#[derive(Debug)]
struct Run<T> {
    /// What is missing at its beginning.
    gap: Option<u64>,
    progress: VecDeque<Step<T>>,
    /// The lossless item that ends it; none for the last run.
    end: Option<(T, usize)>,
}

#[derive(Debug)]
enum Step<T> {
    Item(T, usize),
    /// Somebody before us left something out.
    Gap(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    items: usize,
    bytes: usize,
}

impl Tally {
    fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.items -= 1;
        self.bytes -= bytes;
    }

    /// Whether there is room for one more; always, if there is none yet.
    fn has_room(self, bytes: usize, items_max: usize, bytes_max: usize) -> bool {
        self.items == 0 || (self.items < items_max && self.bytes.saturating_add(bytes) <= bytes_max)
    }
}

impl<T> Run<T> {
    fn new() -> Self {
        Self {
            gap: None,
            progress: VecDeque::new(),
            end: None,
        }
    }

    fn miss(&mut self, missed: u64) {
        self.gap = Some(self.gap.unwrap_or(0).saturating_add(missed));
    }
}

impl<T> Step<T> {
    fn bytes(&self) -> usize {
        match self {
            Self::Item(_, bytes) => *bytes,
            Self::Gap(_) => 0,
        }
    }

    fn missed(&self) -> u64 {
        match self {
            Self::Item(..) => 1,
            Self::Gap(missed) => *missed,
        }
    }
}

impl<T> Buffer<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            runs: VecDeque::from([Run::new()]),
            oldest: 0,
            held: None,
            progress: Tally::default(),
            lossless: Tally::default(),
        }
    }

    /// Takes an item; returns how many older ones were left out for it.
    pub(crate) fn push(&mut self, item: T, weight: Weight) -> Result<u64, TooLong> {
        match weight.class {
            Class::Progress => Ok(self.push_step(Step::Item(item, weight.bytes))),
            Class::Lossless => {
                let (items, bytes) = (self.bounds.lossless, self.bounds.lossless_bytes);
                if !self.lossless.has_room(weight.bytes, items, bytes) {
                    return Err(TooLong);
                }
                self.lossless.add(weight.bytes);
                self.open_run().end = Some((item, weight.bytes));
                self.runs.push_back(Run::new());
                Ok(0)
            }
        }
    }

    /// Takes note that somebody before us left out `missed` events here; 0 when it is not known what
    /// was before. Merges with a gap that is here already.
    pub(crate) fn push_gap(&mut self, missed: u64) -> u64 {
        if let Some(Step::Gap(before)) = self.open_run().progress.back_mut() {
            *before = before.saturating_add(missed);
            return 0;
        }
        self.push_step(Step::Gap(missed))
    }

    /// What comes next; none when everything was read.
    pub(crate) fn pop(&mut self) -> Option<Popped<T>> {
        if let Some(item) = self.held.take() {
            return Some(Popped::Item(item));
        }
        let gap = self.take_gap();
        let item = self.take_item();
        match gap {
            Some(missed) => {
                self.held = item;
                Some(Popped::Gap { missed })
            }
            None => item.map(Popped::Item),
        }
    }

    /// Drops what is not wanted, and the gaps before the first wanted item: what was left out there
    /// was not about it. Returns whether there is a wanted item.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> Keep) -> bool {
        let mut kept = Self::new(self.bounds);
        // A gap before it was handed out already, so this one stays whatever it is.
        kept.held = self.held.take();
        let mut wanted = false;
        for run in self.runs.drain(..) {
            if let Some(missed) = run.gap.filter(|_| wanted) {
                // Nothing older than a run's gap is left, so this is the beginning of a run again.
                kept.open_run().miss(missed);
            }
            for step in run.progress {
                match step {
                    Step::Gap(missed) if wanted => {
                        kept.push_gap(missed);
                    }
                    Step::Gap(_) => {}
                    Step::Item(item, bytes) => {
                        let keep = keep(&item);
                        wanted |= keep == Keep::Wanted;
                        if keep != Keep::No {
                            kept.push_step(Step::Item(item, bytes));
                        }
                    }
                }
            }
            if let Some((item, bytes)) = run.end {
                let keep = keep(&item);
                wanted |= keep == Keep::Wanted;
                if keep != Keep::No {
                    kept.lossless.add(bytes);
                    kept.open_run().end = Some((item, bytes));
                    kept.runs.push_back(Run::new());
                }
            }
        }
        *self = kept;
        wanted
    }

    /// Puts progress at the end and makes room for it; returns how many were left out.
    fn push_step(&mut self, step: Step<T>) -> u64 {
        let bytes = step.bytes();
        let (items_max, bytes_max) = (self.bounds.progress, self.bounds.progress_bytes);
        let mut dropped = 0;
        while !self.progress.has_room(bytes, items_max, bytes_max) {
            dropped += self.drop_oldest();
        }
        self.progress.add(bytes);
        self.open_run().progress.push_back(step);
        dropped
    }

    /// Leaves out the oldest progress. There is some: the tally said so.
    fn drop_oldest(&mut self) -> u64 {
        while let Some(run) = self.runs.get_mut(self.oldest) {
            let Some(step) = run.progress.pop_front() else {
                self.oldest += 1;
                continue;
            };
            self.progress.remove(step.bytes());
            run.miss(step.missed());
            if run.progress.is_empty() && run.end.is_some() {
                // Nothing will be pushed here again; what it had allocated must not lie around.
                run.progress = VecDeque::new();
            }
            return match step {
                Step::Item(..) => 1,
                Step::Gap(_) => 0,
            };
        }
        // Unreachable, and harmless: nothing is counted that is not there.
        self.progress = Tally::default();
        self.oldest = self.runs.len().saturating_sub(1);
        0
    }

    /// Takes the gaps at the front, as one.
    fn take_gap(&mut self) -> Option<u64> {
        let run = self.runs.front_mut()?;
        let mut missed = run.gap.take();
        while let Some(Step::Gap(more)) = run.progress.front() {
            missed = Some(missed.unwrap_or(0).saturating_add(*more));
            run.progress.pop_front();
            self.progress.remove(0);
        }
        missed
    }

    /// Takes the item at the front; there is no gap before it.
    fn take_item(&mut self) -> Option<T> {
        let run = self.runs.front_mut()?;
        if let Some(step) = run.progress.pop_front() {
            self.progress.remove(step.bytes());
            return match step {
                Step::Item(item, _) => Some(item),
                Step::Gap(_) => None,
            };
        }
        let (item, bytes) = run.end.take()?;
        self.lossless.remove(bytes);
        self.runs.pop_front();
        self.oldest = self.oldest.saturating_sub(1);
        Some(item)
    }

    /// The run that is still growing.
    fn open_run(&mut self) -> &mut Run<T> {
        if self.runs.is_empty() {
            self.runs.push_back(Run::new());
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }
}
