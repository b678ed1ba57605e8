//! Counts of a service that only grow, each an atomic of its own.
//!
//! They are for metrics: nothing is decided by them, so that no order between them is needed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::event::StreamName;
use crate::status::Reason;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    spawned: AtomicU64,
    output_bytes: [AtomicU64; 3],
    ends: [AtomicU64; 5],
    unkillable: AtomicU64,
}

impl Counts {
    pub(crate) fn spawned(&self) {
        self.spawned.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self, stream: StreamName, bytes: usize) {
        let [stdout, stderr, terminal] = &self.output_bytes;
        let count = match stream {
            StreamName::Stdout => stdout,
            StreamName::Stderr => stderr,
            StreamName::Pty => terminal,
        };
        count.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn ended(&self, reason: Reason) {
        let [exited, signaled, terminated, timeout, lost] = &self.ends;
        let count = match reason {
            Reason::Exited => exited,
            Reason::Signaled => signaled,
            Reason::Terminated => terminated,
            Reason::Timeout => timeout,
            Reason::Lost => lost,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn unkillable(&self, members: usize) {
        self.unkillable.fetch_add(members as u64, Relaxed);
    }

    pub(super) fn fill(&self, counters: &mut super::Counters) {
        counters.spawned = self.spawned.load(Relaxed);
        for (counter, count) in counters.output_bytes.iter_mut().zip(&self.output_bytes) {
            *counter = count.load(Relaxed);
        }
        for (counter, count) in counters.ends.iter_mut().zip(&self.ends) {
            *counter = count.load(Relaxed);
        }
        counters.unkillable = self.unkillable.load(Relaxed);
    }
}
