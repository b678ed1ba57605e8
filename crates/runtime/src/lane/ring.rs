//! What a lane has told lately, for those who come back.
//!
//! The invariant here: from the ring's first number on every notice is in it, save pictures of the
//! queue that a newer one stands for; and neither a lane nor all lanes together keep more than their
//! bounds. A picture of the queue holds up to a hundred rows and is told at every change, so that only
//! small ones are kept; whoever missed another is told the queue as it is when they come back.
//!
//! Numbers and listeners are [`super::subscribers`]' business.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::notice::{Notice, NoticeBody};

/// How many notices a thread remembers for those who come back.
const NOTICES_MAX: usize = 512;
/// How much memory they may take together.
const BYTES_MAX: usize = 256 * 1024;
/// How much of it may be pictures of the queue.
const QUEUE_BYTES_MAX: usize = 2 * 1024;
/// How much memory the notices of all threads may take.
const ALL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How much the lanes of a worker remember together.
#[derive(Debug, Default)]
pub(crate) struct Remembered(AtomicUsize);

/// What somebody who comes back has missed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missed {
    /// In order.
    pub(crate) notices: Vec<Arc<Notice>>,
    /// Whether the queue has changed in a way that none of them tells.
    pub(crate) queue: bool,
}

/// The notices that a lane remembers.
pub(crate) struct Ring {
    notices: VecDeque<Arc<Notice>>,
    bytes: usize,
    queue_bytes: usize,
    /// The last number that is not here any more, leaving pictures of the queue aside.
    gone: u64,
    /// The number of the last picture of the queue that is not here any more.
    queue_gone: u64,
    all: Arc<Remembered>,
}

impl Ring {
    pub(crate) fn new(all: Arc<Remembered>) -> Self {
        Self {
            notices: VecDeque::new(),
            bytes: 0,
            queue_bytes: 0,
            gone: 0,
            queue_gone: 0,
            all,
        }
    }

    /// Remembers a notice, in place of the oldest ones if need be.
    pub(crate) fn push(&mut self, notice: &Arc<Notice>) {
        let weight = notice.body.weight();
        if is_queue(notice) {
            if self.queue_bytes + weight > QUEUE_BYTES_MAX {
                self.forget_queue();
            }
            if weight > QUEUE_BYTES_MAX {
                self.queue_gone = notice.seq;
                return;
            }
            self.queue_bytes += weight;
        }
        self.notices.push_back(Arc::clone(notice));
        self.bytes += weight;
        let before = self.all.0.fetch_add(weight, Ordering::Relaxed);
        let mut all = before.saturating_add(weight);
        while self.notices.len() > NOTICES_MAX || self.bytes > BYTES_MAX || all > ALL_BYTES_MAX {
            let Some(oldest) = self.notices.pop_front() else {
                break;
            };
            self.gone = oldest.seq;
            self.let_go(&oldest);
            all = self.all.0.load(Ordering::Relaxed);
        }
    }

    /// Whether there is anything in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    /// Forgets everything up to the number that was told last.
    pub(crate) fn forget(&mut self, last: u64) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.notices = VecDeque::new();
        self.bytes = 0;
        self.queue_bytes = 0;
        self.gone = last;
        self.queue_gone = 0;
    }

    /// What was told after `seq`, if nothing of it is gone.
    pub(crate) fn after(&self, seq: u64) -> Option<Missed> {
        if seq < self.gone {
            return None;
        }
        let after = self.notices.iter().filter(|notice| notice.seq > seq);
        let notices: Vec<_> = after.cloned().collect();
        // A newer picture stands for those before it.
        let told = notices.iter().rev().find(|notice| is_queue(notice));
        let told = told.map_or(seq, |notice| notice.seq);
        let queue = self.queue_gone > told;
        Some(Missed { notices, queue })
    }

    /// Forgets the pictures of the queue: a newer one stands for them.
    fn forget_queue(&mut self) {
        if self.queue_bytes == 0 {
            return;
        }
        let (gone, kept) = std::mem::take(&mut self.notices)
            .into_iter()
            .partition(|notice| is_queue(notice));
        self.notices = kept;
        let gone: VecDeque<_> = gone;
        for notice in &gone {
            self.queue_gone = notice.seq;
            self.let_go(notice);
        }
    }

    fn let_go(&mut self, notice: &Notice) {
        let weight = notice.body.weight();
        self.bytes -= weight;
        if is_queue(notice) {
            self.queue_bytes -= weight;
        }
        self.all.0.fetch_sub(weight, Ordering::Relaxed);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn is_queue(notice: &Notice) -> bool {
    matches!(notice.body, NoticeBody::Queue(_))
}

#[cfg(test)]
mod tests;
