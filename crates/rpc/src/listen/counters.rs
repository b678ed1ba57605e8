//! What a listener counts for the metrics of its owner.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::StatusCode;

/// Totals since the start. Each is read on its own, so no order between them is kept.
#[derive(Debug, Default)]
pub(super) struct Counters {
    auth_failures: AtomicU64,
    peers_refused: AtomicU64,
    overloads: AtomicU64,
}

impl Counters {
    /// A request was refused by a check.
    pub(super) fn refused(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.auth_failures.fetch_add(1, Relaxed);
        }
    }

    /// A peer was not the user we are.
    pub(super) fn foreign_user(&self) {
        self.auth_failures.fetch_add(1, Relaxed);
    }

    /// The owner's filter refused a peer.
    pub(super) fn peer_refused(&self) {
        self.peers_refused.fetch_add(1, Relaxed);
    }

    /// A connection was above the limit.
    pub(super) fn overloaded(&self) {
        self.overloads.fetch_add(1, Relaxed);
    }

    pub(super) fn auth_failures(&self) -> u64 {
        self.auth_failures.load(Relaxed)
    }

    pub(super) fn peers_refused(&self) -> u64 {
        self.peers_refused.load(Relaxed)
    }

    pub(super) fn overloads(&self) -> u64 {
        self.overloads.load(Relaxed)
    }
}
