//! Counts, and the text they are scraped as.
//!
//! Plain atomics, read one by one: no two numbers of a scrape belong to the same moment. What the
//! runtime and the connections know is asked of them at the scrape. Labels are fixed words of the
//! table of methods; nothing a client sent ever becomes one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::thread::ThreadStatus;

/// Upper bounds of the buckets of `turnlane_turn_seconds`, in milliseconds.
const TURN_BUCKETS_MS: [u64; 10] = [
    50, 100, 250, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 1_800_000,
];

/// What a server counts itself.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    connections: AtomicU64,
    requests: AtomicU64,
    requests_unknown: AtomicU64,
    panics: AtomicU64,
    approvals_asked: AtomicU64,
    approvals_decided: AtomicU64,
    turns_ended: AtomicU64,
    turns_failed: AtomicU64,
    turn_buckets: [AtomicU64; TURN_BUCKETS_MS.len()],
    turn_ms: AtomicU64,
    /// When the turns that run began.
    running: Mutex<HashMap<ThreadId, i64>>,
}

/// What others know at the moment of a scrape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    pub(crate) connections: usize,
    pub(crate) lanes: usize,
    pub(crate) unanswered: usize,
    pub(crate) store_writes: bool,
}

impl Metrics {
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn unknown_request(&self) {
        self.requests_unknown.fetch_add(1, Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(crate) fn approval_asked(&self) {
        self.approvals_asked.fetch_add(1, Relaxed);
    }

    pub(crate) fn approval_decided(&self) {
        self.approvals_decided.fetch_add(1, Relaxed);
    }

    /// A thread does something else than before; a turn is what lies between active and not.
    pub(crate) fn status(&self, thread: ThreadId, status: &ThreadStatus, at_ms: i64) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let ThreadStatus::Active { .. } = status {
            running.entry(thread).or_insert(at_ms);
            return;
        }
        let Some(began_ms) = running.remove(&thread) else {
            return;
        };
        drop(running);
        self.turns_ended.fetch_add(1, Relaxed);
        if *status == ThreadStatus::SystemError {
            self.turns_failed.fetch_add(1, Relaxed);
        }
        let took_ms = u64::try_from(at_ms - began_ms).unwrap_or(0);
        if let Some(at) = TURN_BUCKETS_MS.iter().position(|bound| took_ms <= *bound) {
            self.turn_buckets[at].fetch_add(1, Relaxed);
        }
        self.turn_ms.fetch_add(took_ms, Relaxed);
    }

    /// The text of a scrape.
    pub(crate) fn text(&self, others: Others) -> String {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let turns_running = running.len() as u64;
        drop(running);
        let count = |value: &AtomicU64| value.load(Relaxed);
        let size = |value: usize| value as u64;
        let gauges = [
            (
                "connections",
                "Initialised connections.",
                size(others.connections),
            ),
            ("lanes_loaded", "Loaded threads.", size(others.lanes)),
            (
                "requests_unanswered",
                "Requests under way.",
                size(others.unanswered),
            ),
            ("turns_running", "Turns that run.", turns_running),
            (
                "store_writable",
                "Whether the store takes writes.",
                u64::from(others.store_writes),
            ),
        ];
        let counters = [
            (
                "connections_total",
                "Connections served.",
                count(&self.connections),
            ),
            ("requests_total", "Requests taken.", count(&self.requests)),
            (
                "requests_unknown_total",
                "Requests of unknown methods.",
                count(&self.requests_unknown),
            ),
            (
                "handler_panics_total",
                "Handlers that panicked.",
                count(&self.panics),
            ),
            (
                "approvals_asked_total",
                "Approvals asked.",
                count(&self.approvals_asked),
            ),
            (
                "approvals_decided_total",
                "Approvals decided.",
                count(&self.approvals_decided),
            ),
            (
                "turns_ended_total",
                "Turns that ended.",
                count(&self.turns_ended),
            ),
            (
                "turns_failed_total",
                "Turns that failed.",
                count(&self.turns_failed),
            ),
        ];
        let mut text = String::new();
        let gauges = gauges.into_iter().map(|row| ("gauge", row));
        let counters = counters.into_iter().map(|row| ("counter", row));
        for (kind, (name, help, value)) in gauges.chain(counters) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP turnlane_{name} {help}\n# TYPE turnlane_{name} {kind}\nturnlane_{name} {value}"
            );
        }
        self.turn_seconds(&mut text);
        text
    }

    fn turn_seconds(&self, text: &mut String) {
        let name = "turnlane_turn_seconds";
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} How long turns took.\n# TYPE {name} histogram"
        );
        let mut below = 0;
        for (bound_ms, count) in TURN_BUCKETS_MS.iter().zip(&self.turn_buckets) {
            below += count.load(Relaxed);
            let (whole, rest) = (bound_ms / 1_000, bound_ms % 1_000);
            let _ = writeln!(text, "{name}_bucket{{le=\"{whole}.{rest:03}\"}} {below}");
        }
        let all = self.turns_ended.load(Relaxed);
        let sum_ms = self.turn_ms.load(Relaxed);
        let (whole, rest) = (sum_ms / 1_000, sum_ms % 1_000);
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
        let _ = writeln!(text, "{name}_sum {whole}.{rest:03}\n{name}_count {all}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_counted_from_active_to_its_end() {
        let metrics = Metrics::default();
        let thread = ThreadId::at(1, [1; 10]);
        let active = ThreadStatus::Active {
            active_flags: Vec::new(),
        };
        metrics.status(thread, &ThreadStatus::Idle, 5);
        metrics.status(thread, &active, 1_000);
        metrics.status(thread, &active, 1_050);
        metrics.status(thread, &ThreadStatus::SystemError, 1_200);
        let text = metrics.text(Others {
            connections: 2,
            lanes: 3,
            unanswered: 0,
            store_writes: true,
        });
        for line in [
            "turnlane_connections 2",
            "turnlane_lanes_loaded 3",
            "turnlane_turns_ended_total 1",
            "turnlane_turns_failed_total 1",
            "turnlane_turns_running 0",
            "turnlane_turn_seconds_bucket{le=\"0.100\"} 0",
            "turnlane_turn_seconds_bucket{le=\"0.250\"} 1",
            "turnlane_turn_seconds_sum 0.200",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
